r"""Count the points that violate a constraint: safe RAHBO, constrained RAHBO, RAHBO with a penalty.

OMP_NUM_THREADS=1 python -m bench.studies.safe.violations [--results results/safe]

20 paired problems: three functions drawn from a process, one for the mean, one for the logarithm of
the noise, one for a second outcome. It resumes, and prints the table of the README.
"""

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from botorch_risk_bench.metrics import median
from scipy.ndimage import label
from torch import Tensor

from bench.reproduction.tables import table
from bench.studies import stored_rows
from botorch_risk.constraints import (
    ConstrainedUpperConfidenceBound,
    NoiseConstraint,
    NoisyChanceConstraint,
)
from botorch_risk.seeding import generators
from botorch_risk.strategies import Strategy, rahbo, safe_rahbo
from botorch_risk.strategies.method import ReportedMethod, View
from botorch_risk.test_functions import PosteriorMeanFunctions, unit_grid

NUM_SEEDS, NUM_ROUNDS, NUM_REPEATS, AVERSION, SIDE, NUM_DRAWN = 20, 30, 5, 5.0, 101, 150
LEAST, MOST_NOISE, NOISE_OF_SECOND, PENALTY = -0.3, 0.2, 0.1, 10.0
SHOWN, FAR = (0, 10, 20, 30), 0.1
START = torch.tensor(
    [[0.5, 0.5], [0.4, 0.5], [0.6, 0.5], [0.5, 0.4], [0.5, 0.6]], dtype=torch.double
)
UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
CONSTRAINTS = (
    NoisyChanceConstraint(LEAST, outcome=1, delta=0.5, at_most=False),  # of the mean
    NoiseConstraint(MOST_NOISE),
)
SAFE: dict[str, dict[str, float]] = {
    "safe": {},
    "safe, safety_beta=25": {"safety_beta": 25.0},
    "safe, proving nothing": {"epsilon": 1e6},  # stays where it is already safe
}
STRATEGIES = (*SAFE, "constrained", "penalty")


