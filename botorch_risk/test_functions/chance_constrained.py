r"""Base class for problems with constraints that have to hold with a given probability."""

from abc import ABC
from collections.abc import Callable, Sequence

import torch
from botorch.test_functions.synthetic import ConstrainedSyntheticTestFunction
from torch import Generator, Tensor

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import Expectation, ValueAtRisk
from botorch_risk.test_functions.environmental import (
    EnvironmentalTestProblem,
    Risk,
    bell_shaped_environment,
    risk_over,
)
from botorch_risk.test_functions.several_outcomes import draw_outcomes


class ChanceConstrainedTestProblem(EnvironmentalTestProblem, ConstrainedSyntheticTestFunction, ABC):
    r"""A maximised `f(x, w)` and slacks `c_i(x, w)`, where `c_i >= 0` has to hold often enough.

        maximise E[f(x, W)]  subject to  P(c_i(x, W) >= 0) >= 1 - delta  for each i

    The distribution of W is `bell_shaped_environment()`, 33 values of [0, 1], so that `environment`
    is exact. The slacks of each problem decrease in w: the constraints hold jointly as often as the
    tightest one does. W is at most 0.75 with a probability of 0.962, and at most the next lower
    value with one of 0.942. Hence the feasible set is known,

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
        InputDataError: If there are not as many standard deviations as constraints.
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
        r"""Where the expectation is largest among feasible decisions, a `d_x`-tensor."""
        return self.bounds.new_tensor(self._optimal_decision)

    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The expectation of f, or another measure of risk, feasible or not."""
        return self._risk_of(X, self._evaluate_true, Expectation() if risk is None else risk)

    def constraint_risks(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The risk of each slack, `... x num_constraints`, at `... x d_x` decisions.

        By default the value-at-risk, ties included: what a slack is at least with a probability of
        1 - delta, negative if the chance is missed.

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

        The arguments are those of `RepeatedTestProblem.sample_repeats`; the objective is first.
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
