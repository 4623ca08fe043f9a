r"""The same rule where its model is right: functions drawn from a process that the strategy knows.

OMP_NUM_THREADS=1 python -m bench.studies.stopping.known [--results results/stopping]

It resumes, and prints the tables of the README.
"""

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.experiments.papers.models import known_process
from gpytorch.kernels import RBFKernel
from torch import Tensor

from bench.studies.stopping import replay
from botorch_risk.environments import DiscreteEnvironment, Environment, InputPerturbation
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, RiskMeasure
from botorch_risk.seeding import generators
from botorch_risk.strategies import risk_search
from botorch_risk.test_functions import PosteriorMeanFunctions, unit_grid

SEEDS, NUM_CENTERS, NOISE, SIDE, MARGIN, SHIFT = range(20), 400, 0.01, 101, 0.1, 0.08
RISKS: dict[str, RiskMeasure] = {
    "expectation": Expectation(),
    "cvar-0.25": ConditionalValueAtRisk(0.25),
}


@dataclass(frozen=True)
class Pair:
    r"""A risk of functions on the unit square, over a condition w or over errors of setting x."""

    has_w: bool
    lengthscale: float
    risk: str

    @property
    def name(self) -> str:
        return f"{'w' if self.has_w else 'x'}-{self.lengthscale:g}-{self.risk}"

    @property
    def environment(self) -> Environment:
        if self.has_w:
            return DiscreteEnvironment(torch.linspace(0, 1, 8, dtype=torch.double).unsqueeze(-1))
        shifts = SHIFT * torch.tensor([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
        return InputPerturbation(shifts.double())

    @property
    def decisions(self) -> Tensor:
        if self.has_w:
            return torch.linspace(0, 1, SIDE**2, dtype=torch.double).unsqueeze(-1)
        return MARGIN + (1 - 2 * MARGIN) * unit_grid(SIDE)

    def value(self, f: PosteriorMeanFunctions, X: Tensor) -> Tensor:
        r"""The risks `R x m` of decisions `R x m x d_x`."""
        inputs, weights = self.environment.expand(X)
        values = f(inputs.flatten(1, 2)).unflatten(-1, inputs.shape[1:3])
        return RISKS[self.risk](values, weights)


PAIRS = [
    Pair(has_w, lengthscale, risk)
    for has_w, scales in ((True, (0.15, 0.3)), (False, (0.2, 0.4)))
    for lengthscale in scales
    for risk in RISKS
]


def play(pair: Pair, seeds: Sequence[int] = SEEDS) -> dict[str, Any]:
    r"""Quantiles of the regret under the model at each look, and the regret, `looks x R`."""
    f = PosteriorMeanFunctions(seeds, NUM_CENTERS, pair.lengthscale)
    parts = pair.decisions.expand(len(seeds), -1, -1).split(500, dim=1)
    best = torch.cat([pair.value(f, part) for part in parts], dim=-1).amax(dim=-1)
    kernel = RBFKernel().double()
    kernel.lengthscale = pair.lengthscale

    def model(X: Tensor, Y: Tensor, input_transform: Any) -> Any:
        return known_process(kernel, 0.0, X, Y, torch.full_like(Y, NOISE))

    strategy = risk_search(
        torch.stack(torch.aminmax(pair.decisions, dim=0)),
        list(seeds),
        environment=pair.environment,
        risk_measure=RISKS[pair.risk],
        w_is_chosen=True,
        model=model,
    )
    noise = generators(list(seeds), "noise of readings")
    found: dict[str, list[Any]] = {"quantiles": [], "expected": [], "regret": []}
    levels = torch.tensor(replay.LEVELS, dtype=torch.double)
    for t in range(replay.LOOKS[-1] + 1):
        X = strategy.ask()
        errors = torch.stack(
            [torch.randn(X.shape[1], generator=each, dtype=torch.double) for each in noise]
        )
        strategy.tell(X, (f(X) + NOISE**0.5 * errors).unsqueeze(-1))
        if t and t not in replay.LOOKS:
            continue
        value = pair.value(f, strategy.recommend().unsqueeze(-2)).squeeze(-1)
        regret = (torch.maximum(best, value) - value).tolist()
        if not t:
            found["first"] = regret
            continue
        ((_, view),) = strategy.views
        samples = strategy.method.regret(view)
        found["quantiles"].append(samples.quantile(levels, dim=-1).tolist())
        found["expected"].append(samples.mean(dim=-1).tolist())
        found["regret"].append(regret)
    return {"pair": pair.name, **found}


def rows_of(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    yield from (play(pair) for pair in PAIRS if pair.name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/stopping"))
    path = parser.parse_args().results / "known.jsonl"
    replay.report(path, [pair.name for pair in PAIRS], rows_of)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
