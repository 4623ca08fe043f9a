r"""The data of a fit, with centred targets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from botorch_risk.engine.fit.marginal_likelihood import BestConstant, Targets
from botorch_risk.engine.fit.parameters import ExactGPParts, Units
from botorch_risk.engine.fit.priors import normal_precision
from botorch_risk.steady import sent


class CentredData(NamedTuple):
    r"""The data of some replicates, or with a row for each of several starts."""

    X: Tensor  # R x n x d
    targets: Targets  # about their centre
    fixed_noise: Tensor | None  # R x n
    best_constant: BestConstant | None  # about the centre; None if it is a parameter, or 0

    @classmethod
    def of(cls, parts: ExactGPParts, observed: Tensor | None, units: Units) -> CentredData:
        r"""Read the data of a model; inputs and targets that are not finite become 0."""
        sought = None
        centre = sent(units.centre, parts.Y.device).to(parts.Y).unsqueeze(-1)
        if (constant := parts.profiled) is not None:
            ends = constant.bounds(units.unit_of("constant", 1))
            shape, priors = constant.raw.shape, constant.priors
            location, precision = normal_precision(priors, shape, parts.batch_shape)
            about = [end - units.centre[:, None] for end in (*ends, location)]
            known = np.concatenate([*about, precision], axis=1)
            sought = BestConstant(*sent(known.T, parts.Y.device).to(parts.Y))
        # A mask multiplies, and 0 times NaN is NaN.
        X, Y = (torch.nan_to_num(x, 0.0, 0.0, 0.0) for x in (parts.X, parts.Y - centre))
        X = X - X.mean(dim=-2, keepdim=True)  # for `lengthscale_gradient`
        noise = None if parts.fixed_noise is None else torch.nan_to_num(parts.fixed_noise, 1.0)
        return cls(X, Targets.of(Y, observed), noise, sought)

    def rows(self, index: Tensor) -> CentredData:
        noise, constant = self.fixed_noise, self.best_constant
        return CentredData(
            self.X[index],
            self.targets.rows(index),
            None if noise is None else noise[index],
            None if constant is None else BestConstant(*torch.stack(constant)[:, index]),
        )