@dataclass(frozen=True)
class Problems:
    r"""Problems in which the start is safe, with a margin."""

    seeds: list[int]
    parts: tuple[PosteriorMeanFunctions, ...]

    @classmethod
    def drawn(cls, number: int) -> "Problems":
        start, found = START.expand(NUM_DRAWN, -1, -1), torch.ones(NUM_DRAWN, dtype=torch.bool)
        for each, bound in (("second", -0.1), ("noise", 0.4)):
            values = functions(each, range(NUM_DRAWN))(start)
            found &= (values >= bound if each == "second" else values <= bound).all(dim=-1)
        seeds = found.nonzero().flatten().tolist()[:number]
        assert len(seeds) == number
        return cls(seeds, tuple(functions(each, seeds) for each in LENGTHSCALES))

    def truth(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Mean, standard deviation of the noise and mean of the second outcome, `R x m` each."""
        mean, noise, second = (part(X) for part in self.parts)
        return mean, 0.1 * (0.8 * noise).exp(), second

    def objective(self, X: Tensor) -> Tensor:
        mean, deviation, _ = self.truth(X)
        return mean - AVERSION * deviation.square()

    def safe(self, X: Tensor) -> Tensor:
        _, deviation, second = self.truth(X)
        return (deviation <= MOST_NOISE) & (second >= LEAST)

    def best(self) -> Tensor:
        r"""The best value of the safe set's part that contains the start, by a grid, `R`."""
        X = unit_grid(SIDE).expand(len(self.seeds), -1, -1)
        parts = [label(each.reshape(SIDE, SIDE).numpy())[0] for each in self.safe(X)]
        mine = np.stack([part == part[SIDE // 2, SIDE // 2] for part in parts])
        inside = torch.from_numpy(mine).flatten(start_dim=1)
        return self.objective(X).masked_fill(~inside, -torch.inf).amax(dim=-1)

    def readings(self, X: Tensor, streams: Sequence[torch.Generator]) -> Tensor:
        r"""`R x q x k x 2`."""
        mean, deviation, second = self.truth(X)
        shape = (X.shape[1], NUM_REPEATS, 2)
        noise = torch.stack([torch.randn(shape, generator=g, dtype=torch.double) for g in streams])
        scale = torch.stack([deviation, torch.full_like(deviation, NOISE_OF_SECOND)], dim=-1)
        return torch.stack([mean, second], dim=-1).unsqueeze(-2) + scale.unsqueeze(-2) * noise


LENGTHSCALES = {"mean": 0.2, "noise": 0.4, "second": 0.3}


def functions(name: str, seeds: Sequence[int]) -> PosteriorMeanFunctions:
    shift = 1000 * list(LENGTHSCALES).index(name)
    return PosteriorMeanFunctions([shift + seed for seed in seeds], 200, LENGTHSCALES[name])


class Constrained(ReportedMethod):
    r"""RAHBO's bound, its constraints by the posterior mean with a penalty, as `risk_search`."""

    def propose(self, view: View) -> Tensor:
        known, search = view.belief, self.report.search  # type: ignore[attr-defined]
        bound = ConstrainedUpperConfidenceBound(
            known.model, known.bound, CONSTRAINTS, known.constraint_bounds[0].beta, upper_beta=0.0
        )
        seeds = view.history.streams("acquisition")
        return view.space.maximize(
            bound, seeds, view.batch_size, search.num_restarts, search.raw_samples
        )


def build(name: str, seeds: Sequence[int]) -> Strategy:
    options: dict[str, Any] = {"num_repeats": NUM_REPEATS, "risk_aversion": AVERSION}
    options["safe_points"], options["constraints"] = START, CONSTRAINTS
    safe = safe_rahbo(UNIT, seeds, **options, **SAFE.get(name, {}))
    if name in SAFE:
        return safe
    method = Constrained(safe.method)
    if name == "penalty":
        method = rahbo(UNIT, seeds, num_repeats=NUM_REPEATS, risk_aversion=AVERSION).method
    return Strategy(safe.space, method, seeds, num_initial=len(START))


def penalised(Y: Tensor) -> Tensor:
    r"""Readings of the first outcome less what both constraints miss, `R x q x k`."""
    first, second = Y.unbind(dim=-1)
    missed = (LEAST - second.mean(dim=-1)).clamp_min(0.0)
    missed += (first.std(dim=-1) - MOST_NOISE).clamp_min(0.0)
    return first - PENALTY * missed.unsqueeze(-1)


def play(name: str) -> dict[str, Any]:
    problems = Problems.drawn(NUM_SEEDS)
    strategy = build(name, problems.seeds)
    best, streams = problems.best(), generators(problems.seeds, "noise of readings")
    row: dict[str, Any] = {"strategy": name, "safe": [], "regret": [], "recommended_safe": []}
    for t in range(NUM_ROUNDS + 1):
        X = strategy.ask()
        Y = problems.readings(X, streams)
        strategy.tell(X, penalised(Y) if name == "penalty" else Y)
        if t:
            row["safe"].append(problems.safe(X).squeeze(-1).tolist())
        x = strategy.recommend().unsqueeze(-2)
        row["regret"].append((best - problems.objective(x).squeeze(-1)).tolist())
        row["recommended_safe"].append(problems.safe(x).squeeze(-1).tolist())
    return row


def rows_of(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    yield from map(play, names)


def summary(rows: Sequence[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        broken = ~torch.tensor(row["safe"])  # rounds x R
        regret, right = torch.tensor(row["regret"]), torch.tensor(row["recommended_safe"])
        judged = regret.masked_fill(~right, torch.inf)
        cells.append(
            [
                row["strategy"],
                f"{int(broken.sum())} of {broken.numel()}",
                f"{int(broken.any(dim=0).sum())} of {broken.shape[1]}",
                *(f"{median(judged[t]):.2f}" for t in SHOWN),
                f"{judged[-1].mean():.2f}",
                f"{int((judged[-1] > FAR).sum())}",
                f"{int((~right[-1]).sum())}",
            ]
        )
    rounds = [f"regret after {t}" for t in SHOWN]
    header = ["strategy", "unsafe points", "runs with one", *rounds]
    header += [f"mean after {NUM_ROUNDS}", f"runs above {FAR}", "unsafe at the end"]
    return table(header, cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/safe"))
    path = parser.parse_args().results / "violations.jsonl"
    names = [(name,) for name in STRATEGIES]
    missing = [name for (name,) in stored_rows.missing_cases(path, ("strategy",), names)]
    for number in stored_rows.append(path, rows_of(missing)):
        print(f"{number} of {len(missing)}", flush=True)
    print(summary(stored_rows.read(path)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
