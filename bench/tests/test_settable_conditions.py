r"""The study of conditions that can be set in some rounds: who is asked when, and its tables."""

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bench.studies.settable_conditions import loops, report
from botorch_risk.strategies import Strategy

NAME, TABLE = loops.PAIRS[0], "digits-value-at-risk"


@pytest.mark.parametrize(("every", "chosen"), [(1, [1, 2, 3, 4]), (loops.NEVER, []), (2, [2, 4])])
def test_w_is_set_in_every_kth_round_and_drawn_in_the_others(
    every: int, chosen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = [], []
    ask, tell = Strategy.ask, Strategy.tell

    def noted_ask(self: Strategy, *arguments: int) -> Tensor:
        asked.append(ask(self, *arguments))
        return asked[-1]

    def noted_tell(self: Strategy, X: Tensor, Y: Tensor) -> None:
        told.append((X, Y))
        tell(self, X, Y)

    monkeypatch.setattr(Strategy, "ask", noted_ask)
    monkeypatch.setattr(Strategy, "tell", noted_tell)
    row = loops.loop(NAME, every, [0, 1], num_rounds=4)
    problem = loops.PROBLEMS[NAME]()
    widths = [each.shape[-1] for each in asked]
    assert [t for t, width in enumerate(widths) if width == problem.dim] == chosen
    for (X, Y), again in zip(told[::2], told[1::2], strict=True):
        assert X.equal(again[0]) and Y.equal(again[1])  # both strategies know all data
        w = X[..., problem.num_decision :].unsqueeze(-2)
        assert bool((w == problem.environment.points).all(dim=-1).any(dim=-1).all())
    for t, given in enumerate(asked):
        assert told[2 * t][0][..., : widths[t]].equal(given)
    assert len(row["regret"]["chosen"]) == 2 and min(row["regret"]["drawn"]) >= -1e-6


def test_tables_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    regrets = {loops.NEVER: [1.0, 0.1], 1: [0.01, 0.001], 3: [0.1, 0.01]}  # 2 decades, 1 decade
    for name in loops.PAIRS:
        for every, regret in regrets.items():
            row = {"pair": name, "every": every, "regret": {"chosen": regret}}
            (tmp_path / f"{name}.{every}.json").write_text(json.dumps(row), "utf-8")
    monkeypatch.setattr(report, "STORED", tmp_path / "rows.jsonl.gz")
    monkeypatch.setattr(sys, "argv", ["report", "--pack", str(tmp_path)])
    report.main()
    page = capsys.readouterr().out
    shares = "| 1.00 ± 0.00, 0.00 | 0.50, 0.50 to 0.50 | 0.50, 0.50 to 0.50 |"
    assert f"| every third | -1.50 ± 6.35, 0.00 {shares}" in page
    assert f"| {NAME} | 2.00 ± 0.00 | 1.00 ± 0.00 |" in page


def test_decisions_of_a_table_are_whole_numbers() -> None:
    row = loops.loop(TABLE, 2, [0, 1], num_rounds=2)
    assert TABLE in loops.PAIRS and min(row["regret"]["chosen"]) >= -1e-9


def test_the_noise_of_a_round_does_not_depend_on_who_was_asked() -> None:
    problem = loops.PROBLEMS[NAME]()
    x = torch.full((1, 1, problem.num_decision), 0.4, dtype=torch.double)
    X, drawn = loops.observed(problem, x, [5], 3)
    again, chosen = loops.observed(problem, X, [5], 3)
    assert again.equal(X) and chosen.equal(drawn)
