r"""Does a fit to a table of 300 to 3,000 rows end as high as the best of eight starts?

    python -m bench.speed.engine.large_tables --tables folder --out results/large_tables.csv

`folder` has tables as CSV files with a header, the outcome in the last column; ten tables of test
functions and the portfolio's back-tests come with the program. Each table is fitted by
`fit_exact_gp` as it is, and by eight single fits to all points at once: from the model's default
values and from seven draws of its priors. Two models: BoTorch's `SingleTaskGP`, and a scaled
Matern-5/2 kernel with gamma priors. Rows are written as they are found; a second call goes on.
"""

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from botorch.models import SingleTaskGP
from botorch.optim.utils import sample_all_priors
from botorch.test_functions import (
    Ackley,
    Branin,
    Hartmann,
    Levy,
    Rastrigin,
    Rosenbrock,
    StyblinskiTang,
)
from botorch_risk_bench import problems
from torch import Tensor

from bench.speed.fit_quality import build, objective
from botorch_risk.engine import fit_exact_gp
from botorch_risk.engine.fit import fewer_points

MODELS = ("rbf", "scaled matern")
COLUMNS = ("table", "n", "d", "model", "ours", "best of eight", "gap", "seconds", "evaluations")
# A function with its number of points and its noise in units of its standard deviation.
FUNCTIONS = (
    (Branin(), 300, 0.0),
    (Branin(), 1000, 0.3),
    (Hartmann(dim=3), 900, 0.05),
    (Hartmann(dim=6), 1500, 0.1),
    (Hartmann(dim=6), 800, 1.0),
    (Ackley(dim=2), 1200, 0.02),
    (Levy(dim=4), 1000, 0.2),
    (Rastrigin(dim=2), 2000, 0.1),
    (Rosenbrock(dim=4), 3000, 0.01),
    (StyblinskiTang(dim=3), 1000, 0.05),
)


def tables(folder: Path | None) -> Iterator[tuple[str, np.ndarray]]:
    r"""Names and rows, the outcome last."""
    backtests = Path(problems.__file__).with_name("portfolio_backtests.csv")
    for path in [backtests, *sorted(folder.glob("*.csv") if folder else [])]:
        yield path.stem, np.loadtxt(path, delimiter=",", skiprows=1)
    for index, (function, n, noise) in enumerate(FUNCTIONS):
        draws = torch.Generator().manual_seed(index)
        X = torch.rand(n, function.dim, generator=draws, dtype=torch.double)
        Y = function(function.bounds[0] + (function.bounds[1] - function.bounds[0]) * X)
        Y = Y + noise * Y.std() * torch.randn(n, generator=draws, dtype=torch.double)
        yield f"{type(function).__name__}-{noise:g}", torch.column_stack([X, Y]).numpy()


def data_of(rows: np.ndarray) -> tuple[Tensor, Tensor]:
    r"""Inputs on the unit cube and standardised outcomes."""
    X, Y = torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, -1:])
    low, high = X.amin(dim=0), X.amax(dim=0)
    return (X - low) / (high - low), (Y - Y.mean()) / Y.std()


def best_of_eight(kind: str, X: Tensor, Y: Tensor) -> float:
    values = []
    with mock.patch.object(fewer_points, "LEAST_TO_DIVIDE", 10**9):
        for start in range(8):
            model: SingleTaskGP = build(kind, X, Y)
            if start:
                torch.manual_seed(start)
                sample_all_priors(model)
            # NaN where a draw of the priors has no covariance matrix with a factor.
            values.append(fit_exact_gp(model, rough_start=False).objective.item())
    return float(np.nanmax(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu", help="where the eight starts are fitted")
    parser.add_argument("--limit", type=int, default=3000, help="the largest table")
    parser.add_argument("--part", default="0/1", help="which of how many parts, for processes")
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    known = {}
    if given.out.exists():
        with given.out.open(newline="", encoding="utf-8") as file:
            known = {(row["table"], row["model"]): row for row in csv.DictReader(file)}
    part, parts = (int(one) for one in given.part.split("/"))
    for index, (name, rows) in enumerate(tables(given.tables)):
        if index % parts != part:
            continue
        for kind in MODELS:
            if (name, kind) in known or len(rows) > given.limit:
                continue
            X, Y = data_of(rows)
            model, begun = build(kind, X, Y), time.process_time()
            result = fit_exact_gp(model)
            seconds, ours = time.process_time() - begun, objective(model).item()
            with torch.device(given.device) if given.device != "cpu" else nullcontext():
                best = best_of_eight(kind, X.to(given.device), Y.to(given.device))
            evaluations = -1 if result.num_evaluations is None else result.num_evaluations.item()
            row = [name, *X.shape, kind, ours, best, best - ours, seconds, evaluations]
            new = not given.out.exists()
            with given.out.open("a", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([COLUMNS, row] if new else [row])
            print(*row, sep=", ", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
