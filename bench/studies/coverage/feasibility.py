r"""Decisions called feasible by four rules, and the probability that their constraints hold.

    python -m bench.studies.coverage.feasibility --to FOLDER

Eight problems with constraints that have to hold with a given probability: the expectation of one
function of development subject to another one, and two known problems. The fit chooses the
readings, W is observed, and both beliefs learn from the same readings. Each rule calls decisions of
a grid feasible, and chooses the best by the posterior mean among them. A problem is written to a
file of its own once: the command goes on where it was stopped, and prints the tables in the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from botorch_risk_bench.problems import (
    ChanceConstrainedBranin,
    ChanceConstrainedGramacy,
    ChanceConstrainedTestProblem,
)
from torch import Generator, Tensor

from bench.reproduction.tables import table
from bench.studies.coverage.classes import grid, looks_at, streams_of, written
from bench.studies.coverage.looks import BELIEFS, NOISE, SEARCH, SEEDS, drawn_w
from bench.studies.coverage.report import Row, by_pair, chosen, share_and_half_widths
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import Expectation, ValueAtRisk
from botorch_risk.strategies import Strategy, risk_search
from botorch_risk.test_functions import CertifiedProblem
from botorch_risk.test_functions.environmental import draw_outcomes, risk_over

LOOKS = (10, 25)
SIDES = {1: 101, 2: 16}  # of the grid of decisions, by its dimension
DELTA, FEASIBLE = 0.1, 0.4  # of two functions: how often a constraint may fail; share of the grid
NOISE_OF_KNOWN = 0.02
PROBABILITY = 0.95  # that the constraints hold
RULES = (
    "three deviations of the fit",  # as strategies choose
    "two deviations of the samples",
    "a probability of 95 % by the fit",
    "a probability of 95 % by samples",
)
EDGES, INTERVALS = (0.5, 0.9), ("below 0.5", "0.5 to 0.9", "above 0.9")  # of probabilities
PART = 16  # decisions at a time


class Problem(NamedTuple):
    r"""Maximise the expectation of the first outcome subject to constraints on the others."""

    environment: DiscreteEnvironment
    bounds: Tensor
    constraints: list[RiskConstraint]
    decisions: Tensor
    feasible: Tensor  # of these decisions
    read: Callable[[Tensor, Sequence[Generator]], Tensor]  # `R x n x d` to `R x n x 1 x m`


Function = Callable[[Tensor], Tensor]  # of pairs (x, w)


def linear(Z: Tensor) -> Tensor:
    return 2 * Z[..., 0] + 2 * Z[..., 1] + 0.6 * Z[..., 2]


def certified(form: str) -> Function:
    return CertifiedProblem(form, "expectation").evaluate_true


def of_two_functions(objective: Function, constraint: str, at_most: bool) -> Problem:
    r"""A function, where another one is nearly always large enough, or small enough."""
    other, sign = CertifiedProblem(constraint, "value-at-risk"), -1.0 if at_most else 1.0
    environment, bounds = other.environment, other.decision_bounds
    decisions = grid(bounds, SIDES[other.num_decision])
    measure = ValueAtRisk(DELTA, strict=True)
    risks = risk_over(environment, decisions, lambda Z: sign * other.evaluate_true(Z), measure)
    limit = float(risks.quantile(1 - FEASIBLE))
    chance = RiskConstraint.chance(environment, sign * limit, 1, DELTA, at_most)

    def read(Z: Tensor, streams: Sequence[Generator]) -> Tensor:
        values = torch.stack([objective(Z), other.evaluate_true(Z)], dim=-1)
        return draw_outcomes(values, [NOISE, NOISE], 1, streams)

    return Problem(environment, bounds, [chance], decisions, risks >= limit, read)


def known(of: type[ChanceConstrainedTestProblem]) -> Problem:
    r"""A problem of this package, whose slacks have to be positive nearly always."""
    problem = of(noise_std=NOISE_OF_KNOWN, constraint_noise_std=NOISE_OF_KNOWN)
    environment, bounds = problem.environment, problem.decision_bounds
    decisions = grid(bounds, SIDES[problem.num_decision])
    constraints = [
        RiskConstraint.chance(environment, 0.0, outcome, problem.delta, at_most=False)
        for outcome in range(1, 1 + problem.num_constraints)
    ]

    def read(Z: Tensor, streams: Sequence[Generator]) -> Tensor:
        return problem.sample_outcomes(Z, 1, streams)

    feasible = problem.is_feasible_decision(decisions)
    return Problem(environment, bounds, constraints, decisions, feasible, read)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    **{
        f"{name}.{constraint}.{'at-most' if at_most else 'at-least'}": partial(
            of_two_functions, objective, constraint, at_most
        )
        for name, objective, constraint in (
            ("goldstein-price", certified("goldstein-price"), "branin"),
            ("branin", certified("branin"), "goldstein-price"),
            ("linear", linear, "hartmann-2-1"),
        )
        for at_most in (False, True)
    },
    "chance-gramacy": partial(known, ChanceConstrainedGramacy),
    "chance-branin": partial(known, ChanceConstrainedBranin),
}


def rows_of(name: str, seeds: Sequence[int]) -> list[Row]:
    r"""The decision of each rule in both rounds, by seed."""
    problem, streams = PROBLEMS[name](), streams_of(seeds)
    num_columns = problem.bounds.shape[-1] + problem.environment.points.shape[-1]
    strategies = {
        belief: risk_search(
            problem.bounds,
            seeds,
            environment=problem.environment,
            risk_measure=Expectation(),
            constraints=problem.constraints,
            num_initial=2 * num_columns + 4,
            num_samples=num_samples,
            **SEARCH,
        )
        for belief, num_samples in BELIEFS.items()
    }

    def read(x: Tensor) -> tuple[Tensor, Tensor]:
        Z = torch.cat([x, drawn_w(problem, x.shape[1], streams)], dim=-1)
        return Z, problem.read(Z, streams)

    rows = []
    for t in looks_at([*strategies.values()], read, LOOKS):
        for rule, found in decided(problem, strategies).items():
            rows.append({"problem": name, "round": t, "rule": rule, **found})
    return rows


@torch.no_grad()
def decided(problem: Problem, strategies: dict[str, Strategy]) -> dict[str, Row]:
    r"""The decision of each rule by seed: whether it is called feasible, and whether it is.

    Where a rule calls no decision feasible, it is the least infeasible one by the fit.
    """
    views = {belief: strategy.views[0][1] for belief, strategy in strategies.items()}
    fit = views["fitted"].belief
    X = problem.decisions.expand(len(views["fitted"].seeds), *problem.decisions.shape)
    fitted, sampled = (probability(strategies[belief], X) for belief in ("fitted", "sampled"))
    called = (
        fit.feasible(X),
        slack_of_samples(views["sampled"].interval_belief, X) >= 0,
        fitted >= PROBABILITY,
        sampled >= PROBABILITY,
    )
    value, slack, found = fit.bound.mean(X), fit.worst_slack(fit.slacks(X)), {}
    for rule, feasible in zip(RULES, called, strict=True):
        any_of_it = feasible.any(dim=-1)
        best = value.masked_fill(~feasible, -torch.inf).argmax(dim=-1)
        index = torch.where(any_of_it, best, slack.argmax(dim=-1))
        found[rule] = {
            "called": any_of_it.tolist(),
            "feasible": problem.feasible[index].tolist(),
            "probability": sampled.gather(-1, index.unsqueeze(-1)).squeeze(-1).tolist(),
        }
    return found


def probability(strategy: Strategy, X: Tensor) -> Tensor:
    r"""The least probability of a constrained outcome, `R x N`."""
    (_, view), *_ = strategy.views
    of_outcomes = strategy.method.predict_feasible(view, X)
    return of_outcomes.nan_to_num(nan=1.0).amin(dim=-1)  # NaN without a constraint


def slack_of_samples(belief: ConstrainedUpperConfidenceBound, X: Tensor) -> Tensor:
    r"""The least slack, where each outcome is two deviations of the mixture on the bad side."""
    parts = []
    for part in X.split(PART, dim=-2):
        slacks = []
        for bound, constraint in zip(
            belief.constraint_bounds, belief.risk_constraints, strict=True
        ):
            lower, upper, weights = bound.pointwise_bounds(part)  # S x R x n x n_w
            mean, variance = (lower + upper) / 2, (upper - lower).square() / (4 * bound.beta)
            of_mixture = variance.mean(dim=0) + mean.var(dim=0, correction=0)
            risk = bound.risk_measure(mean.mean(dim=0) - 2 * of_mixture.sqrt(), weights)
            slacks.append(risk - constraint.limit)
        parts.append(torch.stack(slacks).amin(dim=0))
    return torch.cat(parts, dim=-1)


def by_problem(rows: Sequence[Row], name: str) -> Tensor:
    r"""A quantity of one rule, `problems x rounds x seeds`."""
    problems = dict.fromkeys(row["problem"] for row in rows)
    return torch.stack([by_pair(chosen(rows, problem=each), name) for each in problems])


def of_rules(rows: Sequence[Row]) -> str:
    r"""The best decision that a rule calls feasible; half-widths over seeds and over problems."""
    cells = []
    for rule in RULES:
        some = chosen(rows, rule=rule)
        called = by_problem(some, "called")
        violating = called * (1 - by_problem(some, "feasible"))
        of_rounds = [each.sum(dim=(0, 2)).tolist() for each in (called, violating)]
        cells.append([rule, *(", ".join(f"{n:.0f}" for n in counts) for counts in of_rounds)])
        cells[-1].append(share_and_half_widths(violating.sum(dim=1), called.sum(dim=1), digits=3))
    rounds = ", ".join(map(str, LOOKS))
    header = ["best among decisions with", f"called feasible after {rounds} rounds"]
    return table([*header, "of these, violate", "share"], cells)


def of_probabilities(rows: Sequence[Row]) -> str:
    r"""How often the constraints hold at the decisions of the first rule, by their probability."""
    some, cells = chosen(rows, rule=RULES[0]), []
    probability, feasible = (by_problem(some, name) for name in ("probability", "feasible"))
    place = torch.bucketize(probability, torch.tensor(EDGES, dtype=torch.double))
    for i, name in enumerate(INTERVALS):
        within = (place == i).double()
        holds = share_and_half_widths((feasible * within).sum(dim=1), within.sum(dim=1), digits=3)
        mean = (probability * within).sum() / within.sum()
        cells.append([name, f"{within.sum():.0f}", f"{mean:.3f}", holds])
    return table(["probability by samples", "decisions", "mean", "the constraints hold"], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = SEEDS[True]
    rows = written(arguments.to, {name: partial(rows_of, name, seeds) for name in PROBLEMS})
    for part in (of_rules, of_probabilities):
        print(f"{part.__doc__}\n\n{part(rows)}")


if __name__ == "__main__":
    main()
