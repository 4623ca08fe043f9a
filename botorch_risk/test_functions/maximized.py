r"""BoTorch's own test functions as problems that the experiment loop can run."""

from typing import cast

from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor

from botorch_risk.test_functions.constant_noise import ConstantNoiseProblem


class MaximizedTestFunction(ConstantNoiseProblem):
    r"""One of BoTorch's own test functions, maximised, with what the experiment loop asks for.

    A function that is to be minimised is negated, whatever its `negate` says.

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
