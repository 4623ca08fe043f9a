r"""The regrets of campaigns, small enough to keep, of which boards are made."""

from __future__ import annotations

import dataclasses
import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botorch_risk_bench.experiments.campaigns.results import CampaignStore
from botorch_risk_bench.experiments.serialization import StoreError
from botorch_risk_bench.experiments.whole_files import replacing

Runs = Mapping[str, Mapping[int, list[float]]]  # simple regret by strategy, seed and round


@dataclass(frozen=True)
class ExperimentRegrets:
    r"""The regrets of an experiment in a setting, as far as it was played.

    Args:
        experiment: The experiment.
        setting: The setting.
        settings: What else distinguishes the experiment, as JSON values.
        runs: The simple regret after the initial design and each round, by strategy and seed.

    Example:
        >>> runs = {"GP-UCB": {0: [1.0, 0.5]}}
        >>> ExperimentRegrets("sine", "default", {"risk": "mean"}, runs).name
        'sine'
    """

    experiment: str
    setting: str
    settings: Mapping[str, Any]
    runs: Runs

    @property
    def name(self) -> str:
        r"""The experiment, with its setting if that is not the default one."""
        default = self.setting == "default"
        return self.experiment if default else f"{self.experiment}, {self.setting}"


@dataclass(frozen=True)
class Regrets:
    r"""The simple regrets of all that campaigns have played, where optima are known.

    Args:
        name: The campaign.
        strategies: The labels, in the campaign's order.
        experiments: Their regrets.
        unknown: The names of experiments whose optimum is unknown.

    Example:
        >>> one = ExperimentRegrets("sine", "default", {}, {"GP-UCB": {0: [1.0, 0.5]}})
        >>> other = ExperimentRegrets("branin", "default", {}, {"GP-UCB": {0: [9.0, 0.1]}})
        >>> (Regrets("a", ("GP-UCB",), (one,)) + Regrets("b", ("GP-UCB",), (other,))).name
        'a, b'
    """

    name: str
    strategies: tuple[str, ...]
    experiments: tuple[ExperimentRegrets, ...]
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, store: CampaignStore) -> Regrets:
        r"""The regrets of what a campaign has played so far."""
        objectives: dict[tuple[str, str], dict[str, dict[int, list[float]]]] = {}
        for row in store.rows():
            experiment, strategy, setting, seed, _ = row[:5]
            if row[9] is not None:
                runs = objectives.setdefault((experiment, setting), {}).setdefault(strategy, {})
                runs.setdefault(seed, []).append(float(json.loads(row[9])))
        found, unknown = [], []
        for experiment, settings in store.identity["experiments"].items():
            for setting, identity in settings.items():
                regrets: dict[str, dict[int, list[float]]] = {}
                each = ExperimentRegrets(experiment, setting, identity["settings"], regrets)
                optimum = identity.get("optimal_value")
                if optimum is None:
                    unknown.append(each.name)
                    continue
                found.append(each)
                for label, runs in objectives.get((experiment, setting), {}).items():
                    regrets[label] = {
                        seed: [optimum - value for value in values] for seed, values in runs.items()
                    }
        labels = dict.fromkeys(block.strategy for block in store.blocks())
        return cls(store.campaign.name, tuple(labels), tuple(found), tuple(unknown))

    def __add__(self, other: Regrets) -> Regrets:
        r"""The regrets of both.

        Raises:
            StoreError: If both have played the same.
        """
        merged = {(each.experiment, each.setting): each for each in self.experiments}
        for each in other.experiments:
            mine = merged.get((each.experiment, each.setting))
            if mine is None:
                merged[each.experiment, each.setting] = each
                continue
            runs = {label: dict(by_seed) for label, by_seed in mine.runs.items()}
            for label, by_seed in each.runs.items():
                if both := sorted(runs.get(label, {}).keys() & by_seed.keys()):
                    raise StoreError(
                        f"Expected every run of {each.name}, {label} once. Got seeds {both} in "
                        f"{self.name!r} and in {other.name!r}."
                    )
                runs[label] = {**runs.get(label, {}), **by_seed}
            merged[each.experiment, each.setting] = dataclasses.replace(mine, runs=runs)
        return Regrets(
            self.name if self.name == other.name else f"{self.name}, {other.name}",
            tuple(dict.fromkeys((*self.strategies, *other.strategies))),
            tuple(merged.values()),
            tuple(dict.fromkeys((*self.unknown, *other.unknown))),
        )

    def write(self, path: str | Path) -> None:
        r"""Writes them as compressed JSON, without loss."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        with replacing(path) as written:
            written.write_bytes(gzip.compress(text.encode(), mtime=0))

    @classmethod
    def read(cls, path: str | Path) -> Regrets:
        r"""Inverse of `write`.

        Raises:
            StoreError: If the file is missing, or is none that `write` wrote.
        """
        try:
            values = json.loads(gzip.decompress(Path(path).read_bytes()))
            experiments = tuple(
                ExperimentRegrets(**{**each, "runs": _with_numbers(each["runs"])})
                for each in values["experiments"]
            )
            names = {name: tuple(values[name]) for name in ("strategies", "unknown")}
            return cls(name=values["name"], experiments=experiments, **names)
        except (OSError, EOFError, ValueError, TypeError, KeyError, zlib.error) as error:
            raise StoreError(f"Expected {path} to hold regrets. Got {error!r}.") from error


def _with_numbers(runs: Mapping[str, Mapping[str, list[float]]]) -> Runs:
    r"""Seeds as numbers: the keys of JSON are texts."""
    return {
        label: {int(seed): list(map(float, values)) for seed, values in by_seed.items()}
        for label, by_seed in runs.items()
    }
