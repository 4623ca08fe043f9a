r"""The command line with the test experiments in it."""

from botorch_risk_bench.cli import main

from bench.tests.experiments.noisy_quadratic import EXPERIMENTS

main(EXPERIMENTS)
