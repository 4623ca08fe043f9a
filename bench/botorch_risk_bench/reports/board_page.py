r"""The board of a campaign as a page and as a picture."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib
import torch
from matplotlib.figure import Figure
from torch import Tensor

from botorch_risk.plot_style import STYLE
from botorch_risk_bench.metrics import (
    INTERVAL,
    mean_and_standard_error,
    note_on_comparisons,
    paired_difference,
    ratio_of_means,
)
from botorch_risk_bench.reports.board import ALL, TARGETS, Board, BoardEntry, first_late_round, late
from botorch_risk_bench.reports.plots import draw_band
from botorch_risk_bench.reports.summary import AGAINST_BEST_SEEN, BEST_SEEN, cell, table

_COLUMNS = 4  # of panels


def board_markdown(board: Board, baseline: str | None = None) -> str:
    r"""A page: three scores by group, comparisons, and the last regret of each experiment.

    Args:
        board: The board.
        baseline: Compare the strategies by how much more they hold than this one, as ratios.

    Raises:
        ValueError: If the baseline is the reference or not on the board, or nothing else is.
    """
    reference, *others = board.strategies
    if baseline is not None and (baseline not in others or len(others) < 2):
        raise ValueError(
            f"Expected a baseline of {', '.join(others) or 'no strategy'}, one of two or more. "
            f"Got {baseline!r}."
        )
    parts = [
        f"# {board.name}: the board",
        f"{len(board.entries)} experiments, {len(board.seeds)} seeds, "
        f"{len(board.strategies)} strategies. {_reference(board)}"
        f"Targets of an experiment are {len(TARGETS)} regrets from {TARGETS[0]:.2f} to "
        f"{TARGETS[-1]:.3f} of the median one after the initial design. "
        f"Scores are averaged over the experiments, mean ± {INTERVAL}. Intervals are over the "
        "seeds, for these experiments; in brackets over the experiments, for others of their kind.",
    ]
    for score in _scores(board):
        parts += [f"## {score.title}", score.meaning]
        parts += [table(["group", "experiments", *board.strategies], _score_rows(board, score))]
        if others:
            parts += [
                f"Difference to {reference}, over the seeds (over the experiments):",
                table(["group", *others], _difference_rows(board, score)),
                note_on_comparisons(len(others) * len(board.groups)),
            ]
    if baseline is not None:
        compared = [label for label in others if label != baseline]
        parts += [
            f"## Lead over {baseline}, relative to {reference}",
            f"A lead is the held share minus the held share of {baseline}. The table divides the "
            f"lead of each strategy by the lead of {reference}, with Fieller's 95 % interval over "
            f"the seeds (over the experiments). It says open if {reference} may have no lead.",
            table(["group", *compared], _ratio_rows(board, baseline, compared)),
            note_on_comparisons(len(compared) * len(board.groups)),
        ]
    if others:
        parts += [
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
    r"""The three scores by round over all experiments; the held share of each group below."""
    groups = board.groups
    over_all = [(score.axis, score.curves(ALL)) for score in _scores(board)]
    of_groups = [
        (f"{name} ({len(groups[name])})", board.held(name)) for name in groups if name != ALL
    ]
    columns = min(max(len(over_all), len(of_groups)), _COLUMNS)
    rows = 1 + -(-len(of_groups) // columns)
    with matplotlib.rc_context(STYLE):
        size = 0.6 + 3.1 * columns, 1.3 + 2.3 * rows
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False)
        shown = [*zip(panels[0], over_all, strict=False)]
        shown += zip(panels[1:].ravel(), of_groups, strict=False)
        for axes, (title, curves) in shown:
            for position, (label, values) in enumerate(curves.items()):
                draw_band(axes, range(values.shape[-1]), values, position, label)
            axes.set(title=title)
            axes.margins(x=0.01)
        shares = [axes for axes, (title, _) in shown if title != _LOG_REGRET]
        highest = min(max(axes.get_ylim()[1] for axes in shares), 1.0)
        for axes in shares:
            axes.set_ylim(0, highest)
        for axes in panels.ravel():
            if not axes.has_data():
                axes.set_axis_off()
        for row in panels[1:]:
            row[0].set_ylabel("held share")
        figure.supxlabel("round")
        lines, labels = panels[0, 0].get_legend_handles_labels()
        title = f"mean over experiments, {INTERVAL} over {len(board.seeds)} seeds"
        title += f"; regret{AGAINST_BEST_SEEN}" if board.against_best_seen else ""
        figure.legend(lines, labels, loc="outside upper center", ncols=4, title=title)
    return figure


def _reference(board: Board) -> str:
    return f"Regret is measured against {BEST_SEEN}. " if board.against_best_seen else ""


_LOG_REGRET = "log10 of the regret"


@dataclass(frozen=True)
class _Score:
    r"""A score of strategies.

    Args:
        curves: From a group to what is drawn, by strategy, `R x T`.
        of_entry: The same of one experiment.
        averaged: The columns of which are averaged to one number.
    """

    title: str
    axis: str
    meaning: str
    curves: Callable[[str], dict[str, Tensor]]
    of_entry: Callable[[BoardEntry], dict[str, Tensor]]
    averaged: Callable[[Tensor], Tensor]

    def numbers(self, group: str) -> dict[str, Tensor]:
        r"""The score of each seed, by strategy, `R`."""
        return {
            label: self.averaged(each).mean(dim=-1) for label, each in self.curves(group).items()
        }

    def of_experiments(self, entries: Sequence[BoardEntry]) -> dict[str, Tensor]:
        r"""The score of each experiment over its seeds, by strategy."""
        scores = [
            {label: self.averaged(each).mean() for label, each in self.of_entry(entry).items()}
            for entry in entries
        ]
        return {label: torch.stack([each[label] for each in scores]) for label in scores[0]}


def _scores(board: Board) -> tuple[_Score, ...]:
    lengths = {
        min(values.shape[-1] for each in entries for values in each.regret.values()) - 1
        for entries in board.groups.values()
    }
    rounds = "the last two thirds of each group's rounds"
    if len(lengths) == 1:
        (last,) = lengths
        rounds = f"rounds {first_late_round(last)} to {last}"
    return (
        _Score(
            "Share of targets reached, averaged over the rounds",
            "share of targets reached",
            "A target counts from the first round in which a recommendation reaches it, whether or "
            "not a later one does. Reaching all of them at once is 1, none 0.",
            board.shares,
            lambda entry: entry.shares,
            _all_rounds,
        ),
        _Score(
            "Share of targets held to the end, averaged over the rounds",
            "share of targets held",
            "A target counts from the round after which the regret never again exceeds it, so that "
            "recommendations that wander are not rewarded.",
            board.held,
            lambda entry: entry.held,
            _all_rounds,
        ),
        _Score(
            "Log regret, averaged over the last two thirds of the rounds",
            _LOG_REGRET,
            "log10 of the regret over the median one after the initial design, at least -3, in "
            f"{rounds}. Less is better: -1 is a tenth of that regret, in the geometric mean.",
            board.log_regret,
            lambda entry: entry.log_regret,
            late,
        ),
    )


def _all_rounds(values: Tensor) -> Tensor:
    return values


def _score_rows(board: Board, score: _Score) -> list[list[str]]:
    return [
        [name, str(len(entries)), *map(cell, score.numbers(name).values())]
        for name, entries in board.groups.items()
    ]


def _difference_rows(board: Board, score: _Score) -> list[list[str]]:
    rows = []
    for name, entries in board.groups.items():
        first, *others = score.numbers(name).values()
        cells = [cell(each - first) for each in others]
        if len(entries) > 1:
            of_first, *of_others = score.of_experiments(entries).values()
            widths = (mean_and_standard_error(each - of_first).half_width for each in of_others)
            cells = [f"{a} (± {w:.2g})" for a, w in zip(cells, map(float, widths), strict=True)]
        rows.append([name, *cells])
    return rows


def _ratio_rows(board: Board, baseline: str, compared: Sequence[str]) -> list[list[str]]:
    rows = []
    for name, entries in board.groups.items():
        held = {label: each.mean(dim=-1) for label, each in board.held(name).items()}
        ratios = _ratios(held, baseline, board.strategies[0], compared)
        if len(entries) > 1:
            of_each = {
                label: torch.stack([entry.held[label].mean() for entry in entries])
                for label in board.strategies
            }
            over = _ratios(of_each, baseline, board.strategies[0], compared)
            ratios = [f"{a} ({b.rpartition(', ')[2]})" for a, b in zip(ratios, over, strict=True)]
        rows.append([name, *ratios])
    return rows


def _ratios(
    held: Mapping[str, Tensor], baseline: str, reference: str, compared: Sequence[str]
) -> list[str]:
    r"""The leads over a baseline as ratios to the lead of a reference, each with its interval."""
    base, first = held[baseline], held[reference]
    lead = paired_difference(first, base)
    if not lead.mean > lead.half_width:
        return ["open" for _ in compared]
    return [str(ratio_of_means(held[label] - base, first - base)) for label in compared]


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
            entry.name,
            str(next(iter(entry.regret.values())).shape[-1] - 1),
            *(cell(entry.regret[label][:, -1]) for label in board.strategies),
        ]
        for entry in board.entries
    ]
