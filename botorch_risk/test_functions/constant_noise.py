r"""Base class for functions that are observed with noise of one known variance, or without any."""

from __future__ import annotations

from abc import ABC

from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor

from botorch_risk.test_functions.repeats import RepeatedTestProblem


class ConstantNoiseProblem(RepeatedTestProblem, SyntheticTestFunction, ABC):
    r"""A maximised function with Gaussian noise of the same standard deviation everywhere.

        outcome(x) = f(x) + noise_std * N(0, 1)

    Without `noise_std` every outcome is `f(x)`. A subclass defines `_evaluate_true`.

    Example:
        >>> import torch
        >>> class Sphere(ConstantNoiseProblem):
        ...     dim, continuous_inds, _bounds = 2, [0, 1], [(-1.0, 1.0), (-1.0, 1.0)]
        ...     def _evaluate_true(self, X):
        ...         return -X.square().sum(dim=-1)
        >>> X = torch.tensor([[0.5, 0.0]])
        >>> Sphere().sample_repeats(X, num_repeats=3, generator=torch.Generator())
        tensor([[-0.2500, -0.2500, -0.2500]])
    """

    noise_std: float | None

    def objective(self, X: Tensor) -> Tensor:
        r"""The function without noise, `... x d -> ...`."""
        return self.evaluate_true(X)

    def _observe(self, X: Tensor, draws: Tensor) -> Tensor:
        values = self._evaluate_true(X).unsqueeze(-1)  # ... x 1
        if not self.noise_std:
            return values.expand(draws.shape)
        return values + self.noise_std * draws.to(X)
