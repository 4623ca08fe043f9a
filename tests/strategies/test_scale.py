r"""Strategies ask for the same points whatever the units of the outcome are."""

from __future__ import annotations

import pytest
import torch

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.strategies import DRBOKDE, GPUCB, RAHBO, SBOKDE, UHEBO, VUCB

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
FAST = {"seeds": [0, 1], "num_initial": 6, "num_restarts": 2, "raw_samples": 32}
LEVELS = DiscreteEnvironment(torch.tensor([[0.1], [0.5], [0.9]], dtype=torch.double))
STRATEGIES = {
    "RAHBO": lambda: RAHBO(UNIT, num_repeats=3, risk_aversion=0.0, **FAST),
    "GPUCB": lambda: GPUCB(UNIT, **FAST),
    "UHEBO": lambda: UHEBO(UNIT, **FAST),
    "SBOKDE": lambda: SBOKDE(UNIT, UNIT, n_w=16, **FAST),
    "DRBOKDE": lambda: DRBOKDE(UNIT, UNIT, n_w=16, **FAST),
    "VUCB": lambda: VUCB(UNIT, LEVELS, 0.3, beta=4.0, **FAST),
}


def asked(build, scale):
    strategy = build()
    generator = torch.Generator().manual_seed(0)
    points = []
    for _ in range(3):
        points.append(strategy.ask())
        X = points[-1]
        if X.shape[-1] == 1 and isinstance(strategy, (SBOKDE, DRBOKDE)):
            w = torch.rand(X.shape, generator=generator, dtype=torch.double)
            X = torch.cat([X, w], dim=-1)
        k = 3 if isinstance(strategy, RAHBO) else 1
        noise = torch.randn(*X.shape[:-1], k, generator=generator, dtype=torch.double)
        strategy.tell(X, scale * ((5 * X).sin().sum(dim=-1, keepdim=True) + 0.1 * noise))
    return torch.cat(points, dim=-2)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("scale", [1e-12, 1e8])
def test_points_do_not_depend_on_the_units_of_the_outcome(name, scale):
    build = STRATEGIES[name]
    torch.testing.assert_close(asked(build, scale), asked(build, 1.0), rtol=1e-3, atol=1e-3)
