r"""Repeated evaluations of one experiment and the statistics that the models keep of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

# Noise, in units of the signal, that leaves an observation without weight.
WORTHLESS = 1e8


def _first(mask: Tensor) -> str:
    r"""The position of the first `True` entry of a `batch_shape x n x 1` mask, in words."""
    *replicate, row, _ = mask.nonzero()[0].tolist()
    return f"row {row}" + (f" of replicate {tuple(replicate)}" if replicate else "")


@dataclass(frozen=True)
class RepeatedOutcomes:
    r"""Sample means, unbiased sample variances and counts of repeats (RAHBO, Eq. 12).

    Attributes:
        means: `batch_shape x n x 1` sample means, in the units of the outcome.
        variances: `batch_shape x n x 1` unbiased sample variances of ONE repeat (not of the
            mean), in squared units. Where `counts` is 1 the entry is NaN and never read.
        counts: `batch_shape x n x 1` numbers of repeats in the dtype of `means`; 0 where a
            replicate of a batch has no outcome.

    Example:
        >>> outcomes = RepeatedOutcomes.from_repeats(torch.tensor([[1.0, 3.0], [2.0, torch.nan]]))
        >>> outcomes.means.squeeze(-1), outcomes.variances.squeeze(-1), outcomes.counts.squeeze(-1)
        (tensor([2., 2.]), tensor([2., nan]), tensor([2., 1.]))
    """

    means: Tensor
    variances: Tensor
    counts: Tensor

    @classmethod
    def from_repeats(cls, Y: Tensor, allow_missing: bool = False) -> RepeatedOutcomes:
        r"""Summarises raw repeats.

        Args:
            Y: `batch_shape x n x k` repeats; NaN marks a missing one, so k may differ per row.
            allow_missing: Whether a row may have no repeat at all, as in a batch some of whose
                replicates failed. Its count is 0, and models give it no weight; its mean is
                filled with the average of its replicate.

        Raises:
            InputDataError: If a repeat is infinite, or a row has no repeat at all.
        """
        if Y.dim() < 2 or not Y.is_floating_point():
            raise BotorchTensorDimensionError(
                "Expected repeats to be a floating point tensor of shape `batch_shape x n x k`. "
                f"Got {Y.shape=}, {Y.dtype=}."
            )
        if Y.isinf().any():
            raise InputDataError(
                f"Expected finite repeats. Got an infinite one in {_first(Y.isinf())}."
            )
        counts = Y.isfinite().sum(dim=-1, keepdim=True).to(Y)
        if (counts == 0).any() and not allow_missing:
            raise InputDataError(
                f"Expected at least one repeat in every row. Got none in {_first(counts == 0)}."
            )
        means = Y.nanmean(dim=-1, keepdim=True)
        if allow_missing:
            average = means.nanmean(dim=-2, keepdim=True).nan_to_num(nan=0.0)
            means = means.where(counts > 0, average)
        squares = (Y - means).square().nansum(dim=-1, keepdim=True)
        variances = (squares / (counts - 1)).where(counts > 1, squares.new_tensor(torch.nan))
        return cls(means=means, variances=variances, counts=counts)

    @classmethod
    def from_summary(cls, means: Tensor, variances: Tensor, counts: Tensor) -> RepeatedOutcomes:
        r"""Takes statistics that were computed elsewhere.

        Args:
            means: `batch_shape x n x 1` sample means.
            variances: `batch_shape x n x 1` unbiased sample variances of one repeat, > 0
                where `counts` is at least 2; ignored where it is 1. A standard error `sem`
                of the mean corresponds to the variance `counts * sem**2`.
            counts: `batch_shape x n x 1` numbers of repeats.

        Raises:
            InputDataError: If a value is not finite, a count is not a whole number >= 1, or a
                variance of at least two repeats is not positive.
        """
        if not means.shape == variances.shape == counts.shape or means.shape[-1:] != (1,):
            raise BotorchTensorDimensionError(
                "Expected `means`, `variances` and `counts` of one shape `batch_shape x n x 1`. "
                f"Got {means.shape=}, {variances.shape=}, {counts.shape=}."
            )
        whole = (counts >= 1) & (counts == torch.as_tensor(counts).round())
        repeated = counts > 1
        for name, bad in (
            ("finite means", ~means.isfinite()),
            ("whole counts of at least 1", ~whole),
            ("finite variances", repeated & ~variances.isfinite()),
            (
                "positive variances (a sample variance of 0 says that the repeats were not "
                "independent, or too few to differ)",
                repeated & (variances <= 0),
            ),
        ):
            if bad.any():
                raise InputDataError(f"Expected {name}. Got another value in {_first(bad)}.")
        nan = means.new_tensor(torch.nan)
        return cls(
            means=means, variances=variances.to(means).where(repeated, nan), counts=counts.to(means)
        )

    def select(self, rows: Tensor) -> RepeatedOutcomes:
        r"""The outcomes of some rows, given by index or by a boolean mask over `n`."""
        return RepeatedOutcomes(
            *(value[..., rows, :] for value in (self.means, self.variances, self.counts))
        )

    def pool(self, rows: Tensor, num_rows: int) -> RepeatedOutcomes:
        r"""Merges rows as if their repeats had been taken together.

        Exact: the pooled mean and unbiased variance are those of the concatenated repeats.

        Args:
            rows: For each of the `n` rows the row, below `num_rows`, that it goes to.
            num_rows: The number of rows afterwards.
        """

        def add_up(values: Tensor) -> Tensor:
            return values.new_zeros(num_rows, 1).index_add(0, rows, values)

        counts = add_up(self.counts)
        means = add_up(self.counts * self.means) / counts
        within = (self.counts - 1) * self.variances.nan_to_num(nan=0.0)
        between = self.counts * (self.means - means[rows]).square()
        variances = add_up(within + between) / (counts - 1)
        return RepeatedOutcomes(
            means=means,
            variances=variances.where(counts > 1, variances.new_tensor(torch.nan)),
            counts=counts,
        )


def pool_repeated_rows(X: Tensor, outcomes: RepeatedOutcomes) -> tuple[Tensor, RepeatedOutcomes]:
    r"""Merges the repeats of rows with the same inputs, in order of first appearance.

    Two rows at one point are one experiment with more repeats: their variance of the mean
    uses all counts, and two rows of a single repeat each inform the noise together.

    Args:
        X: `n x d` inputs; rows are the same if they are equal bit for bit.
        outcomes: The outcomes of the `n` rows.

    Returns:
        The `n' x d` distinct inputs and their pooled outcomes.

    Example:
        >>> X = torch.tensor([[0.5], [0.1], [0.5]])
        >>> Y = torch.tensor([[1.0, 3.0], [0.0, 1.0], [5.0, 7.0]])
        >>> X, outcomes = pool_repeated_rows(X, RepeatedOutcomes.from_repeats(Y))
        >>> X.squeeze(-1), outcomes.means.squeeze(-1), outcomes.counts.squeeze(-1)
        (tensor([0.5000, 0.1000]), tensor([4.0000, 0.5000]), tensor([4., 2.]))
    """
    distinct, group = X.unique(dim=0, return_inverse=True)
    if len(distinct) == len(X):
        return X, outcomes
    positions = torch.arange(len(X), device=X.device)
    first = positions.new_full((len(distinct),), len(X)).scatter_reduce(0, group, positions, "amin")
    order = first.argsort()
    rank = torch.empty_like(order).scatter(0, order, positions[: len(order)])
    return X[first[order]], outcomes.pool(rows=rank[group], num_rows=len(distinct))
