r"""Base class for problems of a decision and an environmental variable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from torch import Generator, Tensor

from botorch_risk.environments import IndependentEnvironment
from botorch_risk.test_functions.constant_noise import ConstantNoiseProblem

Risk = Callable[[Tensor, Tensor], Tensor]
r"""From values `... x n_w` and weights, broadcastable to them, to a `...` tensor."""

MAX_EVALUATIONS = 2**20  # of the function at once, to bound memory


class EnvironmentalTestProblem(ConstantNoiseProblem, ABC):
    r"""A maximised function `f(x, w)` with a known distribution of W.

    The first `num_decision` columns of the inputs are the decision, the other ones w. The objective
    is a measure of risk of `f(x, W)` at a decision; `optimal_value` and `optimizers` belong to `f`,
    as everywhere in BoTorch.

    It has what the experiment loop asks of a problem with contexts
    (`botorch_risk.experiments.problem.ProblemWithContexts`). A subclass sets `environment` and
    defines `objective` and `_evaluate_true`.
    """

    environment: IndependentEnvironment
    num_decision: int
    num_environment: int

    @property
    def decision_bounds(self) -> Tensor:
        r"""The lower and the upper bounds of the decision, `2 x d_x`."""
        return self.bounds[:, : self.num_decision]

    def draw_contexts(self, X: Tensor, generator: Generator | Sequence[Generator]) -> Tensor:
        r"""The values of W that decisions meet.

        Args:
            X: Decisions, `q x d_x`, or `R x q x d_x`.
            generator: A CPU generator, or one for each of `R` replicates.

        Returns:
            `q x d_w`, or `R x q x d_w`.
        """
        return self.environment.sample(X.shape[-2], generator)

    @abstractmethod
    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The risk of decisions under the distribution of W, to be maximised.

        Args:
            X: Decisions, `... x d_x`, within `decision_bounds`.
            risk: From values `... x n_w` and their weights to a `...` tensor, such as a measure
                of `botorch_risk.risk`. Default: the problem's own.

        Returns:
            A `...` tensor.
        """

    def _check_decisions(self, X: Tensor) -> None:
        lower, upper = self.decision_bounds.to(X)
        if X.shape[-1] != self.num_decision or not ((lower <= X) & (upper >= X)).all():
            raise ValueError(
                f"Expected `X` to have shape `... x {self.num_decision}`, within the decision's "
                f"bounds. Got {X.shape=}, from {X.min().item()} to {X.max().item()}."
            )
