r"""Problems that are known at every point of a finite domain."""

from collections.abc import Sequence

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.arguments import as_floating, check_counts, first_wrong
from botorch_risk.test_functions.repeats import RepeatedTestProblem


class FiniteDomainProblem(RepeatedTestProblem):
    r"""A maximised function given by its values at the points of a domain.

        outcome(x) = f(x) + sqrt(noise variance) N(0, 1)

    Points are looked up exactly. A row of NaN in `X` is no point; its value and outcomes are NaN.
    If the noise can be chosen, the last column of `X` is the number of the level, from 0.

    Args:
        domain: `|D| x d` distinct points.
        values: `|D|` values of f; or `R x |D|`, a function for each of `R` replicates, and
            then `X` has a leading dimension `R`.
        noise: The noise variance, in squared units of f; several values are levels to choose from.

    Raises:
        BotorchTensorDimensionError: If the shapes do not fit.
        InputDataError: If a value is not finite or a point repeats.
        ValueError: If a noise variance is negative or not finite.

    Example:
        >>> domain = torch.cartesian_prod(torch.arange(3.0), torch.arange(2.0))
        >>> problem = FiniteDomainProblem(domain, domain.sum(dim=-1), noise=(0.01, 1.0))
        >>> problem.evaluate_true(torch.tensor([[2.0, 1.0], [torch.nan, torch.nan]]))
        tensor([3., nan])
        >>> X = torch.tensor([[2.0, 1.0, 0.0]])  # at the lower noise
        >>> problem.sample_repeats(X, num_repeats=4, generator=torch.Generator()).shape
        torch.Size([1, 4])
    """

    domain: Tensor
    values: Tensor

    def __init__(
        self, domain: Tensor, values: Tensor, noise: float | Sequence[float] = 0.0
    ) -> None:
        domain, values = as_floating(domain, "domain"), as_floating(values)
        if domain.dim() != 2 or values.dim() not in (1, 2) or values.shape[-1] != len(domain):
            raise BotorchTensorDimensionError(
                "Expected `domain` to have shape `|D| x d` and `values` `|D|` or `R x |D|`. "
                f"Got {domain.shape=}, {values.shape=}."
            )
        if not (domain.isfinite().all() and values.isfinite().all()):
            raise InputDataError("Expected finite `domain` and `values`. Got NaN or infinity.")
        if len(domain.unique(dim=0)) < len(domain):
            raise InputDataError(
                f"Expected distinct points. Got {len(domain.unique(dim=0))} among {len(domain)}."
            )
        variances = as_floating(noise, "noise").double().flatten()
        self.noise_variances = tuple(variances.tolist())
        if not self.noise_variances:
            raise ValueError("Expected finite noise variances >= 0, at least one. Got none.")
        if not (fits := (variances >= 0) & variances.isfinite()).all():
            raise ValueError(
                f"Expected finite noise variances >= 0. Got {first_wrong(variances, fits)}."
            )
        d = domain.shape[-1]
        self._bounds = list(zip(domain.amin(0).tolist(), domain.amax(0).tolist(), strict=True))
        self.continuous_inds = list(range(d))
        if len(self.noise_variances) > 1:
            self._bounds.append((0.0, len(self.noise_variances) - 1.0))
            self.discrete_inds = [d]
        self.dim = len(self._bounds)
        super().__init__(dtype=domain.dtype)
        self.register_buffer("domain", domain.clone())
        self.register_buffer("values", values.to(domain).clone())

    @property
    def maximum(self) -> Tensor:
        r"""The largest value on the domain, a number or one for each of `R` replicates."""
        return self.values.amax(dim=-1)

    def evaluate_true(self, X: Tensor) -> Tensor:
        r"""The values at points of the domain, a `...` tensor with NaN at rows of NaN.

        Args:
            X: `... x d` points, or `... x (d + 1)` with levels; `R x ...` if each replicate
                has its own function.

        Raises:
            BotorchTensorDimensionError: If the shape does not fit.
            InputDataError: If a point is not in the domain, or a level does not exist.
        """
        index = self._index(X)
        known = index.clamp_min(0)
        if self.values.dim() == 1:
            found = self.values[known]
        else:
            if X.dim() < 2 or len(X) != len(self.values):
                raise BotorchTensorDimensionError(
                    f"Expected `X` to have shape `{len(self.values)} x ... x d`. Got {X.shape=}."
                )
            found = self.values.gather(-1, known.reshape(len(X), -1)).reshape(index.shape)
        return found.where(index >= 0, torch.nan)

    def objective(self, X: Tensor) -> Tensor:
        r"""Minus the regret, `f(x) - max f`: functions of a family share their optimum, 0."""
        return self.evaluate_true(X) - self.maximum.unsqueeze(-1)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self.evaluate_true(X)

    def _validate(self, X: Tensor) -> None:
        if X.shape[-1] != self.dim:
            raise BotorchTensorDimensionError(
                f"Expected `X` to have shape `... x {self.dim}`. Got {X.shape=}."
            )
        self._index(X)

    def _index(self, X: Tensor) -> Tensor:
        r"""Indices of points in the domain, `...`; -1 for rows of NaN."""
        d = self.domain.shape[-1]
        if X.shape[-1] not in (d, self.dim):
            raise BotorchTensorDimensionError(
                f"Expected `X` to have shape `... x {d}` or `... x {self.dim}`. Got {X.shape=}."
            )
        missing = X.isnan().all(dim=-1)
        points, level = X[..., :d], X[..., d:]
        same = (points.unsqueeze(-2) == self.domain).all(dim=-1)  # ... x |D|
        known_level = (level.frac() == 0) & (level >= 0) & (level < len(self.noise_variances))
        outside = ~missing & ~(same.any(dim=-1) & known_level.all(dim=-1))
        if bool(outside.any()):
            raise InputDataError(
                "Expected points of the domain, with a noise level if there is one to choose. "
                f"Got {X[outside][:3].tolist()}."
            )
        return same.to(torch.uint8).argmax(dim=-1).where(~missing, -1)

    def _observe(self, X: Tensor, draws: Tensor) -> Tensor:
        variances = X.new_tensor(self.noise_variances)
        level = torch.zeros_like(X[..., 0], dtype=torch.long)
        if len(self.noise_variances) > 1:
            level = X[..., -1].nan_to_num().long()
        deviation = variances[level].sqrt().unsqueeze(-1)  # ... x 1
        return self.evaluate_true(X).unsqueeze(-1) + deviation * draws.to(X)


def unit_grid(side: int, dim: int = 2, dtype: torch.dtype = torch.double) -> Tensor:
    r"""The points of a uniform grid on the unit cube, `side^dim x dim`, the last input fastest.

    Raises:
        ValueError: If there is no point or no input.
    """
    check_counts(side=side, dim=dim)
    axis = torch.linspace(0, 1, side, dtype=dtype)
    return torch.cartesian_prod(*[axis] * dim).reshape(-1, dim)
