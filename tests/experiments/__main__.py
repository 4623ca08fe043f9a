r"""The command line with the test experiments in it."""

from __future__ import annotations

import tests.experiments.noisy_quadratic  # noqa: F401
from botorch_risk.experiments.cli import main

main()
