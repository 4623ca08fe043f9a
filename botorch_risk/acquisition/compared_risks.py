r"""Predict what one reading would say about the risks of the compared decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from numpy import ndarray
from torch import Tensor

from botorch_risk.acquisition.expected_risk import expected_risk
from botorch_risk.chunks import ChunkSize
from botorch_risk.engine import Belief, Process
from botorch_risk.environments import Environment
from botorch_risk.gradients import with_gradient
from botorch_risk.risk import RiskMeasure

# Maps slopes `B x m x n_w x P` to scores and indices of w, `B x m` each, and the gradients of the
# scores in the slopes at that w, `B x m x P`.
SlopeReduction = Callable[[ndarray], tuple[ndarray, ndarray, ndarray]]

# Covariances of readings with compared pairs (x, w), all candidates counted, held at once.
_CHUNK_VALUES = ChunkSize(cpu=2**18, gpu=2**26)
# Covariances over W within decisions, all decisions counted, held at once.
_CHUNK_COVARIANCES = ChunkSize(cpu=2**22, gpu=2**27)


@dataclass(frozen=True, eq=False)
class ComparedRisks:
    r"""The compared decisions and their risks under the posterior, for `B` replicates.

    Attributes:
        environment: The distribution of W.
        decisions: `B x P x d_x`.
        process: The process of the outcome.
        risk: `B x P` expected risks.
        sums: Weighted sums of the outcomes of each decision over W; the weights `B x P x n_w` are
            the gradients of its risk in the mean.
        pairs: The outcomes at all (x, w_j), if every decision meets the same w_j.
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
                "Expected a likelihood with one noise variance, or with fixed noise. "
                f"Got {type(model.likelihood).__name__}."
            )
        inputs, probabilities = environment.expand(X)
        grid = inputs.shape[-3:-1]
        inputs = inputs.expand(*model.batch_shape, *inputs.shape[-3:])
        points = process.at(inputs.reshape(process.num_replicates, -1, inputs.shape[-1]))
        risk, weights = _expected_in_chunks(
            risk_measure, process, points, probabilities, grid, num_samples
        )
        of_w: Any = environment.points if environment.independent else None
        return cls(
            environment,
            X.expand(*model.batch_shape, *X.shape[-2:]).reshape(-1, *X.shape[-2:]),
            process,
            risk,
            process.weighted_sums(points, weights),
            None if of_w is None else belief.pairs(of_w),
        )

    def num_readings_at_once(self, readings: Tensor) -> int:
        r"""The number of readings whose covariances with the sums are held at once."""
        return _CHUNK_VALUES.rows(readings.device, self.sums.weights.numel())

    def num_decisions_at_once(self, X: Tensor) -> int:
        r"""The number of decisions whose readings over W are held at once."""
        B, P, n_w = self.sums.weights.shape
        # A product kernel separates x from w. Any other one needs n_w times as many covariances: of
        # the reading at each w with the outcome at each w.
        is_product = self.pairs is not None and self.pairs.is_product
        return _CHUNK_VALUES.rows(X.device, B * P * n_w * (1 if is_product else n_w))

    def slopes(self, readings: Tensor) -> Tensor:
        r"""The change of each expected risk per standard deviation of a reading, `B x m x P`.

        The readings are `B x m x d`.
        """
        covariance, variance = self.sums.moments_at(readings)
        slopes: Tensor = covariance / self._deviation(variance, readings).unsqueeze(-1)
        return slopes

    def slopes_over_w(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Slopes of the readings at each value of W, `B x m x n_w x P`, and the weights of W."""
        inputs, of_w = self._expanded(X)
        known = None if self.pairs is None else self.pairs.moments_with(self.sums, X)
        if known is None:
            readings = inputs.flatten(-3, -2)
            return self.slopes(readings).unflatten(-2, inputs.shape[-3:-1]), of_w
        covariance, scale, variance = known
        # The noise of a reading does not depend on w.
        deviation = self._deviation(variance, inputs[..., 0, :])
        return covariance * (scale.unsqueeze(-1) / deviation).unsqueeze(-1), of_w

    def reduced_over_w(self, X: Tensor, reduce: SlopeReduction | None) -> Tensor | None:
        r"""A number computed from the slopes at each w, `B x m`, in NumPy and as one graph node.

        Returns None unless there is a closed form, which only few decisions have.
        """
        pairs = None if reduce is None else self.pairs
        host = None if pairs is None else pairs.on_host_with(self.sums, X)
        if host is None:
            return None
        needs_gradient = X.requires_grad and torch.is_grad_enabled()

        def reduced(X: Tensor) -> tuple[Tensor, Any]:
            value, gradient = host.reduced(X.detach().numpy(), reduce, needs_gradient)
            known = None if gradient is None else torch.from_numpy(gradient)
            return torch.from_numpy(value), known

        return with_gradient(reduced, X) if needs_gradient else reduced(X)[0]

    @cached_property
    def variance(self) -> Tensor:
        r"""The variance `q' C q` of each risk, `B x P`, exact for risks linear in the outcomes."""
        variance: Tensor = self.sums.variance()
        return variance

    @cached_property
    def covariance(self) -> Tensor:
        r"""The covariances of the risks, `B x P x P`, exact if each is linear in the outcomes."""
        if self.environment.independent:
            known: Tensor | None = self.sums.covariances(self.environment.points.shape[-1])
            if known is not None:
                return known
        covariance = self._from_slopes()
        # Each entry is computed from either side, and is symmetric up to rounding only.
        return (covariance + covariance.mT) / 2

    def _from_slopes(self) -> Tensor:
        r"""The covariances from the slopes of readings at the compared pairs (x, w)."""
        slopes, _ = self.slopes_over_w(self.decisions)
        inputs = self._expanded(self.decisions)[0].flatten(-3, -2)
        variance = self.sums.points.variance
        deviation = self._deviation(variance, inputs).unflatten(-1, slopes.shape[1:3])
        # A slope times the deviation is the covariance of a risk with one outcome; the sum over w
        # under the weights q is the covariance with the other risk.
        moved = (self.sums.weights * deviation).unsqueeze(-1) * slopes
        return moved.sum(dim=-2)

    def _expanded(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Inputs of decisions `B x m x d_x` under all values of W, and the weights of these."""
        shape = self.process.prior.model.batch_shape
        if len(shape) < 2:
            inputs, of_w = self.environment.expand(X)
            return inputs, of_w
        # Samples of the hyperparameters of replicates: distributions belong to replicates.
        inputs, of_w = self.environment.expand(X.reshape(*shape, *X.shape[-2:]))
        of_w = of_w.expand(*shape, *inputs.shape[-3:-1])
        return inputs.flatten(0, len(shape) - 1), of_w.flatten(0, len(shape) - 1)

    def _deviation(self, variance: Tensor, readings: Tensor) -> Tensor:
        noise: Any = self.process.noise_of_a_reading(readings)
        noise = noise.reshape(*noise.shape, *[1] * (variance.dim() - noise.dim()))
        # At an observed point without noise the variance is 0, or less by rounding.
        return (variance + noise).clamp_min(torch.finfo(variance.dtype).tiny).sqrt()


def _expected_in_chunks(
    risk_measure: RiskMeasure,
    process: Process,
    points: Process.Points,
    probabilities: Tensor,
    grid: torch.Size,
    num_samples: int,
) -> tuple[Tensor, Tensor]:
    r"""Expected risks `B x P` and their gradients `B x P x n_w`, of a `P x n_w` grid of points."""
    P, n_w = grid
    probabilities = probabilities.expand(*probabilities.shape[:-2], P, n_w)
    if probabilities.dim() > 3:  # samples of the hyperparameters of replicates
        probabilities = probabilities.flatten(0, -3)
    # A measure without a closed form needs the covariance over W of each decision.
    size = min(P, _CHUNK_COVARIANCES.rows(points.mean.device, len(points.mean) * n_w**2))
    found = []
    for start in range(0, P, size):
        end = min(P, start + size)
        part = points.part(slice(None), slice(start * n_w, end * n_w)) if size < P else points
        found.append(
            expected_risk(
                risk_measure,
                part.mean.unflatten(-1, (-1, n_w)),
                part.variance.unflatten(-1, (-1, n_w)),
                probabilities[..., start:end, :],
                partial(process.covariance_within, part, n_w),
                num_samples,
            )
        )
    return tuple(torch.cat(each, dim=1) for each in zip(*found, strict=True))  # type: ignore[return-value]
