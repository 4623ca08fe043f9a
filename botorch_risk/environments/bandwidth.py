r"""How wide the kernels of a density estimate are."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.environments.density import AtBounds, KernelDensity
from botorch_risk.environments.environment import as_floating
from botorch_risk.projected_bfgs import minimize_rows

NARROWEST, WIDEST = 0.02, 3.0  # multiples of Silverman's bandwidth among which a better one lies


def silverman_bandwidth(observed: Tensor, ddof: int = 0) -> Tensor:
    r"""Silverman's rule of thumb in each dimension.

        h(i) = (4 / (d_w + 2)) ** (1 / (d_w + 4)) * sd(i) * t ** (-1 / (d_w + 4))

    Sec. B.1 of Huang et al., 2024. Right for a normal law, too wide for one of several modes.

    Args:
        observed: Values of W, `batch_shape x t x d_w`.
        ddof: 0 for the standard deviation of the population (default), 1 for that of a sample.

    Returns:
        `batch_shape x d_w`; 0, or a rounding error of it, where the values are identical or no
        more than `ddof`.

    Example:
        >>> silverman_bandwidth(torch.tensor([[0.0], [0.5], [1.0]]))
        tensor([0.3471])
    """
    observed = as_floating(observed)
    t, d_w = observed.shape[-2:]
    if t <= ddof:
        return torch.zeros_like(observed[..., 0, :])
    factor = (4 / (d_w + 2)) ** (1 / (d_w + 4)) * t ** (-1 / (d_w + 4))
    return factor * observed.std(dim=-2, correction=ddof)


def leave_one_out_bandwidth(
    observed: Tensor,
    floor: Tensor,
    bounds: Tensor | None = None,
    at_bounds: AtBounds = "truncate",
) -> Tensor:
    r"""The bandwidth under which each observed value is likely given the others.

        h = argmax_h sum_i log( sum_{j != i} K_h(w_i - w_j) / (t - 1) )

    On the eight-mode law of Huang et al., 2024, Sec. B.2, cut to [0, 1], the l1 error of the
    density falls from 0.40 by Silverman's rule to 0.20 at t = 300, and from 0.45 to 0.32 at
    t = 100; at t = 10, or on a normal law, it is up to a tenth larger. On the whole line with
    Cauchy tails it gains nothing.

    Each dimension has its own bandwidth, at a local maximum near Silverman's or a third of it,
    whichever is better. Needs memory for `batch_shape x t x t x d_w` numbers. A clipped estimate
    has no density, so its bandwidth is that without bounds.

    Args:
        observed: Values of W, `batch_shape x t x d_w`. With fewer than three, Silverman's rule.
        floor: The least bandwidth, `batch_shape x d_w`.
        bounds: The box, `2 x d_w`, or None.
        at_bounds: What happens to mass outside the bounds.

    Returns:
        `batch_shape x d_w`.
    """
    observed = as_floating(observed)
    silverman = torch.maximum(silverman_bandwidth(observed), floor)
    if observed.shape[-2] < 3:
        return silverman
    t, d_w = observed.shape[-2:]
    rows = observed.detach().double().reshape(-1, t, d_w)
    box = None if bounds is None or at_bounds == "clip" else bounds.to(rows)
    reference = silverman.double().reshape(-1, d_w)
    least = torch.maximum(floor.double().reshape(-1, d_w), NARROWEST * reference)

    def loss(log_h: ndarray, index: ndarray) -> tuple[ndarray, ndarray]:
        parameter = torch.from_numpy(log_h).to(rows).requires_grad_()
        kde = KernelDensity(rows[index % len(rows)], parameter.exp(), box, at_bounds)
        values = -_leave_one_out(kde)
        (gradient,) = torch.autograd.grad(values.sum(), parameter)
        return values.detach().cpu().numpy(), gradient.cpu().numpy()

    starts = torch.cat([reference, reference / 3]).log().cpu().numpy()
    lower, upper = least.log().cpu().numpy(), (WIDEST * reference).log().cpu().numpy()
    found = minimize_rows(loss, starts, np.tile(lower, (2, 1)), np.tile(upper, (2, 1)))
    values = found.value.reshape(2, -1)
    x = found.x.reshape(2, -1, d_w)[values.argmin(axis=0), np.arange(values.shape[1])]
    return torch.from_numpy(x).exp().reshape(silverman.shape).to(observed)


def _leave_one_out(kde: KernelDensity) -> Tensor:
    r"""Mean log density of each observed value under the others, `batch_shape`."""
    t = kde.observed.shape[-2]
    values = kde.observed.movedim(-2, 0)  # t x batch_shape x d_w
    logs = kde.kernel_log_prob(values)  # t x batch_shape x t
    own = torch.eye(t, dtype=torch.bool, device=logs.device)
    own = own.reshape(t, *[1] * (logs.dim() - 2), t)
    logs = logs.masked_fill(own, -torch.inf).logsumexp(dim=-1) - math.log(t - 1)
    return logs.mean(dim=0)
