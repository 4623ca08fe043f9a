r"""Strategies ask for the same points whatever the units of the outcome are."""

from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.papers import drbo_kde, rahbo, sbo_kde, uhe_bo, v_ucb

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
FAST: dict[str, Any] = {"seeds": [0, 1], "num_initial": 6, "num_restarts": 2, "raw_samples": 32}
LEVELS = DiscreteEnvironment(torch.tensor([[0.1], [0.5], [0.9]], dtype=torch.double))
STRATEGIES: dict[str, Any] = {
    "rahbo": (lambda: rahbo(UNIT, num_repeats=3, risk_aversion=0.0, **FAST), 3),
    "uhe_bo": (lambda: uhe_bo(UNIT, **FAST), 1),
    "sbo_kde": (lambda: sbo_kde(UNIT, context_bounds=UNIT, n_w=16, **FAST), 1),
    "drbo_kde": (lambda: drbo_kde(UNIT, context_bounds=UNIT, n_w=16, **FAST), 1),
    "v_ucb": (lambda: v_ucb(UNIT, environment=LEVELS, risk_level=0.3, beta=4.0, **FAST), 1),
}


def asked(name: str, scale: float) -> Tensor:
    build, num_repeats = STRATEGIES[name]
    strategy = build()
    generator = torch.Generator().manual_seed(0)
    points = []
    for _ in range(3):
        points.append(strategy.ask())
        X = points[-1]
        if X.shape[-1] < strategy.space.num_columns:
            w = torch.rand(X.shape, generator=generator, dtype=torch.double)
            X = torch.cat([X, w], dim=-1)
        noise = torch.randn(*X.shape[:-1], num_repeats, generator=generator, dtype=torch.double)
        strategy.tell(X, scale * ((5 * X).sin().sum(dim=-1, keepdim=True) + 0.1 * noise))
    return torch.cat(points, dim=-2)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("scale", [1e-12, 1e8])
@pytest.mark.slow
def test_points_do_not_depend_on_the_units_of_the_outcome(name: str, scale: float) -> None:
    torch.testing.assert_close(asked(name, scale), asked(name, 1.0), rtol=1e-3, atol=1e-3)
