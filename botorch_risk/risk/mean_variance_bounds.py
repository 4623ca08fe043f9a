r"""The two problems behind the bounds of `MeanVariance`, each solved by one sort."""

import torch
from torch import Tensor
from torch.nn.functional import pad


def clipping_level(lower: Tensor, upper: Tensor, weights: Tensor, half: float) -> Tensor:
    r"""The t that solves `t - E[clip(t, lower, upper)] = half`, by sorting its kinks; `... x 1`."""
    kinks, order = torch.cat([lower, upper], dim=-1).sort(dim=-1)
    inside = torch.cat([weights, -weights], dim=-1).gather(-1, order).cumsum(dim=-1)[..., :-1]
    rise = (inside.clamp(0.0, 1.0) * kinks.diff(dim=-1)).cumsum(dim=-1)
    clipped = (weights * lower).sum(dim=-1, keepdim=True) + pad(rise, (1, 0))
    excess = (kinks - clipped).cummax(dim=-1).values  # non-decreasing in t
    last = torch.searchsorted(excess, torch.full_like(excess[..., :1], half), right=True) - 1
    last = last.clamp_min(0)
    slope = 1 - pad(inside, (0, 1)).gather(-1, last).clamp(0.0, 1.0)
    step = (half - excess.gather(-1, last)).clamp_min(0.0) / slope.clamp_min(1e-15)
    return kinks.gather(-1, last) + step


def dual_solution(
    lower: Tensor, upper: Tensor, weights: Tensor, half: float
) -> tuple[Tensor, Tensor]:
    r"""The best c, `... x 1`, and the part of each point's probability at its lower end.

    The parts bring the mean of the values to c, in the order of the points' midpoints.
    """
    switches, order = ((lower + upper) / 2 - half).sort(dim=-1)  # values of c
    drops = (weights * (upper - lower)).gather(-1, order)
    before = drops.cumsum(dim=-1) - drops
    top = (weights * upper).sum(dim=-1, keepdim=True)
    means = top - pad(before + drops, (1, 0))  # one per interval between switches
    centre = torch.minimum(means, pad(switches, (0, 1), value=torch.inf))
    centre = centre.amax(dim=-1, keepdim=True)
    dropped = torch.minimum((top - centre - before).clamp_min(0.0), drops)
    part = dropped / drops.clamp_min(torch.finfo(drops.dtype).tiny)
    return centre, torch.zeros_like(part).scatter(-1, order, part)
