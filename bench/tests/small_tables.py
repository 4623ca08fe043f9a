r"""Tables that are not ours to distribute: who asks for them, and small ones in their form."""

import itertools
from pathlib import Path

ON_A_TABLE = {  # campaigns of the reproduction, and the variable with the path of their table
    "kde/portfolio": "BOTORCH_RISK_PORTFOLIO_TABLE",
    "truvar/svm_on_grid": "BOTORCH_RISK_SVM_TABLE",
    "uhe/vehicles": "BOTORCH_RISK_VEHICLE_TABLE",
    "vucb/portfolio": "BOTORCH_RISK_PORTFOLIO_TABLE",
}


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
