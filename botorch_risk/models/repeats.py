r"""Summarise repeated evaluations of one experiment by the statistics that models store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_risk.arguments import as_floating, check_flags
from botorch_risk.matrices import sums_at
from botorch_risk.steady import expect

# Noise, in units of the signal, that leaves an observation without weight.
WORTHLESS = 1e8


def describe_first(mask: Tensor) -> str:
    r"""The position of the first `True` entry of a `batch_shape x n x 1` mask, in words."""
    *replicate, row, _ = mask.nonzero()[0].tolist()
    return f"row {row}" + (f" of replicate {tuple(replicate)}" if replicate else "")


def describe(replicates: Tensor) -> str:
    r"""The marked replicates of a `batch_shape x 1` mask in words; nothing for a single model."""
    if replicates.dim() < 2:
        return ""
    names = [
        tuple(index[:-1]) if len(index) > 2 else index[0] for index in replicates.nonzero().tolist()
    ]
    return f" in replicate {', '.join(map(str, names))}"


@dataclass(frozen=True)
class RepeatedOutcomes:
    r"""Sample means, unbiased sample variances and counts of repeats.

    Eq. (12) of [Makarova2021rahbo]_.

    Attributes:
        means: `batch_shape x n x 1` sample means, in the units of the outcome.
        variances: `batch_shape x n x 1` unbiased sample variances of ONE repeat (not of the mean),
            in squared units; exactly 0 if all repeats of a row are equal. If `counts` is 1, the
            entry is NaN and never read. With `known_variances` they are the noise variances that
            came with the readings, also if `counts` is 1.
        counts: `batch_shape x n x 1` numbers of repeats in the dtype of `means`; 0 if a
            replicate of a batch has no outcome.
        known_variances: Whether the variances are given, not estimated from the spread.

    Example:
        >>> outcomes = RepeatedOutcomes.from_repeats(torch.tensor([[1.0, 3.0], [2.0, torch.nan]]))
        >>> outcomes.means.squeeze(-1), outcomes.variances.squeeze(-1), outcomes.counts.squeeze(-1)
        (tensor([2., 2.]), tensor([2., nan]), tensor([2., 1.]))
    """

    means: Tensor
    variances: Tensor
    counts: Tensor
    known_variances: bool = False

    def __post_init__(self) -> None:
        check_flags(known_variances=self.known_variances)
        for name in ("means", "variances", "counts"):
            object.__setattr__(self, name, as_floating(getattr(self, name), name))

    @classmethod
    def from_repeats(
        cls,
        Y: Tensor | Sequence[Tensor],
        Yvar: Tensor | Sequence[Tensor] | None = None,
        allow_missing: bool = False,
    ) -> RepeatedOutcomes:
        r"""Summarise raw repeats.

        Args:
            Y: `batch_shape x n x k` repeats; NaN marks a missing one, so k may differ per row.
                Or a list of `n` tensors, the repeats of each row, of any lengths.
            Yvar: The noise variance of each repeat, in the form of `Y`, if it is known; repeats
                are then averaged with weights `1 / Yvar`.
            allow_missing: Whether a row may have no repeat at all, as in a batch some of whose
                replicates failed. Its count is 0, and models give it no weight; its mean is
                filled with the average of its replicate.

        Raises:
            InputDataError: If a repeat is infinite, a row has no repeat at all, or a noise
                variance is not positive and finite.
        """
        Y = as_table("Y", Y)
        if Y.dim() < 2:
            raise BotorchTensorDimensionError(
                f"Expected repeats to have shape `batch_shape x n x k`. Got {Y.shape=}."
            )
        counts = Y.isfinite().sum(dim=-1, keepdim=True).to(Y)
        infinite, missing = Y.isinf(), (counts == 0) & (not allow_missing)

        def refuse() -> None:
            if infinite.any():
                raise InputDataError(
                    f"Expected finite repeats. Got an infinite one in {describe_first(infinite)}."
                )
            raise InputDataError(
                f"Expected at least one repeat in every row. Got none in {describe_first(missing)}."
            )

        expect(~(infinite.any() | missing.any()), refuse)
        if Yvar is None:
            means, variances = _sample_statistics(Y, counts)  # Eqs. (12) and (29) to (31)
        else:
            means, variances = _weighted_statistics(Y, as_table("Yvar", Yvar), counts)
        if allow_missing:
            average = means.nanmean(dim=-2, keepdim=True).nan_to_num(nan=0.0)
            means = means.where(counts > 0, average)
        return cls(
            means=means, variances=variances, counts=counts, known_variances=Yvar is not None
        )

    @classmethod
    def from_summary(cls, means: Tensor, variances: Tensor, counts: Tensor) -> RepeatedOutcomes:
        r"""Use statistics that were computed elsewhere.

        Args:
            means: `batch_shape x n x 1` sample means.
            variances: `batch_shape x n x 1` unbiased sample variances of one repeat, >= 0
                if `counts` is at least 2; ignored if it is 1. A standard error `sem`
                of the mean corresponds to the variance `counts * sem**2`.
            counts: `batch_shape x n x 1` numbers of repeats.
        """
        means, variances = as_floating(means, "means"), as_floating(variances, "variances")
        counts = as_floating(counts, "counts")
        if not means.shape == variances.shape == counts.shape or means.shape[-1:] != (1,):
            raise BotorchTensorDimensionError(
                "Expected `means`, `variances` and `counts` of one shape `batch_shape x n x 1`. "
                f"Got {means.shape=}, {variances.shape=}, {counts.shape=}."
            )
        whole = (counts >= 1) & (counts == counts.round())
        repeated = counts > 1
        for name, bad in (
            ("finite means", ~means.isfinite()),
            ("whole counts of at least 1", ~whole),
            ("finite variances", repeated & ~variances.isfinite()),
            ("variances >= 0", repeated & (variances < 0)),
        ):
            if bad.any():
                raise InputDataError(
                    f"Expected {name}. Got another value in {describe_first(bad)}."
                )
        nan = means.new_tensor(torch.nan)
        return cls(
            means=means, variances=variances.to(means).where(repeated, nan), counts=counts.to(means)
        )

    @property
    def informs_noise(self) -> Tensor:
        r"""Whether a row informs the noise, `batch_shape x n x 1`."""
        return self.counts > (0 if self.known_variances else 1)

    @property
    def variances_of_means(self) -> Tensor:
        r"""The variance of each mean, `batch_shape x n x 1`; NaN without an estimate."""
        return self.variances / self.counts

    def expand(self, *batch_shape: int) -> RepeatedOutcomes:
        r"""The same outcomes for further batch dimensions in front."""
        means, variances, counts = (
            each.expand(*batch_shape, *each.shape)
            for each in (self.means, self.variances, self.counts)
        )
        return replace(self, means=means, variances=variances, counts=counts)

    def detach(self) -> RepeatedOutcomes:
        return replace(
            self,
            means=self.means.detach(),
            variances=self.variances.detach(),
            counts=self.counts.detach(),
        )

    @property
    def typical_counts(self) -> Tensor:
        r"""The median number of repeats of each replicate's rows, `batch_shape x 1 x 1`."""
        counts = self.counts.masked_fill(self.counts == 0, torch.nan)
        return counts.nanmedian(dim=-2, keepdim=True).values.nan_to_num(nan=1.0)

    def counts_at(self, X: Tensor, num_repeats: Any = None) -> Tensor:
        r"""The numbers of repeats at new points `... x n x d`: one, or one for each row.

        `typical_counts` unless `num_repeats` is given.
        """
        if num_repeats is None:
            return self.typical_counts.to(X)
        counts = as_floating(num_repeats, "num_repeats").to(X)
        if not bool(((counts >= 1) & (counts == counts.round())).all()):
            raise ValueError(f"Expected whole numbers `num_repeats` >= 1. Got {num_repeats}.")
        shape = counts.shape[-2:]
        if counts.numel() > 1 and (len(shape) < 2 or shape not in ((1, 1), (X.shape[-2], 1))):
            raise BotorchTensorDimensionError(
                "Expected `num_repeats` to be a number, or of shape `... x n x 1` with "
                f"n = {X.shape[-2]}. Got {tuple(counts.shape)}."
            )
        return counts

    def select(self, rows: Tensor) -> RepeatedOutcomes:
        r"""The outcomes of some rows, given by index or by a boolean mask over `n`."""
        return replace(
            self,
            means=self.means[..., rows, :],
            variances=self.variances[..., rows, :],
            counts=self.counts[..., rows, :],
        )

    def pool(self, rows: Tensor, num_rows: int) -> RepeatedOutcomes:
        r"""Merge rows as if their repeats had been taken together, exactly.

        Row `i` goes to row `rows[i]` of `num_rows`.
        """

        def add_up(values: Tensor) -> Tensor:
            return sums_at(rows, values.squeeze(-1), num_rows).unsqueeze(-1)

        counts = add_up(self.counts)
        if self.known_variances:
            precisions = 1 / self.variances_of_means
            precision = add_up(precisions)
            return replace(
                self,
                means=add_up(precisions * self.means) / precision,
                variances=counts / precision,
                counts=counts,
            )
        means = add_up(self.counts * self.means) / counts
        within = (self.counts - 1) * self.variances.nan_to_num(nan=0.0)
        # Sums of squares about the pooled mean: within a row, plus the row's mean about it.
        between = self.counts * (self.means - means[rows]).square()
        # The mean of equal means is rounded, so that their squares need not add up to 0.
        group, empty = rows.unsqueeze(-1), means.new_empty(num_rows, 1)
        ends = (
            empty.scatter_reduce(0, group, self.means, end, include_self=False)
            for end in ("amin", "amax")
        )
        equal = torch.eq(*ends)[rows]
        between = between.where(~equal, torch.zeros_like(between))
        variances = add_up(within + between) / (counts - 1)
        return RepeatedOutcomes(
            means=means,
            variances=variances.where(counts > 1, variances.new_tensor(torch.nan)),
            counts=counts,
        )


