r"""What samples of the hyperparameters cost, next to a round of `risk_search`.

    python -m bench.studies.coverage.costs

CPU milliseconds on one thread, the median of five: of one process with x and w of one dimension
each, and of a round (`ask`, `tell`, `recommend`, and the interval of the risk there).
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from bench.reproduction.tables import table
from bench.studies.coverage.looks import drawn_w, search
from botorch_risk.engine import fit_exact_gp, sample_exact_gp
from botorch_risk.models import MeanVarianceSamples, scaled_gp
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.test_functions import CertifiedProblem

NUM_SAMPLES, REPEATS = 16, 5


def milliseconds(run: Callable[[], Any]) -> float:
    run()
    seconds = []
    for _ in range(REPEATS):
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)
    return 1e3 * statistics.median(seconds)


def of_processes(R: int, n: int) -> list[str]:
    r"""A fit, samples, and samples of a mean and its noise from single readings, cold and warm."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(R, n, 2, generator=generator, dtype=torch.double)
    Y = (7 * X[..., :1]).sin() + 2 * X[..., -1:] * (X[..., :1] - 0.5)
    Y = Y + 0.1 * torch.randn(Y.shape, generator=generator, dtype=torch.double)
    seeds = list(range(R))
    many = [each.expand(NUM_SAMPLES, *each.shape) for each in (X, Y)]
    optimum = fit_exact_gp(standardized_gp(X, Y)).optimum
    known = sample_exact_gp(scaled_gp(*many), seeds=seeds)
    both = MeanVarianceSamples(X, Y, seeds=seeds).sampled
    times = [
        milliseconds(lambda: fit_exact_gp(standardized_gp(X, Y))),
        milliseconds(lambda: fit_exact_gp(standardized_gp(X, Y), previous=optimum)),
        milliseconds(lambda: sample_exact_gp(scaled_gp(*many), seeds=seeds)),
        milliseconds(lambda: sample_exact_gp(scaled_gp(*many), seeds=seeds, previous=known)),
        milliseconds(lambda: MeanVarianceSamples(X, Y, seeds=seeds)),
        milliseconds(lambda: MeanVarianceSamples(X, Y, seeds=seeds, previous=both)),
    ]
    return [f"{each:.0f}" for each in times]


def of_rounds(R: int, n: int, num_samples: int) -> float:
    r"""A round after n readings."""
    problem, seeds = CertifiedProblem("branin", "conditional-value-at-risk"), list(range(R))
    streams = [torch.Generator().manual_seed(seed) for seed in seeds]
    strategy = search(problem, "observed", seeds, num_samples)

    def tell() -> None:
        x = strategy.ask()
        Z = torch.cat([x, drawn_w(problem, x.shape[1], streams)], dim=-1)
        noise = [torch.randn(x.shape[1], generator=each, dtype=x.dtype) for each in streams]
        strategy.tell(Z, (problem.evaluate_true(Z) + 0.1 * torch.stack(noise)).unsqueeze(-1))

    def round_with_interval() -> None:
        tell()
        (_, view), *_ = strategy.views
        strategy.method.predict_risk(view, strategy.recommend().unsqueeze(1))

    tell()
    while strategy.history.num_rows < n - REPEATS // 2:
        tell()
    return milliseconds(round_with_interval)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    cells = []
    for n in (35, 60):
        for R in (1, 32):
            fitted, sampled = (of_rounds(R, n, samples) for samples in (0, NUM_SAMPLES))
            rounds = [f"{fitted:.0f}", f"{sampled:.0f}", f"{sampled / fitted:.2f}"]
            cells.append([str(n), str(R), *of_processes(R, n), *rounds])
    header = ["n", "R", "fit, cold", "fit, warm", "samples, cold", "samples, warm"]
    header += ["of both, cold", "of both, warm"]
    print(table([*header, "round, fitted", "round, sampled", "ratio"], cells))


if __name__ == "__main__":
    main()
