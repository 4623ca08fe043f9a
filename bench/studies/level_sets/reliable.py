r"""Recall of the reliable decisions, on the protocol of OptunaHub's sampler `drlse`.

python -m bench.studies.level_sets.reliable [--first-seed 100] [--seeds 20]

24 decisions x 10 values of w, without noise; a decision is reliable if `f(x, w) > 0` with more than
0.4 of the probability, under every distribution within 0.3 (l1) of the uniform one. The functions:

- A: draws of a Gaussian kernel, `exp(-distance^2)`, which the sampler is given;
- B: draws of an exponential kernel, `exp(-distance)`, nowhere smooth;
- C: a formula with kinks.

The sampler's own page does not publish its functions: these are ours. A function counts if three
to 21 decisions are reliable.
"""

import argparse
from functools import partial

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from bench.reproduction.tables import table
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.level_sets import level_set_search
from botorch_risk.papers import LevelSet
from botorch_risk.risk import ShareAbove, TotalVariationBall

DECISIONS = torch.linspace(-2, 2, 24, dtype=torch.double).unsqueeze(-1)
CONDITIONS = DiscreteEnvironment(torch.linspace(-1, 1, 10, dtype=torch.double).unsqueeze(-1))
MEASURE = ShareAbove(0.0, under=TotalVariationBall(0.3))
LEVEL, NUM_INITIAL = LevelSet(0.4), 5
MARKS = (12, 24, 36, 48, 60)
FAMILIES = "ABC"


def function(family: str, seed: int) -> ndarray:
    r"""Values `24 x 10` of a function with some reliable decisions, and some that are not."""
    rng = np.random.default_rng(10_000 * (FAMILIES.index(family) + 1) + seed)
    x, w = DECISIONS.numpy(), CONDITIONS.points.numpy()
    grid = np.stack(np.meshgrid(x[:, 0], w[:, 0], indexing="ij"), axis=-1).reshape(-1, 2)
    square = ((grid[:, None] - grid[None]) ** 2).sum(axis=-1)
    kernel = np.exp(-square if family == "A" else -np.sqrt(square))
    draw = partial(_with_kinks, rng, *grid.T)
    if family != "C":
        root = np.linalg.cholesky(kernel + 1e-8 * np.eye(len(kernel)))
        draw = lambda: root @ rng.standard_normal(len(kernel))  # noqa: E731
    while True:
        values = draw().reshape(len(x), len(w))
        if 3 <= is_reliable(torch.from_numpy(values)).sum() <= len(x) - 3:
            return values


def _with_kinks(rng: np.random.Generator, x: ndarray, w: ndarray) -> ndarray:
    a, b, c, k = rng.uniform(-1, 1, 4)
    slope, depth = rng.uniform(1.5, 2.5), 0.8 + 0.5 * rng.uniform(0.5, 1)
    return (  # type: ignore[no-any-return]
        np.abs(x - a)
        - depth
        + 0.6 * c * np.sin(slope * w + 3 * b)
        + 0.4 * np.abs(w - k)
        - 0.2 * x * w
    )


def is_reliable(values: Tensor) -> Tensor:
    return MEASURE(values, CONDITIONS.weights) > 0.4


def play(family: str, criterion: str, seeds: list[int]) -> dict[int, tuple[Tensor, Tensor, Tensor]]:
    r"""After each mark: the recall of each function, the wrong members of its set, and its size."""
    values = torch.stack([torch.from_numpy(function(family, seed)) for seed in seeds])
    truth = is_reliable(values)
    strategy = level_set_search(
        DECISIONS,
        seeds,
        environment=CONDITIONS,
        risk_measure=MEASURE,
        goal=LEVEL,
        w_is_chosen=True,
        criterion=criterion,  # type: ignore[arg-type]
        num_initial=NUM_INITIAL,
    )
    found, replicates = {}, torch.arange(len(seeds)).unsqueeze(-1)
    while strategy.history.X.shape[1] < MARKS[-1]:
        X = strategy.ask()
        i = ((X[..., 0] + 2) / 4 * 23).round().long()
        j = ((X[..., 1] + 1) / 2 * 9).round().long()
        strategy.tell(X, values[replicates, i, j].unsqueeze(-1))
        number = strategy.history.X.shape[1]
        if number in MARKS:
            high = strategy.classify().high
            recall = (high & truth).sum(dim=-1) / truth.sum(dim=-1)
            found[number] = recall, (high & ~truth).sum(dim=-1), high.sum(dim=-1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    seeds = list(range(arguments.first_seed, arguments.first_seed + arguments.seeds))
    rows = []
    for family in FAMILIES:
        for criterion in ("straddle", "classified"):
            found = play(family, criterion, seeds)
            wrong = sum(int(each[1].sum()) for each in found.values())
            size = sum(int(each[2].sum()) for each in found.values())
            recalls = [f"{found[mark][0].double().mean():.3f}" for mark in MARKS]
            rows.append([family, criterion, *recalls, f"{1 - wrong / size:.3f}"])
    print(table(["family", "criterion", *map(str, MARKS), "precision"], rows))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
