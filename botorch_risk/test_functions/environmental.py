r"""Base class for problems of a decision and an environmental variable."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Generator, Tensor

from botorch_risk.arguments import check_counts
from botorch_risk.environments import DiscreteEnvironment, IndependentEnvironment
from botorch_risk.test_functions.repeats import ConstantNoiseProblem


def draw_outcomes(
    values: Tensor,
    noise_std: Sequence[float],
    num_repeats: int,
    generator: Generator | Sequence[Generator],
) -> Tensor:
    r"""Repeats of several outcomes, each with Gaussian noise of a known standard deviation.

        outcome_i = values_i + noise_std_i * N(0, 1)

    It is `batch_shape x q x k x m`, from `batch_shape x q x m` values and `m` standard deviations.
    The other arguments, and the errors, are as in `RepeatedTestProblem.sample_repeats`.
    """
    check_counts(num_repeats=num_repeats)
    shape = (*values.shape[:-1], num_repeats, values.shape[-1])
    if isinstance(generator, Generator):
        draws = torch.randn(shape, generator=generator, dtype=torch.double)
    elif values.dim() < 3 or len(generator) != len(values):
        raise BotorchTensorDimensionError(
            "Expected one generator for each entry of the leading batch dimension of "
            f"`R x q x d` points. Got {tuple(values.shape[:-1])} and {len(generator)} generators."
        )
    else:
        each = [torch.randn(shape[1:], generator=g, dtype=torch.double) for g in generator]
        draws = torch.stack(each)
    return values.unsqueeze(-2) + values.new_tensor(list(noise_std)) * draws.to(values)


Risk = Callable[[Tensor, Tensor], Tensor]
r"""From values `... x n_w` and weights, broadcastable to them, to a `...` tensor."""

MAX_EVALUATIONS = 2**20  # of the function at once, to bound memory


class EnvironmentalTestProblem(ConstantNoiseProblem, ABC):
    r"""A maximised function `f(x, w)` with a known distribution of W.

    The first `num_decision` columns of the inputs are the decision, and the others are w. The
    objective is a measure of risk of `f(x, W)` at a decision; `optimal_value` and `optimizers`
    belong to `f`, as everywhere in BoTorch.

    It has the interface that the experiment loop of `botorch_risk_bench` needs for a problem with
    contexts. A subclass sets `environment` and defines `objective` and `_evaluate_true`.

    Example:
        >>> from botorch_risk.risk import Expectation, WorstCase
        >>> class Stock(EnvironmentalTestProblem):
        ...     dim, num_decision, num_environment = 2, 1, 1
        ...     continuous_inds, _bounds, _optimal_value = [0, 1], [(0.0, 1.0)] * 2, 1.0
        ...     environment = bell_shaped_environment()
        ...     def _evaluate_true(self, X):
        ...         return torch.minimum(X[..., 0], X[..., 1]) - X[..., 0] / 2  # demand w, price 1
        ...     def objective(self, X, risk=None):
        ...         risk = risk or Expectation()
        ...         return risk_over(self.environment, X, self._evaluate_true, risk)
        >>> X = torch.tensor([[0.5]], dtype=torch.double)
        >>> Stock().objective(X), Stock().objective(X, WorstCase())
        (tensor([0.1905], dtype=torch.float64), tensor([-0.2500], dtype=torch.float64))
    """

    environment: IndependentEnvironment
    num_decision: int
    num_environment: int

    @property
    def decision_bounds(self) -> Tensor:
        r"""The lower and the upper bounds of the decision, `2 x d_x`."""
        return self.bounds[:, : self.num_decision]

    def draw_contexts(self, X: Tensor, generator: Generator | Sequence[Generator]) -> Tensor:
        r"""The values of W, `(R x) q x d_w`, that decisions `(R x) q x d_x` happen to meet."""
        return self.environment.sample(X.shape[-2], generator)

    @abstractmethod
    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The risk of decisions under the distribution of W, to be maximised.

        Args:
            X: Decisions, `... x d_x`, within `decision_bounds`.
            risk: Maps values `... x n_w` and their weights to a `...` tensor, such as a measure of
                `botorch_risk.risk`. Default: the problem's own.

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
        whole = [i for i in self.discrete_inds + self.categorical_inds if i < self.num_decision]
        if bool((X[..., whole] != X[..., whole].round()).any()):
            raise ValueError(
                f"Expected whole numbers in the columns {whole} of `X`. Got "
                f"{X[..., whole][X[..., whole] != X[..., whole].round()][0].item()}."
            )


def risk_over(
    environment: IndependentEnvironment, X: Tensor, function: Callable[[Tensor], Tensor], risk: Risk
) -> Tensor:
    r"""The risk of a function over an environment, in float64 and in bounded memory.

    `function` maps pairs (x, w), `... x d`, to a `...` tensor.
    """
    rows = X.reshape(-1, X.shape[-1]).double()
    chunk = max(1, MAX_EVALUATIONS // environment.points.shape[-2])
    parts = [environment.expand(part) for part in rows.split(chunk)]
    values = [risk(function(inputs), weights) for inputs, weights in parts]
    return torch.cat(values).reshape(X.shape[:-1]).to(X)


def bell_shaped_environment(dtype: torch.dtype = torch.double) -> DiscreteEnvironment:
    r"""33 equidistant values of [0, 1], bounds included, with a normal density's weights.

    P(W = w) is proportional to exp(-(w - 0.5)^2 / (2 * 0.15^2))
    """
    w = torch.linspace(0, 1, 33, dtype=torch.double)
    masses = torch.exp(-((w - 0.5) / 0.15).square() / 2)
    return DiscreteEnvironment(w.unsqueeze(-1).to(dtype), (masses / masses.sum()).to(dtype))
