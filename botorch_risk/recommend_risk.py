r"""Which decision do I hand over under a risk of the environment?

.. [Nguyen2021vucb]
    Q. P. Nguyen, Z. Dai, B. K. H. Low, P. Jaillet. Value-at-Risk Optimization with Gaussian
    Processes. International Conference on Machine Learning, 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.optim.multistart import optimize_acqf_replicates
from botorch_risk.recommend import Recommendation, best_of, check_recorded

RiskRule = Literal["posterior_mean", "lower_confidence_bound", "recorded_lower_confidence_bound"]


def recommend_risk(
    acqf: RiskUpperConfidenceBound,
    X: Tensor,
    rule: RiskRule = "posterior_mean",
    recorded: Tensor | None = None,
) -> Recommendation:
    r"""The best of some decisions by a reporting rule for a risk of the environment.

    The rule decides the simple regret as much as the method that chose the decisions does, so a
    comparison uses one rule for all methods and names it.

    - `"posterior_mean"`: the largest risk of the posterior mean, `risk(mean(x, W))`. That of the
      experiments of [Nguyen2021vucb]_, Sec. 4.
    - `"lower_confidence_bound"`: the largest risk of the lower bound of this model.
    - `"recorded_lower_confidence_bound"`: the same bound, but of the model of the round in
      which the decision was queried, given as `recorded`: `x_{t*}` with `t* = argmax_t
      VaR(l_{t-1}(x_t, W))`, whose regret the theory bounds (Sec. 3.2 and Appendix F).

    Args:
        acqf: The confidence bound of the final model.
        X: Decisions to choose from, `batch_shape x n x d_x`, as a rule the visited ones.
        rule: The reporting rule.
        recorded: `batch_shape x n` lower bounds, for the rule that asks for them; NaN where none
            was recorded.

    Returns:
        The decision, its score and its row.

    Raises:
        BotorchTensorDimensionError: If `X` is not `batch_shape x n x d_x`.
        InputDataError: If a replicate has no recorded bound.
        ValueError: If the rule is not known, or `recorded` is missing.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> from botorch_risk.risk import ValueAtRisk
        >>> train_X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(train_X, (4 * train_X).sin().sum(dim=-1, keepdim=True))
        >>> environment = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> acqf = RiskUpperConfidenceBound(model, environment, ValueAtRisk(0.1), beta=4.0)
        >>> recommend_risk(acqf, train_X[:, :1]).point.shape
        torch.Size([1])
    """
    if X.dim() < 2:
        raise BotorchTensorDimensionError(
            f"Expected `X` to have shape `batch_shape x n x d_x`. Got {X.shape=}."
        )
    with torch.no_grad():
        if rule == "posterior_mean":
            return best_of(X, acqf.mean(X))
        if rule == "lower_confidence_bound":
            return best_of(X, acqf.lower(X))
        if rule == "recorded_lower_confidence_bound":
            return best_of(X, check_recorded(recorded, X))
    raise ValueError(f"Expected `rule` in {get_args(RiskRule)}. Got {rule!r}.")


def maximize_risk_of_mean(
    acqf: RiskUpperConfidenceBound,
    bounds: Tensor,
    *,
    seeds: int | Sequence[int],
    num_restarts: int = 10,
    raw_samples: int = 256,
) -> tuple[Tensor, Tensor]:
    r"""The decision, visited or not, with the largest risk of the posterior mean.

    Args:
        acqf: The confidence bound of a model of batch shape `[R]`, or `[]` for `R = 1`.
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
        seeds: One for each replicate.
        num_restarts: Starts of the optimiser.
        raw_samples: Raw points of the optimiser.

    Returns:
        The decisions, `R x d_x`, and their values, `R`.

    Raises:
        BotorchTensorDimensionError: If the bounds or the seeds do not fit.
        ValueError: If there are fewer raw points than starts, or a seed repeats.
    """
    X, value = optimize_acqf_replicates(
        _RiskOfMean(acqf),
        bounds,
        seeds=seeds,
        num_restarts=num_restarts,
        raw_samples=raw_samples,
    )
    return X.squeeze(-2), value


@dataclass(frozen=True)
class _RiskOfMean:
    r"""The risk of the posterior mean as an acquisition function."""

    bound: RiskUpperConfidenceBound

    @property
    def model(self) -> Model:
        return self.bound.model

    def evaluate(self, X: Tensor) -> Tensor:
        return self.bound.mean(X)
