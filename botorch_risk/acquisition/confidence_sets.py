r"""Which points are ruled out, or classified, by confidence bounds."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_risk.acquisition.epochs import ImplicitThreshold

Sets = tuple[Tensor, Tensor, Tensor]  # unclassified, high, low: batch_shape x |D| each


def classify(
    sets: Sets,
    lower: Tensor,
    upper: Tensor,
    threshold: float | ImplicitThreshold | None,
    monotone: bool = True,
) -> Sets:
    r"""The sets of Algorithm 2 of TRUVAR (Bogunovic et al. 2016).

        maximise:  M_t = {x in M: u(x) >= max_{x' in M} l(x')}                     Eq. (5)
        level set: M_t = {x in M: l(x) <= h <= u(x)}                               Eq. (6)
                   H_t adds {x in M: l(x) > h},  L_t adds {x in M: u(x) < h}       Eq. (7)

    with `M = M_{t-1}`; or all points, and `H` and `L` from scratch, if not monotone. For an
    implicit threshold (Gotovos et al. 2013) a point is high if its lower bound is above the
    optimistic level, that of `max_M u`, and low if its upper bound is below the pessimistic one,
    that of `max_M l`. A classified point whose upper bound reaches `max_M l` may be the maximum,
    on which the level depends, and stays in M.

    Args:
        sets: `M`, `H` and `L` so far, `batch_shape x |D|` each.
        lower: Lower bounds, `batch_shape x |D|`.
        upper: Upper bounds, `batch_shape x |D|`.
        threshold: The level, a number or a fraction of the maximum; `None` to maximise.
        monotone: Whether M only shrinks.

    Returns:
        The next sets.
    """
    within, high, low = sets
    if not monotone:
        within, high, low = within | True, high & False, low & False
    pessimistic = lower.where(within, -torch.inf).amax(dim=-1, keepdim=True)
    possible = upper >= pessimistic  # may be the maximum
    if threshold is None:
        return within & possible, high, low  # Eq. (5)
    if not isinstance(threshold, ImplicitThreshold):
        above, below = within & (lower > threshold), within & (upper < threshold)
        return within & ~above & ~below, high | above, low | below  # Eqs. (6) and (7)
    optimistic = upper.where(within, -torch.inf).amax(dim=-1, keepdim=True)
    undecided = within & ~high & ~low
    above = undecided & (lower > threshold.of(optimistic))
    below = undecided & (upper < threshold.of(pessimistic))
    return within & ((undecided & ~above & ~below) | possible), high | above, low | below
