r"""The board of a campaign: which strategy is good for which kind of problem."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from botorch_risk.experiments.campaigns.results import CampaignStore
from botorch_risk.experiments.plots import draw_band
from botorch_risk.experiments.serialization import StoreError
from botorch_risk.experiments.summary import cell, table
from botorch_risk.extras import require_extra
from botorch_risk.metrics import (
    INTERVAL,
    note_on_comparisons,
    paired_difference,
    share_of_targets,
)
from botorch_risk.plot_style import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = "all"
# Of the regret after the initial design: four to a factor of ten, down to a thousandth.
TARGETS = tuple(10 ** (-step / 4) for step in range(1, 13))
_COLUMNS = 4  # of panels


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
            left_out.append(f"{_name(experiment, setting)}: the initial design finds the optimum")
    if not entries:
        raise StoreError(f"Expected an experiment with a regret. Got {'; '.join(left_out)}.")
    return Board(store.campaign.name, labels, tuple(seeds), tuple(entries), tuple(left_out))


def board_markdown(board: Board) -> str:
    r"""A page: shares of targets by group, comparisons, and the last regret of each experiment.

    Args:
        board: The board.

    Returns:
        Markdown.

    Example:
        >>> regret = {"a": torch.tensor([[1.0, 0.1]]), "b": torch.tensor([[1.0, 0.5]])}
        >>> board = Board("two", ("a", "b"), (0,), (BoardEntry("sine", "default", ALL, regret),))
        >>> print(board_markdown(board).splitlines()[-1])
        | sine | 1 | 0.1000 ± nan | 0.5000 ± nan |
    """
    reference, *others = board.strategies
    parts = [
        f"# {board.name}: the board",
        f"{len(board.entries)} experiments, {len(board.seeds)} seeds, "
        f"{len(board.strategies)} strategies. Targets of an experiment are {len(TARGETS)} regrets "
        f"from {TARGETS[0]:.2f} to {TARGETS[-1]:.3f} of the median one after the initial design; "
        "the share of them that a recommendation has reached is averaged over the rounds, then "
        "over the experiments. Reaching all of them at once is 1, none 0. Intervals are over the "
        f"seeds, for these experiments: mean ± {INTERVAL}.",
        "## Share of targets, averaged over the rounds",
        table(["group", "experiments", *board.strategies], _share_rows(board)),
    ]
    if others:
        comparisons = len(others) * len(board.groups)
        parts += [
            f"## Difference to {reference}, seed by seed",
            table(["group", *others], _difference_rows(board)),
            note_on_comparisons(comparisons),
            f"## Regret after the last round, to {reference}",
            "In how many experiments the paired interval lies below 0 (better), holds 0 "
            "(undecided), or lies above 0 (worse).",
            table(["group", *others], _count_rows(board)),
            note_on_comparisons(len(others) * len(board.entries)),
        ]
    parts += [
        "## Regret after the last round",
        table(["experiment", "rounds", *board.strategies], _regret_rows(board)),
    ]
    if board.left_out:
        parts += ["## Not on the board", "\n".join(f"- {line}" for line in board.left_out)]
    return "\n\n".join(parts) + "\n"


def plot_board(board: Board) -> Figure:
    r"""The share of targets reached by each round, a panel for each group.

    Args:
        board: The board.

    Returns:
        The figure.

    Raises:
        MissingExtraError: If matplotlib is missing.

    Example:
        >>> regret = {"a": torch.tensor([[1.0, 0.1]]), "b": torch.tensor([[1.0, 0.5]])}
        >>> board = Board("two", ("a", "b"), (0,), (BoardEntry("sine", "default", ALL, regret),))
        >>> len(plot_board(board).axes)
        1
    """
    groups = board.groups
    shown = [name for name in groups if len(groups) == 1 or name != ALL]
    columns = min(len(shown), _COLUMNS)
    rows = -(-len(shown) // columns)
    with require_extra("matplotlib").rc_context(STYLE):
        size = 0.6 + 3.1 * columns, 1.3 + 2.3 * rows
        figure = require_extra("matplotlib.figure").Figure(figsize=size, layout="constrained")
        panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
        for axes, name in zip(panels, shown, strict=False):
            for position, (label, values) in enumerate(board.shares(name).items()):
                draw_band(axes, range(values.shape[-1]), values, position, label)
            axes.set(title=f"{name} ({len(groups[name])})", ylim=(0, 1))
            axes.margins(x=0.01)
        for axes in panels[len(shown) :]:
            axes.set_axis_off()
        figure.supxlabel("round")
        figure.supylabel("share of targets reached")
        lines, labels = panels[0].get_legend_handles_labels()
        title = f"mean over experiments, {INTERVAL} over {len(board.seeds)} seeds"
        figure.legend(lines, labels, loc="outside upper center", ncols=4, title=title)
    return cast("Figure", figure)


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
                left_out.append(f"{_name(experiment, setting)}: its optimum is unknown")
            elif missing:
                left_out.append(f"{_name(experiment, setting)}: not run by {', '.join(missing)}")
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


def _name(experiment: str, setting: str) -> str:
    return experiment if setting == "default" else f"{experiment}, {setting}"


def _share_rows(board: Board) -> list[list[str]]:
    return [
        [
            name,
            str(len(entries)),
            *(cell(each.mean(dim=-1)) for each in board.shares(name).values()),
        ]
        for name, entries in board.groups.items()
    ]


def _difference_rows(board: Board) -> list[list[str]]:
    rows = []
    for name in board.groups:
        first, *others = (each.mean(dim=-1) for each in board.shares(name).values())
        rows.append([name, *(cell(each - first) for each in others)])
    return rows


def _count_rows(board: Board) -> list[list[str]]:
    rows = []
    for name, entries in board.groups.items():
        row = [name]
        for label in board.strategies[1:]:
            signs = [
                _sign(entry.regret[label], entry.regret[board.strategies[0]]) for entry in entries
            ]
            row.append(" / ".join(str(signs.count(sign)) for sign in (-1, 0, 1)))
        rows.append(row)
    return rows


def _sign(one: Tensor, other: Tensor) -> int:
    r"""-1 if the last regret is smaller beyond the paired interval, 1 if larger, else 0."""
    difference = paired_difference(one[:, -1], other[:, -1])
    mean, half = difference.mean.item(), difference.half_width.item()
    return int(mean > half) - int(mean < -half)


def _regret_rows(board: Board) -> list[list[str]]:
    return [
        [
            _name(entry.experiment, entry.setting),
            str(next(iter(entry.regret.values())).shape[-1] - 1),
            *(cell(entry.regret[label][:, -1]) for label in board.strategies),
        ]
        for entry in board.entries
    ]
