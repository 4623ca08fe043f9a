r"""The joint posterior of all pairs of a table, updated by rank one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from botorch_risk.chunks import ChunkSize
from botorch_risk.matrices import safe_root
from botorch_risk.tables.covariance import ReadPairs
from botorch_risk.tables.kernel import TableHyperparameters, TableReadings, whole_correlation

# Entries of `V`. In one block, the variance of 100,000 pairs took three times as long.
_WHITENED = ChunkSize(cpu=2**17)


@dataclass(frozen=True)
class TablePosterior:
    r"""Moments of the outcome at every pair, in its units, for `R` replicates.

    Args:
        read: The readings.
        mean: `R x n_x x n_w`.
        variance: `R x n_x x n_w`.
    """

    read: ReadPairs
    mean: Tensor
    variance: Tensor

    @classmethod
    def of(cls, readings: TableReadings, hyperparameters: TableHyperparameters) -> TablePosterior:
        r"""The posterior of readings; several rows of hyperparameters may share one replicate."""
        read = ReadPairs.of(readings, hyperparameters)
        prior = read.prior.of_one_condition.diagonal(dim1=-2, dim2=-1).unsqueeze(-2)
        num_rows, num_x, n = read.of_conditions.shape[:3]
        every = torch.arange(num_x, device=prior.device).expand(num_rows, -1)
        size = _WHITENED.rows(prior.device, num_rows * n * prior.shape[-1])
        parts = []
        for some in every.split(size, dim=-1):
            V = read.factor @ read.over_contexts(some).flatten(2)
            parts.append(V.square_().sum(dim=1))
        explained = torch.cat(parts, dim=-1).unflatten(-1, (num_x, -1))
        # `noise` keeps known pairs above 0; the clamp is for rounding alone.
        return cls(read, _mean(readings, read), (prior - explained).clamp_min_(0.0))

    def row_of(self, pair: Tensor) -> Tensor:
        r"""The change of each mean per standard deviation of one reading, `R x n_x x n_w`."""
        return _last_row(self.read.and_one(*self._rows(pair)))

    def with_reading(self, pair: Tensor, y: Tensor | None = None) -> TablePosterior:
        r"""The posterior after one more reading `y`, `R`; if None, the reading equals the mean."""
        x, w = self._rows(pair)
        # A reading adds a row to `V` and changes no other, so mean and variance move by this row.
        # The constant stays as it was estimated before.
        read, mean = self.read.and_one(x, w), self.mean
        row = _last_row(read)
        if y is not None:
            at = (torch.arange(len(pair), device=pair.device), x, w)
            surprise = (y - mean[at]) / (self.variance[at] + read.noise).sqrt()
            mean = mean + row * surprise[:, None, None]
        return replace(
            self, read=read, mean=mean, variance=(self.variance - row.square()).clamp_min(0.0)
        )

    def _rows(self, pair: Tensor) -> tuple[Tensor, Tensor]:
        n_w = self.mean.shape[-1]
        return pair // n_w, pair % n_w

    def covariance_over_contexts(self, conditions: Tensor) -> Tensor:
        r"""The covariance over W of conditions `R x p`, `R x p x n_w x n_w`."""
        V = self.read.factor @ self.read.over_contexts(conditions).flatten(2)
        V = V.unflatten(-1, (-1, self.mean.shape[-1])).movedim(1, 2).flatten(0, 1)
        prior = self.read.prior.of_one_condition.unsqueeze(1).expand(*conditions.shape, -1, -1)
        return torch.baddbmm(prior.flatten(0, 1), V.mT, V, alpha=-1.0).view_as(prior)

    def variance_of_combined(self, weights: Tensor, conditions: Tensor | None = None) -> Tensor:
        r"""The variance of `sum_w weights(x, w) f(x, w)`, `R x p`.

        Args:
            weights: `R x p x n_w`.
            conditions: `R x p`; all by default.
        """
        prior = ((weights @ self.read.prior.of_one_condition) * weights).sum(dim=-1)
        explained = self.read.combined(weights, conditions).square().sum(dim=-1)
        return (prior - explained).clamp_min(0.0)

    def moves(self, weights: Tensor, conditions: Tensor, candidates: Tensor) -> Tensor:
        r"""The change of combined values per standard deviation of a reading.

        Args:
            weights: `R x p x n_w`, of the combined values.
            conditions: `R x p`, the conditions of the pairs.
            candidates: `R x c` conditions, each read with every context.

        Returns:
            `R x p x c x n_w`.
        """
        read, n_w = self.read, weights.shape[-1]
        # Both triangular factors are applied here, so that the candidates need no whitening.
        pull = read.combined(weights, conditions) @ read.factor
        explained = (pull @ read.over_contexts(candidates).flatten(2)).unflatten(-1, (-1, n_w))
        of_contexts = (weights @ read.prior.of_contexts.flatten(2)).unflatten(-1, (3, n_w))
        prior = read.prior.of_conditions(conditions, candidates) @ of_contexts
        each = torch.arange(len(conditions), device=conditions.device).unsqueeze(-1)
        # Never 0: `noise` has a jitter even if readings are exact.
        deviation = (self.variance[each, candidates] + read.noise[:, None, None]).sqrt()
        return (prior - explained) / deviation.unsqueeze(1)


def joint_samples(
    readings: TableReadings,
    hyperparameters: TableHyperparameters,
    conditions: Tensor,
    num_samples: int,
    generator: Generator,
) -> Iterator[Tensor]:
    r"""Joint samples of the outcomes of conditions in all contexts.

    By Matheron's rule, from samples of the prior of all pairs:

        mean +- (f - k (K + noise)^-1 (f(readings) + noise))

    Two samples with opposite signs have the mean of the process as their average.

    Args:
        readings: The readings of one replicate, in a table with few conditions beyond those read.
        conditions: `m` of them.
        num_samples: The number of samples, even.

    Yields:
        For each row, `m x num_samples x n_w`.
    """
    read = ReadPairs.of(readings, hyperparameters)
    (x,), (w,), prior = *readings.rows, read.prior
    K_x, K_w = whole_correlation(prior.rates, readings.conditions), prior.of_contexts[:, :, 1]
    half, n_x, n_w = num_samples // 2, K_x.shape[-1], K_w.shape[-1]

    def normal(*shape: int) -> Tensor:
        # Single precision takes a quarter of the time, and a sample needs no more digits.
        return torch.randn(half, *shape, generator=generator, dtype=torch.float).to(K_x)

    rows = zip(
        _mean(readings, read)[:, conditions],
        read.of_conditions[:, conditions].movedim(2, 1),
        read.of_contexts,
        read.factor,
        # The correlations of rows at almost no distance are singular up to rounding.
        *(safe_root(K, torch.ones_like(K[:, 0, 0])) for K in (K_x, K_w)),
        prior.variances.sqrt(),
        prior.lasting.sqrt(),
        (read.noise.unsqueeze(-1) / readings.counts).sqrt(),
        strict=True,
    )
    for mean, A, B, factor, root_x, root_w, (one, other, both), lasting, noise in rows:
        of_x, of_w = normal(n_x) @ (one * root_x).mT, normal(n_w) @ (other * root_w).mT
        of_both, own = normal(n_x, n_w) @ (both * root_w).mT, normal(n_x, n_w).mul_(lasting)
        seen = of_x[:, x] + of_w[:, w] + own[:, x, w] + normal(len(x)) * noise
        # `root_x` multiplies only the rows that were read or are wanted, not the whole table.
        seen += (of_both[..., w].mT * root_x[x]).sum(dim=-1)
        f = root_x[conditions] @ of_both
        f += of_x[:, conditions].unsqueeze(-1) + of_w.unsqueeze(-2) + own[:, conditions]
        deviation = f - (seen @ factor.mT @ factor @ (A @ B).flatten(1)).view_as(f)
        yield torch.cat([mean + deviation, mean - deviation]).movedim(0, 1)


def _last_row(read: ReadPairs) -> Tensor:
    r"""The last row of `V`, `R x n_x x n_w`."""
    return read.sum(read.factor[:, -1])


def _mean(readings: TableReadings, read: ReadPairs) -> Tensor:
    r"""The means of all pairs, `R x n_x x n_w`; the constant by generalised least squares."""
    centre = readings.units[0]
    # Centred first: only for the digits, as the constant below takes up any shift.
    y = (read.factor @ (readings.Y - centre.unsqueeze(-1)).unsqueeze(-1)).squeeze(-1)
    one = read.factor.sum(dim=-1)
    constant = (one * y).sum(dim=-1) / one.square().sum(dim=-1)
    z = y - constant.unsqueeze(-1) * one
    pull = (z.unsqueeze(-2) @ read.factor).squeeze(-2)
    return (centre + constant)[:, None, None] + read.sum(pull)
