from __future__ import annotations

import dataclasses

import torch
from botorch_risk_bench.reports import board_markdown, plot_board

from tests.bench.reports.boards import board_of, constant, entry


def test_better_undecided_and_worse_are_counted() -> None:
    noise = torch.tensor([[-0.3], [0.0], [0.3]], dtype=torch.double)
    base = constant(0.5, 2)
    board = board_of(
        entry("a", base=base, other=base - 0.2),
        entry("a", base=base, other=base + noise),
        entry("b", base=base, other=base + 0.2),
    )
    page = board_markdown(board)
    assert "| all | 1 / 1 / 1 |" in page and "| a | 1 / 1 / 0 |" in page
    assert "| b | 0 / 0 / 1 |" in page
    assert "3 experiments, 3 seeds, 2 strategies" in page


def test_a_panel_for_each_group() -> None:
    board = board_of(
        *(entry(name, base=constant(0.5, 2), other=constant(0.1, 2)) for name in "abcde")
    )
    figure = plot_board(board)
    assert [axes.get_title() for axes in figure.axes[:5]] == [f"{name} (1)" for name in "abcde"]
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["base", "other"]
    assert lines[1].get_ydata().tolist() == board.shares("a")["other"].mean(dim=0).tolist()
    assert len(plot_board(dataclasses.replace(board, entries=board.entries[:1])).axes) == 1
