r"""Fits of 1,000 points and more: how fast, how good, and what an evaluation costs.

    python -m bench.speed.engine.large_fits [--quick]

A quarter of an hour, or two minutes.

Eleven kinds of data, d = 2 to 6, spread and clustered designs, four models. A fit runs as it is,
and as it was before it began on some of the points and passed over matrices in panels; both start
at the model's default values and take turns. CPU seconds: other programs may run beside.
"""

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np
import torch
from botorch.models import SingleTaskGP
from torch import Generator, Tensor

from bench.speed import fit_quality
from bench.speed.fit_quality import MODELS, build, fit_botorch, objective
from bench.speed.timing import environment, interleaved
from botorch_risk.engine import MarginalLikelihoodObjective, fit_exact_gp
from botorch_risk.engine.fit import fewer_points, large_matrices
from botorch_risk.engine.posterior.kernels import correlation
from botorch_risk.steady import steady

KINDS = (
    "smooth", "rough", "noisy", "process, rough", "process, smooth", "noise that varies",
    "five readings a point", "two inputs matter", "steps", "trend", "waves",
)  # fmt: skip
# Log likelihoods a datum that differ by no more are the same.
SAME = 1e-6


@dataclass(frozen=True)
class Case:
    kind: str
    n: int
    d: int
    clustered: bool
    model: str
    seed: int


def cases(count: int, n: int, first: int = 0, kinds: tuple[str, ...] = KINDS) -> list[Case]:
    rng = np.random.default_rng(first)
    return [
        Case(
            kind=kinds[seed % len(kinds)],
            n=n,
            d=int(rng.integers(2, 7)),
            clustered=bool(rng.integers(2)),
            model=MODELS[int(rng.integers(len(MODELS)))],
            seed=seed,
        )
        for seed in range(first, first + count)
    ]


