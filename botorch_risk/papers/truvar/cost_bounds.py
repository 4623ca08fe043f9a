r"""Upper bounds on TRUVAR's cost for a known function, Theorem 3.1 of [Bogunovic2016truvar]_."""

import math
from typing import NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.arguments import as_floating, check_counts, check_positive, check_probability
from botorch_risk.papers.truvar.goals import Goal, LevelSetGoal

# A variance is at its target when it exceeds it by rounding alone.
_ROUNDING = 1e-12


def covering_cost(
    covariance: Tensor,
    noise: Tensor,
    cost: Tensor,
    within: Tensor,
    deviation: float,
    *,
    max_samples: int = 100_000,
) -> float:
    r"""The cost at which greedy sampling brings all standard deviations of a set to a target.

        C*(xi, M) = min_S { c(S) : max_{x in M} sigma_S(x) <= xi }

    Eq. (11) of [Bogunovic2016truvar]_, whose minimum over collections of samples is a submodular
    covering problem. The function returns the cost of the greedy solution, which is at least C* and
    may replace C* in Eq. (13). Points may be sampled again.

    Args:
        covariance: The prior covariance, `|D| x |D|`.
        noise: The noise variance of a sample of each point, `|D|`, or at each level, `|D| x K`.
        cost: The costs of the samples, of the same shape.
        within: The set M, `|D|` booleans.
        deviation: The target `xi`.
        max_samples: The largest number of samples.

    Raises:
        ValueError: If `max_samples` samples do not reach the target.

    Example:
        >>> covariance = torch.tensor([[1.0, 0.5], [0.5, 1.0]], dtype=torch.double)
        >>> noise, cost = torch.full((2,), 0.01), torch.tensor([1.0, 3.0])
        >>> within = torch.tensor([True, True])
        >>> covering_cost(covariance, noise, cost, within, deviation=0.9)
        1.0
    """
    covariance, noise, cost = _checked(covariance, noise, cost)
    within = torch.as_tensor(within, device=covariance.device)
    if within.shape != covariance.shape[:1] or within.dtype != torch.bool:
        raise BotorchTensorDimensionError(
            f"Expected `within` to be {len(covariance)} booleans. Got {within.dtype} "
            f"of shape {tuple(within.shape)}."
        )
    check_positive(deviation=deviation)
    check_counts(max_samples=max_samples)
    target, total = deviation**2, 0.0
    # Greedy covering, Eqs. (21) to (24); with unit costs Eq. (33).
    for _ in range(max_samples + 1):
        excess = (covariance.diagonal() - target).where(within, 0.0).clamp_min(0.0)  # |D|
        if excess.max() <= _ROUNDING * target:
            return total
        known = covariance.diagonal().clamp_min(0.0).unsqueeze(-1) + noise  # |D| x K
        fall = covariance.square().unsqueeze(-1) / known  # targets x samples x K, Eq. (18)
        gain = torch.minimum(fall, excess[:, None, None]).sum(dim=0) / cost  # Eq. (3)
        best = int(gain.where(known > 0, 0.0).argmax())
        point, level = divmod(best, noise.shape[-1])
        column = covariance[:, point]
        covariance = covariance - torch.outer(column, column) / known[point, level]
        total += float(cost[point, level])
    raise ValueError(
        f"Expected at most {max_samples} samples until all deviations are {deviation}. Got more."
    )


class CostBounds(NamedTuple):
    r"""The maximum cost of TRUVAR until it is accurate to epsilon.

    Attributes:
        epoch_costs: `C_(1), C_(2), ...`, Eq. (13), the argument of `GuaranteedWidth`.
        squared_widths: `beta_(1), beta_(2), ...`, Eq. (14).
        total: `C_epsilon`, their sum, Eq. (15).
    """

    epoch_costs: tuple[float, ...]
    squared_widths: tuple[float, ...]
    total: float


