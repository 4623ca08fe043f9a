r"""The expectation of a risk under the posterior, and how informative a reading is about it.

For normal values `f ~ N(mu, C)` at the points of W, and any measure `rho` that is Lipschitz,

    a = E[rho(f)],   q = da / d mu = E[grad rho(f)]
    cov(rho(f), f(x', w')) = q' cov(f, f(x', w'))                            Stein's identity

so `q` says how much each value of W contributes to the risk. The identity is exact; `a` and `q` are
averages over a few antithetic samples, or closed forms if the measure has them (`expected`).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Tensor

from botorch_risk.matrices import safe_root
from botorch_risk.risk import RiskMeasure


class ExpectedRisk(NamedTuple):
    r"""The expected risk of each row, `...`, and its gradient in the mean, `... x n_w`."""

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
        risk_measure: A measure that is bound to its environment.
        mean: `... x n_w`, the shape of the variance too.
        variance: `... x n_w`.
        weights: Probabilities, broadcastable to `... x n_w`.
        covariance: Returns `... x n_w x n_w`; called only if the measure has no closed form.
        num_samples: Number of antithetic samples, even; unused by a measure with a closed form. The
            samples are the same in every call.
    """
    with torch.enable_grad():
        center = mean.detach().requires_grad_()
        value = risk_measure.expected(center, variance, weights)
        if value is None:
            half = _normal_numbers(num_samples // 2, mean.shape[-1]).to(mean)
            # Antithetic pairs: the errors of a risk that is linear in the values cancel.
            numbers = torch.cat([half, -half])
            value = sampled_risks(risk_measure, center, covariance(), weights, numbers).mean(dim=-1)
        (gradient,) = torch.autograd.grad(value.sum(), center)
    return ExpectedRisk(value.detach(), gradient)


def moments_of_risk(
    risk_measure: RiskMeasure,
    mean: Tensor,
    covariance: Tensor,
    weights: Tensor,
    num_samples: int = 64,
) -> tuple[Tensor, Tensor]:
    r"""Mean and variance of the risk of normal values, `...` each, differentiable in both moments.

    If the measure's expectation has a closed form, the variance is `q' C q`, which is exact if the
    measure is linear in the values. Otherwise both come from the same scrambled Sobol samples in
    every call, best a power of 2. The covariance is `... x n_w x n_w`; see also `expected_risk`.
    """
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    tracked = torch.is_grad_enabled() and mean.requires_grad
    with torch.enable_grad():
        # The gradient q is needed even if the caller tracks none.
        center = mean if tracked else mean.detach().requires_grad_()
        value = risk_measure.expected(center, variance, weights)
        if value is not None:
            (q,) = torch.autograd.grad(value.sum(), center, create_graph=tracked)
    if value is None:
        numbers = sobol_normal_numbers(num_samples, mean.shape[-1], mean.dtype, mean.device)
        risks = sampled_risks(risk_measure, mean, covariance, weights, numbers)
        return risks.mean(dim=-1), risks.var(dim=-1, correction=0)
    value = value if tracked else value.detach()
    return value, ((covariance @ q.unsqueeze(-1)).squeeze(-1) * q).sum(dim=-1)


def mean_and_deviation(risks: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    r"""The mean of sampled risks plus `width` times their deviation, and its derivative in them.

    The risks are `... x S`; the width broadcasts to `...`.
    """
    mean = risks.mean(dim=-1, keepdim=True)
    centred = risks - mean
    variance = centred.square().mean(dim=-1, keepdim=True)
    # Equal risks have no deviation: the slope below is 0 over a tiny number instead of 0 / 0.
    deviation = variance.clamp_min_(torch.finfo(risks.dtype).tiny).sqrt_()
    value = mean.squeeze(-1) + width * deviation.squeeze(-1)
    # The derivatives of mean and deviation are 1 / S and centred / (S deviation).
    slope = (1 + width.unsqueeze(-1) * centred / deviation) / risks.shape[-1]
    return value, slope


def sampled_risks(
    risk_measure: RiskMeasure, mean: Tensor, covariance: Tensor, weights: Tensor, numbers: Tensor
) -> Tensor:
    r"""The risks of samples of normal values, `... x S`, from standard normal numbers `S x n_w`."""
    # The largest variance over W stands for the prior variance: it sets the jitter's size.
    scale = covariance.diagonal(dim1=-2, dim2=-1).amax(dim=-1)
    root = safe_root(covariance, scale)
    steps = numbers @ root.mT  # ... x S x n_w
    return risk_measure(mean.unsqueeze(-2) + steps, weights.unsqueeze(-2))


def _normal_numbers(num_samples: int, n_w: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(num_samples, n_w, generator=generator, dtype=torch.double)


@lru_cache(maxsize=32)
def sobol_normal_numbers(
    num_samples: int, n_w: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    r"""Standard normal numbers, `num_samples x n_w`, the same in every call."""
    return draw_sobol_normal_samples(n_w, num_samples, device=device, dtype=dtype, seed=0)
