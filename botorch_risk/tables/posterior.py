r"""The joint posterior of all pairs of a table, updated by rank one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from botorch_risk.matrices import safe_root
from botorch_risk.tables.kernel import TableHyperparameters, TableReadings, whole_correlation

# The least variance of a reading, relative to the prior variance: readings of one pair agree.
_JITTER = 1e-6

Terms = tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True)
class TablePosterior:
    r"""Moments of the outcome at every pair, in its units, for `R` replicates.

    With `L` the Cholesky factor of the covariance of the readings, `V = L^-1 k(readings, pairs)`,
    the posterior covariance of two pairs is `k - V' V`; a further reading appends a row to `V`.

    Args:
        terms: The prior covariance is the sum of the products of these matrices
            `R x n_x x n_x` and `R x n_w x n_w`.
        mean: `R x n_x x n_w`.
        variance: `R x n_x x n_w`.
        noise: `R`, the variance of one more reading of a known pair.
        whitened: `V`, `R x n x n_x x n_w`.
    """

    terms: Terms
    mean: Tensor
    variance: Tensor
    noise: Tensor
    whitened: Tensor

    @classmethod
    def of(
        cls,
        readings: TableReadings,
        hyperparameters: TableHyperparameters,
        conditions: Tensor | None = None,
    ) -> TablePosterior:
        r"""The posterior of readings; rows of hyperparameters share the readings of one replicate.

        Args:
            readings: The readings of `R` replicates, or of one.
            hyperparameters: Those of `R` rows.
            conditions: The `m` conditions of interest, the only ones kept; readings of other
                conditions still count. All by default.
        """
        known = _Known.of(readings, hyperparameters, conditions)
        variance = (known.prior.unsqueeze(-1) - known.V.square().sum(dim=-2)).clamp_min(0.0)
        terms, shape = known.terms, known.shape
        if conditions is not None:
            terms = tuple((a[:, conditions][..., conditions], b) for a, b in terms)
        return cls(
            terms,
            known.mean.unflatten(-1, shape),
            variance.unflatten(-1, shape),
            known.noise,
            known.V.unflatten(-1, shape),
        )

    def row_of(self, pair: Tensor) -> Tensor:
        r"""The move of each pair's mean per standard deviation of a reading at a pair.

        Args:
            pair: `R` pairs.

        Returns:
            `R x n_x x n_w`.
        """
        n_w = self.mean.shape[-1]
        each = torch.arange(len(pair), device=pair.device)
        x, w = pair // n_w, pair % n_w
        prior = sum(a[each, x].unsqueeze(-1) * b[each, w].unsqueeze(-2) for a, b in self.terms)
        known = torch.einsum("rn,rnxw->rxw", self.whitened[each, :, x, w], self.whitened)
        deviation = (self.variance[each, x, w] + self.noise).sqrt()
        return (prior - known) / deviation[:, None, None]

    def with_reading(self, pair: Tensor, y: Tensor | None = None) -> TablePosterior:
        r"""The posterior after one more reading; one at the mean if `y`, `R`, is None."""
        row, mean = self.row_of(pair), self.mean
        if y is not None:
            each, n_w = torch.arange(len(pair), device=pair.device), self.mean.shape[-1]
            at = (each, pair // n_w, pair % n_w)
            surprise = (y - mean[at]) / (self.variance[at] + self.noise).sqrt()
            mean = mean + row * surprise[:, None, None]
        return replace(
            self,
            mean=mean,
            variance=(self.variance - row.square()).clamp_min(0.0),
            whitened=torch.cat([self.whitened, row.unsqueeze(1)], dim=1),
        )

    def covariance_over_contexts(self, conditions: Tensor | None = None) -> Tensor:
        r"""The covariance over W of conditions `R x p`, `R x p x n_w x n_w`; of all by default."""
        V = self.whitened.movedim(1, -1)  # R x n_x x n_w x n
        variances = torch.stack([a.diagonal(dim1=-2, dim2=-1) for a, _ in self.terms], dim=-1)
        if conditions is not None:
            each = torch.arange(len(conditions), device=conditions.device).unsqueeze(-1)
            V, variances = V[each, conditions], variances[each, conditions]
        of_contexts = torch.stack([b.flatten(1) for _, b in self.terms], dim=1)
        prior = (variances @ of_contexts).unflatten(-1, (V.shape[-2],) * 2)
        V = V.flatten(0, 1)
        prior.flatten(0, 1).baddbmm_(V, V.mT, alpha=-1.0)
        return prior

    def combined(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""Variances and whitened rows of `sum_w weights(x, w) f(x, w)`.

        Args:
            weights: `R x n_x x n_w`.

        Returns:
            `R x n_x` and `R x n x n_x`.
        """
        white = torch.einsum("rnxw,rxw->rnx", self.whitened, weights)
        prior = sum(
            a.diagonal(dim1=-2, dim2=-1) * ((weights @ b) * weights).sum(dim=-1)
            for a, b in self.terms
        )
        return (prior - white.square().sum(dim=1)).clamp_min(0.0), white

    def moves(self, weights: Tensor, conditions: Tensor, candidates: Tensor) -> Tensor:
        r"""The move of combined values per standard deviation of a reading.

        Args:
            weights: `R x p x n_w`, of the combined values.
            conditions: `R x p`, the conditions of the pairs.
            candidates: `R x c` conditions, each read with every context.

        Returns:
            `R x p x c x n_w`.
        """
        each = torch.arange(len(conditions), device=conditions.device).unsqueeze(-1)
        white = torch.einsum(
            "rpnw,rpw->rpn", self.whitened.movedim(1, 2)[each, conditions], weights
        )
        V = self.whitened.movedim(1, -1)[each, candidates]  # R x c x n_w x n
        explained = (white @ V.flatten(1, 2).mT).unflatten(-1, V.shape[1:3])
        prior = sum(
            a[each.unsqueeze(-1), conditions.unsqueeze(-1), candidates.unsqueeze(-2)].unsqueeze(-1)
            * (weights @ b).unsqueeze(-2)
            for a, b in self.terms
        )
        deviation = (self.variance[each, candidates] + self.noise[:, None, None]).sqrt()
        return (prior - explained) / deviation.unsqueeze(1)


