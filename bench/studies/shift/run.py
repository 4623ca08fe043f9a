r"""Runs the study with known outcomes; stop it at any moment, it resumes.

OMP_NUM_THREADS=1 python -m bench.studies.shift.run [PROBLEM ...] [--out results/shift] [--seeds 20]
    [--balls BALL ...] [--rules RULE ...]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from botorch.exceptions.errors import InputDataError
from torch import Tensor

from bench.studies.shift.problems import CHOOSERS, JUDGES, Data, Problem, problems
from bench.studies.stored_rows import append, missing_cases
from botorch_risk.environments import (
    KernelDensityEnvironment,
    ObservedContexts,
    bootstrap_radius,
    cross_validated_radius,
)
from botorch_risk.risk import (
    Ball,
    ChiSquareBall,
    KullbackLeiblerBall,
    MaximumMeanDiscrepancyBall,
    TotalVariationBall,
    WassersteinBall,
)

NUM_SEEDS, FIRST_OF_CHOOSERS = 20, 1000
EVERYTHING = 1e300  # a radius where a divergence is infinite
SIZES = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0)  # of the shift that a ball just holds, in sd of w


def kernel(v: Tensor, w: Tensor) -> Tensor:
    r"""Squared exponential, of a lengthscale of 0.2 of the range of w."""
    return torch.exp(-0.5 * torch.cdist(v, w).square() / 0.2**2)


BALLS: dict[str, Callable[[float], Ball]] = {
    "total variation": TotalVariationBall,
    "MMD": partial(MaximumMeanDiscrepancyBall, kernel=kernel),
    "Wasserstein": WassersteinBall,
    "KL": KullbackLeiblerBall,
    "chi-square": ChiSquareBall,
}


def bootstrap(
    coverage: float, ball: Ball, observed: Tensor, contexts: ObservedContexts, draws: int
) -> float:
    return bootstrap_radius(ball, observed, contexts, coverage, draws)


def halves(
    coverage: float, ball: Ball, observed: Tensor, contexts: ObservedContexts, draws: int
) -> float:
    return cross_validated_radius(ball, observed, contexts, coverage, num_splits=draws)


def quarters(ball: Ball, observed: Tensor, contexts: ObservedContexts, draws: int) -> float:
    r"""The radius that holds each quarter of the data, one after the other in time."""
    groups = torch.arange(len(observed)) * 4 // len(observed)
    return cross_validated_radius(ball, observed, contexts, coverage=0.9, groups=groups)


RULES: dict[str, Callable[..., float]] = {
    "bootstrap 0.5": partial(bootstrap, 0.5),
    "bootstrap 0.9": partial(bootstrap, 0.9),
    "halves 0.5": partial(halves, 0.5),
    "halves 0.9": partial(halves, 0.9),
    "quarters": quarters,
}


def contexts_of(problem: Problem, d_w: int) -> ObservedContexts:
    learn = partial(
        KernelDensityEnvironment,
        n_w=problem.num_nodes,
        rule="quadrature",
        relative_floor=problem.bandwidth_floor,
    )
    return ObservedContexts(torch.tensor([[0.0] * d_w, [1.0] * d_w], dtype=torch.double), learn)


def radius_of_a_shift(
    ball: Ball, observed: Tensor, contexts: ObservedContexts, size: float
) -> float:
    r"""How far the learnt distribution is from itself when all contexts move by `size` sd.

    The larger of up and down. A translation is as far by transport as it is long.
    """
    if isinstance(ball, WassersteinBall):
        return size * float(observed.std(dim=0).norm())
    step = size * observed.std(dim=0)
    moved = torch.stack([observed, observed + step, observed - step]).clamp(0, 1)
    environment: Any = contexts.learnt(moved, range(3))
    bound: Any = ball.bind(SimpleNamespace(points=environment.points[0]))
    centre = environment.weights[:1].expand(2, -1)
    return min(float(bound.distance(centre, environment.weights[1:]).max()), EVERYTHING)


def radius_of_rule(
    rule: str, ball: Ball, observed: Tensor, contexts: ObservedContexts, draws: int
) -> float:
    try:
        return RULES[rule](ball, observed, contexts, draws)
    except InputDataError as error:
        if "infinite distance" not in str(error):
            raise
        return EVERYTHING


def rows_of(
    name: str, problem: Problem, seed: int, label: str, data: Data, rules: Sequence[str]
) -> Iterator[dict[str, Any]]:
    r"""The regret of a ball of each radius under each shift, of one sample of contexts.

    And of the expectation, the ball "none". In units of the regret of a random decision under the
    same distribution.
    """
    observed = data.observed
    contexts = contexts_of(problem, observed.shape[-1])
    environment: Any = contexts.learnt(observed, 0)
    values, weights = problem.outcomes(environment.points), environment.weights
    chosen = {("none", "0"): (0.0, int((values @ weights).argmax()), 0.0)}
    make, start = BALLS[label], time.process_time()
    ball = make(0.0)
    bound = ball.bind(environment)
    radii = {f"{s:g}": radius_of_a_shift(ball, observed, contexts, s) for s in SIZES}
    radii |= {
        rule: radius_of_rule(rule, ball, observed, contexts, problem.num_draws) for rule in rules
    }
    for choice, radius in radii.items():
        if isinstance(bound, MaximumMeanDiscrepancyBall):  # its factors depend on the radius
            measure: Any = make(radius).bind(environment)
        else:
            measure = replace(bound, radius=radius)
        best = int(measure(values, weights).argmax())
        chosen[label, choice] = radius, best, time.process_time() - start
    for shift, deployed in data.deployed.items():
        means = problem.outcomes(deployed).mean(dim=-1)
        scale = means.max() - means.mean()
        for (label, choice), (radius, best, seconds) in chosen.items():
            yield {
                "problem": name,
                "seed": seed,
                "shift": shift,
                "ball": label,
                "choice": choice,
                "radius": radius,
                "regret": float((means.max() - means[best]) / scale),
                "raw": float(means.max() - means[best]),
                "seconds": seconds,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PROBLEM")
    parser.add_argument("--out", type=Path, default=Path("results/shift"))
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS)
    parser.add_argument("--balls", nargs="*", default=tuple(BALLS), metavar="BALL")
    parser.add_argument("--rules", nargs="*", default=tuple(RULES), metavar="RULE")
    arguments = parser.parse_args()
    known = problems()
    for name in arguments.names or (*CHOOSERS, *JUDGES):
        first = FIRST_OF_CHOOSERS if name in CHOOSERS else 0
        seeds, path = range(first, first + arguments.seeds), arguments.out / f"{name}.jsonl"
        cases = [(seed, ball) for ball in arguments.balls for seed in seeds]
        for seed, ball in missing_cases(path, ("seed", "ball"), cases):
            rows = [
                row
                for data in known[name].data(seed)
                for row in rows_of(name, known[name], seed, ball, data, arguments.rules)
            ]
            for _ in append(path, rows):
                pass
            print(name, seed, ball, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
