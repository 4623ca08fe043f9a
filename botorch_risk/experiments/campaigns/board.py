r"""The board of a campaign: which strategy is good for which kind of problem."""

from __future__ import annotations

import dataclasses
import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from botorch_risk.experiments.campaigns.results import CampaignStore
from botorch_risk.experiments.serialization import StoreError
from botorch_risk.metrics import share_of_targets

ALL = "all"
# Of the regret after the initial design: four to a factor of ten, down to a thousandth.
TARGETS = tuple(10 ** (-step / 4) for step in range(1, 13))


@dataclass(frozen=True)
class BoardEntry:
    r"""An experiment in a setting, with the regret of all strategies of the board.

    Args:
        experiment: The experiment.
        setting: The setting.
        group: The group that it is in.
        regret: The simple regret after the initial design and each round, by strategy, `R x T`.

    Example:
        >>> regret = {"ours": torch.tensor([[1.0, 0.2]]), "random": torch.tensor([[1.0, 0.9]])}
        >>> entry = BoardEntry("sine", "default", ALL, regret)
        >>> entry.scale, entry.shares["random"]
        (1.0, tensor([[0., 0.]]))
    """

    experiment: str
    setting: str
    group: str
    regret: Mapping[str, Tensor]

    @property
    def name(self) -> str:
        r"""The experiment, with its setting if that is not the default one."""
        return name_of(self.experiment, self.setting)

    @cached_property
    def scale(self) -> float:
        r"""The median regret after the initial design, over strategies and seeds."""
        first = torch.stack([values[:, 0] for values in self.regret.values()])
        return float(first.nanmedian())

    @cached_property
    def shares(self) -> dict[str, Tensor]:
        r"""The share of `TARGETS` reached by each round, by strategy, `R x T`."""
        targets = self.scale * torch.tensor(TARGETS, dtype=torch.double)
        return {label: share_of_targets(each, targets) for label, each in self.regret.items()}


@dataclass(frozen=True)
class Board:
    r"""Experiments that all strategies have run on the same seeds.

    Args:
        name: The campaign.
        strategies: The labels; the first one is what the others are compared with.
        seeds: The seeds.
        entries: The experiments, whose regrets have a row for each of the seeds.
        left_out: What is not on the board, with the reason.

    Example:
        >>> regret = {"ours": torch.tensor([[1.0, 0.2]]), "random": torch.tensor([[1.0, 0.9]])}
        >>> entry = BoardEntry("sine", "default", ALL, regret)
        >>> Board("one", ("ours", "random"), (0,), (entry,)).shares()["ours"]
        tensor([[0.0000, 0.1667]])
    """

    name: str
    strategies: tuple[str, ...]
    seeds: tuple[int, ...]
    entries: tuple[BoardEntry, ...]
    left_out: tuple[str, ...] = ()

    @property
    def groups(self) -> dict[str, list[BoardEntry]]:
        r"""The entries by group, all of them first."""
        found: dict[str, list[BoardEntry]] = {ALL: list(self.entries)}
        for name in sorted({entry.group for entry in self.entries} - {ALL}):
            found[name] = [entry for entry in self.entries if entry.group == name]
        return found

    def to_json(self) -> dict[str, Any]:
        r"""All that the board is made of, in terms of JSON."""
        entries = [
            {
                "experiment": entry.experiment,
                "setting": entry.setting,
                "group": entry.group,
                "regret": {label: values.tolist() for label, values in entry.regret.items()},
            }
            for entry in self.entries
        ]
        return {**dataclasses.asdict(dataclasses.replace(self, entries=())), "entries": entries}

    @classmethod
    def from_json(cls, values: Any) -> Board:
        r"""Inverse of `to_json`.

        Raises:
            StoreError: If the values are no board's.
        """
        try:
            entries = tuple(
                BoardEntry(
                    **{
                        **entry,
                        "regret": {
                            label: torch.tensor(regret, dtype=torch.double)
                            for label, regret in entry["regret"].items()
                        },
                    }
                )
                for entry in values["entries"]
            )
            sequences = {name: tuple(values[name]) for name in ("strategies", "seeds", "left_out")}
            return cls(name=values["name"], entries=entries, **sequences)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise StoreError(f"Expected the values of a board. Got {error!r}.") from error

    def write(self, path: str | Path) -> None:
        r"""Writes the board as compressed JSON: in a thousandth of the room of the store."""
        text = json.dumps(self.to_json(), sort_keys=True)
        Path(path).write_bytes(gzip.compress(text.encode(), mtime=0))

    @classmethod
    def read(cls, path: str | Path) -> Board:
        r"""Inverse of `write`.

        Raises:
            StoreError: If the file is missing, or no board's.
        """
        try:
            values = json.loads(gzip.decompress(Path(path).read_bytes()))
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise StoreError(f"Expected {path} to be a board. Got {error}.") from error
        return cls.from_json(values)

    def shares(self, group: str = ALL) -> dict[str, Tensor]:
        r"""The share of targets reached by each round, a mean over experiments, `R x T`.

        Averaged over seeds as well, it is the empirical distribution function of the run lengths.
        Rounds go as far as all experiments of the group do.
        """
        entries = self.groups[group]
        last = min(values.shape[-1] for entry in entries for values in entry.regret.values())
        return {
            label: torch.stack([entry.shares[label][:, :last] for entry in entries]).mean(dim=0)
            for label in self.strategies
        }


