r"""The value of readings for mean minus variance: where to measure next, and how often."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    as_nonnegative,
    keep_unregistered,
    map_replicates,
)
from botorch_risk.arguments import check_counts, check_positive, in_short
from botorch_risk.engine import DomainPosterior, optimize_acqf_replicates
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.learnt_noise import LearntNoise
from botorch_risk.models.variance_links import LogLink
from botorch_risk.points import as_points
from botorch_risk.repeats.rank_one_gain import RankOneGain


class Readings(NamedTuple):
    r"""The next point to measure, and how often.

    Attributes:
        X: `batch_shape x d` points.
        num_repeats: `batch_shape` numbers of readings.
        row: `batch_shape`, the row of a measured point in the model's data; -1 for a new one.
        log_rate: `batch_shape`, the logarithm of the expected gain per cost, the gain in units of
            the outcome.
    """

    X: Tensor
    num_repeats: Tensor
    row: Tensor
    log_rate: Tensor


@construct_from_own_arguments
class LogRiskAverseKnowledgeGradient(PointwiseAcquisitionFunction):
    r"""The expected improvement of the recommendation by k readings at a point, per cost.

        score(x) = max_k max_a log( E[max(V_k(a) - V_k(b), 0)] / (moving_cost + k reading_cost) )
        V_k(x') = the posterior mean of f(x') - risk_aversion * rho^2(x') after k readings at x

    b is the measured or pending point with the largest posterior mean now, and a is x or another
    such point. This is the knowledge gradient [Frazier2009kgcb]_ of the best pair, a lower bound of
    that over all points. Means and noise both learn from readings, by updates of rank one:

        mean_k(a) = mean(a) + c(a, x) / sqrt(v(x) + ucb_var(x) / k) Z
        log-noise_k(a) likewise, from the sample variance, of log variance trigamma((k - 1) / 2)

    so the noise is a martingale, log-normal in one Z, and the mean is Gaussian in another. If x has
    c readings, k more raise the precision of its log noise from p(c) to p(c + k): a third reading
    tells more about the noise than the first two together. Single-outcome, q = 1: use
    `sequential=True`. `choose` compares the maximiser with more readings at measured points.

    Args:
        model: A fitted mean-variance model that learns its noise with the log link, of batch
            shape `[]` or `[R]`.
        risk_aversion: Weight of the variance, >= 0.
        num_repeats: The numbers of readings to choose from, each at least 1.
        moving_cost: The cost of starting at a new point, >= 0.
        returning_cost: The cost of returning to a measured point, >= 0.
        reading_cost: The cost of a reading, > 0.
        num_compared: The number of measured and pending points that may become the best one.
        X_pending: `batch_shape x n' x d` points under evaluation.

    Raises:
        UnsupportedError: If the model does not learn its noise with the log link, or has more
            than one batch dimension.

    Example:
        >>> from botorch_risk.examples import noisy_model
        >>> acqf = LogRiskAverseKnowledgeGradient(noisy_model, moving_cost=2.0)
        >>> X = torch.rand(3, 1, dtype=torch.double)
        >>> acqf.evaluate(X).shape, acqf.choose(X).num_repeats.shape
        (torch.Size([3]), torch.Size([]))
    """

    # Pending points count as compared, which keeps points apart; 0.05 costs regret in a batch.
    min_distance = 0.02
    num_repeats: Tensor
    _states: Sequence[Any]

    def __init__(
        self,
        model: MeanVarianceGP,
        risk_aversion: float = 1.0,
        num_repeats: Sequence[int] = (2, 3, 5, 8, 13),
        moving_cost: float = 0.0,
        returning_cost: float = 0.0,
        reading_cost: float = 1.0,
        num_compared: int = 8,
        X_pending: Tensor | None = None,
    ) -> None:
        _require_log_noise(model)
        super().__init__(model=model)
        counts = torch.as_tensor(list(num_repeats))
        if not counts.numel() or not bool(((counts >= 1) & (counts == counts.round())).all()):
            raise ValueError(
                "Expected one or more whole `num_repeats`, each at least 1. "
                f"Got {in_short(num_repeats)}."
            )
        check_counts(num_compared=num_compared)
        check_positive(reading_cost=reading_cost)
        self.register_buffer("num_repeats", counts.long().to(model.train_X.device))
        self.risk_aversion = float(as_nonnegative("risk_aversion", risk_aversion))
        self.moving_cost = float(as_nonnegative("moving_cost", moving_cost))
        self.returning_cost = float(as_nonnegative("returning_cost", returning_cost))
        self.reading_cost = float(reading_cost)
        self.num_compared = num_compared
        self.set_X_pending(X_pending)

    def _condition(self, X_pending: Tensor | None) -> RankOneGain:
        model: Any = self.model
        processes = model.mean_marginals, model.noise.marginals
        keep_unregistered(self, "_states", [each.current_cache().state for each in processes])
        if X_pending is not None:
            model = model.condition_on_pending(X_pending)
        return RankOneGain.of(model, self.risk_aversion, self.num_compared, X_pending)

    def score(self, X: Tensor) -> Tensor:
        r"""The best log rate at `batch_shape x m x d` points that count as new, `batch_shape x m`.

        It uses ten quadrature nodes of the log noise, as an optimiser calls it many times, and is
        inaccurate for gains below exp(-8) prior standard deviations; `log_rates` is exact.
        """
        X = as_points(X, self.model)
        self.check_points(X)
        return map_replicates(lambda X: self._rates(X).amax(dim=-1), X, self._batch_shape)

    def log_rates(self, X: Tensor) -> Tensor:
        r"""Log rates of each number of readings at points that count as new.

        `batch_shape x m x len(num_repeats)` logarithms of the gain per cost.
        """
        X = as_points(X, self.model)
        self.check_points(X)
        parts = [
            map_replicates(partial(self._rates_of_step, step), X, self._batch_shape)
            for step in self.num_repeats.tolist()
        ]
        return torch.stack(parts, dim=-1)

    @torch.no_grad()
    def log_rates_of_measured(self) -> Tensor:
        r"""Log rates of more readings at the model's points, minus infinity where there is none.

        `batch_shape x n x len(num_repeats)`.
        """
        model: Any = self.model
        X = model.train_X.reshape(-1, *model.train_X.shape[-2:])
        counts = model.train_counts.reshape(X.shape[:-1])
        rates = self._rates(X, counts, tails=True).masked_fill(
            counts.unsqueeze(-1) == 0, -torch.inf
        )
        return rates.reshape(*self._batch_shape, *rates.shape[-2:])

    @torch.no_grad()
    def choose(self, X: Tensor) -> Readings:
        r"""The best of new points and more readings at measured ones.

        The new points are `batch_shape x m x d`, such as the maximiser alone (m = 1).
        """
        model: Any = self.model
        X = as_points(X, model)
        new, measured = self.log_rates(X), self.log_rates_of_measured()
        rates = torch.cat([new, measured.expand(*new.shape[:-2], -1, -1)], dim=-2)
        log_rate, best = rates.flatten(-2).max(dim=-1)
        row = best // len(self.num_repeats)
        points = torch.cat([X, model.train_X.expand(*X.shape[:-2], -1, -1)], dim=-2)
        index = row[..., None, None].expand(*row.shape, 1, X.shape[-1])
        return Readings(
            points.gather(-2, index).squeeze(-2),
            self.num_repeats[best % len(self.num_repeats)],
            (row - X.shape[-2]).clamp_min(-1),
            log_rate,
        )

    @property
    def _batch_shape(self) -> torch.Size:
        shape: Any = self.model.batch_shape
        return shape

    def _rates_of_step(self, step: int, X: Tensor) -> Tensor:
        return self._rates(X, steps=[step], tails=True).squeeze(-1)

    def _rates(
        self,
        X: Tensor,
        counts: Tensor | None = None,
        steps: Sequence[int] | None = None,
        tails: bool = False,
    ) -> Tensor:
        r"""Log rates `B x m x len(steps)` for numbers of readings at points with earlier readings.

        `counts`, `B x m`, is `None` for new points. `tails` asks for exact small gains.
        """
        start = self.moving_cost if counts is None else self.returning_cost
        counts = X.new_zeros(()) if counts is None else counts
        steps = self.num_repeats.tolist() if steps is None else steps
        if not all(state.is_current() for state in self._states):  # after another fit
            self.set_X_pending(self.X_pending)
        gains = self._conditioned.log_gains(X, steps, counts, tails)
        return gains - (start + X.new_tensor(steps) * self.reading_cost).log()


def _require_log_noise(model: Any) -> None:
    r"""Refuse models without learnt noise, or with it on another scale."""
    if (
        not isinstance(model, MeanVarianceGP)
        or not isinstance(model.noise, LearntNoise)
        or not isinstance(model.noise.link, LogLink)
        or model.knows_variances
    ):
        raise UnsupportedError(
            "Expected a MeanVarianceGP that learns its noise with `variance_link='log'`. "
            f"Got {type(model).__name__}."
        )
    DomainPosterior.check_model(model.mean_model)
    DomainPosterior.check_model(model.noise.model)


def next_readings(
    model: MeanVarianceGP,
    bounds: Tensor,
    seeds: int | Sequence[int] = 0,
    *,
    num_restarts: int = 10,
    raw_samples: int = 256,
    **options: Any,
) -> Readings:
    r"""Find the most valuable readings per cost, at a new point or at a measured one.

    It maximises `LogRiskAverseKnowledgeGradient` over the box, and compares the maximiser with
    further readings at each point of the model. `repeat_advice` compares given points by the width
    of their bounds.

    Args:
        model: A fitted mean-variance model that learns its noise with the log link.
        bounds: The lower and the upper bounds of the box, `2 x d`, in the units of the model's
            inputs.
        seeds: One for each replicate of the model; use new ones in every round.
        num_restarts: Starts of the acquisition optimiser.
        raw_samples: Raw samples of the acquisition optimiser.
        options: Further arguments of `LogRiskAverseKnowledgeGradient`: `risk_aversion`,
            `num_repeats` to choose from, `moving_cost`, `returning_cost`, `reading_cost`.

    Raises:
        UnsupportedError: If the model does not learn its noise with the log link.

    Example:
        >>> from botorch_risk.examples import noisy_model, unit
        >>> readings = next_readings(noisy_model, unit, moving_cost=2.0)
        >>> readings.X.shape, bool(readings.num_repeats >= 1)
        (torch.Size([1]), True)
    """
    acquisition = LogRiskAverseKnowledgeGradient(model, **options)
    X, _ = optimize_acqf_replicates(
        acquisition, bounds, seeds=seeds, num_restarts=num_restarts, raw_samples=raw_samples
    )
    readings = acquisition.choose(X.reshape(*model.batch_shape, *X.shape[-2:]))
    return readings
