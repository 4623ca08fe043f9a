r"""Readings of `risk_search` on certified pairs, and what two beliefs say about them.

    python -m bench.studies.coverage.looks --to FOLDER [--development] [--only TEXT]

A file per pair and mode, `FOLDER/branin.expectation.observed.json`, is written once: the command
goes on where it was stopped. The readings depend on the fitted hyperparameters alone, which choose
x and w; both beliefs are then asked about the same ones.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.campaigns.whole_files import write_text
from torch import Tensor

from botorch_risk.stopping import strategy_regret_samples
from botorch_risk.strategies import Strategy, risk_search
from botorch_risk.strategies.prediction import predicted_risks
from botorch_risk.test_functions import CertifiedProblem
from botorch_risk.test_functions.certified import certificates

DEVELOPMENT = ("branin", "goldstein-price", "hartmann-2-1")  # looked at before anything was fixed
LOOKS, MODES = (15, 30), ("observed", "chosen")
SEEDS = {True: tuple(range(900, 916)), False: tuple(range(700, 716))}  # of development, to judge
LEVELS = (0.5, 0.8, 0.95)
NUM_POINTS, NUM_DECISIONS = 160, 16  # at random, for f and for the risk
NOISE = 0.1
SEARCH: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}
BELIEFS = {"fitted": 0, "sampled": 16}  # samples of the hyperparameters


def pairs(development: bool) -> list[tuple[str, str]]:
    r"""The pairs of a form and a risk; no form is in both lists."""
    return [
        (form, risk)
        for form, risks in certificates().items()
        for risk in risks
        if (form in DEVELOPMENT) == development
    ]


def search(problem: CertifiedProblem, mode: str, seeds: list[int], num_samples: int) -> Strategy:
    r"""The strategy that reads, and that is asked for intervals."""
    return risk_search(
        problem.bounds[:, : problem.num_decision],
        seeds,
        environment=problem.environment,
        risk_measure=problem.risk_measure,
        w_is_chosen=mode == "chosen",
        num_initial=2 * problem.dim + 2,
        num_samples=num_samples,
        **SEARCH,
    )


def readings(problem: CertifiedProblem, mode: str, seeds: list[int]) -> tuple[Tensor, Tensor]:
    r"""All inputs `R x n x d` and readings `R x n` of the loop."""
    strategy = search(problem, mode, seeds, num_samples=0)
    streams = [torch.Generator().manual_seed(10_000 + seed) for seed in seeds]
    for _ in range(LOOKS[-1] + 1):
        Z = strategy.ask()
        if mode == "observed":
            Z = torch.cat([Z, drawn_w(problem, Z.shape[1], streams)], dim=-1)
        noise = [torch.randn(Z.shape[1], generator=each, dtype=Z.dtype) for each in streams]
        Y = problem.evaluate_true(Z) + NOISE * torch.stack(noise)
        strategy.tell(Z, Y.unsqueeze(-1))
    return strategy.history.X, strategy.history.Y.reshape(len(seeds), -1)


def drawn_w(problem: CertifiedProblem, n: int, streams: list[torch.Generator]) -> Tensor:
    r"""Values of W, `R x n x d_w`."""
    environment = problem.environment
    index = [
        torch.multinomial(environment.weights, n, replacement=True, generator=each)
        for each in streams
    ]
    return environment.points[torch.stack(index)]


def look(problem: CertifiedProblem, strategy: Strategy, seeds: list[int]) -> dict[str, Any]:
    r"""What a strategy says after its last reading, and whether it holds, by seed.

    Of an MMD ball, whose risk solves a program for each sample, it looks at f alone.
    """
    streams = [torch.Generator().manual_seed(50_000 + seed) for seed in seeds]
    d_x, method, view = problem.num_decision, strategy.method, strategy.views[0][1]
    begin = time.process_time()
    view.interval_belief  # noqa: B018
    row: dict[str, Any] = {"seconds": time.process_time() - begin}

    x = [torch.rand(NUM_POINTS, d_x, generator=each, dtype=torch.double) for each in streams]
    Z = torch.cat([torch.stack(x), drawn_w(problem, NUM_POINTS, streams)], dim=-1)
    of_f = method.predict(view, Z).outcome
    mean, deviation = of_f.mean[..., 0], (of_f.upper - of_f.lower)[..., 0] / (2 * 1.96)
    error = problem.evaluate_true(Z) - mean
    for level in LEVELS:
        width = math.sqrt(2) * torch.erfinv(torch.tensor(level).double()) * deviation
        row[f"f {level}"] = share(error.abs() <= width)
    row["f score"] = score(-1.96 * deviation, 1.96 * deviation, error)
    row["rmse"] = error.square().mean(dim=-1).sqrt().tolist()
    density = torch.distributions.Normal(0.0, deviation).log_prob(error)
    row["nlpd"] = density.mean(dim=-1).neg().tolist()

    if method.recipe.risk_measure.is_a_program:  # half a minute for a replicate's risks alone
        return row
    best = strategy.recommend().unsqueeze(1)
    random = [torch.rand(NUM_DECISIONS, d_x, generator=s, dtype=torch.double) for s in streams]
    X = torch.cat([torch.stack(random), best], dim=-2)
    truth, samples = problem.objective(X), predicted_risks(view.interval_belief, X)
    for level in LEVELS:
        lower, upper = (samples.quantile(q, dim=-1) for q in ((1 - level) / 2, (1 + level) / 2))
        held = (lower <= truth) & (truth <= upper)
        row[f"risk {level}"], row[f"recommended {level}"] = share(held[:, :-1]), share(held[:, -1:])
    row["risk score"] = score(lower[:, :-1], upper[:, :-1], truth[:, :-1])
    row["recommended score"] = score(lower[:, -1:], upper[:, -1:], truth[:, -1:])
    row["below"] = share(truth[:, -1:] < lower[:, -1:])

    gaps, regret = strategy_regret_samples(strategy), problem.optimal_risk - truth[:, -1]
    for level in LEVELS:
        gap = gaps.quantile(level, dim=-1, interpolation="higher")
        row[f"gap {level}"] = share((regret <= gap + 1e-6).unsqueeze(-1))
    row["regret"] = regret.tolist()
    return row


def share(held: Tensor) -> list[float]:
    r"""How many of each seed's are held."""
    shares: list[float] = held.double().mean(dim=-1).tolist()
    return shares


