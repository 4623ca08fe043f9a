r"""Loops with batches of one, four and eight, and with four settings that run at any time.

    python -m bench.studies.batches.loops --to FOLDER --code NAME [--only TEXT]
    python -m bench.studies.batches.loops --pack FOLDER  # into rows.jsonl.gz

There are 24 evaluations after the initial design. A file per problem, number and name of the code,
`FOLDER/rahbo-sine.4.NAME.json`, is written once: the command goes on where it was stopped. For
batches as they were, the same program runs in a checkout of an earlier commit.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.campaigns.whole_files import write_text
from torch import Tensor

from bench.studies.stored_rows import pack
from botorch_risk.papers import drbo_kde, rahbo, sbo_kde
from botorch_risk.repeats import risk_averse_kg
from botorch_risk.seeding import generators
from botorch_risk.strategies import Box, Strategy, risk_search
from botorch_risk.test_functions import (
    CertifiedProblem,
    HeteroscedasticBranin,
    HeteroscedasticHartmann,
    HeteroscedasticSine,
)

SEEDS = tuple(range(2500, 2596))  # the distances were chosen on 2400 to 2495
NUM_EVALUATIONS, NUMBERS = 24, (1, 4, 8)
NUM_RUNNING, SEEDS_OF_RUNNING = 4, SEEDS[:24]
NUM_REPEATS, NOISE = 3, 0.1
SEARCH: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64}


@dataclass(frozen=True)
class Task:
    r"""A strategy on a problem.

    Args:
        build: Makes the strategy, `build(seeds, batch_size=q)`.
        observe: Told points and outcomes of what was proposed, `observe(X, generators)`.
        regret: The regrets `R` of recommendations `R x d_x`.
        num_decision: The columns of a decision.
    """

    build: Callable[..., Strategy]
    observe: Callable[[Tensor, list[torch.Generator]], tuple[Tensor, Tensor]]
    regret: Callable[[Tensor], Tensor]
    num_decision: int


def under_risk(form: str, risk: str, kind: str) -> Task:
    r"""A certified problem whose w is a context, drawn from a known W, or chosen."""
    problem = CertifiedProblem(form, risk)
    d_x, environment = problem.num_decision, problem.environment
    bounds, options = problem.bounds[:, :d_x], {"num_initial": 2 * problem.dim + 2, **SEARCH}

    def observe(X: Tensor, draws: list[torch.Generator]) -> tuple[Tensor, Tensor]:
        if X.shape[-1] == d_x:
            index = torch.stack(
                [
                    torch.multinomial(environment.weights, X.shape[1], True, generator=g)
                    for g in draws
                ]
            )
            X = torch.cat([X, environment.points[index]], dim=-1)
        noise = torch.stack([torch.randn(X.shape[1], generator=g, dtype=X.dtype) for g in draws])
        return X, (problem.evaluate_true(X) + NOISE * noise).unsqueeze(-1)

    if kind in ("sbo", "drbo"):
        build = sbo_kde if kind == "sbo" else drbo_kde
        made = partial(build, bounds, context_bounds=problem.bounds[:, d_x:], n_w=64, **options)
    else:
        known = {"environment": environment, "risk_measure": problem.risk_measure}
        made = partial(risk_search, bounds, w_is_chosen=kind == "chosen", **known, **options)
    return Task(made, observe, lambda x: problem.optimal_risk - problem.objective(x), d_x)


def with_noise(problem: Any, build: Callable[..., Strategy]) -> Task:
    r"""A problem whose noise is learnt from repeats."""
    bounds, _best = problem.bounds, problem.optimal_mean_variance(1.0)[1]
    options = {"num_initial": 2 * problem.dim + 2, "num_repeats": NUM_REPEATS, **SEARCH}

    def observe(X: Tensor, draws: list[torch.Generator]) -> tuple[Tensor, Tensor]:
        return X, problem.sample_repeats(X, NUM_REPEATS, draws)

    def regret(x: Tensor) -> Tensor:
        return _best - problem.mean_variance(x, 1.0)

    return Task(partial(build, bounds, risk_aversion=1.0, **options), observe, regret, problem.dim)


def on_steps(build: Callable[..., Strategy]) -> Task:
    r"""Branin with learnt noise on 12 x 8 steps."""
    problem: Any = HeteroscedasticBranin()
    lower, upper = problem.bounds
    steps = torch.tensor([11.0, 7.0], dtype=lower.dtype)
    box = Box(torch.stack([torch.zeros(2, dtype=lower.dtype), steps]), integers=[0, 1])
    every = torch.cartesian_prod(*(torch.arange(n + 1).to(lower) for n in (11, 7)))

    def located(X: Tensor) -> Tensor:
        return lower + (upper - lower) * X / steps

    best = problem.mean_variance(located(every), 1.0).max()

    def observe(X: Tensor, draws: list[torch.Generator]) -> tuple[Tensor, Tensor]:
        return X, problem.sample_repeats(located(X), NUM_REPEATS, draws)

    def regret(x: Tensor) -> Tensor:
        return best - problem.mean_variance(located(x), 1.0)

    options = {"num_initial": 6, "num_repeats": NUM_REPEATS, "risk_aversion": 1.0, **SEARCH}
    return Task(partial(build, box, **options), observe, regret, 2)


TASKS: dict[str, Callable[[], Task]] = {
    "context-sbo-branin": partial(under_risk, "branin", "expectation", "sbo"),
    "context-drbo-branin": partial(under_risk, "branin", "expectation", "drbo"),
    "context-sbo-goldstein-price": partial(under_risk, "goldstein-price", "expectation", "sbo"),
    "context-sbo-shifted-camel": partial(under_risk, "shifted-camel", "expectation", "sbo"),
    "drawn-var-goldstein-price": partial(under_risk, "goldstein-price", "value-at-risk", "drawn"),
    "drawn-cvar-hartmann-2-1": partial(
        under_risk, "hartmann-2-1", "conditional-value-at-risk", "drawn"
    ),
    "drawn-cvar-mccormick": partial(under_risk, "mccormick", "conditional-value-at-risk", "drawn"),
    "chosen-var-hartmann-2-1": partial(under_risk, "hartmann-2-1", "value-at-risk", "chosen"),
    "chosen-cvar-branin": partial(under_risk, "branin", "conditional-value-at-risk", "chosen"),
    "chosen-var-mccormick": partial(under_risk, "mccormick", "value-at-risk", "chosen"),
    "chosen-expectation-rosenbrock": partial(under_risk, "rosenbrock", "expectation", "chosen"),
    "rahbo-branin": lambda: with_noise(HeteroscedasticBranin(), rahbo),
    "rahbo-hartmann": lambda: with_noise(HeteroscedasticHartmann(dim=3), rahbo),
    "rahbo-sine": lambda: with_noise(HeteroscedasticSine(), rahbo),
    "kg-branin": lambda: with_noise(HeteroscedasticBranin(), risk_averse_kg),
    "kg-hartmann": lambda: with_noise(HeteroscedasticHartmann(dim=3), risk_averse_kg),
    "kg-sine": lambda: with_noise(HeteroscedasticSine(), risk_averse_kg),
    "steps-rahbo": lambda: on_steps(rahbo),
    "steps-kg": lambda: on_steps(risk_averse_kg),
}


def loop(task: Task, seeds: list[int], q: int) -> dict[str, Any]:
    r"""A loop of all seeds.

    Returns:
        The regrets after half and all evaluations, `2 x R`, and the distance of the closest pair of
        decisions in each batch, `rounds x R`, in widths of the box.
    """
    strategy = task.build(seeds, batch_size=q)
    row: dict[str, Any] = {"regret": [], "closest": []}
    width = strategy.space.bounds[1] - strategy.space.bounds[0]
    for t in range(NUM_EVALUATIONS // q + 1):
        asked = strategy.ask()
        if t and q > 1:
            unit = asked[..., : task.num_decision] / width
            away = torch.cdist(unit, unit) + 9.0 * torch.eye(q)
            row["closest"].append(away.flatten(1).amin(dim=-1).tolist())
        strategy.tell(*task.observe(asked, generators(seeds, "observations", t)))
        if t * q == NUM_EVALUATIONS // 2 or t * q == NUM_EVALUATIONS:
            row["regret"].append(task.regret(strategy.recommend()).tolist())
    return row


def running(task: Task, seeds: list[int]) -> dict[str, Any]:
    r"""A loop in which four settings run: the oldest is told, and one more is started.

    Returns:
        The regrets after all evaluations, `1 x R`, and the distance of each new decision from the
        closest one that runs, `rounds x R`: in widths of the box (`closest`), and in lengthscales
        (`lengthscales`).
    """
    strategy = task.build(seeds)
    row: dict[str, Any] = {"closest": [], "lengthscales": []}
    width = (strategy.space.bounds[1] - strategy.space.bounds[0]).unsqueeze(0)
    strategy.tell(*task.observe(strategy.ask(), generators(seeds, "observations", 0)))
    started = strategy.ask(NUM_RUNNING)
    for t in range(1, NUM_EVALUATIONS + 1):
        told, started = started.split([1, started.shape[1] - 1], dim=1)
        strategy.tell(*task.observe(told, generators(seeds, "observations", t)))
        if t > NUM_EVALUATIONS - NUM_RUNNING:
            continue
        new = strategy.ask(1)
        away = (new - started)[..., : task.num_decision] / width
        scales = lengthscales(strategy.belief)[..., : task.num_decision]
        for name, scaled in (("closest", away), ("lengthscales", away / scales)):
            row[name].append(scaled.norm(dim=-1).amin(dim=-1).tolist())
        started = torch.cat([started, new], dim=1)
    row["regret"] = [task.regret(strategy.recommend()).tolist()]
    return row


def lengthscales(belief: Any) -> Tensor:
    r"""The lengthscales of a belief's first kernel that has some, `R x 1 x d`."""
    parts = belief.modules() if isinstance(belief, torch.nn.Module) else belief.model.modules()
    found: Tensor = next(
        part.lengthscale for part in parts if getattr(part, "lengthscale", None) is not None
    )
    return found.detach()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--code", help="the name of the code that runs")
    parser.add_argument("--only", default="", help="a part of the names of the files")
    arguments = parser.parse_args()
    if arguments.pack:
        pack(arguments.pack, Path(__file__).with_name("rows.jsonl.gz"), digits=4)
    if arguments.to is None:
        return
    torch.set_num_threads(1)
    arguments.to.mkdir(parents=True, exist_ok=True)
    for q in (*NUMBERS[::-1], "running"):
        for name, make in TASKS.items():
            path = arguments.to / f"{name}.{q}.{arguments.code}.json"
            if path.exists() or arguments.only not in path.name:
                continue
            if isinstance(q, int):
                found = loop(make(), list(SEEDS), q)
            else:
                found = running(make(), list(SEEDS_OF_RUNNING))
            row = {"task": name, "q": q, "code": arguments.code, **found}
            write_text(path, json.dumps(row))
            print(path.name, flush=True)


if __name__ == "__main__":
    main()
