r"""Small tables in the form of those that are not ours to distribute."""

import itertools
from pathlib import Path


def write_svm_grid(folder: Path) -> Path:
    r"""Eighteen configurations as `HPOlib/benchmarks/svm_on_grid.py` has them."""
    grid = itertools.product((1, 10, 100), (0.5, 1, 5), (0.01, 0.1))
    rows = [
        [cost, alpha, epsilon, 0.5 - 0.001 * cost + 0.02 * alpha - 0.1 * epsilon, 1.0]
        for cost, alpha, epsilon in grid
    ]
    table = folder / "svm_on_grid.py"
    table.write_text(f"rows = {rows}")
    return table