def score(lower: Tensor, upper: Tensor, truth: Tensor) -> list[float]:
    r"""The interval score at 95 %, smaller is better [Gneiting2007scores]_."""
    missed = (lower - truth).clamp_min(0.0) + (truth - upper).clamp_min(0.0)
    scores: list[float] = (upper - lower + 2 / 0.05 * missed).mean(dim=-1).tolist()
    return scores


def rows_of(form: str, risk: str, mode: str, seeds: list[int]) -> list[dict[str, Any]]:
    r"""All looks at one pair."""
    problem = CertifiedProblem(form, risk)
    Z, Y = readings(problem, mode, seeds)
    found = []
    for t in LOOKS:
        for belief, num_samples in BELIEFS.items():
            strategy, first = search(problem, mode, seeds, num_samples), 2 * problem.dim + 2
            strategy.tell(Z[:, :first], Y[:, :first].unsqueeze(-1))
            strategy.tell(Z[:, first : first + t], Y[:, first : first + t].unsqueeze(-1))
            names = {"form": form, "risk": risk, "mode": mode, "round": t, "belief": belief}
            found.append({**names, **look(problem, strategy, seeds)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--only", default="", help="a part of the names of the files")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.to.mkdir(parents=True, exist_ok=True)
    for mode in MODES:
        for form, risk in pairs(arguments.development):
            path = arguments.to / f"{form}.{risk}.{mode}.json"
            if path.exists() or arguments.only not in path.name:
                continue
            rows = rows_of(form, risk, mode, list(SEEDS[arguments.development]))
            write_text(path, json.dumps(rows))
            print(path.name, flush=True)


if __name__ == "__main__":
    main()
