r"""Recall of the reliable decisions, on the protocol of OptunaHub's sampler `drlse`.

python -m bench.studies.level_sets.reliable [--first-seed 100] [--seeds 20] [--drlse REGISTRY]

`REGISTRY` is the folder `package` of a copy of OptunaHub's registry. The sampler then goes on from
the initial readings of ours, with the defaults that its authors chose, and differences are paired.

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
from typing import NamedTuple

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from bench.reproduction.tables import cell, paired, table
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
CRITERIA = {"straddle": "ours", "classified": "ours, one reading ahead"}


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


class Found(NamedTuple):
    r"""After each mark, for each function, `R x marks` each."""

    recall: Tensor
    wrong: Tensor
    size: Tensor


def found(high: list[Tensor], truth: Tensor) -> Found:
    r"""From the sets after each mark."""
    sets, truth = torch.stack(high, dim=1), truth.unsqueeze(1)
    recall = (sets & truth).sum(dim=-1) / truth.sum(dim=-1)
    return Found(recall, (sets & ~truth).sum(dim=-1), sets.sum(dim=-1))


def play(criterion: str, values: Tensor, seeds: list[int]) -> tuple[list[Tensor], Tensor]:
    r"""The reliable decisions found after each mark, and which cells were read first."""
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
    high, replicates = [], torch.arange(len(seeds)).unsqueeze(-1)
    while strategy.history.X.shape[1] < MARKS[-1]:
        X = strategy.ask()
        i, j = cells_of(X).unbind(dim=-1)
        strategy.tell(X, values[replicates, i, j].unsqueeze(-1))
        if strategy.history.X.shape[1] in MARKS:
            high.append(strategy.classify().high)
    return high, cells_of(strategy.history.X[:, :NUM_INITIAL])


def cells_of(X: Tensor) -> Tensor:
    r"""The row of the decision and the row of w, `R x n x 2`."""
    return torch.stack(
        [
            (column.unsqueeze(-1) - points[:, 0]).abs().argmin(dim=-1)
            for column, points in zip(X.unbind(dim=-1), (DECISIONS, CONDITIONS.points), strict=True)
        ],
        dim=-1,
    )


def play_drlse(registry: str, values: Tensor, initial: Tensor, seed: int) -> list[Tensor]:
    r"""The reliable decisions that the sampler has found after each mark, for one function."""
    import optuna
    import optunahub

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    package = optunahub.load_local_module("samplers/drlse", registry_root=registry)
    grids = DECISIONS[:, 0].numpy(), CONDITIONS.points[:, 0].numpy()
    settings = {"h": 0.0, "alpha": 0.4, "eps": 0.3, "n_startup_trials": NUM_INITIAL}
    sampler = package.DRLevelSetSampler(*grids, **settings, seed=seed)
    study = optuna.create_study(sampler=sampler)
    for i, j in initial.tolist():
        study.enqueue_trial({"x_index": i, "w_index": j})
    high = []
    for mark, before in zip(MARKS, (0, *MARKS), strict=False):
        for _ in range(before, mark):
            trial = study.ask(sampler.infer_relative_search_space(study, None))
            i, j = trial.params["x_index"], trial.params["w_index"]
            study.tell(trial, values[i, j].item())
        high.append(torch.from_numpy(sampler.classify(study)[0]))
    return high


def row_of(family: str, method: str, result: Found) -> list[str]:
    precision = 1 - result.wrong.sum() / result.size.sum()
    return [family, method, *map(cell, result.recall.mT), f"{precision:.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--drlse", metavar="REGISTRY")
    arguments = parser.parse_args()
    seeds = list(range(arguments.first_seed, arguments.first_seed + arguments.seeds))
    rows = []
    for family in FAMILIES:
        values = torch.stack([torch.from_numpy(function(family, seed)) for seed in seeds])
        truth = is_reliable(values)
        ours, initial = {}, torch.empty(0)
        for criterion in CRITERIA:
            high, initial = play(criterion, values, seeds)
            ours[criterion] = found(high, truth)
            rows.append(row_of(family, CRITERIA[criterion], ours[criterion]))
        if arguments.drlse is None:
            continue
        each = [
            torch.stack(play_drlse(arguments.drlse, values[r], initial[r], seed))
            for r, seed in enumerate(seeds)
        ]
        theirs = found(list(torch.stack(each, dim=1)), truth)
        rows.append(row_of(family, "drlse", theirs))
        for criterion, name in CRITERIA.items():
            pairs = zip(ours[criterion].recall.mT, theirs.recall.mT, strict=True)
            rows.append([family, f"{name} less drlse", *(paired(*pair) for pair in pairs), ""])
    print(table(["family", "method", *map(str, MARKS), "precision"], rows))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
