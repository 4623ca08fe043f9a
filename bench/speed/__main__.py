r"""All speed figures as one page: `make bench`, `make bench DEVICE=cuda`."""

import argparse
import warnings

import torch

from bench.speed import (
    botorch_loop,
    branching,
    constrained_round,
    devices,
    environment_step,
    fit_quality,
    floor,
    given_up,
    large_fits,
    long_loops,
    marginals,
    mixed_search,
    multistart,
    multistart_quality,
    pseudo_data,
    rahbo_loop,
    readings,
    risk_measures,
    robust_acquisition,
    robustness,
    truncated_variance,
    value_at_risk_step,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="fewer data sets and seeds")
    arguments = parser.parse_args()
    device, quick = arguments.device, arguments.quick
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    marginals.main(device)
    truncated_variance.main(device, repeats=1 if quick else 5)
    if device == "cpu":
        fit_quality.main(count=20 if quick else 200)
        large_fits.main(quick=True)
        botorch_loop.main(repeats=1 if quick else 9)
        given_up.main(1 if quick else len(given_up.LOOPS))
        multistart_quality.main(count=10 if quick else 100)
        multistart.main(repeats=1 if quick else 5)
        mixed_search.main(repeats=1 if quick else 5)
        constrained_round.main(repeats=1 if quick else 5)
        rahbo_loop.main(plain=2 if quick else 32)
        readings.main(repeats=1 if quick else 5)
        risk_measures.main()
        pseudo_data.main(repeats=1 if quick else 9)
        branching.main(replicates=2 if quick else 16)
        long_loops.main((20, 40) if quick else long_loops.MILESTONES)
        robustness.main(repeats=1 if quick else 5)
        value_at_risk_step.main(repeats=1 if quick else 5)
        environment_step.main(repeats=1 if quick else 5)
        robust_acquisition.main(data_sets=1 if quick else 3)
        floor.main(quick)
    else:
        devices.main(device, quick)


if __name__ == "__main__":
    main()
