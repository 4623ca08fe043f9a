r"""How the time of a round grows with the rounds that have been played.

    python -m bench.speed.long_loops

A round is `ask` and `tell` of two replicates of one input. Every round builds the model from all
data. Times are CPU milliseconds, the mean of the ten rounds up to the one that is named; "fit" is
the share of the hyperparameters in them.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from bench.speed.timing import environment
from botorch_risk.fit import PseudoData
from botorch_risk.papers import MeanVarianceSearch, rahbo, sbo_kde, uhe_bo
from botorch_risk.seeding import generators

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
SEEDS, NUM_REPEATS, WINDOW = [0, 1], 3, 10
MILESTONES = (20, 40, 60, 120, 240)
REPEATS = {"num_repeats": NUM_REPEATS, "risk_aversion": 1.0}
FAST = {"seeds": SEEDS, "num_initial": 4, "num_restarts": 2, "raw_samples": 16}
WAYS: dict[str, Callable[[], Any]] = {
    "RAHBO": lambda: rahbo(UNIT, **REPEATS, **FAST),
    "RAHBO, `refit_every=10`": lambda: rahbo(UNIT, refit_every=10, **REPEATS, **FAST),
    "SBO-KDE, 16 points": lambda: sbo_kde(UNIT, context_bounds=UNIT, n_w=16, **FAST),
    "UHE-BO": lambda: uhe_bo(UNIT, **FAST),
    "UHE-BO, `PseudoData(num_pseudo=256)`": lambda: uhe_bo(
        UNIT, estimator=PseudoData(num_pseudo=256), **FAST
    ),
}
FITS = (
    "botorch_risk.strategies.method.fit_exact_gp",
    "botorch_risk.fit.estimators.fit_pseudo_data",
)


@contextmanager
def timed_fits() -> Iterator[list[float]]:
    r"""The CPU seconds of each fit of hyperparameters."""
    seconds: list[float] = []

    def timed(fit: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            start = time.process_time()
            result = fit(*arguments, **options)
            seconds.append(time.process_time() - start)
            return result

        return call

    with ExitStack() as stack:
        for name in FITS:
            module, _, function = name.rpartition(".")
            fit = getattr(__import__(module, fromlist=[function]), function)
            stack.enter_context(mock.patch(name, timed(fit)))
        yield seconds


def outcomes(X: Tensor, num_repeats: int, index: int) -> Tensor:
    noise = [
        torch.randn(*X.shape[1:-1], num_repeats, generator=generator, dtype=torch.double)
        for generator in generators(SEEDS, "outcomes", index)
    ]
    return (5 * X).sin().sum(dim=-1, keepdim=True) + 0.1 * torch.stack(noise)


def rounds(strategy: Any, num_rounds: int) -> tuple[Tensor, Tensor]:
    r"""CPU seconds of each round, and of the fits in it; round 0 is the initial design."""
    with_contexts = strategy.space.num_columns > UNIT.shape[-1]
    num_repeats = NUM_REPEATS if isinstance(strategy.method, MeanVarianceSearch) else 1
    whole, in_fits = [], []
    for index in range(num_rounds + 1):
        with timed_fits() as fits:
            start = time.process_time()
            X = strategy.ask()
            asked = time.process_time() - start
            if with_contexts:
                draws = generators(SEEDS, "contexts", index)
                W = [torch.rand(*X.shape[1:], generator=g, dtype=torch.double) for g in draws]
                X = torch.cat([X, torch.stack(W)], dim=-1)
            Y = outcomes(X, num_repeats, index)
            start = time.process_time()
            strategy.tell(X, Y)
            whole.append(asked + time.process_time() - start)
        in_fits.append(sum(fits))
    return torch.tensor(whole), torch.tensor(in_fits)


def main(milestones: tuple[int, ...] = MILESTONES) -> None:
    print(f"\n## The time of a round in a long loop, R = 2\n\n{environment('cpu')}.\n")
    header = [*(f"round {t}, ms" for t in milestones), "last / first", "fit in the last"]
    print(f"| strategy | {' | '.join(header)} |")
    print("|---" * (len(header) + 1) + "|")
    for name, build in WAYS.items():
        whole, in_fits = rounds(build(), milestones[-1])
        means = [1e3 * whole[t - WINDOW + 1 : t + 1].mean().item() for t in milestones]
        share = (in_fits[-WINDOW:].sum() / whole[-WINDOW:].sum()).item()
        cells = [*(f"{mean:.0f}" for mean in means), f"{means[-1] / means[0]:.1f}", f"{share:.0%}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