def check_finite(X: Tensor, Y: Tensor) -> None:
    r"""Raise InputDataError if an input or an outcome is not finite."""
    if not bool(X.isfinite().all() & Y.isfinite().all()):
        raise InputDataError("Expected `X` and `Y` to be finite. Got NaN or infinity.")


def as_table(name: str, Y: Any) -> Tensor:
    r"""A table of repeats; if they are a list of readings per row, it is padded with NaN."""
    if isinstance(Y, Tensor | np.ndarray) or hasattr(Y, "columns"):
        return as_floating(Y, name).detach()
    if not isinstance(Y, Sequence) or isinstance(Y, str):
        raise TypeError(
            f"Expected `{name}` to be a table, or a list with the repeats of one row each. "
            f"Got {Y!r}."
        )
    rows = [as_floating(row, f"{name}[{i}]").detach() for i, row in enumerate(Y)]
    if (
        not any(isinstance(row, Tensor) for row in Y)
        and all(row.dim() > 1 for row in rows)
        and rows
    ):
        return as_floating(Y, name)  # a batch, as nested lists
    if not rows or any(row.dim() > 1 for row in rows):
        raise BotorchTensorDimensionError(
            f"Expected `{name}` to be a table, or a list with the repeats of one row each. "
            f"Got {[tuple(row.shape) for row in rows]}."
        )
    rows = [row.reshape(-1) for row in rows]
    return pad_sequence(rows, batch_first=True, padding_value=torch.nan)


