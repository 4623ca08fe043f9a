r"""Five real tables by folds: stated against contained of held-out readings.

    python -m bench.studies.coverage.tables --data FOLDER [--to FOLDER]  # fit, then the tables
    python -m bench.studies.coverage.tables                              # from tables.jsonl.gz

`--data` has the CSV files of https://github.com/PV-Lab/Benchmarking (folder `datasets`): settings,
then the outcome in the last column. The settings of a table are dealt into five folds. Both beliefs
learn from the same 20, 40 or 60 readings of four folds, drawn at random, and predict every reading
of the fifth: no held-out reading has settings that they were told. An interval is `mean -+ z *
deviation` of a reading, with the noise that was learnt. A file per table is written once.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from botorch.fit import fit_gpytorch_mll
from botorch_risk_bench.campaigns.whole_files import replacing, write_text
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from bench.reproduction.tables import cell, table
from bench.studies.coverage.report import Row, by_pair, chosen, mean_and_half_widths
from bench.studies.stored_rows import read, rounded
from botorch_risk.engine import fit_exact_gp
from botorch_risk.models import SampledGP
from botorch_risk.models.standardized_gp import standardized_gp

STORED = Path(__file__).with_name("tables.jsonl.gz")
FILES = {  # what is measured
    "AgNP": "silver nanoparticles: distance of a spectrum from the target",
    "AutoAM": "a printed line: likeness to the target",
    "Crossed barrel": "a printed structure: toughness",
    "P3HT": "carbon nanotube blends: conductivity",
    "Perovskite": "perovskite films: instability",
}
SIZES, NUM_FOLDS, SEEDS = (20, 40, 60), 5, tuple(range(10))
LEVELS = (0.5, 0.8, 0.95)


def csv_of(data: Path, name: str) -> Path:
    return data / f"{name}_dataset.csv"


def read_table(path: Path) -> tuple[Tensor, Tensor]:
    r"""Settings scaled to the unit cube, `N x d`, and outcomes of variance one, `N x 1`."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.reader(file))[1:]
    values = torch.tensor([[float(cell) for cell in line] for line in lines], dtype=torch.double)
    X, Y = values[:, :-1], values[:, -1:]
    lower, upper = X.amin(dim=0), X.amax(dim=0)
    return (X - lower) / (upper - lower), (Y - Y.mean()) / Y.std()


def folds(X: Tensor, seed: int) -> Tensor:
    r"""The fold of each reading; readings of equal settings are in one."""
    settings, of_reading = X.unique(dim=0, return_inverse=True)
    order = torch.randperm(len(settings), generator=torch.Generator().manual_seed(seed))
    return (order % NUM_FOLDS)[of_reading]


def fitted(X: Tensor, Y: Tensor, seed: int, at: Tensor) -> tuple[Tensor, Tensor]:
    r"""The default of `risk_search(num_samples=0)`: BoTorch's priors, fitted hyperparameters."""
    model = standardized_gp(X, Y)
    fit_exact_gp(model)
    found = model.posterior(at, observation_noise=True)
    return found.mean, found.variance


def sampled(X: Tensor, Y: Tensor, seed: int, at: Tensor) -> tuple[Tensor, Tensor]:
    r"""Sixteen samples of the hyperparameters."""
    model = SampledGP(X, Y, seed=seed)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    found = model.posterior(at, observation_noise=True)
    return found.mixture_mean, found.mixture_variance


BELIEFS: dict[str, Callable[[Tensor, Tensor, int, Tensor], tuple[Tensor, Tensor]]] = {
    "fitted": fitted,
    "sampled": sampled,
}


def of_fold(X: Tensor, Y: Tensor, train: Tensor, test: Tensor, seed: int) -> dict[str, Row]:
    r"""What each belief says of the held-out readings."""
    settings, of_reading = X[test].unique(dim=0, return_inverse=True)
    found = {}
    for belief, predict in BELIEFS.items():
        mean, variance = predict(X[train], Y[train], seed, settings)
        deviation = variance.detach().sqrt()[of_reading]
        error = Y[test] - mean.detach()[of_reading]
        within = 2 * torch.special.ndtr(error.abs() / deviation) - 1
        missed = (error.abs() - 1.96 * deviation).clamp_min(0.0)
        density = torch.distributions.Normal(0.0, deviation).log_prob(error)
        found[belief] = {
            **{str(level): (within <= level).double().mean() for level in LEVELS},
            "score": (2 * 1.96 * deviation + 2 / 0.05 * missed).mean(),  # smaller is better
            "nlpd": -density.mean(),
            "rmse": error.square().mean().sqrt(),
        }
    return found


