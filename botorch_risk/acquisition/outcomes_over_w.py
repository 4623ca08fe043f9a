r"""The outcomes of decisions at all values of the environment, a few decisions at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from numpy import ndarray
from torch import Tensor

from botorch_risk.acquisition.expected_risk import (
    mean_and_deviation,
    moments_of_risk,
    sobol_normal_numbers,
)
from botorch_risk.chunks import ChunkSize, evaluate_in_chunks
from botorch_risk.engine import Belief
from botorch_risk.environments import Environment, InputPerturbation
from botorch_risk.gradients import with_gradient
from botorch_risk.points import TBatch, as_points, check_made_inputs, input_widths, joint_shape
from botorch_risk.risk import Expectation, RiskMeasure
from botorch_risk.risk.measure import PickingRiskMeasure
from botorch_risk.steady import moved, steady

# Values of the environment, all candidates counted, whose marginals are held at once.
_CHUNK_VALUES = ChunkSize(cpu=2**18, gpu=2**24)


@dataclass(frozen=True)
class OutcomesOverW:
    r"""Maps decisions to the moments of the outcome over the environment, and its weights.

    `pairs` gives the moments at all (x, w_j), if every decision meets the same w_j.
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

    def bound(self, X: Tensor, width: Tensor, measure: RiskMeasure) -> Tensor:
        r"""The risk of the bounds `mean + width * deviation` of decisions, `batch_shape x m`.

        Differentiable in the decisions `batch_shape x m x d_x`. The width, below 0 for lower
        bounds, broadcasts to `batch_shape x m`. The measure is bound to the environment.
        """
        if self._serves(X):
            return _with_gradient(X, partial(self.bound_and_gradient, width=width, measure=measure))
        if isinstance(measure, PickingRiskMeasure) and X.requires_grad:
            inputs, weights = self.environment.expand(X)
            return self.belief.picked(inputs, width, lambda values: measure.pick(values, weights))
        mean, variance, weights = self(X)
        return measure(mean + width.unsqueeze(-1) * variance.sqrt(), weights)

    def bound_and_gradient(
        self, X: Tensor, width: Tensor, measure: RiskMeasure, is_needed: bool = True
    ) -> tuple[Tensor, Any]:
        r"""`bound` and its gradient in each decision, without a graph, if `is_direct`."""
        reduce = self._reduction(X, measure, is_needed)
        found: tuple[Tensor, Any] = self.pairs.reduced(X, reduce, width=width)
        return found

    def bound_on_host(self, num_points: int, width: Tensor, measure: RiskMeasure) -> Any:
        r"""`bound_and_gradient` in NumPy, as `PointwiseAcquisitionFunction.on_host`."""
        if self.pairs is None:
            return self._plain_bound_on_host(num_points, width, measure)
        return self.pairs.on_host(num_points, self._reduction_on_host(width, measure), width)

    def _plain_bound_on_host(self, num_points: int, width: Tensor, measure: RiskMeasure) -> Any:
        r"""The bound of the outcome at the decision itself, or at one shift of it."""
        known = self.environment
        if not isinstance(known, InputPerturbation) or type(measure) is not Expectation:
            return None
        # Clipping at bounds is not a shift, and several shifts need a sum over them.
        if known.bounds is not None or known.perturbations.shape[-2] > 1:
            return None
        evaluate = self.belief.bounds().on_host(num_points, [width])
        if evaluate is None:
            return None
        shift = known.perturbations.numpy()

        def value_and_gradient(X: ndarray) -> tuple[ndarray, ndarray]:
            (value,), (gradient,) = evaluate(X + shift)
            return value, gradient

        return value_and_gradient

    def _reduction(self, like: Tensor, measure: RiskMeasure, is_needed: bool = True) -> Any:
        r"""Maps values of each decision to their risk and its slope, if the slope is needed."""
        weights = self._weights(like)
        if not is_needed:
            return lambda values: (measure(values, weights), None)
        # The index of the one that counts: whole decisions of V-UCB take 1.2 to 1.3 times as long
        # with a derivative for each (R = 1 and 32, n_w = 16 to 512, on one thread).
        if isinstance(measure, PickingRiskMeasure):
            return lambda values: measure.pick(values, weights)
        return lambda values: measure.value_and_slope(values, weights)

    def _reduction_on_host(self, like: Tensor, measure: RiskMeasure) -> Any:
        weights = self._weights(like).numpy()
        if isinstance(measure, PickingRiskMeasure):
            return lambda values: measure.pick_on_host(values, weights)
        return lambda values: measure.value_and_slope_on_host(values, weights)

    def joint_bound(
        self, X: Tensor, width: Tensor, measure: RiskMeasure, num_samples: int
    ) -> Tensor:
        r"""The mean of the risk plus `width` times its deviation, `batch_shape x m`.

        The posterior is joint over the outcomes at all values of W. The result is differentiable
        in the decisions. For the arguments see `bound`.
        """
        if measure.needs_samples and self._serves(X):
            closed = partial(
                self.joint_bound_and_gradient, width=width, measure=measure, num_samples=num_samples
            )
            return _with_gradient(X, closed)
        inputs, weights = self.environment.expand(X)
        joint = self.belief.joint()
        batch_shape = torch.broadcast_shapes(inputs.shape[:-3], joint.model.batch_shape)
        mean, covariance = joint(inputs.expand(*batch_shape, *inputs.shape[-3:]))
        mean, variance = moments_of_risk(measure, mean, covariance, weights, num_samples)
        # The slope of a root at 0 is infinite, and a risk that is known has variance 0.
        tiny = torch.finfo(variance.dtype).tiny
        return mean + width * variance.clamp_min(tiny).sqrt()

    def joint_bound_and_gradient(
        self,
        X: Tensor,
        width: Tensor,
        measure: RiskMeasure,
        num_samples: int,
        is_needed: bool = True,
    ) -> tuple[Tensor, Any]:
        r"""`joint_bound` and its gradient in each decision, without a graph, if `is_direct`."""
        weights = self._weights(X).unsqueeze(-2)

        def reduce(samples: Tensor) -> tuple[Tensor, Tensor | None]:
            if not is_needed:
                return mean_and_deviation(measure(samples, weights), width)[0], None
            risks, slope = measure.value_and_slope(samples, weights)
            value, of_risks = mean_and_deviation(risks, width)
            return value, slope.mul(of_risks.unsqueeze(-1))

        n_w = self.pairs.points.shape[-2]
        numbers = sobol_normal_numbers(num_samples, n_w, X.dtype, X.device)
        found: tuple[Tensor, Any] = self.pairs.reduced(X, reduce, numbers=numbers)
        return found

    def in_chunks(
        self,
        X: Tensor,
        of_chunk: Callable[[Tensor], Tensor],
        entries_of: Callable[[int], int] = lambda n_w: n_w,
    ) -> Tensor:
        r"""The values `... x m` of decisions `... x m x d_x`, evaluated in chunks to bound memory.

        `...` broadcasts with the batch shapes of model and environment. `of_chunk` maps
        `batch_shape x m x d_x` decisions to `batch_shape x m` values; `entries_of(n_w)` is the
        number of entries per decision.
        """
        X = as_points(X, self.belief.model)
        t_batch, size = self._chunks(X, entries_of)
        X = t_batch.fold(X)
        # Whether the model has changed is looked up once, which costs a tenth of a bound.
        with nullcontext() if torch.compiler.is_compiling() else steady():
            if X.shape[-2] > size:
                return t_batch.unfold(evaluate_in_chunks(of_chunk, X, max(1, size)))
            return t_batch.unfold(of_chunk(X))

    def is_direct(self, X: Tensor, entries_of: Callable[[int], int] = lambda n_w: n_w) -> bool:
        r"""Whether `batch_shape x m x d_x` decisions fit one chunk and have closed gradients."""
        _, size = self._chunks(X, entries_of)
        return X.shape[-2] <= size and self._serves(X)

    def _serves(self, X: Tensor) -> bool:
        if self.pairs is None or torch.compiler.is_compiling():
            return False
        return bool(self.pairs.serves(X))

    def _chunks(self, X: Tensor, entries_of: Callable[[int], int]) -> tuple[TBatch, int]:
        r"""How decisions are folded, and how many are evaluated at a time."""
        of_environment, n_w = self.sizes(X)
        t_batch = TBatch.of(X, joint_shape(self.belief.batch_shape, of_environment))
        entries = _CHUNK_VALUES.entries(X.device)
        return t_batch, entries // (entries_of(n_w) * t_batch.shape[t_batch.dims :].numel())

    def sizes(self, X: Tensor) -> tuple[torch.Size, int]:
        r"""The batch shape of the environment, and the number of values of W."""
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

    @cached_property
    def _widths(self) -> tuple[int, ...] | None:
        return input_widths(self.belief.model)

    def _weights(self, X: Tensor) -> Tensor:
        weights: Any = self.environment.weights
        return moved(weights, X).unsqueeze(-2)


def _with_gradient(X: Tensor, closed: Callable[..., tuple[Tensor, Any]]) -> Tensor:
    r"""Values of decisions from a closed form of them and their gradients."""
    if X.requires_grad and torch.is_grad_enabled():
        return with_gradient(closed, X)
    return closed(X, is_needed=False)[0]
