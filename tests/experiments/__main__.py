r"""The command line with the test experiments in it."""

from __future__ import annotations

from botorch_risk.experiments.cli import main
from tests.experiments.noisy_quadratic import EXPERIMENTS

main(EXPERIMENTS)