def rows_of(path: Path, name: str) -> list[Row]:
    r"""Averages over the folds, by size, belief and seed."""
    X, Y = read_table(path)
    rows: list[Row] = []
    for size in SIZES:
        by_seed: dict[str, list[Row]] = {belief: [] for belief in BELIEFS}
        for seed in SEEDS:
            parts = [of_fold(X, Y, train, test, seed) for train, test in splits(X, size, seed)]
            for belief, found in by_seed.items():
                every = [part[belief] for part in parts]
                found.append(
                    {key: float(sum(e[key] for e in every)) / len(every) for key in every[0]}
                )
        for belief, found in by_seed.items():
            quantities = {key: [rounded(each[key]) for each in found] for key in found[0]}
            rows.append({"table": name, "size": size, "belief": belief, **quantities})
    return rows


def splits(X: Tensor, size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    r"""The readings that are told, and those that are held out, fold by fold."""
    of_reading, draws = folds(X, seed), torch.Generator().manual_seed(1_000 + seed)
    for fold in range(NUM_FOLDS):
        others = (of_reading != fold).nonzero()[:, 0]
        train = others[torch.randperm(len(others), generator=draws)[:size]]
        yield train, (of_reading == fold).nonzero()[:, 0]


def of_sizes(rows: Sequence[Row]) -> str:
    r"""Of stated 50, 80 and 95 %, the contained share of held-out readings, five tables."""
    cells = []
    for size in SIZES:
        for belief in BELIEFS:
            some = chosen(rows, size=size, belief=belief)
            shares = [mean_and_half_widths(by_pair(some, str(level))) for level in LEVELS]
            cells.append([str(size), belief, *shares])
    return table(["readings", "belief", *(f"{level:.0%}" for level in LEVELS)], cells)


def of_tables(rows: Sequence[Row]) -> str:
    r"""Contained at 95 % by table."""
    cells = []
    for name in FILES:
        cells.append([name])
        for size in SIZES:
            for belief in BELIEFS:
                (row,) = chosen(rows, table=name, size=size, belief=belief)
                cells[-1].append(cell(by_pair([row], "0.95")[0]))
    header = [f"{size} {belief}" for size in SIZES for belief in BELIEFS]
    return table(["table", *header], cells)


def of_scores(rows: Sequence[Row]) -> str:
    r"""Sampled less fitted from the same readings; outcomes of a table have variance one."""
    cells = []
    for name in ("every table", *FILES):
        for size in SIZES:
            some = rows if name == "every table" else chosen(rows, table=name)
            both = [chosen(some, size=size, belief=belief) for belief in ("sampled", "fitted")]
            cells.append([name, str(size)])
            for quantity in ("nlpd", "score", "rmse"):
                values, reference = (by_pair(each, quantity) for each in both)
                less = values - reference
                several = len(less) > 1
                cells[-1].append(mean_and_half_widths(less) if several else cell(less[0]))
    return table(["table", "readings", "NLPD", "interval score at 95 %", "RMSE"], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder of the CSV files")
    parser.add_argument("--to", type=Path, default=Path("results/coverage_tables"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.data:
        missing = [name for name in FILES if not csv_of(arguments.data, name).is_file()]
        if missing:
            parser.exit(2, f"Expected CSV files in {arguments.data}. Got none of {missing}.\n")
        fit(arguments.data, arguments.to)
    rows = read(STORED)
    for part in (of_sizes, of_tables, of_scores):
        print(f"{part.__doc__}\n\n{part(rows)}")


def fit(data: Path, folder: Path) -> None:
    r"""Fit to every table, except what is there, and collect the rows."""
    lines = []
    for name in FILES:
        path = folder / f"{name}.json"
        if not path.exists():
            write_text(path, json.dumps(rows_of(csv_of(data, name), name)))
            print(name, flush=True)
        lines += [json.dumps(row) for row in json.loads(path.read_text("utf-8"))]
    with replacing(STORED) as written, gzip.GzipFile(written, "wb", mtime=0) as file:
        file.write("\n".join(lines).encode())


if __name__ == "__main__":
    main()
