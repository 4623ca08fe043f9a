r"""All speed figures as one page: `make bench`, `make bench DEVICE=cuda`."""

import argparse
import warnings

import torch

from bench.speed import devices, marginals, truncated_variance


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
        from bench.speed import one_core  # its peers, such as cvxpy, are for the CPU

        one_core.main(quick)
    else:
        devices.main(device, quick)


if __name__ == "__main__":
    main()
