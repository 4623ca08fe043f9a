r"""Predict what one reading would say about the risks of the compared decisions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.expected_risk import expected_risk
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction, map_replicates
from botorch_risk.arguments import as_floating, check_even, check_flags, check_rows
from botorch_risk.chunks import ChunkSize, evaluate_in_chunks
from botorch_risk.engine import Belief, Process
from botorch_risk.environments import Environment
from botorch_risk.environments.environment import inputs_at, inputs_of_readings
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.hallucination import condition_on_mean
from botorch_risk.models.outcomes import refuse_reduced
from botorch_risk.points import as_points, check_made_inputs, input_widths
from botorch_risk.risk import RiskMeasure

# Covariances of readings with compared pairs (x, w), all candidates counted, held at once.
_CHUNK_VALUES = ChunkSize(cpu=2**18, gpu=2**26)


class RiskLookahead(PointwiseAcquisitionFunction):
    r"""Score one reading by what it would say about the risks of the compared decisions.

        s_p(x, w) = q_p' k_n((x_p, W), (x, w)) / sqrt( k_n((x, w), (x, w)) + noise )

    By Stein's identity a reading at (x, w) of one standard deviation moves the expected risk `a_p`
    of the decision `x_p` by the slope `s_p`, where `q_p` is the gradient of `a_p` in the mean.
    Exactly so for a risk that is linear in the outcomes. A subclass scores the slopes.

    If w can be chosen, a decision is scored at the w of `best_value`; otherwise its score is
    averaged over W. Building the object evaluates the measure `num_samples P` times, which is slow
    for a ball in maximum mean discrepancy, as each evaluation solves a program. Single-outcome, q =
    1: use `sequential=True`, where pending readings count as outcomes at the model's own mean.

    Args:
        model: An exact GP of (x, w) with one output, batch shape `[]` or `[R]`; or of x for an
            environment that perturbs x.
        environment: The distribution of W.
        risk_measure: Any measure; larger is better.
        X_compared: Decisions, `batch_shape x P x d_x`, P >= 2.
        w_is_chosen: Whether w can be chosen with a decision.
        num_samples: Antithetic samples for the expected risks, an even number.
        X_pending: `batch_shape x n' x d_x` decisions under evaluation, as in
            `RiskUpperConfidenceBound`, or `n' x d` with their w.

    Raises:
        BotorchTensorDimensionError: If decisions and environment do not combine to inputs of the
            model, or there are fewer than two compared decisions, or in another batch shape.
        InputDataError: If a compared or pending decision is not finite.
        TypeError: If a part is not an environment or a risk measure.
        UnsupportedError: If the model is not an exact GP with a Gaussian likelihood and one output.
        ValueError: If the number of samples is not even.
    """

    X_compared: Tensor

    def __init__(
        self,
        model: Model,
        environment: Environment,
        risk_measure: RiskMeasure,
        X_compared: Tensor,
        w_is_chosen: bool = False,
        num_samples: int = 16,
        X_pending: Tensor | None = None,
    ) -> None:
        check_even(num_samples=num_samples)
        refuse_reduced(model)
        if not Belief.serves(model) or len(model.batch_shape) > 1:
            raise UnsupportedError(
                "Expected a `SingleTaskGP` with one output, or a subclass with the same `forward` "
                "and `posterior`, a Gaussian likelihood and at most one batch dimension. "
                f"Got {type(model).__name__} with {model.batch_shape=}."
            )
        environment, risk_measure = parts_of(environment, risk_measure)
        super().__init__(model=model)
        self.environment = environment
        self.risk_measure = risk_measure.bind(environment)
        check_flags(w_is_chosen=w_is_chosen)
        self.w_is_chosen = w_is_chosen
        self.num_samples = num_samples
        X_compared = as_points(as_floating(X_compared, "X_compared"), model)
        if X_compared.dim() < 2 or X_compared.shape[-2] < 2:
            raise BotorchTensorDimensionError(
                "Expected at least 2 decisions to compare, `batch_shape x P x d_x`. "
                f"Got {tuple(X_compared.shape)}."
            )
        check_rows("X_compared", X_compared, "d_x")
        if X_compared.shape[:-2] not in (torch.Size(), model.batch_shape):
            raise BotorchTensorDimensionError(
                "Expected `X_compared` to have the batch shape of the model, "
                f"{tuple(model.batch_shape)}, or none. Got {tuple(X_compared.shape)}."
            )
        made = environment.expand(X_compared)[0].shape[-1]
        check_made_inputs(input_widths(model), made)
        self.register_buffer("X_compared", X_compared.detach().clone())
        self.set_X_pending(X_pending)

    def _follow_the_state(self) -> None:
        self.risk_measure = self.risk_measure.bind(self.environment)
        super()._follow_the_state()

    def _condition(self, X_pending: Tensor | None) -> ComparedRisks:
        model: Any = self.model
        if X_pending is not None:
            model = condition_on_mean(model, self._readings(X_pending))
        return ComparedRisks.of(
            model, self.environment, self.risk_measure, self.X_compared, self.num_samples
        )

    def _readings(self, X: Tensor) -> Tensor:
        r"""Pending readings as inputs of the model, with their own w if they have it."""
        if X.shape[-1] != self.X_compared.shape[-1]:
            return X
        return inputs_of_readings(self.environment, X)

    def check_points(self, X: Tensor) -> None:
        r"""Raises BotorchTensorDimensionError unless `X` are decisions, `batch_shape x m x d_x`."""
        X, d_x = as_points(X, self.model), self.X_compared.shape[-1]
        if X.dim() < 2 or X.shape[-1] != d_x:
            raise BotorchTensorDimensionError(
                f"Expected decisions `batch_shape x m x {d_x}`. Got {tuple(X.shape)}."
            )

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Scores of decisions, `batch_shape x m`, from `batch_shape x m x d_x`."""
        X = as_points(X, self.model)
        self.check_points(X)
        if not self.w_is_chosen:
            return self._of_replicates(self._average, X)
        if torch.is_grad_enabled() and X.requires_grad:
            return self._at(self.best_value(X))
        return self._of_replicates(lambda X: self._best(X)[0], X)

    def best_value(self, X: Tensor) -> Tensor:
        r"""The reading to make at each decision, with the w of the best score.

        Args:
            X: `batch_shape x m x d_x`.

        Returns:
            The queries, `batch_shape x m x d`, differentiable in `X` with w fixed.
        """
        X = as_points(X, self.model)
        self.check_points(X)
        with torch.no_grad():
            best = self._of_replicates(lambda X: self._best(X)[1], X)
        return inputs_at(self.environment.expand(X)[0], best)

    @abstractmethod
    def _score(self, slopes: Tensor) -> Tensor:
        r"""Scores `B x ...` of readings with slopes `B x ... x P`."""

    @abstractmethod
    def _average_score(self, scores: Tensor, weights: Tensor) -> Tensor:
        r"""The score averaged over W, `B x m`, of scores `B x m x n_w` and weights."""

    def _best_of(self, slopes: Tensor, supported: Tensor) -> tuple[Tensor, Tensor]:
        r"""The score at the best w and its index, `B x m` each, from slopes `B x m x n_w x P`."""
        score, index = self._score(slopes).masked_fill(~supported, -torch.inf).max(dim=-1)
        return score, index

    def _of_replicates(self, function: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
        batch_shape: Any = self.model.batch_shape
        return map_replicates(function, X, batch_shape)

    def _at(self, readings: Tensor) -> Tensor:
        r"""Scores of readings (x, w), `batch_shape x m`, from `batch_shape x m x d`."""
        compared: ComparedRisks = self._conditioned
        size = _CHUNK_VALUES.rows(readings.device, compared.sums.weights.numel())

        def of_chunk(readings: Tensor) -> Tensor:
            return self._score(compared.slopes(readings))

        return self._of_replicates(lambda X: evaluate_in_chunks(of_chunk, X, size), readings)

    def _average(self, X: Tensor) -> Tensor:
        compared: ComparedRisks = self._conditioned

        def of_chunk(X: Tensor) -> Tensor:
            slopes, weights = compared.slopes_over_w(X)
            return self._average_score(self._score(slopes), weights)

        return evaluate_in_chunks(of_chunk, X, compared.num_decisions_at_once(X))

    def _best(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Of decisions `B x m x d_x`."""
        compared: ComparedRisks = self._conditioned
        parts = []
        for part in X.split(compared.num_decisions_at_once(X), dim=-2):
            slopes, weights = compared.slopes_over_w(part)
            parts.append(self._best_of(slopes, (weights > 0).expand(slopes.shape[:-1])))
        score, index = (torch.cat(part, dim=-1) for part in zip(*parts, strict=True))
        return score, index


@dataclass(frozen=True, eq=False)
class ComparedRisks:
    r"""The compared decisions under the posterior, for `B` replicates.

    Attributes:
        environment: The distribution of W.
        decisions: `B x P x d_x`.
        process: The process of the outcome.
        risk: `B x P` expected risks.
        sums: The outcomes of each decision over W under weights `B x P x n_w`, which are the
            gradients of its risk in the mean.
        pairs: The outcomes at all (x, w_j), if the w_j are those of every decision.
    """

    environment: Any
    decisions: Tensor
    process: Process
    risk: Tensor
    sums: Any
    pairs: Any

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        model: Any,
        environment: Environment,
        risk_measure: RiskMeasure,
        X: Tensor,
        num_samples: int,
    ) -> ComparedRisks:
        belief = Belief(model)
        process = belief.process()
        if process.noise_of_a_reading(X.new_zeros(1, 0)) is None:
            raise UnsupportedError(
                "Expected a likelihood with one noise, or a fixed one. "
                f"Got {type(model.likelihood).__name__}."
            )
        inputs, probabilities = environment.expand(X)
        grid = inputs.shape[-3:-1]
        inputs = inputs.expand(*model.batch_shape, *inputs.shape[-3:])
        points = process.at(inputs.reshape(process.num_replicates, -1, inputs.shape[-1]))
        risk, weights = expected_risk(
            risk_measure,
            points.mean.unflatten(-1, grid),
            points.variance.unflatten(-1, grid),
            probabilities,
            lambda: process.covariance_within(points, grid[1]),
            num_samples,
        )
        of_w: Any = environment.points if environment.independent else None
        return cls(
            environment,
            X.expand(process.num_replicates, *X.shape[-2:]),
            process,
            risk,
            process.weighted_sums(points, weights),
            None if of_w is None else belief.pairs(of_w),
        )

    def num_decisions_at_once(self, X: Tensor) -> int:
        r"""The number of decisions whose readings over W are held at once."""
        B, P, n_w = self.sums.weights.shape
        is_product = self.pairs is not None and self.pairs.is_product
        return _CHUNK_VALUES.rows(X.device, B * P * n_w * (1 if is_product else n_w))

    def slopes(self, readings: Tensor) -> Tensor:
        r"""The move of each expected risk per standard deviation of a reading.

        `B x m x P`, of readings `B x m x d`.
        """
        at = self.process.at(readings)
        return self.sums.covariance(at) / self._deviation(at.variance, readings).unsqueeze(-1)

    def slopes_over_w(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Slopes of the readings at each value of W, `B x m x n_w x P`, and the weights of W."""
        inputs, of_w = self.environment.expand(X)
        known = None if self.pairs is None else self.pairs.moments_with(self.sums, X)
        if known is None:
            readings = inputs.flatten(-3, -2)
            return self.slopes(readings).unflatten(-2, inputs.shape[-3:-1]), of_w
        covariance, scale, variance = known
        deviation = self._deviation(variance, inputs[..., 0, :])
        return covariance * (scale.unsqueeze(-1) / deviation).unsqueeze(-1), of_w

    @cached_property
    def variance(self) -> Tensor:
        r"""The variance of each risk, `B x P`, exact if it is linear in the outcomes: `q' C q`."""
        variance: Tensor = self.sums.variance()
        return variance

    @cached_property
    def covariance(self) -> Tensor:
        r"""The covariances of the risks, `B x P x P`, as far as each is linear in the outcomes.

        Computed from the slopes of readings at the compared pairs (x, w).
        """
        slopes, _ = self.slopes_over_w(self.decisions)
        inputs = self.environment.expand(self.decisions)[0].flatten(-3, -2)
        variance = self.sums.points.variance
        deviation = self._deviation(variance, inputs).unflatten(-1, slopes.shape[1:3])
        moved = (self.sums.weights * deviation).unsqueeze(-1) * slopes
        covariance = moved.sum(dim=-2)
        return (covariance + covariance.mT) / 2

    def _deviation(self, variance: Tensor, readings: Tensor) -> Tensor:
        r"""The standard deviation of a reading."""
        noise: Any = self.process.noise_of_a_reading(readings)
        noise = noise.reshape(*noise.shape, *[1] * (variance.dim() - noise.dim()))
        return (variance + noise).clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
