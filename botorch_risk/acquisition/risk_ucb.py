r"""Confidence bounds of a risk measure of the environment: one class for many papers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, get_args

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.expected_risk import moments_of_risk
from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    per_point,
    register_weights,
)
from botorch_risk.chunks import ChunkSize, evaluate_in_chunks
from botorch_risk.engine import Belief
from botorch_risk.environments import Environment
from botorch_risk.environments.environment import inputs_of_readings
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.hallucination import condition_on_mean
from botorch_risk.models.outcomes import refuse_reduced
from botorch_risk.points import TBatch, as_points, check_made_inputs, input_widths, joint_shape
from botorch_risk.risk import PickingRiskMeasure, RiskMeasure
from botorch_risk.risk.measures import Optimism
from botorch_risk.steady import moved

# Bounds and weights of each decision to the one that counts and its index.
Pick = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
# Values of the environment, all candidates counted, whose marginals are held at once.
_CHUNK_VALUES = ChunkSize(cpu=2**18, gpu=2**24)


class PointwiseBounds(NamedTuple):
    r"""Confidence bounds of the outcome at each value of the environment.

    Attributes:
        lower: `batch_shape x m x n_w`.
        upper: `batch_shape x m x n_w`.
        weights: Probabilities, broadcastable to `batch_shape x m x n_w`.
    """

    lower: Tensor
    upper: Tensor
    weights: Tensor


@construct_from_own_arguments
class RiskUpperConfidenceBound(PointwiseAcquisitionFunction):
    r"""Risk measure of the upper confidence bound over the environment.

        score(x) = risk([ mean(x, w_j) + sqrt(beta) sigma(x, w_j) ]_j, weights_j)

    The environment supplies the `w_j` and their weights, the risk measure reduces them. The
    papers are choices of these two parts:

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
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> environment = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
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
            risk_measure: Reduces the values over the environment; bound to it here.
            beta: Squared width of the pointwise bound, >= 0, a number or `batch_shape`. SBO-KDE's
                sqrt(beta) = 1.5 is `beta=2.25`.
            posterior_transform: Reduces the model's outputs to one, or flips its sign
                (BoTorch's weight of -1: the outcome is minimised, and low risk is a small
                upper tail of it).
            X_pending: `batch_shape x n' x d_x` decisions under evaluation. The model is
                conditioned on its own mean at each, at eight values of w at equal steps of
                probability; at each value of the support if W has categories.
            optimism: The score of `evaluate` and `forward`. `"of_risk"`: `upper`, an upper bound of
                the risk. `"of_values"`: the risk of the pointwise upper bounds, which is no bound
                of the risk if the measure is not monotone; for approximations of a monotone one,
                such as the minimax approximation of a worst case.

        Raises:
            BotorchTensorDimensionError: If pending decisions and the environment do not combine to
                inputs of the model; when called, if the decisions do not.
            TypeError: If a part is not an environment or a risk measure.
            UnsupportedError: If the measure needs points and the environment has none, or the model
                is one of risks already.
            ValueError: If `beta` is negative or not finite, or `optimism` unknown.
        """
        if optimism not in get_args(Optimism):
            raise ValueError(f"Expected `optimism` in {get_args(Optimism)}. Got {optimism!r}.")
        refuse_reduced(model)
        environment, risk_measure = parts_of(environment, risk_measure)
        super().__init__(model=model)
        register_weights(self, model, beta=beta)
        self.optimism = optimism
        self.has_kinks = risk_measure.has_kinks
        self._widths = input_widths(model)
        self.environment = environment
        self.risk_measure = risk_measure.bind(environment)
        self.posterior_transform = posterior_transform
        self.set_X_pending(X_pending)

    def _follow_the_state(self) -> None:
        self.risk_measure = self.risk_measure.bind(self.environment)
        super()._follow_the_state()

    def _condition(self, X_pending: Tensor | None) -> OutcomesOverW:
        r"""The outcomes over W, given the model's own mean at pending decisions."""
        model = self.model
        if X_pending is not None:
            inputs = inputs_of_readings(self.environment, X_pending)
            check_made_inputs(self._widths, inputs.shape[-1])
            model = condition_on_mean(model, inputs)
        return OutcomesOverW.of(Belief(model, self.posterior_transform), self.environment)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Optimistic values at `batch_shape x m x d_x` decisions, `batch_shape x m`."""
        if self.optimism == "of_values":
            return self._in_chunks(X, self._risk_of_upper)
        return self.upper(X)

    def upper(self, X: Tensor) -> Tensor:
        r"""Upper bound of the risk at `batch_shape x m x d_x` decisions, `batch_shape x m`."""
        return self._in_chunks(X, partial(self._bound, side=1))

    def lower(self, X: Tensor) -> Tensor:
        r"""Lower bound of the risk, `batch_shape x m`, for reporting with confidence."""
        return self._in_chunks(X, partial(self._bound, side=0))

    def mean(self, X: Tensor) -> Tensor:
        r"""Risk of the posterior mean, `batch_shape x m`."""
        return self._in_chunks(X, lambda X: self.risk_measure(*self._conditioned.mean(X)))

    def pointwise_bounds(self, X: Tensor) -> PointwiseBounds:
        r"""Bounds of the outcome itself at each (x, w_j), in the order of `environment.expand(X)`.

            mean(x, w_j) -/+ sqrt(beta) sigma(x, w_j)

        Args:
            X: `batch_shape x m x d_x` decisions that do not interact, evaluated all at once, so
                only a few.

        Returns:
            Lower and upper bounds, `batch_shape x m x n_w`, and the weights.
        """
        X = as_points(X, self.model)
        mean, variance, weights = self._conditioned(X)
        width = self._width(X).unsqueeze(-1) * variance.sqrt()
        return PointwiseBounds(mean - width, mean + width, weights)

    def _bound(self, X: Tensor, side: int) -> Tensor:
        r"""The lower (0) or upper (1) bound of the risk."""
        measure = self.risk_measure
        if isinstance(measure, PickingRiskMeasure) and X.requires_grad:
            return self._conditioned.picked(X, (2 * side - 1) * self._width(X), measure.pick)
        lower, upper, weights = self.pointwise_bounds(X)
        if measure.monotone:
            return measure((lower, upper)[side], weights)
        return measure.bounds(lower, upper, weights)[side]

    def _risk_of_upper(self, X: Tensor) -> Tensor:
        _, upper, weights = self.pointwise_bounds(X)
        return self.risk_measure(upper, weights)

    def _width(self, X: Tensor) -> Tensor:
        return per_point(self.beta, X).sqrt()

    def expected_risk(self, X: Tensor) -> Tensor:
        r"""The expectation of the risk; `mean` is the risk of the expected outcomes.

        An unobserved tail may be worse than its mean. Uses `risk_measure.expected`, or
        `num_samples` joint samples over W; `batch_shape x m`.

        Raises:
            UnsupportedError: If the posterior is not Gaussian and the measure needs samples.
        """
        joint = self._conditioned.belief.joint()

        def of_chunk(X: Tensor) -> Tensor:
            known = self.risk_measure.expected(*self._conditioned(X))
            return self._moments(X, joint)[0] if known is None else known

        return self._in_chunks(X, of_chunk, self._entries_of_moments)

    def _moments(self, X: Tensor, joint: Any) -> tuple[Tensor, Tensor]:
        r"""Mean and variance of the risk, `batch_shape x m` each."""
        inputs, weights = self.environment.expand(X)
        batch_shape = torch.broadcast_shapes(inputs.shape[:-3], self.model.batch_shape)
        mean, covariance = joint(inputs.expand(*batch_shape, *inputs.shape[-3:]))
        return moments_of_risk(self.risk_measure, mean, covariance, weights, self.num_samples)

    def _entries_of_moments(self, n_w: int) -> int:
        return n_w * max(n_w, self.num_samples)

    def _in_chunks(
        self,
        X: Tensor,
        of_chunk: Callable[[Tensor], Tensor],
        entries_of: Callable[[int], int] = lambda n_w: n_w,
    ) -> Tensor:
        r"""Evaluate decisions in chunks to bound memory.

        `entries_of` gives the number of entries per decision with `n_w` values of W.
        """
        X = as_points(X, self.model)
        of_environment, n_w = self._sizes(X)
        t_batch = TBatch.of(X, joint_shape(self.model.batch_shape, of_environment))
        entries = _CHUNK_VALUES.entries(X.device)
        size = entries // (entries_of(n_w) * t_batch.shape[t_batch.dims :].numel())
        X = t_batch.fold(X)
        if X.shape[-2] > size:
            return t_batch.unfold(evaluate_in_chunks(of_chunk, X, max(1, size)))
        return t_batch.unfold(of_chunk(X))

    def check_points(self, X: Tensor) -> None:
        r"""Raises BotorchTensorDimensionError unless `X` are decisions, `batch_shape x m x d_x`."""
        self._sizes(as_points(X, self.model))

    def _sizes(self, X: Tensor) -> tuple[torch.Size, int]:
        r"""Batch shape and number of the points of the environment, for checked decisions."""
        if X.dim() < 2 or X.shape[-1] == 0:
            raise BotorchTensorDimensionError(
                "Expected decisions `batch_shape x m x d_x` with at least one column. "
                f"Got {X.shape=}."
            )
        if self.environment.independent:  # of any decision, so that none has to be expanded
            points: Any = self.environment.points
            check_made_inputs(self._widths, X.shape[-1] + points.shape[-1])
            return points.shape[:-2], points.shape[-2]
        inputs, _ = self.environment.expand(X.detach().reshape(-1, X.shape[-1])[:1])
        check_made_inputs(self._widths, inputs.shape[-1])
        return inputs.shape[:-3], inputs.shape[-2]


@dataclass(frozen=True)
class OutcomesOverW:
    r"""Maps decisions to the moments of the outcome over the environment, and its weights.

    Attributes:
        belief: Of a model with one output.
        environment: The distribution of w, or of a perturbation of the decision.
        pairs: The moments at all (x, w_j), if the w_j are those of every decision.
    """

    belief: Belief
    environment: Environment
    pairs: Any

    @classmethod
    def of(cls, belief: Belief, environment: Environment) -> OutcomesOverW:
        points: Any = environment.points if environment.independent else None
        return cls(belief, environment, None if points is None else belief.pairs(points))

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Mean and variance, `batch_shape x m x n_w` each, and the weights, of `... x m x d_x`."""
        if self.pairs is not None:
            return (*self.pairs(X), self._weights(X))
        inputs, weights = self.environment.expand(X)  # batch_shape x m x n_w x d
        moments = self.belief(inputs.flatten(-3, -2))
        mean, variance = (moment.unflatten(-1, inputs.shape[-3:-1]) for moment in moments)
        return mean, variance, weights

    def mean(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The mean alone, and the weights."""
        if self.pairs is not None:
            return self.pairs.mean(X), self._weights(X)
        inputs, weights = self.environment.expand(X)
        mean = self.belief.mean(inputs.flatten(-3, -2))
        return mean.unflatten(-1, inputs.shape[-3:-1]), weights

    def picked(self, X: Tensor, width: Tensor, pick: Pick) -> Tensor:
        r"""The bound `mean + width * deviation` that `pick` chooses for each decision.

        `batch_shape x m`. Only the chosen value gets a gradient: whole decisions of V-UCB take 1.2
        to 1.3 times as long without (R = 1 and 32, n_w = 16 to 512, on one thread).
        """
        if self.pairs is not None:
            return self.pairs.picked(X, width, lambda values: pick(values, self._weights(X)))
        inputs, weights = self.environment.expand(X)
        return self.belief.picked(inputs, width, lambda values: pick(values, weights))

    def _weights(self, X: Tensor) -> Tensor:
        weights: Any = self.environment.weights
        return moved(weights, X).unsqueeze(-2)
