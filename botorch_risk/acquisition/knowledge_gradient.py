r"""The knowledge gradient of a risk: how much better a recommendation gets by one reading."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.expected_gain import log_expected_gain, log_standard_improvement
from botorch_risk.acquisition.expected_risk import expected_risk
from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction, map_replicates
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import as_floating, check_even
from botorch_risk.chunks import ChunkSize, evaluate_in_chunks
from botorch_risk.environments import Environment
from botorch_risk.environments.environment import inputs_at
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.hallucination import condition_on_mean
from botorch_risk.models.outcomes import refuse_reduced
from botorch_risk.posterior.joint_moments import (
    conditioned_process,
    covariance_within,
    noise_of_a_reading,
)
from botorch_risk.posterior.marginals import MarginalPredictor, has_closed_form
from botorch_risk.posterior.process import ConditionedPoints, ConditionedProcess, PriorProcess
from botorch_risk.posterior.product import ProductMarginals
from botorch_risk.posterior.t_batch import as_points, check_made_inputs, input_widths, keeps_apart
from botorch_risk.risk import RiskMeasure

# Covariances of readings with compared pairs (x, w), all candidates counted, held at once.
_CHUNK_VALUES = ChunkSize(cpu=2**18, gpu=2**26)


@construct_from_own_arguments
class LogRiskKnowledgeGradient(PointwiseAcquisitionFunction):
    r"""The logarithm of what one reading adds to the expected risk of the recommendation.

        score(x) = log E_Z[ max_p ( a_p + s_p(x, w) Z ) ] - max_p a_p
        s_p(x, w) = q_p' k_n((x_p, W), (x, w)) / sqrt( k_n((x, w), (x, w)) + noise )

    where p runs through decisions that are compared, `a_p` is the expected risk of one and `q_p`
    its gradient in the mean: by Stein's identity `s_p` is how far a reading at (x, w) of one
    standard deviation moves the expected risk of `x_p`. Exactly so for a risk that is linear in
    the outcomes. The maximum over lines is in closed form (`log_expected_gain`), as in the
    knowledge gradient for correlated beliefs [Frazier2009kgcb]_.

    If w can be chosen, a decision is scored at the w of `best_value`; otherwise by the gain
    averaged over W. `log_gain` scores any reading (x, w). Building the object evaluates the measure
    `num_samples P` times, which is slow for a ball in maximum mean discrepancy, where each is a
    program of its own. Single-outcome, q = 1: use `sequential=True`, where pending readings count
    as outcomes at the model's own mean.

    Args:
        model: An exact GP of (x, w) with one output, batch shape `[]` or `[R]`; or of x for an
            environment that perturbs x.
        environment: The distribution of W.
        risk_measure: Any measure; larger is better.
        X_compared: Decisions that may be recommended, `batch_shape x P x d_x`, P >= 2; see
            `decisions_to_compare`.
        w_is_chosen: Whether w can be chosen with a decision.
        num_samples: Antithetic samples for the expected risks, an even number.
        X_pending: `batch_shape x n' x d_x` decisions under evaluation, or `n' x d` with their w.

    Raises:
        BotorchTensorDimensionError: If decisions and environment do not make the inputs of the
            model, or there is one compared decision.
        TypeError: If a part is no environment or no measure.
        UnsupportedError: If the model is no exact GP with a Gaussian likelihood and one output.
        ValueError: If the number of samples is not even.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> from botorch.optim import optimize_acqf
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> _ = torch.manual_seed(0)
        >>> train_X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(train_X, (4 * train_X).sin().sum(dim=-1, keepdim=True))
        >>> w = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> compared = torch.linspace(0, 1, 11, dtype=torch.double)[:, None]
        >>> acqf = LogRiskKnowledgeGradient(
        ...     model, w, ConditionalValueAtRisk(0.2), compared, w_is_chosen=True
        ... )
        >>> unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> x, _ = optimize_acqf(acqf, unit, q=1, num_restarts=2, raw_samples=16)
        >>> acqf.best_value(x).shape  # what to query
        torch.Size([1, 2])
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
        if not has_closed_form(model, None) or len(model.batch_shape) > 1:
            raise UnsupportedError(
                "Expected an exact GP with one output, a Gaussian likelihood and at most one batch "
                f"dimension. Got {type(model).__name__} with {model.batch_shape=}."
            )
        environment, risk_measure = parts_of(environment, risk_measure)
        super().__init__(model=model)
        self.environment = environment
        self.risk_measure = risk_measure.bind(environment)
        self.w_is_chosen = w_is_chosen
        self.num_samples = num_samples
        X_compared = as_floating(X_compared, "X_compared")
        if X_compared.dim() < 2 or X_compared.shape[-2] < 2:
            raise BotorchTensorDimensionError(
                "Expected at least 2 decisions to compare, `batch_shape x P x d_x`. "
                f"Got {tuple(X_compared.shape)}."
            )
        made = environment.expand(X_compared)[0].shape[-1]
        check_made_inputs(input_widths(model), made)
        self.register_buffer("X_compared", X_compared.detach().clone())
        self.set_X_pending(X_pending)

    def _follow_the_state(self) -> None:
        self.risk_measure = self.risk_measure.bind(self.environment)
        super()._follow_the_state()

    def _condition(self, X_pending: Tensor | None) -> _Compared:
        model: Any = self.model
        if X_pending is not None:
            model = condition_on_mean(model, self._readings(X_pending))
        return _Compared.of(
            model, self.environment, self.risk_measure, self.X_compared, self.num_samples
        )

    def _readings(self, X: Tensor) -> Tensor:
        r"""Pending readings as inputs of the model: with their own w, or with its average."""
        if X.shape[-1] != self.X_compared.shape[-1]:
            return X
        inputs, weights = self.environment.expand(X)
        return (inputs * weights.unsqueeze(-1)).sum(dim=-2)

    def check_points(self, X: Tensor) -> None:
        r"""Raises BotorchTensorDimensionError unless `X` are decisions, `batch_shape x m x d_x`."""
        d_x = self.X_compared.shape[-1]
        if X.dim() < 2 or X.shape[-1] != d_x:
            raise BotorchTensorDimensionError(
                f"Expected decisions `batch_shape x m x {d_x}`. Got {tuple(X.shape)}."
            )

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Log gains of decisions, `batch_shape x m`, from `batch_shape x m x d_x`."""
        X = as_points(X, self.model)
        self.check_points(X)
        batch_shape: Any = self.model.batch_shape
        if self.w_is_chosen and not (torch.is_grad_enabled() and X.requires_grad):
            return map_replicates(lambda X: self._conditioned.best(X)[0], X, batch_shape)
        if self.w_is_chosen:
            return self.log_gain(self.best_value(X))
        return map_replicates(self._conditioned.average_log_gain, X, batch_shape)

    def log_gain(self, readings: Tensor) -> Tensor:
        r"""Log gains of readings (x, w), `batch_shape x m`, from `batch_shape x m x d`."""
        batch_shape: Any = self.model.batch_shape
        return map_replicates(self._conditioned.log_gain, readings, batch_shape)

    def best_value(self, X: Tensor) -> Tensor:
        r"""The reading to make at each decision.

        Its w is the one at which a single compared decision gains most against the one that is
        best now: a lower bound of the gain, which needs no search along the lines of all.

        Args:
            X: `batch_shape x m x d_x`.

        Returns:
            What to query, `batch_shape x m x d`, differentiable in `X` with w fixed.
        """
        X = as_points(X, self.model)
        batch_shape: Any = self.model.batch_shape
        with torch.no_grad():
            best = map_replicates(lambda X: self._conditioned.best(X)[1], X, batch_shape)
        return inputs_at(self.environment.expand(X)[0], best)


@dataclass(frozen=True)
class _Compared:
    r"""The compared decisions under the posterior, for `B` replicates.

    Attributes:
        environment: The distribution of W.
        process: The process of the outcome.
        points: All pairs of a compared decision and a value of W, `B x (P n_w)` of them.
        risk: `B x P` expected risks.
        weights: `B x P x n_w`, their gradients in the mean.
        explained: `B x t x P`, the columns of `points` under these weights.
        of_product: If the kernel is one of x times one of w: the marginals over W, and `B x P x
            n_w` covariances of each compared decision under its weights with each value of W at
            the same decision.
    """

    environment: Any
    process: ConditionedProcess
    points: ConditionedPoints
    risk: Tensor
    weights: Tensor
    explained: Tensor
    of_product: tuple[ProductMarginals, Tensor] | None

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        model: Any,
        environment: Environment,
        risk_measure: RiskMeasure,
        X: Tensor,
        num_samples: int,
    ) -> _Compared:
        process = conditioned_process(MarginalPredictor(model))
        prior = process.process
        if noise_of_a_reading(prior, X.new_zeros(1, 0)) is None:
            raise UnsupportedError(
                "Expected a likelihood with one noise, or a fixed one. "
                f"Got {type(model.likelihood).__name__}."
            )
        inputs, probabilities = environment.expand(X)
        grid = inputs.shape[-3:-1]
        inputs = inputs.expand(*model.batch_shape, *inputs.shape[-3:])
        points = process.at(inputs.reshape(prior.num_replicates, -1, inputs.shape[-1]))
        risk, weights = expected_risk(
            risk_measure,
            points.mean.unflatten(-1, grid),
            points.variance.unflatten(-1, grid),
            probabilities,
            lambda: covariance_within(process, points, grid[1]),
            num_samples,
        )
        explained = (points.whitened.unflatten(-1, grid) * weights.unsqueeze(1)).sum(dim=-1)
        of_product = None
        if _is_product(prior, environment):
            of_w: Any = environment
            W = points.prior.inputs.expand(*points.mean.shape, -1).unflatten(-2, grid)[:, 0]
            W = W[..., -of_w.points.shape[-1] :]
            scaled = weights * points.prior.scale.unflatten(-1, grid)
            marginals = ProductMarginals(model, of_w.points)
            of_product = marginals, scaled @ prior.correlation(W, W)
        return cls(environment, process, points, risk, weights, explained, of_product)

    def log_gain(self, readings: Tensor) -> Tensor:
        r"""Log gains of readings `B x m x d`, `B x m`."""
        size = _CHUNK_VALUES.rows(readings.device, self.weights.numel())
        return evaluate_in_chunks(self._log_gain, readings, size)

    def best(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The log gain of decisions `B x m x d_x` at the best w, and its index, `B x m` each.

        By the line that gains most against the best one.
        """
        parts = zip(*(self._best(part) for part in X.split(self._chunk(X), dim=-2)), strict=True)
        gain, w = (torch.cat(part, dim=-1) for part in parts)
        return gain, w

    def _best(self, X: Tensor) -> tuple[Tensor, Tensor]:
        slopes, weights = self._slopes_over_w(X)
        spread = self._against_best(slopes)
        spread = spread.masked_fill(weights.expand(spread.shape[:-1]).unsqueeze(-1) <= 0, 0.0)
        # A line gains the more, the more its slope differs: only the largest of each is needed.
        widest, w = spread.max(dim=-2)  # B x m x P
        behind = self.risk.amax(dim=-1, keepdim=True).sub(self.risk).unsqueeze(-2)
        widest = widest.clamp_min(torch.finfo(widest.dtype).tiny)
        gains = log_standard_improvement(-behind / widest) + widest.log()
        line = gains.masked_fill(behind == 0, -torch.inf).argmax(dim=-1, keepdim=True)
        index = w.gather(-1, line).unsqueeze(-1).expand(*w.shape[:-1], 1, w.shape[-1])
        return self._of_lines(slopes.gather(-2, index).squeeze(-2)), index[..., 0, 0]

    def average_log_gain(self, X: Tensor) -> Tensor:
        r"""The logarithm of the gain averaged over W, `B x m`, at decisions `B x m x d_x`."""

        def average(X: Tensor) -> Tensor:
            slopes, weights = self._slopes_over_w(X)
            gains = self._of_lines(slopes)  # B x m x n_w
            return (gains + weights.to(gains).log()).logsumexp(dim=-1)

        return evaluate_in_chunks(average, X, self._chunk(X))

    def _chunk(self, X: Tensor) -> int:
        r"""The number of decisions whose readings over W are held at once."""
        each = self.weights.numel() if self.of_product is None else self.weights[:, :, 0].numel()
        return _CHUNK_VALUES.rows(X.device, each * self.weights.shape[-1])

    def _log_gain(self, readings: Tensor) -> Tensor:
        at = self.process.at(readings)
        return self._of_lines(self._slopes(at, readings))

    def _prior_covariance(self, at: ConditionedPoints) -> Tensor:
        r"""Prior covariances of readings with the compared decisions, `B x m x P`."""
        prior = self.process.process.covariance(at.prior, self.points.prior)
        prior = prior.unflatten(-1, self.weights.shape[-2:])
        return torch.einsum("bmpw,bpw->bmp", prior, self.weights)

    def _slopes_over_w(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Slopes of the readings at each value of W, `B x m x n_w x P`, and the weights of W."""
        inputs, of_w = self.environment.expand(X)
        if self.of_product is not None:
            slopes = self._slopes_of_product(X, inputs[..., 0, :], *self.of_product)
            if slopes is not None:
                return slopes, of_w
        readings = inputs.flatten(-3, -2)
        slopes = self._slopes(self.process.at(readings), readings)
        return slopes.unflatten(-2, inputs.shape[-3:-1]), of_w

    def _slopes(self, at: ConditionedPoints, readings: Tensor) -> Tensor:
        r"""How far one standard deviation of a reading moves each expected risk, `B x m x P`."""
        moved = self._prior_covariance(at) - at.whitened.mT @ self.explained
        return moved / self._deviation(at.variance, readings).unsqueeze(-1)

    def _slopes_of_product(
        self, X: Tensor, at_one_w: Tensor, marginals: ProductMarginals, correlations: Tensor
    ) -> Tensor | None:
        r"""`_slopes` at all values of W, if the covariance is one of x times one of w."""
        process, parts = self.process.process, (X, self.explained)
        batch_shape = process.model.batch_shape
        found = marginals.explained_with(*(p.reshape(*batch_shape, *p.shape[-2:]) for p in parts))
        if found is None:
            return None
        explained, covariance = (
            each.reshape(*X.shape[:2], *each.shape[len(batch_shape) + 1 :]) for each in found
        )
        prior = process.points(at_one_w)  # x is scaled by itself
        # The decisions alone, in the space of the kernel; each compared one is there for each w.
        d_w, n_w = self.environment.points.shape[-1], self.weights.shape[-1]
        first, second = (
            each.inputs.expand(*each.mean.shape, -1)[..., :-d_w]
            for each in (prior, self.points.prior)
        )
        of_x = process.correlation(first, second[:, ::n_w])  # B x m x P
        moved = of_x.unsqueeze(-2) * correlations.mT.unsqueeze(-3) - covariance
        variance = prior.variance.unsqueeze(-1) * (1 - explained).clamp_min(0.0)
        deviation = self._deviation(variance, at_one_w)
        return moved * (prior.scale.unsqueeze(-1) / deviation).unsqueeze(-1)

    def _deviation(self, variance: Tensor, readings: Tensor) -> Tensor:
        r"""The standard deviation of a reading."""
        noise: Any = noise_of_a_reading(self.process.process, readings)
        noise = noise.reshape(*noise.shape, *[1] * (variance.dim() - noise.dim()))
        return (variance + noise).clamp_min(torch.finfo(variance.dtype).tiny).sqrt()

    def _against_best(self, slopes: Tensor) -> Tensor:
        r"""How far the slope of each line is from the best one's, `B x m x n_w x P`."""
        best = self.risk.argmax(dim=-1)[:, None, None, None].expand(*slopes.shape[:-1], 1)
        return (slopes - slopes.gather(-1, best)).abs()

    def _of_lines(self, slopes: Tensor) -> Tensor:
        r"""The log gain of the largest of all lines, `B x ...`, from slopes `B x ... x P`."""
        risk = self.risk.reshape(len(slopes), *[1] * (slopes.dim() - 2), -1)
        return log_expected_gain(risk, slopes)


def _is_product(prior: PriorProcess, environment: Any) -> bool:
    r"""Whether the covariance is a product of one of decisions and one of values of W."""
    kernel = prior.cache.kernel
    transform = prior.model._modules.get("input_transform")
    return (
        environment.independent
        and kernel is not None
        and kernel.nu == math.inf
        and keeps_apart(transform, environment.points.shape[-1])
    )


def decisions_to_compare(
    bound: RiskUpperConfidenceBound, X: Tensor, num_compared: int = 28
) -> Tensor:
    r"""The decisions that are likely to be recommended, of many.

    Half have the largest upper bound of the risk, half the largest risk of the mean.

    Args:
        bound: Of the risk.
        X: Decisions, `batch_shape x m x d_x`, such as the evaluated ones and random ones.
        num_compared: How many, an even number of at least 2.

    Returns:
        `batch_shape x num_compared x d_x`, some of them twice; fewer if there are few.

    Raises:
        ValueError: If the number is not even.
    """
    check_even(num_compared=num_compared)
    with torch.no_grad():
        scores = bound.upper(X), bound.mean(X)
    half = min(num_compared // 2, X.shape[-2])
    index = torch.cat([score.topk(half, dim=-1).indices for score in scores], dim=-1)
    return X.gather(-2, index.unsqueeze(-1).expand(*index.shape, X.shape[-1]))
