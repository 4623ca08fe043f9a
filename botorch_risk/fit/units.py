r"""Units in which a fit works, from the data of each replicate.

The logarithm of a variance or of a lengthscale moves as easily in any unit, but a mean does not,
nor do the ranges that keep logarithms finite, nor a start that was meant for standardised outcomes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.fit.parameters import ExactGPParts

# A start that was meant for standardised targets is not one for targets whose standard deviation
# lies outside of this range.
STANDARD_RANGE = (0.3, 3.0)


class Units(NamedTuple):
    r"""The centre, scale and extent of the data of each replicate.

    Args:
        centre: Mean of the targets, `R`; 0 for a model whose mean is 0.
        scale: Root mean square of the targets about the centre, `R`; 1 where they do not vary.
        extent: The range of each input, `R x d`; 1 where it does not vary.
    """

    centre: ndarray
    scale: ndarray
    extent: ndarray

    @property
    def is_standard(self) -> ndarray:
        r"""Whether starts for standardised targets are starts for these, `R`."""
        lower, upper = STANDARD_RANGE
        return (lower <= self.scale) & (self.scale <= upper)

    def of(self, name: str, size: int) -> ndarray:
        r"""The unit of a hyperparameter, `R x size`."""
        if name == "lengthscale":
            widest = self.extent.max(axis=1, initial=0.0, keepdims=True)
            return self.extent if size == self.extent.shape[1] else widest
        unit = self.scale if name == "constant" else self.scale**2
        return np.broadcast_to(unit[:, None], (len(unit), size))


def units_of(parts: ExactGPParts, counted: Tensor) -> Units:
    r"""The units of the data of a model.

    Args:
        parts: The parts of the model.
        counted: Which of its data are finite and count, `R x n`.
    """
    Y, X = parts.Y.double(), parts.X.double()
    number = counted.sum(dim=-1, keepdim=True).clamp_min(1)
    centre = torch.where(counted, Y, 0.0).sum(dim=-1, keepdim=True) / number
    if not any(one.name == "constant" for one in parts.hyperparameters):
        centre = torch.zeros_like(centre)
    variance = torch.where(counted, Y - centre, 0.0).square().sum(dim=-1, keepdim=True) / number
    scale = variance.sqrt()
    rounding = 8 * torch.finfo(parts.Y.dtype).eps * centre.abs()
    varies = scale > rounding.clamp_min(torch.finfo(parts.Y.dtype).tiny)
    missing = ~counted.unsqueeze(-1)
    extent = X.masked_fill(missing, -torch.inf).amax(-2) - X.masked_fill(missing, torch.inf).amin(
        -2
    )
    return Units(
        centre=centre.squeeze(-1).cpu().numpy(),
        scale=torch.where(varies, scale, 1.0).squeeze(-1).cpu().numpy(),
        extent=torch.where(extent > 0, extent, 1.0).cpu().numpy(),
    )