def joint_samples(
    readings: TableReadings,
    hyperparameters: TableHyperparameters,
    conditions: Tensor,
    num_samples: int,
    generator: Generator,
) -> Tensor:
    r"""Joint samples of the outcomes of conditions in all contexts, `m x num_samples x n_w`.

    By Matheron's rule, from samples of the prior of the conditions and of those that were read:

        mean +- (f - k (K + noise)^-1 (f(readings) + noise))

    Two with opposite signs have the mean of the process as their mean.

    Args:
        readings: The readings of one replicate.
        hyperparameters: Those of one row.
        conditions: `m` of them.
        num_samples: Their number, even.
        generator: Draws.
    """
    known = _Known.of(readings, hyperparameters, conditions)
    (x,), (w,) = readings.rows
    some, place = torch.cat([conditions, x]).unique(return_inverse=True)
    of_one, of_other, of_both, own = (
        (of_x[0, some][:, some], of_w[0]) for of_x, of_w in known.terms
    )
    half, n_x, n_w = num_samples // 2, len(some), len(of_both[1])

    def normal(*shape: int) -> Tensor:
        # Single precision takes a quarter of the time, and a sample needs no more digits.
        return torch.randn(half, *shape, generator=generator, dtype=torch.float).to(known.V)

    f = (normal(n_x) @ _root(of_one[0]).mT).unsqueeze(-1)
    f = f + (normal(n_w) @ _root(of_other[1]).mT).unsqueeze(-2)
    f = torch.baddbmm(
        f, _root(of_both[0]).expand(half, -1, -1), normal(n_x, n_w) @ _root(of_both[1]).mT
    )
    f.addcmul_(normal(n_x, n_w), own[0][0, 0].sqrt())
    at, read = place.split([len(conditions), len(x)])
    seen = f[:, read, w] + normal(len(x)) * known.noises[0].sqrt()
    moved = seen @ known.factor[0].mT @ known.V[0]
    deviation = f[:, at].flatten(1) - moved
    samples: Tensor = torch.cat([known.mean + deviation, known.mean - deviation])
    return samples.unflatten(-1, known.shape).movedim(0, 1)


