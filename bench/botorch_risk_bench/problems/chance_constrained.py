r"""Base class for problems with constraints that have to hold with a given probability."""

import math
from abc import ABC
from collections.abc import Callable, Sequence

import torch
from botorch.test_functions.synthetic import Branin, ConstrainedSyntheticTestFunction
from torch import Generator, Tensor

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import Expectation, ValueAtRisk
from botorch_risk.test_functions.environmental import (
    EnvironmentalTestProblem,
    Risk,
    bell_shaped_environment,
    draw_outcomes,
    risk_over,
)


class ChanceConstrainedTestProblem(EnvironmentalTestProblem, ConstrainedSyntheticTestFunction, ABC):
    r"""A maximised `f(x, w)` and slacks `c_i(x, w)`; `c_i >= 0` has to hold often enough.

        maximise E[f(x, W)]  subject to  P(c_i(x, W) >= 0) >= 1 - delta  for each i

    The distribution of W is `bell_shaped_environment()`, 33 values of [0, 1], so that `environment`
    is exact. The slacks of each problem decrease in w: so all constraints hold together exactly as
    often as the tightest one. W is at most 0.75 with probability 0.962, and at most the next lower
    value with probability 0.942. Hence the feasible set is known,

        P(c_i(x, W) >= 0) >= 0.95  <=>  c_i(x, 0.75) >= 0

    `evaluate_slack` and `is_feasible` are BoTorch's and belong to pairs (x, w). `constraint_risks`
    and `is_feasible_decision` belong to decisions, as do `optimal_decision`, `optimal_expectation`
    and `worst_feasible_value`, the least expectation of a feasible decision.

    A subclass defines `_evaluate_true`, `_evaluate_slack_true`, its box and its optimum.

    Args:
        noise_std: Standard deviation of the noise of the objective. Default: none.
        constraint_noise_std: Standard deviation of the noise of the slacks, one for all or one
            each. Default: none.
        dtype: The dtype of the bounds and of the distribution's points.

    Raises:
        InputDataError: If the number of standard deviations does not match the constraints.
    """

    environment: DiscreteEnvironment
    delta: float = 0.05
    optimal_expectation: float
    _optimal_decision: tuple[float, ...]

    def __init__(
        self,
        noise_std: float | None = None,
        constraint_noise_std: float | list[float] | None = None,
        dtype: torch.dtype = torch.double,
    ) -> None:
        self.dim = self.num_decision + self.num_environment
        self.continuous_inds = list(range(self.dim))
        ConstrainedSyntheticTestFunction.__init__(
            self, noise_std=noise_std, constraint_noise_std=constraint_noise_std, dtype=dtype
        )
        self.environment = bell_shaped_environment(dtype)

    @property
    def optimal_decision(self) -> Tensor:
        r"""The feasible decision with the largest expectation, a `d_x`-tensor."""
        return self.bounds.new_tensor(self._optimal_decision)

    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The expectation of f, or another measure of risk, feasible or not."""
        return self._risk_of(X, self._evaluate_true, Expectation() if risk is None else risk)

    def constraint_risks(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The risk of each slack, `... x num_constraints`, at `... x d_x` decisions.

        By default the value-at-risk, ties included: the value that a slack reaches with probability
        1 - delta, negative if the chance constraint is violated.

        Raises:
            ValueError: If `X` does not have `d_x` columns or is not within the bounds.
        """
        measure = ValueAtRisk(self.delta, strict=True) if risk is None else risk

        def of_slack(index: int) -> Callable[[Tensor], Tensor]:
            return lambda inputs: self._evaluate_slack_true(inputs)[..., index]

        each = [self._risk_of(X, of_slack(index), measure) for index in range(self.num_constraints)]
        return torch.stack(each, dim=-1)

    def is_feasible_decision(self, X: Tensor) -> Tensor:
        r"""Whether each constraint holds with a probability of at least 1 - delta."""
        return (self.constraint_risks(X) >= 0).all(dim=-1)

    def sample_outcomes(
        self, X: Tensor, num_repeats: int, generator: Generator | Sequence[Generator]
    ) -> Tensor:
        r"""Repeats of objective and slacks, `batch_shape x q x k x (1 + num_constraints)`.

        It takes the arguments of `RepeatedTestProblem.sample_repeats`; the objective is first.
        """
        values = [self.evaluate_true(X).unsqueeze(-1), self.evaluate_slack_true(X)]
        slack_std = self.constraint_noise_std or 0.0
        if not isinstance(slack_std, list):
            slack_std = [slack_std] * self.num_constraints
        deviations = [self.noise_std or 0.0, *slack_std]
        return draw_outcomes(torch.cat(values, dim=-1), deviations, num_repeats, generator)

    def _risk_of(self, X: Tensor, function: Callable[[Tensor], Tensor], risk: Risk) -> Tensor:
        self._check_decisions(X)
        return risk_over(self.environment, X, function, risk)


