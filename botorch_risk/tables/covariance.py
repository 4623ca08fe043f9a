r"""The covariance of a table's pairs, as a sum of products, and its whitening by readings.

    k((x, w), (x', w')) = sum_t of_conditions_t(x, x') of_contexts_t(w, w')

    t    of_conditions             of_contexts
    1    v_1 K_x(x, x')            1
    2    v_2 + v_3 K_x(x, x')      K_w(w, w')
    3    lasting [x = x']          [w = w']

No matrix between all pairs, or between all conditions, is formed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_risk.tables.factors import Factors
from botorch_risk.tables.kernel import TableHyperparameters, TableReadings, whole_correlation

# The least variance of a reading, relative to the prior variance: readings of one pair agree.
_JITTER = 1e-6


class PairCovariance(NamedTuple):
    r"""The prior covariance in units of the outcomes, for `R` rows of hyperparameters.

    Attributes:
        conditions: The rows of the pairs.
        rates: `R x c`, the rates of the columns of the conditions.
        variances: `R x 3`: v_1, v_2 and v_3.
        lasting: `R`, the part of the variance specific to a pair that is not noise.
        of_contexts: `R x n_w x 3 x n_w`, the second factors of all contexts.
    """

    conditions: Factors
    rates: Tensor
    variances: Tensor
    lasting: Tensor
    of_contexts: Tensor

    @classmethod
    def of(cls, readings: TableReadings, hyperparameters: TableHyperparameters) -> PairCovariance:
        num_x = len(readings.conditions.distances)
        rates, variances, own = hyperparameters
        square = readings.units[1].square()
        K_w = whole_correlation(rates[:, num_x:], readings.contexts)
        same = torch.eye(K_w.shape[-1]).to(K_w).expand_as(K_w)
        return cls(
            readings.conditions,
            rates[:, :num_x],
            variances * square.unsqueeze(-1),
            (1 - readings.noise_share) * own * square,
            torch.stack([torch.ones_like(K_w), K_w, same], dim=-2),
        )

    def of_conditions(self, rows: Tensor, columns: Tensor) -> Tensor:
        r"""The first factors of conditions `R x p` with conditions `R x m`: `R x p x m x 3`."""
        rows, columns = rows.unsqueeze(-1), columns.unsqueeze(-2)
        distances = self.conditions.distances[:, rows, columns]
        K_x = torch.einsum("rc,crpm->rpm", self.rates, distances).neg().exp()
        one, other, both = self.variances[..., None, None].unbind(dim=1)
        same = self.lasting[:, None, None] * (rows == columns)
        return torch.stack([one * K_x, other + both * K_x, same], dim=-1)

    @property
    def of_one_condition(self) -> Tensor:
        r"""The covariance over the contexts, the same for every condition, `R x n_w x n_w`."""
        first = torch.zeros(len(self.rates), 1, dtype=torch.long, device=self.rates.device)
        return (self.of_conditions(first, first) @ self.of_contexts).squeeze(-2)


class ReadPairs(NamedTuple):
    r"""The covariances between the pairs that were read and all pairs.

    With `L` the Cholesky factor of the covariance of the readings, `V = L^-1 k(readings, pairs)`,
    the posterior covariance of two pairs is `k - V' V`. `V` is as large as the table times the
    readings, so only the parts that are needed are formed.

    Attributes:
        prior: The prior covariance.
        of_conditions: `R x n_x x n x 3`, the first factors of the prior.
        of_contexts: `R x n x 3 x n_w`, the second factors of the prior.
        noise: `R`, the variance of one more reading of a known pair.
        factor: `R x n x n`, the inverse of `L`, with which one product whitens.
    """

    prior: PairCovariance
    of_conditions: Tensor
    of_contexts: Tensor
    noise: Tensor
    factor: Tensor

    @classmethod
    def of(cls, readings: TableReadings, hyperparameters: TableHyperparameters) -> ReadPairs:
        r"""The covariances of readings, which rows of hyperparameters may share."""
        prior, num_rows = PairCovariance.of(readings, hyperparameters), len(hyperparameters.own)
        variance = prior.of_one_condition[:, 0, 0]
        spread = readings.units[1]
        noise = readings.noise_share * hyperparameters.own * spread.square() + _JITTER * variance
        x, w = (each.expand(num_rows, -1) for each in readings.rows)
        each = torch.arange(num_rows, device=x.device).unsqueeze(-1)
        every = torch.arange(len(readings.conditions), device=x.device).expand(num_rows, -1)
        noises = (noise.unsqueeze(-1) / readings.counts).diag_embed()
        alone = torch.eye(x.shape[-1]).to(noises)
        read = cls(prior, prior.of_conditions(every, x), prior.of_contexts[each, w], noise, alone)
        root = torch.linalg.cholesky(read.at(x, w) + noises)
        factor = torch.linalg.solve_triangular(root, alone.expand_as(root), upper=False)
        return read._replace(factor=factor)

    def at(self, x: Tensor, w: Tensor) -> Tensor:
        r"""The covariances of pairs with the readings, `R x p x n`."""
        each = torch.arange(len(x), device=x.device).unsqueeze(-1)
        return (self.of_conditions[each, x] * self.of_contexts.movedim(-1, 1)[each, w]).sum(dim=-1)

    def over_contexts(self, conditions: Tensor) -> Tensor:
        r"""The covariances of the readings with conditions `R x p`, `R x n x p x n_w`."""
        each = torch.arange(len(conditions), device=conditions.device).unsqueeze(-1)
        return self.of_conditions[each, conditions].movedim(2, 1) @ self.of_contexts

    def sum(self, weights: Tensor) -> Tensor:
        r"""The sum of `R x n` weights times the covariances with all pairs, `R x n_x x n_w`."""
        weighted = self.of_conditions * weights[:, None, :, None]
        return weighted.flatten(2) @ self.of_contexts.flatten(1, 2)

    def combined(self, weights: Tensor, conditions: Tensor | None = None) -> Tensor:
        r"""Whitened covariances of `sum_w weights(x, w) f(x, w)` with the readings, `R x p x n`.

        Args:
            weights: `R x p x n_w`.
            conditions: `R x p`; all by default.
        """
        of_conditions = self.of_conditions
        if conditions is not None:
            each = torch.arange(len(conditions), device=conditions.device).unsqueeze(-1)
            of_conditions = of_conditions[each, conditions]
        of_contexts = weights @ self.of_contexts.flatten(1, 2).mT
        covariances = (of_conditions.flatten(2) * of_contexts).unflatten(-1, (-1, 3)).sum(dim=-1)
        return covariances @ self.factor.mT

    def and_one(self, x: Tensor, w: Tensor) -> ReadPairs:
        r"""The covariances with one more reading, of `R` conditions and contexts."""
        x, w = x.unsqueeze(-1), w.unsqueeze(-1)
        each = torch.arange(len(x), device=x.device).unsqueeze(-1)
        every = torch.arange(self.of_conditions.shape[1], device=x.device).expand(len(x), -1)
        white = self.at(x, w) @ self.factor.mT  # R x 1 x n
        variance = self.prior.of_one_condition[each, w, w] - white.square().sum(dim=-1)
        deviation = (variance.clamp_min(0.0) + self.noise.unsqueeze(-1)).sqrt().unsqueeze(-1)
        last = torch.cat([-white @ self.factor, torch.ones_like(deviation)], dim=-1) / deviation
        before = torch.nn.functional.pad(self.factor, (0, 1))
        return self._replace(
            of_conditions=torch.cat(
                [self.of_conditions, self.prior.of_conditions(every, x)], dim=2
            ),
            of_contexts=torch.cat([self.of_contexts, self.prior.of_contexts[each, w]], dim=1),
            factor=torch.cat([before, last], dim=1),
        )
