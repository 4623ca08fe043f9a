r"""Observed values that are rounded or repeated, which a likelihood of a bandwidth must know.

The likelihood that each value has given the others grows without bound as the bandwidth shrinks
where values are equal: it would learn the instrument's last digit, or that a value was copied.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_risk.environments.uniforms import seeded_uniforms

_EQUAL = 1e-9  # of the range of a column: values nearer than this are one
_ON_LATTICE = 1e-3  # of a spacing: as near as a value must be to a multiple of it


def rounding_step(observed: Tensor) -> Tensor:
    r"""The step to which the values of a column were rounded.

    A column counts as rounded if values repeat and all differ by multiples of one step, the
    smallest difference.

    Args:
        observed: Values, `batch_shape x t x d_w`.

    Returns:
        `batch_shape x d_w`; 0 where no rounding is seen.

    Example:
        >>> rounding_step(torch.tensor([[0.1, 0.13], [0.3, 0.42], [0.1, 0.57], [0.9, 0.91]]))
        tensor([0.2000, 0.0000])
    """
    ordered = observed.sort(dim=-2).values
    equal = _EQUAL * (ordered[..., -1:, :] - ordered[..., :1, :])
    gaps = ordered.diff(dim=-2)
    repeats = (gaps <= equal).any(dim=-2)
    step = gaps.masked_fill(gaps <= equal, torch.inf).amin(dim=-2)  # inf in a constant column
    multiples = (ordered - ordered[..., :1, :]) / step.unsqueeze(-2)
    on_lattice = ((multiples - multiples.round()).abs() <= _ON_LATTICE).all(dim=-2)
    return step.where(repeats & on_lattice & step.isfinite(), 0.0)


def spread_within_cells(observed: Tensor, step: Tensor, bounds: Tensor | None) -> Tensor:
    r"""Values moved evenly within the cell that rounding put together, inside the bounds.

    Args:
        observed: Values, `batch_shape x t x d_w`.
        step: Widths of the cells, `batch_shape x d_w`.
        bounds: The box, `2 x d_w`, at which values are folded back, or None.

    Returns:
        `batch_shape x t x d_w`; always the same for the same values.
    """
    if not (step > 0).any():
        return observed
    t, d_w = observed.shape[-2:]
    uniforms = seeded_uniforms(t, d_w, seeds=0, stream="rounding").to(observed)
    moved = observed + step.unsqueeze(-2) * (uniforms - 0.5)
    if bounds is not None:
        lower, upper = bounds
        moved = lower + (moved - lower).abs()
        moved = upper - (upper - moved).abs()
    return moved


def copies(observed: Tensor, step: Tensor) -> Tensor:
    r"""Which values are one another's copies: equal where rounding does not explain it.

    Args:
        observed: Values, `batch_shape x t x d_w`.
        step: Of the rounding, `batch_shape x d_w`.

    Returns:
        `batch_shape x t x t` booleans, each value a copy of itself. Columns that are constant, or
        rounded, tell nothing.
    """
    extent = observed.amax(dim=-2) - observed.amin(dim=-2)  # batch_shape x d_w
    tells = (step == 0) & (extent > 0)
    apart = (observed.unsqueeze(-2) - observed.unsqueeze(-3)).abs()
    equal = (apart <= (_EQUAL * extent)[..., None, None, :]) & tells[..., None, None, :]
    itself = torch.eye(observed.shape[-2], dtype=torch.bool, device=observed.device)
    return equal.any(dim=-1) | itself
