r"""The expectation of a risk under the posterior, and what a reading tells of it.

For normal values `f ~ N(mu, C)` at the points of W, and any measure `rho` that is Lipschitz,

    a = E[rho(f)],   q = da / d mu = E[grad rho(f)]
    cov(rho(f), f(x', w')) = q' cov(f, f(x', w'))                            Stein's identity

so that `q` says how much of each value of W is in the risk. The identity is exact; `a` and `q` are
averages over a few antithetic samples, or in closed form where the measure has one (`expected`).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_risk.posterior.joint_moments import safe_root
from botorch_risk.risk import RiskMeasure


class ExpectedRisk(NamedTuple):
    r"""The expected risk of each row, and its gradient in the mean.

    Attributes:
        value: `...`.
        gradient: `... x n_w`.
    """

    value: Tensor
    gradient: Tensor


def expected_risk(
    risk_measure: RiskMeasure,
    mean: Tensor,
    variance: Tensor,
    weights: Tensor,
    covariance: Callable[[], Tensor],
    num_samples: int = 16,
) -> ExpectedRisk:
    r"""The expected risk of normal values, and its gradient in their mean.

    Args:
        risk_measure: Bound to its environment.
        mean: `... x n_w`.
        variance: `... x n_w`.
        weights: Probabilities, broadcastable to `... x n_w`.
        covariance: Returns `... x n_w x n_w`; called only if the measure has no closed form.
        num_samples: Antithetic samples, an even number; unused by a measure with a closed form.
            They are the same numbers in every call.
    """
    with torch.enable_grad():
        center = mean.detach().requires_grad_()
        value = risk_measure.expected(center, variance, weights)
        if value is None:
            value = _average_over_samples(risk_measure, center, covariance(), weights, num_samples)
        (gradient,) = torch.autograd.grad(value.sum(), center)
    return ExpectedRisk(value.detach(), gradient)


def _average_over_samples(
    risk_measure: RiskMeasure, mean: Tensor, covariance: Tensor, weights: Tensor, num_samples: int
) -> Tensor:
    scale = covariance.diagonal(dim1=-2, dim2=-1).amax(dim=-1)
    root = safe_root(covariance, scale)
    half = _normal_numbers(num_samples // 2, mean.shape[-1]).to(mean)
    steps = torch.cat([half, -half]) @ root.mT  # ... x S x n_w
    risks = risk_measure(mean.unsqueeze(-2) + steps, weights.unsqueeze(-2))
    return risks.mean(dim=-1)


def _normal_numbers(num_samples: int, n_w: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(num_samples, n_w, generator=generator, dtype=torch.double)
