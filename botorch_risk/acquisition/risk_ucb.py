r"""Confidence bounds of a risk measure of the environment: one class for many papers."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.outcomes_over_w import OutcomesOverW
from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    ValueAndGradient,
    per_point,
    register_weights,
)
from botorch_risk.arguments import check_kind
from botorch_risk.engine import Belief
from botorch_risk.environments import Environment
from botorch_risk.environments.environment import inputs_of_readings
from botorch_risk.gradients import differentiated
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.hallucination import condition_on_mean
from botorch_risk.models.outcomes import refuse_reduced
from botorch_risk.points import as_points, check_made_inputs, input_widths
from botorch_risk.risk import RiskMeasure
from botorch_risk.risk.measure import Optimism


class PointwiseBounds(NamedTuple):
    r"""Confidence bounds of the outcome at each value of the environment, `batch_shape x m x n_w`.

    The weights are probabilities, broadcastable to the bounds.
    """

    lower: Tensor
    upper: Tensor
    weights: Tensor


@construct_from_own_arguments
class RiskUpperConfidenceBound(PointwiseAcquisitionFunction):
    r"""Risk measure of the upper confidence bound over the environment.

        score(x) = risk([ mean(x, w_j) + sqrt(beta) sigma(x, w_j) ]_j, weights_j)

    The environment supplies the `w_j` and their weights; the risk measure reduces the outcomes to
    one number. Each of these papers chooses the two parts:

    - SBO-KDE, Algorithm 1 of [Huang2024kde]_: kernel density of the observed contexts,
      `Expectation()`;
    - DRBO-KDE, Algorithm 2 of [Huang2024kde]_: the same density, `TotalVariationBall(radius)`;
    - V-UCB, Algorithm 1 of [Nguyen2021vucb]_: `ValueAtRisk(risk_level)`, with `select_lacing_value`
      for w;
    - StableOpt: a box of contexts, `WorstCase()`;
    - DRBO-MMD: an empirical grid, `MaximumMeanDiscrepancyBall(radius, kernel)`, or
      `MinimaxApproximation(radius, kernel)` with `optimism="of_values"`.

    It is the expectation of the UCB, not the UCB of the expectation: an upper bound of the risk
    wherever the bounds hold pointwise. If the measure is not monotone in the values
    (mean-variance), its own valid bound replaces risk(upper), unless `optimism` asks for
    risk(upper) itself. Single-outcome, q = 1: use `sequential=True` for a batch.

    Example:
        >>> import torch
        >>> from botorch_risk.examples import environment, model
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> acqf = RiskUpperConfidenceBound(
        ...     model, environment, ConditionalValueAtRisk(0.2), beta=4.0
        ... )
        >>> acqf(torch.rand(3, 1, 1, dtype=torch.double)).shape
        torch.Size([3])
    """

    beta: Tensor
    num_samples = 64  # of the outcomes over W, for moments of the risk

    def __init__(
        self,
        model: Model,
        environment: Environment,
        risk_measure: RiskMeasure,
        beta: float | Tensor,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        optimism: Optimism = "of_risk",
    ) -> None:
        r"""Builds the bound.

        Args:
            model: A fitted model of (x, w) with one output, or of x for an environment that
                perturbs x.
            environment: The distribution of w, or of the perturbation of x.
            risk_measure: Reduces the values over the environment, to which it is bound here.
            beta: Squared width of the pointwise bound, >= 0, a number or `batch_shape`. SBO-KDE's
                sqrt(beta) = 1.5 is `beta=2.25`.
            posterior_transform: Reduces the model's outputs to one, or flips its sign
                (BoTorch's weight of -1: the outcome is minimised, and low risk means a small upper
                tail).
            X_pending: `batch_shape x n' x d_x` decisions under evaluation. The model is conditioned
                on its own mean at each decision and eight values of w at equal steps of
                probability, or every value in the support if W has categories.
            optimism: The score of `evaluate` and `forward`. `"of_risk"`: `upper`, an upper bound of
                the risk. `"of_values"`: the risk of the pointwise upper bounds, which is no bound
                of the risk if the measure is not monotone. It suits approximations of a monotone
                measure, such as the minimax approximation of a worst case.

        Raises:
            UnsupportedError: If the measure needs points and the environment has none, or the model
                is one of risks already.
        """
        check_kind(Optimism, optimism=optimism)
        refuse_reduced(model)
        environment, risk_measure = parts_of(environment, risk_measure)
        super().__init__(model=model)
        register_weights(self, model, beta=beta)
        self.optimism = optimism
        self.has_kinks = risk_measure.has_kinks
        self.environment = environment
        self.risk_measure = risk_measure.bind(environment)
        self.posterior_transform = posterior_transform
        self.set_X_pending(X_pending)

    def _follow_the_state(self) -> None:
        # A loaded state may have other points of W than the measure was bound to.
        self.risk_measure = self.risk_measure.bind(self.environment)
        super()._follow_the_state()

    def _condition(self, X_pending: Tensor | None) -> OutcomesOverW:
        r"""The outcomes over W, given the model's own mean at pending decisions."""
        model = self.model
        if X_pending is not None:
            inputs = inputs_of_readings(self.environment, X_pending)
            check_made_inputs(input_widths(model), inputs.shape[-1])
            model = condition_on_mean(model, inputs)
        return OutcomesOverW.of(Belief(model, self.posterior_transform), self.environment)

    def score(self, X: Tensor) -> Tensor:
        r"""Optimistic values at `batch_shape x m x d_x` decisions, `batch_shape x m`."""
        if self.optimism == "of_values":
            return self._conditioned.in_chunks(X, self._risk_of_upper)
        return self.upper(X)

    def upper(self, X: Tensor) -> Tensor:
        r"""Upper bound of the risk at `batch_shape x m x d_x` decisions, `batch_shape x m`."""
        return self._conditioned.in_chunks(X, partial(self._bound, side=1))

    def lower(self, X: Tensor) -> Tensor:
        r"""Lower bound of the risk, `batch_shape x m`, which can be reported with confidence."""
        return self._conditioned.in_chunks(X, partial(self._bound, side=0))

    def mean(self, X: Tensor) -> Tensor:
        r"""Risk of the posterior mean, `batch_shape x m`."""
        return self._conditioned.in_chunks(
            X, lambda X: self.risk_measure(*self._conditioned.mean(X))
        )

    def pointwise_bounds(self, X: Tensor) -> PointwiseBounds:
        r"""Bounds of the outcome itself at each (x, w_j), in the order of `environment.expand(X)`.

            mean(x, w_j) -/+ sqrt(beta) sigma(x, w_j)

        The decisions, `batch_shape x m x d_x`, do not interact and are evaluated all at once, so
        give only a few.
        """
        X = as_points(X, self.model)
        mean, variance, weights = self._conditioned(X)
        width = self._width(X).unsqueeze(-1) * variance.sqrt()
        # Eqs. (2) and (3) of [Nguyen2021vucb]_.
        return PointwiseBounds(mean - width, mean + width, weights)

    def _bound(self, X: Tensor, side: int) -> Tensor:
        r"""The lower (0) or upper (1) bound of the risk."""
        measure = self.risk_measure
        if measure.monotone:
            return self._conditioned.bound(X, (2 * side - 1) * self._width(X), measure)
        lower, upper, weights = self.pointwise_bounds(X)
        return measure.bounds(lower, upper, weights)[side]

    def _risk_of_upper(self, X: Tensor) -> Tensor:
        return self._conditioned.bound(X, self._width(X), self.risk_measure)

    def value_and_gradient(self, X: Tensor) -> tuple[Tensor, Tensor]:
        X = as_points(X, self.model).detach()
        value, gradient = self._score_and_gradient(X)
        if self._spacing is None:
            return value, gradient
        penalty, of_penalty = differentiated(self._penalty, X)
        return value - penalty, gradient - of_penalty

    def on_host(self, num_points: int) -> ValueAndGradient | None:
        if self._spacing is not None or not self._is_risk_of_upper:
            return None
        width = self._width(self.beta)
        found: ValueAndGradient | None = self._conditioned.bound_on_host(
            num_points, width, self.risk_measure
        )
        return found

    def _score_and_gradient(self, X: Tensor) -> tuple[Tensor, Tensor]:
        if self._is_risk_of_upper and self._conditioned.is_direct(X):
            return self._conditioned.bound_and_gradient(X, self._width(X), self.risk_measure)
        return differentiated(self.score, X)

    @property
    def _is_risk_of_upper(self) -> bool:
        return self.risk_measure.monotone or self.optimism == "of_values"

    def _width(self, X: Tensor) -> Tensor:
        return per_point(self.beta, X).sqrt()

    def expected_risk(self, X: Tensor) -> Tensor:
        r"""The expectation of the risk; `mean` is the risk of the expected outcomes.

        They differ, as an unobserved tail may be worse than its mean. The result,
        `batch_shape x m`, uses `risk_measure.expected` or `num_samples` joint samples over W.

        Raises:
            UnsupportedError: If the posterior is not Gaussian and the measure needs samples.
        """
        model: Any = self._conditioned.belief.model
        if model._is_ensemble:  # the average of the members', which are one batch
            each = OutcomesOverW.of(self._conditioned.belief.of_members(), self.environment)
            return self._expected(each, X.unsqueeze(-3)).mean(dim=-2)
        return self._expected(self._conditioned, X)

    def _expected(self, outcomes: OutcomesOverW, X: Tensor) -> Tensor:
        measure = self.risk_measure

        def of_chunk(X: Tensor) -> Tensor:
            known = None if measure.needs_samples else measure.expected(*outcomes(X))
            if known is not None:
                return known
            # Of width 0, the bound of the risk is its mean.
            return outcomes.joint_bound(X, X.new_zeros(()), measure, self.num_samples)

        return outcomes.in_chunks(X, of_chunk, self._entries_of_moments)

    def _entries_of_moments(self, n_w: int) -> int:
        return n_w * max(n_w, self.num_samples)

    def check_points(self, X: Tensor) -> None:
        r"""Raise BotorchTensorDimensionError unless `X` are decisions, `batch_shape x m x d_x`."""
        self._conditioned.sizes(as_points(X, self.model))
