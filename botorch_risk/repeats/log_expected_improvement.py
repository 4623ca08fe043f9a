r"""Expected improvement from marginal moments, where it is too small for its own logarithm."""

import math

import torch
from torch import Tensor

from botorch_risk.posterior.marginals import Marginals


def log_expected_improvement(moments: Marginals, best: Tensor) -> Tensor:
    r"""The logarithm of the expected improvement, `batch_shape x m`.

        log( sigma (phi(u) + u Phi(u)) ),   u = (mean - best) / sigma

    The improvement itself is 0 in floating point about 38 standard deviations below the best.
    Minus infinity where the variance is 0.
    """
    sigma = moments.variance.sqrt()
    u = (moments.mean - best) / sigma.where(sigma > 0, 1.0)
    near = u.clamp_min(-1.0)
    far = u.clamp_max(-1.0)
    ratio = math.sqrt(math.pi / 2) * torch.special.erfcx(-far / math.sqrt(2))  # Phi / phi
    # Far out 1 + u Phi(u) / phi(u) is lost to rounding, and its series in 1 / u^2 is exact.
    bound = -(torch.finfo(u.dtype).eps ** -0.25)
    series = torch.log1p(-3 / far.clamp_max(bound).square()) - 2 * (-far).log()
    tail = torch.where(far > bound, torch.log1p(far.clamp_min(bound) * ratio), series)
    value = torch.where(u > -1.0, _excess(near).log(), _log_phi(far) + tail)
    return (value + sigma.log()).where(sigma > 0, -torch.inf)


def _log_phi(u: Tensor) -> Tensor:
    return -0.5 * (u.square() + math.log(2 * math.pi))


def _excess(u: Tensor) -> Tensor:
    return _log_phi(u).exp() + u * torch.special.ndtr(u)
