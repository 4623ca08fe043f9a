r"""Score one reading by what it would say about the risks of the compared decisions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.compared_risks import ComparedRisks, SlopeReduction
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction, map_replicates
from botorch_risk.arguments import as_floating, check_even, check_flags, check_rows
from botorch_risk.chunks import evaluate_in_chunks
from botorch_risk.engine import Belief
from botorch_risk.environments import Environment
from botorch_risk.environments.environment import inputs_at, inputs_of_readings
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.hallucination import condition_on_mean
from botorch_risk.models.outcomes import refuse_reduced
from botorch_risk.points import as_points, check_made_inputs, input_widths
from botorch_risk.risk import RiskMeasure


class RiskLookahead(PointwiseAcquisitionFunction):
    r"""Score one reading by what it would say about the risks of the compared decisions.

        s_p(x, w) = q_p' k_n((x_p, W), (x, w)) / sqrt( k_n((x, w), (x, w)) + noise )

    By Stein's identity a reading at (x, w) of one standard deviation moves the expected risk `a_p`
    of the decision `x_p` by the slope `s_p`, where `q_p` is the gradient of `a_p` in the mean. This
    is exact for a risk that is linear in the outcomes. The knowledge gradient and the expected
    classification score the slopes.

    If w can be chosen, a decision is scored at the w of `best_value`; otherwise its score is
    averaged over W. Building the object evaluates the measure `num_samples P` times, which is slow
    for a ball in maximum mean discrepancy: each evaluation solves a program. Single-outcome, q = 1:
    use `sequential=True`, which counts pending readings as outcomes at the model's own mean.

    Args:
        model: An exact GP of (x, w) with one output, batch shape `[]` or `[R]`; or of x for an
            environment that perturbs x.
        environment: The distribution of W.
        risk_measure: Any measure; larger is better.
        X_compared: Decisions, `batch_shape x P x d_x`, P >= 2.
        w_is_chosen: Whether w can be chosen with a decision.
        num_samples: Number of antithetic samples for the expected risks, even.
        X_pending: `batch_shape x n' x d_x` decisions under evaluation, as in
            `RiskUpperConfidenceBound`, or `n' x d` with their w.

    Raises:
        UnsupportedError: If the model is not an exact GP with a Gaussian likelihood and one output.
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
        # A loaded state may have other points of W than the measure was bound to.
        self.risk_measure = self.risk_measure.bind(self.environment)
        super()._follow_the_state()

    def _condition(self, X_pending: Tensor | None) -> ComparedRisks:
        model: Any = self.model
        if X_pending is not None:
            model = condition_on_mean(model, self._readings(X_pending))
        return ComparedRisks.of(
            model, self.environment, self.risk_measure, self.X_compared, self.num_samples
        )

    def _decisions(self, X: Tensor) -> Tensor:
        return X[..., : self.X_compared.shape[-1]]

    def _readings(self, X: Tensor) -> Tensor:
        r"""Pending readings as inputs of the model, with their own w if they have it."""
        if X.shape[-1] != self.X_compared.shape[-1]:
            return X
        return inputs_of_readings(self.environment, X)

    def check_points(self, X: Tensor) -> None:
        r"""Raise BotorchTensorDimensionError unless `X` are decisions, `batch_shape x m x d_x`."""
        X, d_x = as_points(X, self.model), self.X_compared.shape[-1]
        if X.dim() < 2 or X.shape[-1] != d_x:
            raise BotorchTensorDimensionError(
                f"Expected decisions `batch_shape x m x {d_x}`. Got {tuple(X.shape)}."
            )

    def score(self, X: Tensor) -> Tensor:
        r"""Scores of decisions, `batch_shape x m`, from `batch_shape x m x d_x`."""
        X = as_points(X, self.model)
        self.check_points(X)
        if not self.w_is_chosen:
            return self._over_w(self._average, X)
        return map_replicates(self._at_the_best, X, self.model.batch_shape)

    def _at_the_best(self, X: Tensor) -> Tensor:
        found = self._conditioned.reduced_over_w(X, self._on_host())
        if found is not None:
            return found
        if torch.is_grad_enabled() and X.requires_grad:
            # The gradient of a maximum is the gradient at the best w: no graph of the others.
            return self._at(self.best_value(X))
        return self._over_w(self._best, X)

    def best_value(self, X: Tensor) -> Tensor:
        r"""The reading to take of each decision, at the w with the best score.

        Args:
            X: `batch_shape x m x d_x`.

        Returns:
            The queries, `batch_shape x m x d`, differentiable in `X` with w fixed.
        """
        X = as_points(X, self.model)
        self.check_points(X)
        # The search for w yields an index, which has no gradient.
        with torch.no_grad():
            best = self._over_w(self._best_index, X.detach())
        return inputs_at(self.environment.expand(X)[0], best)

    def _average(self, slopes: Tensor, weights: Tensor) -> Tensor:
        return self._average_score(self._score(slopes), weights)

    def _best(self, slopes: Tensor, weights: Tensor) -> Tensor:
        index = self._best_index(slopes, weights)[..., None, None]
        index = index.expand(*index.shape[:-1], slopes.shape[-1])
        return self._score(slopes.gather(-2, index).squeeze(-2))

    def _best_index(self, slopes: Tensor, weights: Tensor) -> Tensor:
        # A w of weight 0 marks where a ball may put mass, but is not in the support.
        return self._index_of_best(slopes, (weights > 0).expand(slopes.shape[:-1]))

    def _at(self, readings: Tensor) -> Tensor:
        r"""Scores of readings (x, w), `batch_shape x m`, from `batch_shape x m x d`."""
        size = self._conditioned.num_readings_at_once(readings)
        return self._in_chunks(lambda X: self._score(self._conditioned.slopes(X)), readings, size)

    def _over_w(self, score: Callable[[Tensor, Tensor], Tensor], X: Tensor) -> Tensor:
        size = self._conditioned.num_decisions_at_once(X)
        return self._in_chunks(lambda X: score(*self._conditioned.slopes_over_w(X)), X, size)

    def _in_chunks(
        self, function: Callable[[Tensor], Tensor], X: Tensor, chunk_size: int
    ) -> Tensor:
        in_chunks = partial(evaluate_in_chunks, function, chunk_size=chunk_size)
        return map_replicates(in_chunks, X, self.model.batch_shape)

    @abstractmethod
    def _score(self, slopes: Tensor) -> Tensor:
        r"""Scores `B x ...` of readings with slopes `B x ... x P`."""

    @abstractmethod
    def _average_score(self, scores: Tensor, weights: Tensor) -> Tensor:
        r"""The score averaged over W, `B x m`, of scores `B x m x n_w` and weights."""

    def _on_host(self) -> SlopeReduction | None:
        r"""The score at the best w in NumPy; None if there is no such form, as here."""
        return None

    def _index_of_best(self, slopes: Tensor, supported: Tensor) -> Tensor:
        r"""The index of the best w, `B x m`, from slopes `B x m x n_w x P`."""
        return self._score(slopes).masked_fill(~supported, -torch.inf).argmax(dim=-1)
