r"""Options of a safe search on the sine of RAHBO's paper, whose first peak is known."""

from typing import Any

import torch

from botorch_risk.constraints import NoiseConstraint, NoisyChanceConstraint

SAFE: dict[str, Any] = {
    "safe_points": torch.linspace(0.1, 0.35, 6, dtype=torch.double).unsqueeze(-1),
    "constraints": [
        NoisyChanceConstraint(-0.8, outcome=0, delta=0.5, at_most=False),
        NoiseConstraint(5.0),
    ],
    "risk_aversion": 1.0,
    "num_candidates": 64,
}