def _root(matrix: Tensor) -> Tensor:
    r"""A root of a correlation matrix times a variance, which may be 0."""
    variance = matrix[0, 0]
    alone = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    correlation = torch.where(variance > 0, matrix / variance, alone)
    return safe_root(correlation, torch.ones_like(variance)) * variance.sqrt()


class _Known(NamedTuple):
    r"""What readings say of all pairs of some conditions, for `R` rows of hyperparameters."""

    terms: Terms
    prior: Tensor
    noise: Tensor
    noises: Tensor  # of each outcome
    factor: Tensor  # of the readings, inverse
    mean: Tensor
    V: Tensor
    shape: torch.Size

    @classmethod
    def of(
        cls,
        readings: TableReadings,
        hyperparameters: TableHyperparameters,
        conditions: Tensor | None,
    ) -> _Known:
        num_rows = len(hyperparameters.own)
        centre, spread = (each.expand(num_rows) for each in readings.units)
        square = spread.square()
        terms = _terms(readings, hyperparameters, square)
        x, w = (each.expand(num_rows, -1) for each in readings.rows)
        prior, among, parts = torch.zeros(()), torch.zeros(()), []
        for of_x, of_w in terms:
            rows_x, rows_w = _rows(of_x, x), _rows(of_w, w)
            prior = prior + of_x[:, 0, 0] * of_w[:, 0, 0]
            among = among + _columns(rows_x, x) * _columns(rows_w, w)
            parts.append((rows_x if conditions is None else rows_x[..., conditions], rows_w))
        # One product over the terms: each of their sums would be as large as the result.
        of_conditions, of_contexts = (
            torch.stack(each, dim=-1) for each in zip(*parts, strict=True)
        )
        with_all = of_conditions @ of_contexts.mT  # R x n x m x n_w
        noise = readings.noise_share * hyperparameters.own * square + _JITTER * prior
        noises = noise.unsqueeze(-1) / readings.counts
        root = torch.linalg.cholesky(among + noises.diag_embed())
        # The inverse factor whitens all pairs by one product, four times as fast as a solve.
        factor = torch.linalg.solve_triangular(
            root, torch.diag_embed(torch.ones_like(noises)), upper=False
        )
        Y = readings.Y.expand(num_rows, -1) - centre.unsqueeze(-1)
        y, one = (factor @ Y.unsqueeze(-1)).squeeze(-1), factor.sum(dim=-1)
        V = factor @ with_all.flatten(-2)
        constant = (one * y).sum(dim=-1) / one.square().sum(dim=-1)
        z = y - constant.unsqueeze(-1) * one
        mean = (centre + constant).unsqueeze(-1) + (z.unsqueeze(-2) @ V).squeeze(-2)
        return cls(terms, prior, noise, noises, factor, mean, V, with_all.shape[-2:])


def _terms(readings: TableReadings, hyperparameters: TableHyperparameters, square: Tensor) -> Terms:
    rates, variances, own = hyperparameters
    num_x = len(readings.conditions.distances)
    K_x = whole_correlation(rates[:, :num_x], readings.conditions)
    K_w = whole_correlation(rates[:, num_x:], readings.contexts)
    scaled = (variances * square.unsqueeze(-1))[..., None, None].unbind(dim=1)
    lasting = ((1 - readings.noise_share) * own * square)[:, None, None]
    eye_x, eye_w = (
        torch.eye(K.shape[-1], dtype=K.dtype, device=K.device).expand_as(K) for K in (K_x, K_w)
    )
    return (
        (scaled[0] * K_x, torch.ones_like(K_w)),
        (torch.ones_like(K_x), scaled[1] * K_w),
        (scaled[2] * K_x, K_w),
        (lasting * eye_x, eye_w),
    )


def _columns(rows: Tensor, index: Tensor) -> Tensor:
    r"""Columns `R x n x n` of rows `R x n x m`."""
    return rows.gather(-1, index.unsqueeze(-2).expand(-1, rows.shape[-2], -1))


def _rows(matrix: Tensor, index: Tensor) -> Tensor:
    r"""Rows `R x n x m` of matrices `R x m x m`."""
    return matrix.gather(-2, index.unsqueeze(-1).expand(-1, -1, matrix.shape[-1]))