def _sample_statistics(Y: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    means = Y.nanmean(dim=-1, keepdim=True)
    # About the mean, in a second pass: sums of squares less squared sums cancel for large means.
    squares = (Y - means).square().nansum(dim=-1, keepdim=True)
    # The mean of equal numbers is rounded, so that their squares need not add up to 0.
    largest = Y.nan_to_num(nan=-torch.inf).amax(dim=-1, keepdim=True)
    smallest = Y.nan_to_num(nan=torch.inf).amin(dim=-1, keepdim=True)
    squares = squares.where(largest > smallest, torch.zeros_like(squares))
    variances = squares / (counts - 1)
    return means, variances.masked_fill(counts <= 1, torch.nan)


def _weighted_statistics(Y: Tensor, Yvar: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    r"""Means weighted by known precisions, and the noise variance of a typical repeat.

    The variance of the mean, `1 / sum(1 / Yvar)`, is the returned variance over the count.
    """
    if Yvar.shape != Y.shape:
        raise BotorchTensorDimensionError(
            "Expected a noise variance for each repeat, in the shape of the repeats. "
            f"Got {Yvar.shape=}, {Y.shape=}."
        )
    bad = Y.isfinite() & ~(Yvar.isfinite() & (Yvar > 0))
    if bad.any():
        raise InputDataError(
            "Expected finite noise variances > 0. "
            f"Got {Yvar[bad][0].item()} in {describe_first(bad.any(dim=-1, keepdim=True))}."
        )
    precisions = (1 / Yvar).where(Y.isfinite(), torch.zeros_like(Y))
    precision = precisions.sum(dim=-1, keepdim=True)
    means = (precisions * Y.nan_to_num()).sum(dim=-1, keepdim=True) / precision
    return means, counts / precision


def pool_repeated_rows(X: Tensor, outcomes: RepeatedOutcomes) -> tuple[Tensor, RepeatedOutcomes]:
    r"""Merge the repeats of rows with the same `n x d` inputs, in order of first appearance.

    Two rows at one point are one experiment with more repeats: the variance of their mean uses all
    counts, and two single repeats together inform the noise.
    """
    first, group = group_equal_rows(X)
    if len(first) == len(X):
        return X, outcomes
    return X[first], outcomes.pool(rows=group, num_rows=len(first))


def pool_readings(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    r"""Gather the readings `n x k` of equal rows of `n x d` inputs in one row each.

    Returns `n' x k'` readings in order of first appearance, NaN if a row has fewer, and the index
    of each in the flattened `Y`.
    """
    first, group = group_equal_rows(X)
    row, column = Y.isfinite().nonzero(as_tuple=True)
    order = group[row].argsort(stable=True)
    row, column = row[order], column[order]
    counts = torch.bincount(group[row], minlength=len(first))
    # The number of a reading within its group, which the sort has made contiguous.
    slot = torch.arange(len(row), device=X.device) - (counts.cumsum(0) - counts)[group[row]]
    table = Y.new_full((len(first), int(counts.max())), torch.nan)
    origin = torch.zeros_like(table, dtype=torch.long)
    table[group[row], slot] = Y[row, column]
    origin[group[row], slot] = row * Y.shape[-1] + column
    return table, origin


def group_equal_rows(X: Tensor) -> tuple[Tensor, Tensor]:
    r"""Group the rows of an `n x d` table that are equal bit for bit, in order of first appearance.

    Returns the first row of each of the `n'` groups, and the group of each of the `n` rows.
    """
    distinct, group = X.unique(dim=0, return_inverse=True)
    positions = torch.arange(len(X), device=X.device)
    first = positions.new_full((len(distinct),), len(X)).scatter_reduce(0, group, positions, "amin")
    order = first.argsort()
    rank = torch.empty_like(order).scatter(0, order, positions[: len(order)])
    return first[order], rank[group]
