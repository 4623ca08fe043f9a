r"""Rows of claims about several problems."""

from pathlib import Path

import pytest
import torch
from botorch_risk_bench.metrics import pooled_difference

from bench.reproduction.pooled import CLAIMS, HOME, Claim, page, row_of, word_of
from bench.reproduction.stored_curves import write_curves


def test_both_intervals_by_hand() -> None:
    r"""Problems differ more than seeds, whose mean over the problems hardly does."""
    first, second = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([5.0, 4.0, 3.0, 100.0])
    pooled = pooled_difference([first, second])
    assert pooled.over_seeds.mean == pooled.over_problems.mean == 3.0
    assert pooled.over_seeds.standard_error == 0.0  # each seed's mean is 3
    assert pooled.over_problems.standard_error.item() == pytest.approx(1.0)  # of 2 and 4
    numbers = pooled.over_seeds.num_replicates, pooled.over_problems.num_replicates
    assert [int(each) for each in numbers] == [3, 2]


def test_a_row_is_of_the_last_regret_on_each_scale(tmp_path: Path) -> None:
    curves = {"A": {"simple": torch.tensor([[9.0, 0.1], [9.0, 0.1], [9.0, 0.1]])}}
    curves["B"] = {"simple": torch.tensor([[9.0, 1.0], [9.0, 2.0], [9.0, 0.5], [9.0, 7.0]])}
    (tmp_path / "vucb" / "curves").mkdir(parents=True)
    write_curves(tmp_path / "vucb" / "curves" / "one.json.gz", curves)
    row = row_of(Claim("vucb", "one problem", "A", "B", ["one"]), tmp_path)
    assert row[:4] == ["one problem", "A minus B", "1", "3"]
    assert float(row[4].split(" ± ")[0]) == pytest.approx(-1.0, abs=0.01)  # of 1, 1.3 and 0.7
    assert row[5:] == ["", "first ahead"]


@pytest.mark.parametrize(
    ("mean", "half_width", "differ_little", "said"),
    [
        (-0.2, 0.1, False, "first ahead"),
        (0.2, 0.1, False, "second ahead"),
        (0.1, 0.1, False, "undecided"),
        (0.1, 0.1, True, "differ little"),
        (-0.25, 0.1, True, "not shown to differ little"),
    ],
)
def test_words(mean: float, half_width: float, differ_little: bool, said: str) -> None:
    assert word_of(mean, half_width, differ_little) == said


def test_the_page_is_of_the_kept_curves() -> None:
    written = (HOME / "pooled.md").read_text(encoding="utf-8")
    tables = [line for part in page() for line in part.splitlines() if line.startswith("|")]
    assert len(tables) > len(CLAIMS)
    assert [line for line in tables if line not in written] == []
