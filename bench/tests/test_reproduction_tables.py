r"""The tables of the reproductions say how many differences they hold."""

import torch
from botorch_risk_bench.metrics import format_with_error, note_on_comparisons, paired_difference

from bench.reproduction.tables import cell, paired, table

OURS, THEIRS = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.0, 2.0, 3.0, 9.0])


def test_a_difference_is_of_the_seeds_that_both_have() -> None:
    difference = paired_difference(OURS, THEIRS[:3])
    mean, half_width = difference.mean.item(), difference.half_width.item()
    assert paired(OURS, THEIRS) == format_with_error(mean, half_width)
    assert paired(OURS, THEIRS) == cell(OURS - THEIRS[:3])


def test_a_table_counts_its_differences_and_nothing_else() -> None:
    rows = [["a", cell(OURS), ""], ["b", cell(THEIRS), paired(THEIRS, OURS)]]
    page = table(["strategy", "regret", "minus a"], iter([*rows, rows[1]]))
    *lines, empty, note = page.removesuffix("\n").split("\n")
    assert len(lines) == 5 and all(line.startswith("| ") for line in lines)
    assert (empty, note) == ("", note_on_comparisons(2))


def test_a_table_without_a_difference_ends_with_its_rows() -> None:
    page = table(["strategy", "regret"], [["a", cell(OURS)], ["b", cell(THEIRS)]])
    assert page.count("\n") == 4
    assert "comparison" not in page


def test_large_numbers_have_no_exponent_and_tiny_ones_do() -> None:
    spread = torch.tensor([1000.0, 1200.0, 1500.0, 1400.0])
    assert cell(spread) == "1275 ± 350"
    assert cell(1e-9 * spread) == "1.3e-06 ± 3.5e-07"
    assert cell(1e-9 * spread.double() + 0.24) == "0.24000127 ± 0.00000035"
    assert cell(torch.ones(3)) == "1.000 ± 0"