def read_board(
    store: CampaignStore, by: str | None = None, strategies: Sequence[str] = ()
) -> Board:
    r"""The board of what a campaign has played so far.

    An experiment is on it if its optimum is known and all strategies have completed a round after
    the initial design. Seeds are those that all of them have completed, rounds likewise.

    Args:
        store: The store of the campaign.
        by: What experiments are grouped by, a key of their `settings`; one group by default.
        strategies: The labels, the reference first; by default all, in the campaign's order.

    Returns:
        The board.

    Raises:
        StoreError: If no experiment can be on it, with the reasons.
        ValueError: If a strategy is none of the campaign's.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from botorch_risk.experiments.campaigns import (
        ...     Campaign, CampaignStore, Options, Serial, Series, run_campaign,
        ... )
        >>> campaign = Campaign("tiny", [Series("sine", "GP-UCB", num_seeds=2, num_rounds=1)])
        >>> with TemporaryDirectory() as folder:
        ...     path = f"{folder}/a.sqlite"
        ...     _ = run_campaign(campaign, path, Serial(), Options(progress=False))
        ...     with CampaignStore(path) as store:
        ...         read_board(store).shares()["GP-UCB"].shape
        torch.Size([2, 2])
    """
    known = list(dict.fromkeys(block.strategy for block in store.campaign.blocks()))
    if unknown := [label for label in strategies if label not in known]:
        raise ValueError(
            f"Expected strategies of {store.path} ({', '.join(known)}). Got {unknown}."
        )
    labels = tuple(dict.fromkeys(strategies or known))
    played, left_out = _played(store, labels)
    completed = [set(runs) for each in played.values() for runs in each]
    seeds = sorted(set.intersection(*completed)) if completed else []
    if not seeds:
        reasons = "; ".join(left_out) or "no seed that all of them have"
        raise StoreError(
            f"Expected an experiment that {', '.join(labels)} have run. Got {reasons}."
        )
    entries = []
    for (experiment, setting), runs in played.items():
        identity = store.identity_in(experiment, setting)
        group = ALL if by is None else str(identity["settings"].get(by, "other"))
        regret = _regrets(runs, seeds, identity["optimal_value"])
        entry = BoardEntry(experiment, setting, group, dict(zip(labels, regret, strict=True)))
        if entry.scale > 0:
            entries.append(entry)
        else:
            left_out.append(f"{name_of(experiment, setting)}: the initial design finds the optimum")
    if not entries:
        raise StoreError(f"Expected an experiment with a regret. Got {'; '.join(left_out)}.")
    return Board(store.campaign.name, labels, tuple(seeds), tuple(entries), tuple(left_out))


Runs = list[dict[int, list[float]]]  # objective of the recommendations: by strategy, seed, round


def _played(
    store: CampaignStore, labels: tuple[str, ...]
) -> tuple[dict[tuple[str, str], Runs], list[str]]:
    r"""What all strategies have played of each experiment, and what is left out, with reasons."""
    objectives: dict[tuple[str, str], dict[str, dict[int, list[float]]]] = {}
    for row in store.rows():
        experiment, strategy, setting, seed, _ = row[:5]
        if strategy in labels and row[9] is not None:
            runs = objectives.setdefault((experiment, setting), {}).setdefault(strategy, {})
            runs.setdefault(seed, []).append(float(json.loads(row[9])))
    played: dict[tuple[str, str], Runs] = {}
    left_out: list[str] = []
    for experiment, settings in store.identity["experiments"].items():
        for setting, identity in settings.items():
            by_label = objectives.get((experiment, setting), {})
            complete = [_complete(by_label.get(label, {})) for label in labels]
            missing = [label for label, each in zip(labels, complete, strict=True) if not each]
            if identity.get("optimal_value") is None:
                left_out.append(f"{name_of(experiment, setting)}: its optimum is unknown")
            elif missing:
                left_out.append(f"{name_of(experiment, setting)}: not run by {', '.join(missing)}")
            else:
                played[experiment, setting] = complete
    return played, left_out


def _complete(runs: dict[int, list[float]]) -> dict[int, list[float]]:
    r"""Seeds with a round after the initial design."""
    return {seed: values for seed, values in runs.items() if len(values) > 1}


def _regrets(runs: Runs, seeds: Sequence[int], optimum: float) -> list[Tensor]:
    r"""`R x T` of each strategy, as far as all of them are."""
    last = min(len(each[seed]) for each in runs for seed in seeds)
    return [
        optimum - torch.tensor([each[seed][:last] for seed in seeds], dtype=torch.double)
        for each in runs
    ]


def name_of(experiment: str, setting: str) -> str:
    r"""An experiment in a setting, for a page."""
    return experiment if setting == "default" else f"{experiment}, {setting}"
