r"""The board of a campaign: which strategy is good for which problems."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from botorch_risk_bench.campaigns.database import StoreError
from botorch_risk_bench.campaigns.records import best_seen
from botorch_risk_bench.campaigns.store import CampaignStore
from botorch_risk_bench.campaigns.stored_values import expected, number_of
from botorch_risk_bench.campaigns.whole_files import replacing
from botorch_risk_bench.metrics import log_regret, share_held, share_of_targets

ALL = "all"
# Of the regret after the initial design: four to a factor of ten, down to a thousandth.
TARGETS = tuple(10 ** (-step / 4) for step in range(1, 13))
_MOST_BYTES = 2**30  # of a file of regrets, unpacked
Runs = Mapping[str, Mapping[int, list[float]]]  # simple regret by strategy, seed and round


@dataclass(frozen=True)
class ExperimentRegrets:
    r"""The regrets of an experiment in a setting, as far as played.

    Args:
        settings: What else distinguishes the experiment, as JSON values.
        runs: The simple regret after the initial design and each round, by strategy and seed.
        best_seen: What it is against if the optimum is unknown; see `campaigns.records.best_seen`.
    """

    experiment: str
    setting: str
    settings: Mapping[str, Any]
    runs: Runs
    best_seen: float | None = None

    @property
    def name(self) -> str:
        default = self.setting == "default"
        return self.experiment if default else f"{self.experiment}, {self.setting}"

    def joined(self, other: ExperimentRegrets, names: tuple[str, str]) -> ExperimentRegrets:
        r"""With the runs of another campaign, both against the better of their bests."""
        bests = [each.best_seen for each in (self, other) if each.best_seen is not None]
        if len(bests) == 1:
            raise StoreError(
                f"Expected the optimum of {self.name} to be known in both of {names[0]!r} and "
                f"{names[1]!r}, or in neither. Got it in one; run the other again, with it."
            )
        best = max(bests, default=None)
        runs: dict[str, dict[int, list[float]]] = {}
        for each in (self, other):
            lower = 0.0 if best is None or each.best_seen is None else best - each.best_seen
            for label, by_seed in each.runs.items():
                mine = runs.setdefault(label, {})
                if both := sorted(mine.keys() & by_seed.keys()):
                    raise StoreError(
                        f"Expected every run of {self.name}, {label} once. Got seeds {both} in "
                        f"{names[0]!r} and in {names[1]!r}."
                    )
                mine |= {seed: [value + lower for value in run] for seed, run in by_seed.items()}
        return dataclasses.replace(self, runs=runs, best_seen=best)


@dataclass(frozen=True)
class Regrets:
    r"""The simple regrets of campaigns, for experiments whose true objective is known.

    Args:
        strategies: The labels, in the campaign's order.
        unknown: The names of the others.
    """

    name: str
    strategies: tuple[str, ...]
    experiments: tuple[ExperimentRegrets, ...]
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, store: CampaignStore) -> Regrets:
        objectives: dict[tuple[str, str], dict[str, dict[int, list[float]]]] = {}
        played = set()
        for row in store.rows():
            experiment, strategy, setting, seed, _ = row[:5]
            played.add((experiment, setting))
            if row[9] is not None:
                runs = objectives.setdefault((experiment, setting), {}).setdefault(strategy, {})
                runs.setdefault(seed, []).append(number_of(row[9], store.path))
        found, unknown = [], []
        for experiment, settings in store.identity["experiments"].items():
            for setting, identity in settings.items():
                optimum, best = identity.get("optimal_value"), None
                if optimum is None:
                    optimum = best = best_seen(store, experiment, setting)
                regrets = {
                    label: {seed: [optimum - value for value in run] for seed, run in runs.items()}
                    for label, runs in objectives.get((experiment, setting), {}).items()
                }
                each = ExperimentRegrets(experiment, setting, identity["settings"], regrets, best)
                if regrets or (experiment, setting) not in played:
                    found.append(each)
                else:
                    unknown.append(each.name)
        labels = dict.fromkeys(block.strategy for block in store.blocks())
        return cls(store.campaign.name, tuple(labels), tuple(found), tuple(unknown))

    def __add__(self, other: Regrets) -> Regrets:
        r"""Join the regrets of two campaigns."""
        merged = {(each.experiment, each.setting): each for each in self.experiments}
        for each in other.experiments:
            key = each.experiment, each.setting
            mine = merged.get(key)
            merged[key] = each if mine is None else mine.joined(each, (self.name, other.name))
        return Regrets(
            self.name if self.name == other.name else f"{self.name}, {other.name}",
            tuple(dict.fromkeys((*self.strategies, *other.strategies))),
            tuple(merged.values()),
            tuple(dict.fromkeys((*self.unknown, *other.unknown))),
        )

    def write(self, path: str | Path) -> None:
        r"""Write compressed JSON, without loss."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        with replacing(path) as written:
            written.write_bytes(gzip.compress(text.encode(), mtime=0))

    @classmethod
    def read(cls, path: str | Path) -> Regrets:
        r"""Read what `write` wrote."""
        with expected("regrets", Path(path)):
            with gzip.open(path) as file:
                text = file.read(_MOST_BYTES + 1)
            if len(text) > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES:,} bytes.")
            values = json.loads(text)
            experiments = tuple(
                ExperimentRegrets(
                    str(each["experiment"]),
                    str(each["setting"]),
                    dict(each["settings"]),
                    _with_numbers(each["runs"]),
                    None if each.get("best_seen") is None else float(each["best_seen"]),
                )
                for each in values["experiments"]
            )
            labels, unknown = (tuple(map(str, values[k])) for k in ("strategies", "unknown"))
            return cls(str(values["name"]), labels, experiments, unknown)


