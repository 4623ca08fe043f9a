r"""The board of a campaign as a page and as a picture."""

import matplotlib
from matplotlib.figure import Figure
from torch import Tensor

from botorch_risk.plot_style import STYLE
from botorch_risk_bench.metrics import INTERVAL, note_on_comparisons, paired_difference
from botorch_risk_bench.reports.board import ALL, TARGETS, Board
from botorch_risk_bench.reports.plots import draw_band
from botorch_risk_bench.reports.summary import cell, table

_COLUMNS = 4  # of panels


def board_markdown(board: Board) -> str:
    r"""A page: shares of targets by group, comparisons, and the last regret of each experiment."""
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
    r"""The share of targets reached by each round, a panel for each group."""
    groups = board.groups
    shown = [name for name in groups if len(groups) == 1 or name != ALL]
    columns = min(len(shown), _COLUMNS)
    rows = -(-len(shown) // columns)
    with matplotlib.rc_context(STYLE):
        size = 0.6 + 3.1 * columns, 1.3 + 2.3 * rows
        figure = Figure(figsize=size, layout="constrained")
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
    return figure


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
            entry.name,
            str(next(iter(entry.regret.values())).shape[-1] - 1),
            *(cell(entry.regret[label][:, -1]) for label in board.strategies),
        ]
        for entry in board.entries
    ]
