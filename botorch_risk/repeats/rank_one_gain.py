r"""The expected gain of readings at a point, by rank-one updates of mean and noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from botorch_risk.acquisition.expected_gain import log_standard_improvement
from botorch_risk.engine import Process


def log_expected_improvement(mean: Tensor, variance: Tensor, best: Tensor) -> Tensor:
    r"""The logarithm of the expected improvement, `batch_shape x m`.

        log( sigma (phi(u) + u Phi(u)) ),   u = (mean - best) / sigma

    It is minus infinity where the variance is 0.
    """
    sigma = variance.sqrt()
    u = (mean - best) / sigma.where(sigma > 0, 1.0)
    return (log_standard_improvement(u) + sigma.log()).where(sigma > 0, -torch.inf)


# Of the log noise in one step, whose standard deviation is at most 2 or so.
_NUM_NODES = 10
# A gain below exp(-8) of the prior's deviation may come from a tail of the log noise alone, beyond
# or between these nodes. It is added up around its peak, which is sought as far as 16 deviations.
_SMALL = -8.0
_REACH, _HALF_WIDTH, _FINENESS = 16, 3, 10


@dataclass(frozen=True)
class RankOneGain:
    r"""The processes of mean and log noise, and the points that may become the best.

    The formulas are in `LogRiskAverseKnowledgeGradient`.

    Attributes:
        model: The mean-variance model.
        risk_aversion: The weight of the variance.
        mean: The posterior process of f.
        noise: The posterior process of the log noise.
        mean_at: The compared points under the process of f, the best one first.
        noise_at: The same under the process of the log noise.
        is_point: `B x a`, False in a replicate with fewer points.
    """

    model: Any
    risk_aversion: float
    mean: Process
    noise: Process
    mean_at: Process.Points
    noise_at: Process.Points
    is_point: Tensor

    @classmethod
    @torch.no_grad()
    def of(
        cls, model: Any, risk_aversion: float, num_compared: int, X_pending: Tensor | None = None
    ) -> RankOneGain:
        r"""Compare the best measured or pending point with the most promising others.

        A pending point may be recommended once it is measured. If it were not compared, readings
        next to it would be credited with the gain that it brings already.

        Args:
            X_pending: `batch_shape x n' x d`, or `n' x d` for all of the batch.
        """
        mean, noise = (each.process() for each in (model.mean_marginals, model.noise.marginals))
        points, observed = model.train_X, model.train_counts.squeeze(-1) > 0
        if X_pending is not None:
            pending = X_pending.to(points).expand(*points.shape[:-2], *X_pending.shape[-2:])
            points = torch.cat([points, pending], dim=-2)
            observed = torch.cat([observed, torch.ones_like(pending[..., 0]).bool()], dim=-1)
        f, g = mean.at(points), noise.at(points)
        level = (g.mean + g.variance / 2).exp()
        value = f.mean - risk_aversion * model.noise.limits.apply(level)
        spread = f.variance + (risk_aversion * level).square() * g.variance.expm1()
        observed = observed.reshape(value.shape)
        value = value.masked_fill(~observed, -torch.inf)
        chance = (value + spread.sqrt()).masked_fill(~observed, -torch.inf)
        best = value.argmax(dim=-1, keepdim=True)
        chance = chance.scatter(-1, best, torch.inf)  # first
        order = chance.topk(min(num_compared, chance.shape[-1]), dim=-1).indices
        is_point = observed.gather(-1, order)
        return cls(model, risk_aversion, mean, noise, f.take(order), g.take(order), is_point)

    def log_gains(
        self, X: Tensor, steps: Sequence[int], counts: Tensor, tails: bool = False
    ) -> Tensor:
        r"""The logarithm of the expected gain for each number of readings, `B x m x len(steps)`.

        `counts`, broadcastable to `B x m`, are the readings so far. `tails` makes small gains
        exact, at three times the cost.
        """
        f, g = self.mean.at(X), self.noise.at(X)
        cross_f = _with_own_column(self.mean.covariance(f, self.mean_at), f.variance)
        cross_g = _with_own_column(self.noise.covariance(g, self.noise_at), g.variance)
        upper = self._limited((g.mean + (self.model.noise_beta * g.variance).sqrt()).exp())
        link, gains = self.model.noise.link, []
        for k in steps:
            step_f = cross_f / (f.variance + upper / k).sqrt().unsqueeze(-1)
            more = link.precision(counts + k) - link.precision(counts)
            # The root of the precision alone: one of 0 has no gradient.
            step_g = cross_g * (more.sqrt() / (1 + g.variance * more).sqrt()).unsqueeze(-1)
            gains.append(self._log_gain(f, g, step_f, step_g, tails))
        return torch.stack(gains, dim=-1)

    def _log_gain(
        self, f: Process.Points, g: Process.Points, step_f: Tensor, step_g: Tensor, tails: bool
    ) -> Tensor:
        r"""The logarithm of the expected gain, `B x m`.

        `step_f` and `step_g`, `B x m x (a + 1)`, are the moves of each mean and log noise by one
        deviation of the outcome.
        """
        means, noises = _with_own(self.mean_at.mean, f.mean), _with_own(self.noise_at.mean, g.mean)
        variances = _with_own(self.noise_at.variance, g.variance)
        # The variance of the log noise that is left has a part in the expected noise.
        left = noises + (variances - step_g.square()) / 2
        spread = (step_f[..., 1:] - step_f[..., :1]).square() + _tiny(f.prior.variance)

        def at(z: Tensor) -> Tensor:
            r"""Log gains of each point over the best if the log noise has moved by z."""
            logs = left.unsqueeze(-1), step_g.unsqueeze(-1)  # B x m x (a + 1) x 1
            others, best = (
                means[..., part, None]
                - self.risk_aversion
                * self._limited((logs[0][..., part, :] + logs[1][..., part, :] * z).exp())
                for part in (slice(1, None), slice(0, 1))
            )
            lead = others - best
            spread_of_each = spread.unsqueeze(-1).expand_as(lead)
            return log_expected_improvement(lead, spread_of_each, lead.new_zeros(()))

        nodes, weights = _gauss_hermite(step_f)
        gains = (at(nodes) + weights.log()).logsumexp(dim=-1)  # B x m x a
        if tails:
            small = gains < _SMALL + f.prior.variance.log().unsqueeze(-1) / 2
            gains = _log_mean(at, step_f).where(small, gains)
        is_point = _with_own(self.is_point, torch.ones_like(f.mean, dtype=torch.bool))[..., 1:]
        return gains.masked_fill(~is_point, -torch.inf).amax(dim=-1)

    def _limited(self, noise: Tensor) -> Tensor:
        limited: Tensor = self.model.noise.limits.apply(noise)
        return limited


def _with_own(compared: Tensor, own: Tensor) -> Tensor:
    r"""Values of the compared points `B x a` and of each point: `B x m x (a + 1)`."""
    return _with_own_column(compared.unsqueeze(-2).expand(*own.shape, -1), own)


def _with_own_column(compared: Tensor, own: Tensor) -> Tensor:
    return torch.cat([compared, own.unsqueeze(-1)], dim=-1)


def _log_mean(at: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    r"""The logarithm of the mean of exp(at(Z)), Z standard normal, by quadrature at its peak."""
    coarse = torch.arange(-_REACH, _REACH + 1).to(like)  # a step of 1 is exact for a wide peak
    wide = at(coarse) - coarse.square() / 2
    peak = coarse[wide.detach().argmax(dim=-1)].unsqueeze(-1)
    beyond = (coarse - peak).abs() - _HALF_WIDTH  # trapezoids meet where it is 0
    share = torch.where(beyond == 0, 0.5, (beyond > 0).to(like))
    near = torch.linspace(-_HALF_WIDTH, _HALF_WIDTH, 2 * _HALF_WIDTH * _FINENESS + 1).to(like)
    z = peak + near
    steps = torch.full_like(near, 1 / _FINENESS)
    steps[0] = steps[-1] = 0.5 / _FINENESS
    narrow = at(z) - z.square() / 2 + steps.log()
    around = torch.cat([wide + share.log(), narrow], dim=-1).logsumexp(dim=-1)
    return around - math.log(2 * math.pi) / 2


def _gauss_hermite(like: Tensor) -> tuple[Tensor, Tensor]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NUM_NODES)
    return torch.as_tensor(nodes).to(like), torch.as_tensor(weights / weights.sum()).to(like)


def _tiny(variance: Tensor) -> Tensor:
    r"""A variance negligible next to the prior's: known values are compared directly."""
    return torch.finfo(variance.dtype).eps ** 1.5 * variance.detach().unsqueeze(-1)