def _with_numbers(runs: Mapping[str, Mapping[str, list[float]]]) -> Runs:
    r"""Read seeds as numbers: keys of JSON are text."""
    return {
        label: {int(seed): list(map(float, values)) for seed, values in by_seed.items()}
        for label, by_seed in runs.items()
    }


@dataclass(frozen=True)
class BoardEntry:
    r"""An experiment in a setting, with the regret of all strategies of the board.

    Args:
        name: The experiment, with its setting.
        regret: The simple regret after the initial design and each round, by strategy, `R x T`.
    """

    name: str
    group: str
    regret: Mapping[str, Tensor]

    @cached_property
    def scale(self) -> float:
        first = torch.stack([values[:, 0] for values in self.regret.values()])
        return float(first.nanmedian())

    @cached_property
    def shares(self) -> dict[str, Tensor]:
        r"""The share of `TARGETS` reached by each round, by strategy, `R x T`."""
        return {label: share_of_targets(each, self.targets) for label, each in self.regret.items()}

    @cached_property
    def held(self) -> dict[str, Tensor]:
        r"""The share of `TARGETS` held from each round to the last, by strategy, `R x T`."""
        return {label: share_held(each, self.targets) for label, each in self.regret.items()}

    @cached_property
    def log_regret(self) -> dict[str, Tensor]:
        r"""The regret in decades below `scale`, by strategy, `R x T`, at least -3."""
        return {label: log_regret(each, self.scale) for label, each in self.regret.items()}

    @property
    def targets(self) -> Tensor:
        return self.scale * torch.tensor(TARGETS, dtype=torch.double)


@dataclass(frozen=True)
class Board:
    r"""Experiments that all strategies have run on the same seeds.

    Args:
        strategies: The labels; the first one is what the others are compared with.
        entries: The experiments, whose regrets have a row for each of the seeds.
        left_out: What is not on the board, with the reason.
        against_best_seen: Whether the regrets are against the best seen, not a known optimum.
    """

    name: str
    strategies: tuple[str, ...]
    seeds: tuple[int, ...]
    entries: tuple[BoardEntry, ...]
    left_out: tuple[str, ...] = ()
    against_best_seen: bool = False

    @property
    def groups(self) -> dict[str, list[BoardEntry]]:
        r"""The entries by group, all of them first."""
        found: dict[str, list[BoardEntry]] = {ALL: list(self.entries)}
        for name in sorted({entry.group for entry in self.entries} - {ALL}):
            found[name] = [entry for entry in self.entries if entry.group == name]
        return found

    def shares(self, group: str = ALL) -> dict[str, Tensor]:
        r"""The share of targets reached by each round, a mean over experiments, `R x T`.

        Averaged over seeds as well, it is the empirical distribution function of the run lengths.
        Rounds go as far as all experiments of the group do.
        """
        return self._mean("shares", group)

    def held(self, group: str = ALL) -> dict[str, Tensor]:
        r"""The share of targets held from each round to the last, as `shares`."""
        return self._mean("held", group)

    def log_regret(self, group: str = ALL) -> dict[str, Tensor]:
        r"""The regret in decades below the median of the initial design, as `shares`."""
        return self._mean("log_regret", group)

    def _mean(self, score: str, group: str) -> dict[str, Tensor]:
        entries = self.groups[group]
        last = min(values.shape[-1] for entry in entries for values in entry.regret.values())
        return {
            label: torch.stack([getattr(entry, score)[label][:, :last] for entry in entries]).mean(
                dim=0
            )
            for label in self.strategies
        }


