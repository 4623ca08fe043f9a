r"""Confidence bounds of a risk measure of the environment: one class for many papers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, get_args

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
from botorch_risk.environments.environment import inputs_at, inputs_of_readings
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.hallucination import condition_on_mean
from botorch_risk.models.outcomes import refuse_reduced
from botorch_risk.points import TBatch, as_points, check_made_inputs, input_widths, joint_shape
from botorch_risk.risk import PickingRiskMeasure, RiskMeasure
from botorch_risk.risk.measures import Optimism
from botorch_risk.steady import moved

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

    def _condition(self, X_pending: Tensor | None) -> tuple[EnvironmentMarginals, Any]:
        r"""Moments of the model given its own mean at pending decisions, and bounds at inputs."""
        model = self.model
        if X_pending is not None:
            inputs = inputs_of_readings(self.environment, X_pending)
            check_made_inputs(self._widths, inputs.shape[-1])
            model = condition_on_mean(model, inputs)
        marginals = marginals_of(model, self.environment, self.posterior_transform)
        return marginals, marginals.belief.bounds()

    def check_points(self, X: Tensor) -> None:
        r"""Raises BotorchTensorDimensionError unless `X` are decisions, `batch_shape x m x d_x`."""
        self._sizes(as_points(X, self.model))

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Optimistic values at `batch_shape x m x d_x` decisions, `batch_shape x m`."""
        if self.optimism == "of_values":
            return self._reduce(X, lambda low, high, w: self.risk_measure(high, w))
        return self.upper(X)

    def value_and_gradient(self, X: Tensor) -> tuple[Tensor, Tensor]:
        X = as_points(X.detach(), self.model)
        return self._picked_gradient(X) or super().value_and_gradient(X)

    def upper(self, X: Tensor) -> Tensor:
        r"""Upper bound of the risk at `batch_shape x m x d_x` decisions, `batch_shape x m`."""
        return self._bound(X, side=1)

    def lower(self, X: Tensor) -> Tensor:
        r"""Lower bound of the risk, `batch_shape x m`, for reporting with confidence."""
        return self._bound(X, side=0)

    def mean(self, X: Tensor) -> Tensor:
        r"""Risk of the posterior mean, `batch_shape x m`."""
        marginals, _ = self._conditioned
        return self._in_chunks(X, lambda X: self.risk_measure(*marginals.mean(X)))

    def expected_risk(self, X: Tensor) -> Tensor:
        r"""The expectation of the risk; `mean` is the risk of the expected outcomes.

        An unobserved tail may be worse than its mean. Uses `risk_measure.expected`, or
        `num_samples` joint samples over W; `batch_shape x m`.

        Raises:
            UnsupportedError: If the posterior is not Gaussian and the measure needs samples.
        """
        joint = self._joint()

        def of_chunk(X: Tensor) -> Tensor:
            known = self.risk_measure.expected(*self._conditioned[0](X))
            return self._moments(X, joint)[0] if known is None else known

        return self._in_chunks(X, of_chunk, self._entries_of_moments)

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
        marginals, _ = self._conditioned
        mean, variance, weights = marginals(X)
        width = per_point(self.beta, X).sqrt().unsqueeze(-1) * variance.sqrt()
        return PointwiseBounds(mean - width, mean + width, weights)

    def _bound(self, X: Tensor, side: int) -> Tensor:
        r"""The lower (0) or upper (1) bound; a monotone measure needs that side alone."""
        X = as_points(X, self.model)
        if isinstance(self.risk_measure, PickingRiskMeasure) and X.requires_grad:
            return self._in_chunks(X, lambda X: self._picked_bound(X, side))

        def reduce(low: Tensor, high: Tensor, weights: Tensor) -> Tensor:
            if self.risk_measure.monotone:
                return self.risk_measure((low, high)[side], weights)
            return self.risk_measure.bounds(low, high, weights)[side]

        return self._reduce(X, reduce)

    def _picked_bound(self, X: Tensor, side: int) -> Tensor:
        r"""The bound for a risk that is one of the values: only that value has a gradient."""
        risk, inputs = self._pick(X, side)
        _, bounds_at = self._conditioned
        (value,) = bounds_at(inputs, [(2 * side - 1) * per_point(self.beta, X).sqrt()])
        return risk + (value - value.detach())  # the two agree to rounding

    def _pick(self, X: Tensor, side: int) -> tuple[Tensor, Tensor]:
        r"""The risk of the bounds, without a graph, and the inputs (x, w) where it is taken."""
        measure: Any = self.risk_measure
        with torch.no_grad():
            bounds = self.pointwise_bounds(X)
            risk, index = measure.pick((bounds.lower, bounds.upper)[side], bounds.weights)
        return risk, inputs_at(self.environment.expand(X)[0], index)

    def _picked_gradient(self, X: Tensor) -> tuple[Tensor, Tensor] | None:
        r"""The upper bound and its gradient if the risk is one of the values, all at once.

        `None` otherwise, if the environment moves with the decisions, or if it takes many chunks.
        """
        if (
            not isinstance(self.risk_measure, PickingRiskMeasure)
            or self.optimism != "of_risk"
            or not self.environment.independent
            or X.shape[:-2] != self.model.batch_shape
        ):
            return None
        of_environment, n_w = self._sizes(X)
        is_one_chunk = X.shape[:-1].numel() * n_w <= _CHUNK_VALUES.entries(X.device)
        if not is_one_chunk or of_environment not in (torch.Size(), X.shape[:-2]):
            return None
        width, (marginals, bounds_at) = per_point(self.beta, X).sqrt(), self._conditioned
        environment: Any = self.environment
        measure: Any = self.risk_measure
        product: Any = marginals.marginals
        weights = moved(environment.weights, X).unsqueeze(-2)
        known = product.picked_gradient(X, width, lambda values: measure.pick(values, weights))
        if known is not None:
            return known
        risk, inputs = self._pick(X, side=1)
        found = bounds_at.value_and_gradient(inputs, [width])
        return None if found is None else (risk, found[1][0][..., : X.shape[-1]])

    def _reduce(self, X: Tensor, reduce: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        r"""A reduction of the pointwise bounds over the environment."""
        return self._in_chunks(X, lambda X: reduce(*self.pointwise_bounds(X)))

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
        return t_batch.unfold(evaluate_in_chunks(of_chunk, t_batch.fold(X), max(1, size)))

    def _joint(self) -> Any:
        r"""The moments of the outcomes at all values of W."""
        return self._conditioned[0].belief.joint()

    def _moments(self, X: Tensor, joint: Any) -> tuple[Tensor, Tensor]:
        r"""Mean and variance of the risk, `batch_shape x m` each."""
        inputs, weights = self.environment.expand(X)
        batch_shape = torch.broadcast_shapes(inputs.shape[:-3], self.model.batch_shape)
        mean, covariance = joint(inputs.expand(*batch_shape, *inputs.shape[-3:]))
        return moments_of_risk(self.risk_measure, mean, covariance, weights, self.num_samples)

    def _entries_of_moments(self, n_w: int) -> int:
        return n_w * max(n_w, self.num_samples)

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


class EnvironmentMarginals(Protocol):
    r"""Maps decisions to the moments of the outcome over an environment."""

    @property
    def belief(self) -> Belief:
        r"""The inputs that the environment makes, one by one."""
        ...

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Mean and variance, `batch_shape x m x n_w` each, and the weights.

        Args:
            X: `batch_shape x m x d_x`.
        """
        ...

    def mean(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The mean alone, and the weights."""
        ...


def marginals_of(
    model: Model, environment: Environment, posterior_transform: PosteriorTransform | None
) -> EnvironmentMarginals:
    r"""Maps decisions to the moments of the outcome over the environment.

    Args:
        model: A model with one output.
        environment: The distribution of w, or of a perturbation of the decision.
        posterior_transform: As in `Belief`.

    Returns:
        A function of `batch_shape x m x d_x` decisions: mean and variance,
        `batch_shape x m x n_w` each, and the weights, which broadcast to them.
    """
    belief = Belief(model, posterior_transform)
    if environment.independent:
        points: Any = environment.points  # pairs (x, w_j) of all x: a product of few covariances
        return _IndependentMarginals(belief.pairs(points), environment)
    return _DependentMarginals(belief, environment)


@dataclass(frozen=True)
class _IndependentMarginals:
    r"""Evaluate at all pairs of a decision and a fixed point of the environment."""

    marginals: Any  # of pairs
    environment: Environment

    @property
    def belief(self) -> Belief:
        return self.marginals.belief

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return (*self.marginals(X), self._weights(X))

    def mean(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return self.marginals.mean(X), self._weights(X)

    def _weights(self, X: Tensor) -> Tensor:
        weights: Any = self.environment.weights
        return moved(weights, X).unsqueeze(-2)


@dataclass(frozen=True)
class _DependentMarginals:
    r"""Evaluate at the points that the environment makes of each decision."""

    marginals: Belief
    environment: Environment

    @property
    def belief(self) -> Belief:
        return self.marginals

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs, weights = self.environment.expand(X)  # batch_shape x m x n_w x d
        moments = self.marginals(inputs.flatten(-3, -2))
        mean, variance = (moment.unflatten(-1, inputs.shape[-3:-1]) for moment in moments)
        return mean, variance, weights

    def mean(self, X: Tensor) -> tuple[Tensor, Tensor]:
        inputs, weights = self.environment.expand(X)
        mean = self.marginals.mean(inputs.flatten(-3, -2))
        return mean.unflatten(-1, inputs.shape[-3:-1]), weights
