r"""Base class for problems in which each point is measured `k` times."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.test_functions.base import BaseTestProblem, validate_inputs
from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Generator, Tensor

from botorch_risk.arguments import check_counts


class RepeatedTestProblem(BaseTestProblem, ABC):
    r"""A maximised problem whose outcome is a random draw, with a distribution that depends on `x`.

    It has the interface that the experiment loop of `botorch_risk_bench` needs: `bounds` and
    `sample_repeats`. There is no `negate`: the objective is always to be maximised, so
    `forward(X, noise=False)` and `evaluate_true(X)` agree. A subclass defines how draws become
    outcomes (`_observe`) and, if they are not standard normal, how to draw (`_draw`).

    Example:
        >>> class Coin(RepeatedTestProblem):  # 1 with probability x, else 0
        ...     dim, continuous_inds, _bounds = 1, [0], [(0.0, 1.0)]
        ...     def _evaluate_true(self, X):
        ...         return X[..., 0]
        ...     def _observe(self, X, draws):
        ...         return (draws < torch.special.ndtri(X)).to(X)
        >>> Coin().sample_repeats(torch.tensor([[0.0], [1.0]]), 3, torch.Generator())
        tensor([[0., 0., 0.],
                [1., 1., 1.]])
    """

    bounds: Tensor
    _is_minimization_by_default: bool = False
    num_objectives: int = 1

    def forward(self, X: Tensor, noise: bool = True) -> Tensor:
        r"""One outcome at each of `batch_shape x d` points, from torch's global random state.

        Without `noise` it is the mean of the outcome.
        """
        if not noise:
            return self.evaluate_true(X)
        self._validate(X)
        return self._observe(X, self._draw((*X.shape[:-1], 1), None)).squeeze(-1)

    def sample_repeats(
        self, X: Tensor, num_repeats: int, generator: Generator | Sequence[Generator]
    ) -> Tensor:
        r"""Repeated outcomes at each point, `batch_shape x q x k`.

        Args:
            X: The points, `batch_shape x q x d`, within the bounds.
            num_repeats: The number of repeats, `k >= 1`.
            generator: One CPU generator; or one for each entry of the leading batch
                dimension, and then the draws of a replicate do not depend on the other
                replicates. Draws are made on the CPU in float64, so they depend neither
                on the device nor on the dtype of `X`.

        Raises:
            BotorchTensorDimensionError: If `X` has fewer than two dimensions, or its leading
                batch dimension does not match the sequence of generators.
            ValueError: If `num_repeats` is less than 1 or `X` is not within the bounds.
        """
        if X.dim() < 2:
            raise BotorchTensorDimensionError(
                f"Expected `X` to have shape `batch_shape x q x d`. Got {X.shape=}."
            )
        check_counts(num_repeats=num_repeats)
        self._validate(X)
        shape = (*X.shape[:-1], num_repeats)  # batch_shape x q x k
        if isinstance(generator, Generator):
            return self._observe(X, self._draw(shape, generator))
        if X.dim() < 3 or len(generator) != X.shape[0]:
            raise BotorchTensorDimensionError(
                "Expected one generator for each entry of the leading batch dimension of "
                f"`X: batch_shape x q x d`. Got {X.shape=} and {len(generator)} generators."
            )
        return self._observe(X, torch.stack([self._draw(shape[1:], each) for each in generator]))

    def _validate(self, X: Tensor) -> None:
        validate_inputs(
            X=X,
            dim=self.dim,
            bounds=self.bounds,
            discrete_inds=self.discrete_inds,
            categorical_inds=self.categorical_inds,
        )

    def _draw(self, shape: tuple[int, ...], generator: Generator | None) -> Tensor:
        r"""Raw random numbers on the CPU, `shape`; from the global state without a generator."""
        return torch.randn(shape, generator=generator, dtype=torch.double, device="cpu")

    @abstractmethod
    def _observe(self, X: Tensor, draws: Tensor) -> Tensor:
        r"""The outcomes, `... x k`, at `X: ... x d` for `draws: ... x k`, one number each."""


class ConstantNoiseProblem(RepeatedTestProblem, SyntheticTestFunction, ABC):
    r"""A maximised function with Gaussian noise of the same standard deviation everywhere.

        outcome(x) = f(x) + noise_std * N(0, 1)

    Without `noise_std` every outcome is `f(x)`. A subclass defines `_evaluate_true`.
    """

    noise_std: float | None

    def objective(self, X: Tensor) -> Tensor:
        return self.evaluate_true(X)

    def _observe(self, X: Tensor, draws: Tensor) -> Tensor:
        values = self._evaluate_true(X).unsqueeze(-1)  # ... x 1
        if not self.noise_std:
            return values.expand(draws.shape)
        return values + self.noise_std * draws.to(X)


class MaximizedTestFunction(ConstantNoiseProblem):
    r"""One of BoTorch's own test functions, maximised, with the interface of the experiment loop.

    A function to be minimised is negated, whatever its `negate` is.

    Example:
        >>> from botorch.test_functions import Branin
        >>> problem = MaximizedTestFunction(Branin())
        >>> X = problem.optimizers[:1]
        >>> problem(X, noise=False)
        tensor([-0.3979], dtype=torch.float64)
    """

    def __init__(self, function: SyntheticTestFunction) -> None:
        bounds = cast(Tensor, function.bounds)
        sign = -1.0 if function._is_minimization_by_default else 1.0
        self.dim, self._bounds = function.dim, bounds.T.tolist()
        self.continuous_inds = list(function.continuous_inds)
        self.discrete_inds = list(function.discrete_inds)
        self.categorical_inds = list(function.categorical_inds)
        self._optimizers = function._optimizers
        if function._optimal_value is not None:
            self._optimal_value = sign * function._optimal_value
        super().__init__(noise_std=function.noise_std, dtype=bounds.dtype)
        self.function, self._sign = function, sign

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self._sign * self.function._evaluate_true(X)