def data(case: Case) -> tuple[Tensor, Tensor]:
    if case.kind in fit_quality.KINDS:
        return fit_quality.data(
            fit_quality.Case(case.d, case.n, case.clustered, case.kind, case.model, case.seed)
        )
    draw = {"generator": Generator().manual_seed(case.seed), "dtype": torch.float64}
    X = torch.rand(case.n, case.d, **draw)
    if case.clustered:
        half = case.n // 2
        radius = torch.logspace(-0.5, -3, half, dtype=torch.float64).unsqueeze(-1)
        X[-half:] = (X[0] + radius * torch.randn(half, case.d, **draw)).clamp(0, 1)
    if case.kind == "five readings a point":
        X = X[: case.n // 5].repeat_interleave(5, dim=0)
    weights, noise = torch.rand(case.d, **draw), torch.randn(len(X), **draw)
    return X, (function(case.kind, X, weights, draw) + scatter(case, X) * noise).unsqueeze(-1)


def function(kind: str, X: Tensor, weights: Tensor, draw: dict) -> Tensor:
    if kind.startswith("process"):
        reach = {"process, rough": 0.12, "process, smooth": 0.6}[kind] * math.sqrt(len(weights))
        Z = X / (reach * (0.5 + weights))
        covariance = correlation(torch.cdist(Z, Z).square(), 2.5) + 1e-8 * torch.eye(len(X)).to(X)
        return torch.linalg.cholesky(covariance) @ torch.randn(len(X), **draw)
    if kind == "steps":
        return (X * 5).floor().sum(-1).mul(1.7).sin() + (X[:, 0] > 0.5)
    if kind == "two inputs matter":
        return (12 * X[:, 0]).sin() + 0.3 * (3 * X[:, 1]).cos()
    if kind == "trend":
        return 20 * X.sum(-1) + (30 * X[:, 0]).sin()
    if kind == "waves":
        return (X * (10 + 30 * weights)).sin().sum(-1)
    return (X * (2 + 3 * weights)).sin().sum(-1)


def scatter(case: Case, X: Tensor) -> Tensor | float:
    if case.kind == "noise that varies":
        return X[:, 0].square()
    if case.kind == "waves":
        return (0.0, 0.05, 0.3)[case.seed % 3]
    return 0.2 if case.kind == "five readings a point" else 0.05


@contextmanager
def as_before() -> Iterator[None]:
    r"""All points at once, and matrices in one piece."""
    with (
        mock.patch.object(fewer_points, "LEAST_TO_DIVIDE", sys.maxsize),
        mock.patch.object(large_matrices, "LEAST", sys.maxsize),
    ):
        yield


def fit_as_before(model: SingleTaskGP) -> int:
    with as_before():
        return fit(model)


def fit(model: SingleTaskGP) -> int:
    evaluations = fit_exact_gp(model).num_evaluations
    assert evaluations is not None
    return int(evaluations)


def timed(way: Callable[[SingleTaskGP], object], model: SingleTaskGP) -> tuple[float, object]:
    start = time.process_time()
    found = way(model)
    return time.process_time() - start, found


def compare(listed: list[Case], botorch: int = 0) -> None:
    r"""Both ways on each data set, and BoTorch's on the first few."""
    seconds, values, evaluations = np.full((3, len(listed), 3), np.nan)
    for row, case in enumerate(listed):
        X, Y = data(case)
        ways = [fit, fit_as_before, fit_botorch][: 3 if row < botorch else 2]
        for column in np.roll(range(len(ways)), row):
            model = build(case.model, X, Y)
            seconds[row, column], found = timed(ways[column], model)
            values[row, column] = objective(model)
            evaluations[row, column] = np.nan if found is None else found
    gains = values[:, 0] - values[:, 1]
    medians = np.nanmedian(seconds, axis=0)
    cells = [f"{listed[0].n:,}", f"{len(listed)}"]
    cells += [f"{value:.2f}" if value == value else "not measured" for value in medians]
    cells += [f"{np.median(seconds[:, 1] / seconds[:, 0]):.1f}"]
    cells += [f"{value:.0f}" for value in np.median(evaluations[:, :2], axis=0)]
    cells += [f"{np.mean(gains >= -SAME):.1%}", f"{np.mean(gains > SAME):.1%}"]
    print(f"| {' | '.join(cells)} |", flush=True)
    for row in np.flatnonzero(gains < -SAME):
        print(f"<!-- behind by {-gains[row]:.1e}: {listed[row]} -->", flush=True)
    ahead = values[:botorch, 0] - values[:botorch, 2]
    if botorch:
        print(f"<!-- against BoTorch: {', '.join(f'{gain:+.1e}' for gain in ahead)} -->")


def fits(counts: dict[int, int], botorch: int, kinds: tuple[str, ...] = KINDS) -> None:
    header = ["n", "data sets", "now, s", "before, s", "BoTorch, s", "before / now"]
    header += ["evaluations now", "before", "as good or better", "better"]
    print(f"\n| {' | '.join(header)} |\n{'|---' * len(header)}|")
    for n, count in counts.items():
        compare(cases(count, n, kinds=kinds), botorch if n == min(counts) else 0)


def evaluations(sizes: tuple[int, ...]) -> None:
    r"""An evaluation with its gradient, and its n^3 operations at the rate of a product."""
    print("\n| n | an evaluation now, ms | before, ms | before / now | floor, ms | share |")
    print("|---|---|---|---|---|---|")
    for n in sizes:
        case = Case("smooth", n, 6, False, "matern", 0)
        loss = MarginalLikelihoodObjective.of(build(case.model, *data(case)).train())
        theta, rows = np.full((1, loss.num_parameters), -1.0), np.zeros(1, dtype=np.int64)

        def now(loss=loss, theta=theta, rows=rows) -> None:  # type: ignore[no-untyped-def]
            loss(theta, rows)

        def before(now: Callable[[], None] = now) -> None:
            with as_before():
                now()

        square = torch.rand(1000, 1000, dtype=torch.float64)
        ways = {"now": now, "before": before, "product": lambda s=square: s @ s}
        with steady():  # as in a fit
            found = interleaved(ways, 9, clock=time.process_time)
        floor = float(n) ** 3 / (2 * 1000.0**3) * found["product"]
        cells = [f"{n:,}", f"{1e3 * found['now']:.1f}", f"{1e3 * found['before']:.1f}"]
        cells += [f"{found['before'] / found['now']:.1f}", f"{1e3 * floor:.1f}"]
        print(f"| {' | '.join(cells)} | {floor / found['now']:.0%} |", flush=True)


def in_single_precision(listed: list[Case]) -> None:
    r"""What an evaluation in float32 is worth at the optimum in float64."""
    failed, wrong = 0, []
    for case in listed:
        X, Y = data(case)
        model = build(case.model, X, Y)
        theta = fit_exact_gp(model).optimum
        assert theta is not None
        found = []
        for dtype in (torch.float64, torch.float32):
            loss = MarginalLikelihoodObjective.of(build(case.model, X, Y).to(dtype))
            found.append(loss(theta.theta.numpy(), np.zeros(1, dtype=np.int64)))
        (exact, _), (value, gradient) = found
        failed += not np.isfinite(value).all()
        if np.isfinite(value).all():
            wrong.append((float(abs(value - exact)[0]), float(abs(gradient).max())))
    errors, gradients = np.median(wrong, axis=0)
    print(
        f"\nIn float32, at the optimum of {len(listed)} data sets: no factor in {failed}; in the "
        f"others a median error of {errors:.0e} a datum, {np.max(wrong, axis=0)[0]:.0e} at most, "
        f"and gradients of {gradients:.0e} that should be below 1e-7."
    )


def main(quick: bool = False) -> None:
    print(f"\n## Fits of many points\n\n{environment('cpu')}.")
    evaluations((400, 1000) if quick else (400, 500, 1000, 2000, 3000, 5000))
    fits({1000: 4} if quick else {1000: 44, 2000: 11, 3000: 2}, botorch=1 if quick else 3)
    print("\nThe same of functions that move fast, which have many optima:")
    fits({1000: 3 if quick else 21}, 0, ("rough", "waves", "process, rough"))
    in_single_precision(cases(4 if quick else 22, 1000))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