class ChanceConstrainedGramacy(ChanceConstrainedTestProblem):
    r"""The toy problem of Gramacy et al. with uncertain prices and limits; two decisions.

        f(x, w)   = -(0.5 + w) (x_1 + x_2)
        c_1(x, w) = x_1 + 2 x_2 + sin(2 pi (x_1^2 - 2 x_2)) / 2 - 1.5 - (w - 0.5) (0.2 + x_1)
        c_2(x, w) = 1.5 - x_1^2 - x_2^2 - 0.4 (w - 0.5)

    At w = 0.5 it is the problem of [Gramacy2016lagrangian]_, whose optimum is -0.5998 at (0.1954,
    0.4044). Decisions near that point violate the chance constraint: the optimum moves along the
    first constraint, which is tight there. A second local optimum is -0.756041 at (0, 0.756041). 35
    % of the square is feasible.

    Example:
        >>> problem = ChanceConstrainedGramacy()
        >>> problem.objective(problem.optimal_decision).item()
        -0.699606...
        >>> X = torch.tensor([[0.1954, 0.4044], [0.3, 0.45]], dtype=torch.double)
        >>> problem.is_feasible_decision(X)
        tensor([False,  True])
    """

    num_decision = 2
    num_environment = 1
    num_constraints = 2
    _bounds: list[tuple[float, float]] = [(0.0, 1.0)] * 3
    optimal_expectation = -0.69960698
    _optimal_decision = (0.27446772, 0.42513927)
    _worst_feasible_value = -math.sqrt(2.8)  # on the diagonal, where the second constraint is tight

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -(0.5 + X[..., 2]) * (X[..., 0] + X[..., 1])

    def _evaluate_slack_true(self, X: Tensor) -> Tensor:
        x_1, x_2, w = X.unbind(dim=-1)
        wave = torch.sin(2 * math.pi * (x_1.square() - 2 * x_2)) / 2
        first = x_1 + 2 * x_2 + wave - 1.5 - (w - 0.5) * (0.2 + x_1)
        second = 1.5 - x_1.square() - x_2.square() - 0.4 * (w - 0.5)
        return torch.stack([first, second], dim=-1)


class ChanceConstrainedBranin(ChanceConstrainedTestProblem):
    r"""Branin, shifted at random, in a disk of random size; two decisions.

        f(x, w) = -(B(x_1 + 4 (w - 0.5), x_2) - 44.81) / 51.95
        c(x, w) = 1 - ((x_1 - 2.5)^2 + (x_2 - 7.5)^2) / 50 - 2.4 (w - 0.5)

    with `B` the Branin function. At w = 0.5 the constraint is the disk of [Gelbart2014unknown]_.
    The feasible set is the disk of radius sqrt(20) round (2.5, 7.5), 28 % of the box. The optimum
    is on its circle; without the constraint the expectation reaches 0.820359.
    """

    num_decision = 2
    num_environment = 1
    num_constraints = 1
    _bounds: list[tuple[float, float]] = [(-5.0, 10.0), (0.0, 15.0), (0.0, 1.0)]  # noqa: RUF012
    optimal_expectation = 0.81097041
    _optimal_decision = (3.01327250, 3.05741615)
    _worst_feasible_value = -1.25734087

    _branin = Branin()  # shared, as its formula holds no state

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x_1, x_2, w = X.unbind(dim=-1)
        inputs = torch.stack([x_1 + 4 * (w - 0.5), x_2], dim=-1)
        return -(self._branin._evaluate_true(inputs) - 44.81) / 51.95

    def _evaluate_slack_true(self, X: Tensor) -> Tensor:
        x_1, x_2, w = X.unbind(dim=-1)
        squares = (x_1 - 2.5).square() + (x_2 - 7.5).square()
        return (1 - squares / 50 - 2.4 * (w - 0.5)).unsqueeze(-1)
