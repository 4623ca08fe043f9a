r"""Bandwidths of kernel density estimates."""

from __future__ import annotations

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor
from botorch_risk.environments.density import AtBounds, KernelDensity
from botorch_risk.environments.rounding import copies, rounding_step, spread_within_cells
from botorch_risk.projected_bfgs import minimize_rows

NARROWEST, WIDEST = 0.02, 3.0  # multiples of Silverman's bandwidth among which a better one lies
# Of the rounding step: narrower kernels leave gaps between the values that instruments show.
RESOLVED = 0.4


def silverman_bandwidth(observed: Tensor, ddof: int = 0) -> Tensor:
    r"""Silverman's rule of thumb in each dimension.

        h(i) = (4 / (d_w + 2)) ** (1 / (d_w + 4)) * sd(i) * t ** (-1 / (d_w + 4))

    Sec. B.1 of [Huang2024kde]_. Right for a normal distribution, too wide for one of several
    modes.

    Args:
        observed: Values of W, `batch_shape x t x d_w`.
        ddof: 0 for the standard deviation of the population (default), 1 for that of a sample.

    Returns:
        `batch_shape x d_w`; 0, or a rounding error of it, where the values are identical or no
        more than `ddof`.

    Raises:
        ValueError: If `ddof` is neither 0 nor 1.

    Example:
        >>> silverman_bandwidth(torch.tensor([[0.0], [0.5], [1.0]]))
        tensor([0.3471])
    """
    observed = as_floating(observed, "observed")
    t, d_w = observed.shape[-2:]
    if ddof not in (0, 1):
        raise ValueError(f"Expected `ddof` 0 or 1. Got {ddof}.")
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

    On the eight-mode distribution of [Huang2024kde]_, Sec. B.2, cut to [0, 1], the l1 error of
    the density falls from 0.40 by Silverman's rule to 0.20 at t = 300, and from 0.45 to 0.32 at
    t = 100; at t = 10, or on a normal distribution, it is up to a tenth larger. On the whole line
    with Cauchy tails it gains nothing.

    Values that are equal make the likelihood infinite at h = 0. Where they are rounded, all of a
    column multiples of a step apart and some equal, each counts as one somewhere in its cell, and
    h is at least 0.4 steps. On a normal distribution of standard deviation 0.1, rounded to 0.1, the
    l1 error at t = 100 is then 0.19 (0.15 unrounded; 1.29 without this care), on the eight-mode one
    0.33 (0.29; 0.89). Other equal values, such as a context that is observed twice, are not the
    evidence for each other. W that takes a few values by nature is better served by a
    `DiscreteEnvironment` or an `EmpiricalGrid`.

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

    Raises:
        ValueError: If `at_bounds` is unknown.

    Example:
        >>> mode = torch.linspace(0.1, 0.2, 40).unsqueeze(-1)
        >>> observed, floor = torch.cat([mode, mode + 0.7]), torch.tensor([1e-3])
        >>> silverman_bandwidth(observed), leave_one_out_bandwidth(observed, floor) < 0.02
        (tensor([0.1549]), tensor([True]))
    """
    observed = as_floating(observed, "observed")
    floor, bounds = as_tensor("floor", floor), as_tensor("bounds", bounds)
    silverman = torch.maximum(silverman_bandwidth(observed), floor)
    if observed.shape[-2] < 3:
        return silverman
    t, d_w = observed.shape[-2:]
    rows = observed.detach().double().reshape(-1, t, d_w)
    box = None if bounds is None or at_bounds == "clip" else bounds.to(rows)
    step = rounding_step(rows)
    others = ~copies(rows, step)
    rows = spread_within_cells(rows, step, box)
    reference = torch.maximum(silverman.double().reshape(-1, d_w), RESOLVED * step)
    least = torch.maximum(floor.double().reshape(-1, d_w), NARROWEST * reference)
    least = torch.maximum(least, RESOLVED * step)

    def loss(log_h: ndarray, index: ndarray) -> tuple[ndarray, ndarray]:
        parameter = torch.from_numpy(log_h).to(rows).requires_grad_()
        replicate = index % len(rows)
        kde = KernelDensity(rows[replicate], parameter.exp(), box, at_bounds)
        values = -_leave_one_out(kde, others[replicate])
        (gradient,) = torch.autograd.grad(values.sum(), parameter)
        return values.detach().cpu().numpy(), gradient.cpu().numpy()

    starts = torch.cat([reference, torch.maximum(reference / 3, least)]).log().cpu().numpy()
    lower, upper = least.log().cpu().numpy(), (WIDEST * reference).log().cpu().numpy()
    found = minimize_rows(loss, starts, np.tile(lower, (2, 1)), np.tile(upper, (2, 1)))
    values = found.value.reshape(2, -1)
    x = found.x.reshape(2, -1, d_w)[values.argmin(axis=0), np.arange(values.shape[1])]
    return torch.from_numpy(x).exp().reshape(silverman.shape).to(observed)


def _leave_one_out(kde: KernelDensity, others: Tensor) -> Tensor:
    r"""Mean log density of each observed value under its others, `batch_shape`.

    Args:
        kde: The estimate, of `batch_shape x t x d_w` values.
        others: `batch_shape x t x t` booleans. A value without others, as all are where every value
            is a copy of one, says nothing.
    """
    values = kde.observed.movedim(-2, 0)  # t x batch_shape x d_w
    logs = kde.kernel_log_prob(values).movedim(0, -2)  # batch_shape x t x t
    count = others.sum(dim=-1)
    known = count > 0
    logs = logs.masked_fill(~others & known.unsqueeze(-1), -torch.inf).logsumexp(dim=-1)
    logs = (logs - count.clamp_min(1).log()).where(known, 0.0)
    return logs.sum(dim=-1) / known.sum(dim=-1).clamp_min(1)
