r"""Base class for functions that are observed with noise of one known variance, or without any."""

from abc import ABC

from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor

from botorch_risk.test_functions.repeats import RepeatedTestProblem


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
