r"""The expected maximum of lines of one normal number."""

import torch
from torch import Tensor

from botorch_risk.posterior.marginals import Marginals
from botorch_risk.repeats.rank_one_gain import log_expected_improvement


def log_expected_gain(a: Tensor, s: Tensor) -> Tensor:
    r"""The logarithm of `E[max_p (a_p + s_p Z)] - max_p a_p` for a standard normal Z, exactly.

    The maximum is the upper envelope of the lines. Going along it from the smallest slope, each
    change from one line to the next adds the expected improvement of a normal with the difference
    of their slopes as its deviation, and as its mean minus the distance of their values at 0:

        gain = sum_i d_i h(-|a_i - a_{i+1}| / d_i),  d_i = s_{i+1} - s_i,  h(u) = phi(u) + u Phi(u)

    Source: [Frazier2009kgcb]_, Eq. (14).

    Args:
        a: Values at 0, `... x P`.
        s: Slopes, `... x P`.

    Returns:
        `...`, minus infinity where no other line takes over.
    """
    a, s = torch.broadcast_tensors(a, s)
    shape = a.shape[:-1]
    a, s = (each.reshape(-1, each.shape[-1]) for each in (a, s))
    gain = a.new_full((len(a),), -torch.inf)
    lowest = s.amin(dim=-1, keepdim=True)
    line = a.masked_fill(s > lowest, -torch.inf).argmax(dim=-1, keepdim=True)
    rows = torch.arange(len(a))
    for _ in range(a.shape[-1] - 1):
        steeper = s - s.gather(-1, line)
        crossing = (a.gather(-1, line) - a) / steeper
        crossing = crossing.masked_fill(steeper <= 0, torch.inf)
        nearest, following = crossing.min(dim=-1, keepdim=True)
        goes_on = nearest.isfinite().squeeze(-1)
        if not goes_on.any():
            break
        distance = (a.gather(-1, following) - a.gather(-1, line)).abs().squeeze(-1)
        slope = steeper.gather(-1, following).squeeze(-1)
        improvement = log_expected_improvement(
            Marginals(-distance, slope.square()), a.new_zeros(())
        )
        gain[rows] = torch.logaddexp(gain[rows], improvement.where(goes_on, -torch.inf))
        if 2 * int(goes_on.sum()) < len(goes_on):  # few are left
            a, s, rows, following = (each[goes_on] for each in (a, s, rows, following))
            line = following
        else:
            line = following.where(goes_on.unsqueeze(-1), line)
    return gain.reshape(shape)
