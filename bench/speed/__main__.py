r"""All speed figures as one page: `make bench`, `make bench DEVICE=cuda`."""

import argparse
import warnings

import torch

from bench.speed import marginals, truncated_variance
from bench.speed.engine import devices


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="fewer data sets and seeds")
    arguments = parser.parse_args()
    device, quick = arguments.device, arguments.quick
    if device != "cpu" and not torch.cuda.is_available():
        raise SystemExit(f"Expected a GPU for --device {device}. Got none.")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    marginals.main(device)
    truncated_variance.main(device, repeats=1 if quick else 5)
    if device == "cpu":
        one_core(quick)
    else:
        devices.main(device, quick)


def one_core(quick: bool) -> None:
    from bench.speed import (
        botorch_loop,
        constrained_round,
        fit_quality,
        linear_limits,
        long_loops,
        mixed_search,
        rahbo_loop,
        risk_measures,  # needs cvxpy, so that a GPU is measured without it
        robust_acquisition,
    )
    from bench.speed.engine import given_up, large_fits

    fit_quality.main(count=20 if quick else 200)
    large_fits.main(quick=True)
    botorch_loop.main(*((1, 2) if quick else (9, 30)))
    given_up.main(1 if quick else len(given_up.LOOPS))
    mixed_search.main(repeats=1 if quick else 5)
    linear_limits.main(repeats=1 if quick else 8)
    constrained_round.main(repeats=1 if quick else 5)
    rahbo_loop.main(plain=2 if quick else 32)
    risk_measures.main()
    long_loops.main((20, 40) if quick else long_loops.MILESTONES)
    robust_acquisition.main(data_sets=1 if quick else 3)


if __name__ == "__main__":
    main()