def cost_bounds(
    values: Tensor,
    covariance: Tensor,
    noise: Tensor,
    cost: Tensor,
    goal: Goal,
    epsilon: float,
    *,
    delta: float = 0.1,
    eta: float = 1.0,
    r: float = 0.5,
    slack: float = 0.5,
) -> CostBounds:
    r"""Bound the cost at which TRUVAR is accurate to epsilon, for a known function.

        C_(i) = C*(eta_(i) / beta_(i)^(1/2), M_(i-1)) log(|M_(i-1)| beta_(i) / (slack eta_(i))^2)
                + c_max                                                              Eq. (13)
        beta_(i) = 2 log(|D| (C_(1) + .. + C_(i))^2 pi^2 / (6 delta c_min^2))        Eq. (14)
        C_epsilon = sum of C_(i) over all i with 4 (1 + slack) eta_(i-1) > epsilon   Eq. (15)

    Theorem 3.1 of [Bogunovic2016truvar]_: if TRUVAR runs with `GuaranteedWidth(delta, epoch_costs,
    c_min)` and the same `eta`, `r` and `slack`, it is accurate to epsilon (Definition 3.1) at the
    cost `total`, with probability `1 - delta` if the variance reduction is submodular. The sets
    `M_(i)` follow Eqs. (9) and (10): the points where the true function is near its maximum or its
    level. So the bound is for studies, not for a search. `C*` is the cost of greedy covering,
    `covering_cost`. As the first two equations depend on each other, C is increased from `c_max`
    until both hold. `eta_(0)` is infinite, so there is at least one epoch.

    Args:
        values: Values of the function, `|D|`.
        covariance: The prior covariance, `|D| x |D|`, with variances of at most 1.
        noise: Noise variances, `|D|` or `|D| x K`, as for `covering_cost`.
        cost: Costs of the samples, of the same shape.
        goal: `Maximize()` or a `LevelSet`.
        epsilon: The accuracy, in units of the function.
        delta: The probability that any bound fails.
        eta: The first target.
        r: The factor from one target to the next.
        slack: How far above its target an epoch may end, the paper's delta-bar, > 0.

    Example:
        >>> from botorch_risk.papers import Maximize
        >>> domain = torch.linspace(0, 1, 6, dtype=torch.double)
        >>> covariance = torch.exp(-((domain[:, None] - domain) ** 2) / 0.1)
        >>> one = torch.ones(6, dtype=torch.double)
        >>> bounds = cost_bounds(domain, covariance, 0.01 * one, one, Maximize(), epsilon=4.0)
        >>> len(bounds.epoch_costs), bounds.total == sum(bounds.epoch_costs)
        (2, True)
    """
    covariance, noise, cost = _checked(covariance, noise, cost)
    values = as_floating(values, "values").to(covariance)
    if values.shape != covariance.shape[:1]:
        raise BotorchTensorDimensionError(
            f"Expected {len(covariance)} `values`. Got shape {tuple(values.shape)}."
        )
    check_positive(epsilon=epsilon, eta=eta, slack=slack)
    check_probability(delta=delta, r=r)
    size, (least, most) = len(values), torch.aminmax(cost)
    within = torch.ones_like(values, dtype=torch.bool)
    costs: list[float] = []
    widths: list[float] = []
    before = math.inf  # eta_(i-1)
    # With unit costs these are Eqs. (34) to (36).
    while 4 * (1 + slack) * before > epsilon:  # Eq. (15)
        paid, spent = float(most), sum(costs)
        while True:
            beta = 2 * math.log(
                size * (spent + paid) ** 2 * math.pi**2 / (6 * delta * float(least) ** 2)
            )  # Eq. (14)
            least_cost = covering_cost(covariance, noise, cost, within, eta / math.sqrt(beta))
            count = max(1, int(within.sum()))
            factor = math.log(count * beta / (slack * eta) ** 2)
            asked = least_cost * max(0.0, factor) + float(most)  # Eq. (13)
            if asked <= paid:
                break
            paid = asked
        costs.append(paid)
        widths.append(beta)
        gap = (1 + slack) * eta
        if isinstance(goal, LevelSetGoal):
            within = (values - goal.level(values)).abs() <= 2 * gap  # Eq. (10)
        else:
            within = values >= values.max() - 4 * gap  # Eq. (9)
        before, eta = eta, r * eta
    return CostBounds(tuple(costs), tuple(widths), sum(costs))


def _checked(covariance: Tensor, noise: Tensor, cost: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""In float64, noise and cost `|D| x K`."""
    covariance, noise, cost = (
        as_floating(each, name).detach().double()
        for name, each in {"covariance": covariance, "noise": noise, "cost": cost}.items()
    )
    noise, cost = (each.unsqueeze(-1) if each.dim() == 1 else each for each in (noise, cost))
    size = covariance.shape[-1]
    if covariance.shape != (size, size) or noise.shape[:1] != (size,) or noise.shape != cost.shape:
        raise BotorchTensorDimensionError(
            "Expected `covariance` `|D| x |D|`, `noise` and `cost` `|D|` or `|D| x K`. Got "
            f"{tuple(covariance.shape)}, {tuple(noise.shape)} and {tuple(cost.shape)}."
        )
    if not ((noise >= 0).all() and (cost > 0).all() and cost.isfinite().all()):
        raise ValueError("Expected `noise` >= 0, and finite `cost` > 0. Got other values.")
    return covariance, noise, cost
