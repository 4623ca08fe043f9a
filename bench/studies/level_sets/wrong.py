r"""How many points of six problems `truvar` and `level_set_search` put into a wrong class.

    python -m bench.studies.level_sets.wrong --to FOLDER

Functions and seeds of nothing else that chose the classes; a level that a quarter of the points
exceed. `truvar` travels nowhere and reads a mean; a search reads pairs (x, w), w chosen. A problem
is written to a file of its own once: the command goes on where it was stopped, and prints the table
in the end.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.metrics import binomial_interval
from torch import Tensor
from torch.quasirandom import SobolEngine

from bench.reproduction.tables import table
from bench.studies.coverage.classes import (
    LEVEL,
    SIDES,
    grid,
    looks_at,
    streams_of,
    with_noise,
    written,
)
from bench.studies.coverage.looks import share
from bench.studies.coverage.report import Row, by_pair, chosen, share_and_half_widths
from botorch_risk.level_sets import level_set_search
from botorch_risk.papers import LevelSet, truvar
from botorch_risk.strategies import Strategy
from botorch_risk.test_functions import CertifiedProblem

FUNCTIONS = ("mccormick", "rosenbrock", "hartmann-1-2", "shifted-camel", "ridges", "branin-product")
RISK = "conditional-value-at-risk"
SEEDS = tuple(range(1300, 1320))
LOOKS, NUM_POINTS = (15, 30, 45), 400
CONFIDENCE = 0.95


def row_of(names: dict[str, Any], strategy: Strategy, above: Tensor) -> Row:
    classes = strategy.classify()
    wrong = (classes.high & ~above) | (classes.low & above)
    shares = {"classified": share(~classes.unclassified), "wrong": share(wrong)}
    found = share(classes.high[:, above])
    return {**names, **shares, "found": found}


def rows_of_truvar(form: str) -> list[Row]:
    r"""Both kinds of classes from the same readings of a mean on 400 points."""
    problem, streams = CertifiedProblem(form, "expectation"), streams_of(SEEDS)
    domain = SobolEngine(problem.dim, scramble=True, seed=1).draw(NUM_POINTS, dtype=torch.double)
    f = problem.evaluate_true(domain)
    level = float(f.quantile(LEVEL))
    strategies = {
        classes: truvar(
            domain,
            SEEDS,
            goal=LevelSet(level),
            classes=classes,  # type: ignore[arg-type]
            confidence=CONFIDENCE,
            num_initial=2 * problem.dim + 6,
            refit_every=5,
        )
        for classes in ("belief", "epochs")
    }

    def read(X: Tensor) -> tuple[Tensor, Tensor]:
        Y = with_noise(problem.evaluate_true(X.nan_to_num()), streams)
        return X, Y.masked_fill(X.isnan().any(dim=-1, keepdim=True), torch.nan)  # it has finished

    return [
        row_of({"of": "truvar", "form": form, "round": t, "classes": name}, strategy, f > level)
        for t in looks_at([*strategies.values()], read, LOOKS)
        for name, strategy in strategies.items()
    ]


def rows_of_search(form: str) -> list[Row]:
    r"""Classes of decisions by their conditional value-at-risk."""
    problem, streams = CertifiedProblem(form, RISK), streams_of(SEEDS)
    d_x = problem.num_decision
    decisions = grid(problem.bounds[:, :d_x], SIDES[d_x])
    risks = problem.objective(decisions)
    level = float(risks.quantile(LEVEL))
    strategy = level_set_search(
        decisions,
        SEEDS,
        environment=problem.environment,
        risk_measure=problem.risk_measure,
        goal=LevelSet(level),
        w_is_chosen=True,
        confidence=CONFIDENCE,
        num_initial=2 * problem.dim + 2,
    )

    def read(Z: Tensor) -> tuple[Tensor, Tensor]:
        return Z, with_noise(problem.evaluate_true(Z), streams)

    names = {"of": "level_set_search", "form": form, "classes": "belief"}
    return [
        row_of({**names, "round": t}, strategy, risks > level)
        for t in looks_at([strategy], read, LOOKS)
    ]


def page(rows: list[Row]) -> str:
    r"""Wrong among the classified, with half-widths over seeds and over problems."""
    cells = []
    for of, classes in (("truvar", "belief"), ("truvar", "epochs"), ("level_set_search", "belief")):
        for t in LOOKS:
            some = chosen(rows, of=of, classes=classes, round=t)
            wrong, classified, found = (
                by_pair(some, name) for name in ("wrong", "classified", "found")
            )
            shares = wrong.sum(dim=-1) / classified.sum(dim=-1).clamp_min(1e-9)
            runs = (wrong <= (1 - CONFIDENCE) * classified).sum()
            low, high = binomial_interval(int(runs), wrong.numel())
            worst = max(zip(shares.tolist(), (row["form"] for row in some), strict=True))
            cells.append(
                [
                    of,
                    classes,
                    str(t),
                    share_and_half_widths(wrong, classified, digits=3),
                    f"{worst[1]} {worst[0]:.3f}",
                    f"{int(runs)} of {wrong.numel()} ({low:.2f} to {high:.2f})",
                    f"{classified.mean():.2f}",
                    f"{found.mean():.2f}",
                ]
            )
    header = ["", "classes", "round", "wrong, of the classified", "worst problem"]
    return table([*header, "runs with at most 5 %", "classified", "level set found"], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.to.mkdir(parents=True, exist_ok=True)
    parts = {f"truvar.{form}": partial(rows_of_truvar, form) for form in FUNCTIONS}
    parts |= {f"search.{form}": partial(rows_of_search, form) for form in FUNCTIONS}
    print(page(written(arguments.to, parts)))


if __name__ == "__main__":
    main()
