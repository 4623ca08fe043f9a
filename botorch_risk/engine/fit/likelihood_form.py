r"""The loss of a fit as a function of tensors alone, which a device records for many rounds.

`MarginalLikelihoodObjective` has the same loss for rows that a host moves. Training points are
padded with independent ones, so that a recording serves until a round has too many for its shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_risk.engine.fit.marginal_likelihood import (
    BestConstant,
    Hyperparameters,
    Targets,
    likelihood_of,
)
from botorch_risk.engine.fit.priors import DENSITIES

# Training points are padded to a multiple of this: a recording then serves so many rounds, and at
# most so many rows are computed in vain.
PADDED_TO = 32


@dataclass(frozen=True)
class LikelihoodForm:
    r"""A loss without its tensors; equal forms share their recordings.

    Args:
        sizes: The name and the number of values of each hyperparameter in a row.
        nu: The smoothness of the kernel.
        has_fixed_noise: Whether the noise is data.
        has_best_constant: Whether the constant is set to its best value.
        priors: For each prior its kind and the position of its hyperparameter in `sizes`; None for
            the constant's.
        is_of_logarithms: Whether the loss is a density of logarithms of positive hyperparameters.
    """

    sizes: tuple[tuple[str, int], ...]
    nu: float
    has_fixed_noise: bool
    has_best_constant: bool
    priors: tuple[tuple[type, int | None], ...]
    is_of_logarithms: bool = False

    @property
    def slices(self) -> Iterator[tuple[str, slice]]:
        r"""The position of each hyperparameter in a row."""
        start = 0
        for name, size in self.sizes:
            yield name, slice(start, start + size)
            start += size

    def __call__(self, theta: Tensor, *given: Tensor) -> tuple[Tensor, Tensor]:
        r"""The loss of parameters `rows x p` in float64, `rows`, and its gradient, `rows x p`.

        `given` is from `tensors`. The loss is NaN where a row fails.
        """
        X, both, observed, units, *others = given
        noise = others.pop(0) if self.has_fixed_noise else None
        best = BestConstant(*others.pop(0).unbind(-1)) if self.has_best_constant else None
        scale, centre, share = units.unbind(-1)
        pairs = observed.unsqueeze(-1) & observed.unsqueeze(-2)
        targets = Targets(both, observed, pairs, both[..., 0].sum(-1))
        values, slopes = self._natural(theta, scale)
        named = self.named(values.to(X), noise)
        # The likelihood has the precision of the model, and what is added to it float64.
        found = likelihood_of(X, targets, named, self.nu, best)
        parts = [getattr(found.gradient, name).reshape(len(X), -1) for name, _ in self.sizes]
        gradient, value = torch.cat(parts, dim=-1).double(), found.value.double()
        constant = found.constant.double() + centre
        absolute = [
            values[:, where] + centre.unsqueeze(-1) if name == "constant" else values[:, where]
            for name, where in self.slices
        ]
        rises = [torch.zeros_like(each) for each in absolute]
        for (kind, place), parameters in zip(self.priors, others, strict=True):
            x = constant.unsqueeze(-1) if place is None else absolute[place]
            density, slope = DENSITIES[kind](x, *parameters.unbind(0))
            value = value + density.sum(-1)
            # The best constant maximises the sum, so its prior adds nothing to the gradient.
            if place is not None:
                rises[place] = rises[place] + slope
        gradient = (gradient + torch.cat(rises, dim=-1)) * slopes
        # The density of a logarithm is the hyperparameter's density times its value.
        if self.is_of_logarithms:
            for name, where in self.slices:
                if name != "constant":
                    value = value + theta[:, where].sum(-1)
                    gradient[:, where] += 1.0
        return share * value, share.unsqueeze(-1) * gradient

    def _natural(self, theta: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        r"""Parameters in natural units about the centre, and their derivatives, `rows x p`."""
        values, slopes = [], []
        for name, where in self.slices:
            if name == "constant":
                values.append(scale.unsqueeze(-1) * theta[:, where])
                slopes.append(scale.unsqueeze(-1).expand_as(values[-1]))
            else:
                values.append(theta[:, where].exp())
                slopes.append(values[-1])
        return torch.cat(values, dim=-1), torch.cat(slopes, dim=-1)

    def named(self, values: Tensor, fixed_noise: Tensor | None) -> Hyperparameters:
        r"""Hyperparameters in rows, with a fixed value for those that the model lacks."""
        blocks = {name: values[:, where] for name, where in self.slices}
        # It is 0 if the model has none, or replaced by the best one.
        zero = values.new_zeros(len(values))
        return Hyperparameters(
            blocks["lengthscale"],
            blocks["noise"] if fixed_noise is None else fixed_noise,
            blocks["outputscale"].squeeze(-1) if "outputscale" in blocks else None,
            blocks["constant"].squeeze(-1) if "constant" in blocks else zero,
        )


def tensors(
    X: Tensor,
    targets: Targets,
    units: Tensor,
    fixed_noise: Tensor | None,
    best_constant: BestConstant | None,
    priors: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    r"""The arguments of a `LikelihoodForm` after the parameters, with padded training points.

    Args:
        X: `rows x n x d`.
        targets: The centred targets of the rows.
        units: The scale and the centre of the targets and minus one over their number, `rows x 3`;
            NaN for a row that cannot be fitted.
        fixed_noise: `rows x n` noise variances, if they are data.
        best_constant: The bounds and the density of the best constant, if it is used.
        priors: The parameters of each prior, `k x rows x size`.
    """
    n = X.shape[-2]
    more = padded(n) - n
    observed = targets.observed
    counted = X.new_ones(X.shape[:-1], dtype=torch.bool) if observed is None else observed
    # A point that fills the shape is not observed: `FactoredCovariance` then gives it a row of the
    # identity, which keeps the determinant, and its zeros in `both` keep the quadratic form.
    given = [pad(X, (0, 0, 0, more)), pad(targets.both, (0, 0, 0, more)), pad(counted, (0, more))]
    given.append(units)
    if fixed_noise is not None:
        given.append(pad(fixed_noise, (0, more), value=1.0))
    if best_constant is not None:
        given.append(torch.stack(best_constant, dim=-1))
    return *given, *priors


def padded(n: int) -> int:
    r"""The number of training points after padding."""
    return math.ceil(n / PADDED_TO) * PADDED_TO