def late(values: Tensor) -> Tensor:
    r"""The columns of the last two thirds of the rounds, `R x T` with round 0 first.

    Rounds 11 to 30 of 30; all of 1 or 2.
    """
    return values[..., first_late_round(values.shape[-1] - 1) :]


def first_late_round(num_rounds: int) -> int:
    r"""Where the last two thirds of rounds 1 to `num_rounds` start."""
    return num_rounds // 3 + 1


def read_board(
    played: CampaignStore | Regrets,
    by: str | None = None,
    strategies: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Board:
    r"""Compare the strategies of a campaign on what it has played so far.

    The board shows an experiment if all strategies have completed a round after the initial design.
    It uses the seeds and rounds that all of them have completed. Targets against the best seen are
    easier to reach than against the optimum, so that scores of both kinds are not averaged:
    experiments with an unknown optimum are on the board if no other is.

    Args:
        played: The store of the campaign, or the regrets of one or more.
        by: What experiments are grouped by, a key of their `settings`; one group by default.
        strategies: The labels, the reference first; by default all, in the campaign's order.
        without: The groups that are left out.

    Raises:
        StoreError: If no experiment can be on it, with the reasons.
        ValueError: If the campaign has no such strategy or no such group.

    Example:
        >>> runs = {"ours": {0: [1.0, 0.2]}, "random": {0: [1.0, 0.9]}}
        >>> one = ExperimentRegrets("sine", "default", {}, runs)
        >>> read_board(Regrets("first", ("ours", "random"), (one,))).shares()["ours"].shape
        torch.Size([1, 2])
    """
    found = played if isinstance(played, Regrets) else Regrets.of(played)
    if unknown := [label for label in strategies if label not in found.strategies]:
        known = ", ".join(found.strategies)
        raise ValueError(f"Expected strategies of {found.name!r} ({known}). Got {unknown}.")
    labels = tuple(dict.fromkeys(strategies or found.strategies))
    complete, left_out = [], [f"{name}: its true objective is unknown" for name in found.unknown]
    groups = [_group(each, by) for each in found.experiments]
    if strange := [name for name in without if name not in groups]:
        there = ", ".join(sorted(set(groups)))
        raise ValueError(f"Expected `without` to name groups among {there}. Got {strange}.")
    left_out += [f"{groups.count(name)} of the group {name}: not asked for" for name in without]
    chosen = [each for each in found.experiments if _group(each, by) not in without]
    against_best_seen = all(each.best_seen is not None for each in chosen)
    for each in chosen:
        if each.best_seen is not None and not against_best_seen:
            left_out.append(f"{each.name}: its optimum is unknown, and others' are known")
            continue
        runs = [_completed(each.runs.get(label, {})) for label in labels]
        missing = [label for label, by_seed in zip(labels, runs, strict=True) if not by_seed]
        if missing:
            left_out.append(f"{each.name}: not run by {', '.join(missing)}")
        else:
            complete.append((each, runs))
    everywhere = [set(by_seed) for _, runs in complete for by_seed in runs]
    seeds = sorted(set.intersection(*everywhere)) if everywhere else []
    if not seeds:
        reasons = "; ".join(left_out) or "no seed that all of them have"
        raise StoreError(
            f"Expected an experiment that {', '.join(labels)} have run. Got {reasons}."
        )
    entries = []
    for each, runs in complete:
        regret = dict(zip(labels, _as_tensors(runs, seeds), strict=True))
        entry = BoardEntry(each.name, _group(each, by), regret)
        if entry.scale > 0:
            entries.append(entry)
        else:
            left_out.append(f"{each.name}: the initial design finds the optimum")
    if not entries:
        raise StoreError(f"Expected an experiment with a regret. Got {'; '.join(left_out)}.")
    played_on = tuple(seeds), tuple(entries)
    return Board(found.name, labels, *played_on, tuple(left_out), against_best_seen)


def _group(each: ExperimentRegrets, by: str | None) -> str:
    return ALL if by is None else str(each.settings.get(by, "other"))


def _completed(runs: Mapping[int, list[float]]) -> Mapping[int, list[float]]:
    return {seed: values for seed, values in runs.items() if len(values) > 1}


def _as_tensors(runs: list[Mapping[int, list[float]]], seeds: Sequence[int]) -> list[Tensor]:
    r"""Cut all strategies to the shortest, `R x T` each."""
    last = min(len(each[seed]) for each in runs for seed in seeds)
    return [
        torch.tensor([each[seed][:last] for seed in seeds], dtype=torch.double) for each in runs
    ]
