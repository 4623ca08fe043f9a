r"""Read the training data of a mean-variance model, refuse errors and warn about oddities."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import InputDataWarning
from botorch.utils.datasets import SupervisedDataset
from gpytorch.kernels import ScaleKernel
from gpytorch.priors import LogNormalPrior
from gpytorch.settings import min_variance
from torch import Tensor

from botorch_risk.arguments import as_floating, check_flags
from botorch_risk.models.copies import describe_copies, find_copies
from botorch_risk.models.far_readings import check_far_readings
from botorch_risk.models.fixed_noise import least_noise
from botorch_risk.models.repeats import (
    RepeatedOutcomes,
    as_table,
    describe,
    describe_first,
    pool_readings,
    pool_repeated_rows,
)
from botorch_risk.points import put_in_mode
from botorch_risk.steady import expect


@dataclass(frozen=True)
class TrainingData:
    r"""Checked training data, detached from any graph.

    Attributes:
        X: `batch_shape x n x d` inputs; distinct ones, except in a batch.
        outcomes: The statistics of their repeats.
        readings: `batch_shape x n x k`, NaN for a missing one; None if they are not known or
            are not used.
        origin: The position of each reading in a replicate's flattened `train_Y`, `m x k`.
        num_columns: The number of columns of the user's `train_Y`.
        rows: Which `n` of the `m` rows of `origin` are in `readings`.
    """

    X: Tensor
    outcomes: RepeatedOutcomes
    readings: Tensor | None
    origin: Tensor
    num_columns: int
    rows: Tensor


def read_training_data(
    train_X: Tensor,
    train_Y: Tensor | Sequence[Tensor] | RepeatedOutcomes,
    train_Yvar: Tensor | Sequence[Tensor] | None,
    needs_spread: bool,
    uses_readings: bool = False,
    keep_copies: bool = False,
    trims: bool = False,
) -> TrainingData:
    r"""Check training data and pool rows with equal inputs. Batches keep their rows.

    `needs_spread` says that the noise is learnt from the spread of repeats, which are needed then.
    `uses_readings` says that it is learnt from all readings: copies then count once, unless they
    are kept, and a warning names their rows. `trims` says that wrong readings will be left out;
    otherwise, a warning names one that is absurdly far from the others.
    """
    check_flags(keep_copies=keep_copies)
    train_X = as_floating(train_X, "train_X")
    outcomes = _as_outcomes(train_Y, train_Yvar)
    validate_inputs(train_X, outcomes)
    train_X, outcomes = train_X.detach(), outcomes.detach()
    if not trims and not isinstance(train_Y, RepeatedOutcomes):
        table = as_table("train_Y", train_Y).detach()
        n, k = table.shape[-2:]
        check_far_readings(table, torch.arange(n * k).reshape(n, k), k)
    X, pooled = train_X, outcomes
    if not train_X.shape[:-2]:
        X, pooled = pool_repeated_rows(train_X, outcomes)
    readings, num_columns, origin = None, 0, torch.zeros(0, 0, dtype=torch.long)
    if uses_readings and not isinstance(train_Y, RepeatedOutcomes) and train_Yvar is None:
        readings = as_table("train_Y", train_Y)
        num_columns = readings.shape[-1]
        if len(X) < len(train_X):  # not in a batch
            readings, origin = pool_readings(train_X, readings)
        else:
            n, k = readings.shape[-2:]
            origin = torch.arange(n * k, device=X.device).reshape(n, k)
        if not keep_copies and bool((copies := find_copies(readings)).any()):
            _warn_of_copies(copies, origin.div(num_columns, rounding_mode="floor"))
            readings = readings.masked_fill(copies, torch.nan)
            pooled = RepeatedOutcomes.from_repeats(readings)
    validate_outcomes(pooled, needs_spread)
    rows = torch.arange(X.shape[-2], device=X.device)
    return TrainingData(X, pooled, readings, origin, num_columns, rows)


def _warn_of_copies(copies: Tensor, rows: Tensor) -> None:
    warnings.warn(
        f"Readings of {describe_copies(copies, rows)} are equal, or nearly so, though readings of "
        "other rows differ: they are taken for copies and count once. Set `keep_copies=True` if "
        "each reading was measured.",
        InputDataWarning,
        stacklevel=4,
    )


def inputs_of_dataset(data: SupervisedDataset, counts: Tensor | None) -> dict[str, Any]:
    r"""The implementation of `MeanVarianceGP.construct_inputs`."""
    if counts is not None and data.Yvar is None:
        raise InputDataError(
            "Expected `Yvar`, the squared standard errors of the means, with `counts`. Got a "
            "dataset without `Yvar`."
        )
    if counts is None:
        counts = getattr(data, "counts", None)
    if data.Yvar is None:
        return {"train_X": data.X, "train_Y": data.Y}
    if counts is None:
        return {"train_X": data.X, "train_Y": data.Y, "train_Yvar": data.Yvar}
    counts = as_floating(counts, "counts").to(data.Y)
    if counts.shape != data.Y.shape:
        raise BotorchTensorDimensionError(
            f"Expected `counts` to have the shape {tuple(data.Y.shape)} of the means. "
            f"Got {tuple(counts.shape)}."
        )
    variances = (data.Yvar * counts).masked_fill(counts == 1, 0.0)
    outcomes = RepeatedOutcomes.from_summary(data.Y, variances, counts)
    return {"train_X": data.X, "train_Y": outcomes}


def _as_outcomes(
    train_Y: Tensor | Sequence[Tensor] | RepeatedOutcomes,
    train_Yvar: Tensor | Sequence[Tensor] | None,
) -> RepeatedOutcomes:
    if not isinstance(train_Y, RepeatedOutcomes):
        return RepeatedOutcomes.from_repeats(train_Y, train_Yvar)
    if train_Yvar is not None:
        raise ValueError(
            "Expected `train_Yvar` together with readings. Got `train_Yvar` with "
            "`RepeatedOutcomes`, which hold the noise already."
        )
    return train_Y


def validate_inputs(train_X: Tensor, outcomes: RepeatedOutcomes) -> None:
    r"""Check that `batch_shape x n x d` inputs fit the statistics of their repeats."""
    if (
        train_X.dim() < 2
        or train_X.shape[:-1] != outcomes.means.shape[:-1]
        or 0 in train_X.shape[-2:]
    ):
        raise BotorchTensorDimensionError(
            "Expected `train_X` of shape `batch_shape x n x d` with one row for each row of "
            "repeats, and at least one row and column. "
            f"Got {train_X.shape=}, {outcomes.means.shape[:-1]=}."
        )
    if train_X.dtype != outcomes.means.dtype:
        raise InputDataError(
            f"Expected one dtype. Got {train_X.dtype=} and {outcomes.means.dtype} for the repeats."
        )
    if train_X.dtype not in (torch.float32, torch.float64):
        raise InputDataError(f"Expected single or double precision. Got {train_X.dtype}.")
    # Scales and sums of squares are infinite then, and everything else NaN.
    huge = ~outcomes.means.square().isfinite() & (outcomes.counts > 0)
    finite = train_X.isfinite().all(dim=-1)

    def refuse() -> None:
        if huge.any():
            raise InputDataError(
                f"Expected outcomes whose squares are finite in {train_X.dtype}. Got "
                f"{outcomes.means[huge][0].item():g} in {describe_first(huge)}: rescale the "
                "outcomes, or mark failures as NaN."
            )
        raise InputDataError(
            f"Expected finite `train_X`. Got {train_X[~finite][0]} in "
            f"{describe_first(~finite.unsqueeze(-1))}."
        )

    expect(finite.all() & ~huge.any(), refuse)


def validate_outcomes(outcomes: RepeatedOutcomes, needs_spread: bool) -> None:
    r"""Check that there is something to learn from after pooling equal rows.

    Warns if the means of a model are constant. Raises InputDataError if repeats are needed and no
    row has two.
    """
    observed = (outcomes.counts > 0).any(dim=-2)
    informed = outcomes.informs_noise.any(dim=-2) | ~observed
    constant = _are_constant(outcomes.means, (outcomes.counts > 0).sum(dim=-2))

    def tell() -> None:
        if needs_spread and not informed.all():
            raise InputDataError(
                "Expected at least one row with two repeats or more, to learn the noise from"
                + describe(~informed)
                + ". Got single repeats everywhere; repeat an experiment, or give `known_noise` or "
                "`train_Yvar`."
            )
        warnings.warn(
            f"The outcomes are constant{describe(constant)}: a model of constants says nothing "
            "about the inputs.",
            InputDataWarning,
            stacklevel=6,
        )

    expect(~((~informed & needs_spread) | constant).any(), tell)


def warn_if_unfitted(model: Any) -> None:
    r"""Warn about an unfitted model whose inputs are not in the unit cube.

    Lengthscales start at the mode of BoTorch's prior, or at GPyTorch's log(2), and no fit ends
    exactly there. Both suit the unit cube: elsewhere such a model has either learnt almost nothing
    from its data or is far too certain.
    """
    model = model._modules.get("mean_model", model)  # of a MeanVarianceGP
    kernel = model._modules.get("covar_module")
    kernel = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    if kernel is None or not kernel.has_lengthscale:
        return
    # softplus(0) is log(2).
    untouched = kernel.raw_lengthscale == 0
    prior = kernel._modules.get("lengthscale_prior")
    if isinstance(prior, LogNormalPrior):  # which keeps its mode in single precision
        untouched = untouched | ((kernel.lengthscale - prior.mode).abs() <= 1e-6 * prior.mode)
    if not untouched.all():
        return
    put_in_mode(model, training=False)  # GPyTorch then transforms the training inputs
    lower, upper = model.train_inputs[0].aminmax()
    if bool((lower < -0.1) | (upper > 1.1)):
        warnings.warn(
            "Expected a fitted model, or inputs in the unit cube, which the initial lengthscales "
            f"suit. Got no fit, and inputs in [{lower.item():.4g}, {upper.item():.4g}]: "
            "give the model `input_transform=Normalize(d)` and call `fit_gpytorch_mll` first.",
            InputDataWarning,
            stacklevel=4,
        )


class NotesOnNoise:
    r"""The warnings that a mean process raises with each posterior; reads values only when needed.

    The noise of the means of the rows, the numbers of repeats, and whether the noise of one repeat
    is positive are `batch_shape x n x 1`. Rows without repeats do not count.
    """

    @torch.no_grad()
    def __init__(self, model: Any, noise: Tensor, counts: Tensor, positive: Tensor) -> None:
        transform = model._modules.get("outcome_transform")
        self._scale = getattr(transform, "stdvs", noise.new_ones(0, 1)).detach()
        self._noise, self._least = noise.detach(), least_noise(model).detach()
        self._small = _is_small(self._scale)
        self._short = (self._noise < self._least) & (counts > 0)
        self._is_positive, self._is_checked = positive.all(), False

    def require_positive(self, otherwise: Callable[[], Any]) -> None:
        r"""Call a function that raises unless all noise is positive."""
        if not self._is_checked:
            expect(self._is_positive, otherwise)
        self._is_checked = True

    @cached_property
    def warnings(self) -> list[str]:
        small, short = self._small, self._short
        is_small, is_short = torch.stack([small.any(), short.any()]).tolist()  # in one look
        notes = [_note_on_small_scale(self._scale, small)] if is_small else []
        notes += [_note_on_raised_noise(self._noise, self._least, short)] if is_short else []
        return notes


def _is_small(scale: Tensor) -> Tensor:
    r"""Whether GPyTorch's absolute floors are as large as an outcome's variances.

    `posterior(X).variance` is at least `gpytorch.settings.min_variance` (1e-10 in double
    precision) in the units of the outcome. Marginal predictions and bounds have no such floor.
    """
    return scale.square().squeeze(-1) < 100 * min_variance.value(scale.dtype)


def _note_on_small_scale(scale: Tensor, small: Tensor) -> str:
    floor = min_variance.value(scale.dtype)
    return (
        f"Expected outcomes with a standard deviation above {math.sqrt(100 * floor):.0e}"
        f"{describe(small)}. Got {scale[small.unsqueeze(-1)].min().item():.1e}: "
        "`posterior(X).variance` is GPyTorch's floor. Rescale the outcomes, or use "
        "`mean_marginals` and `confidence_bounds`, which have no floor."
    )


def _note_on_raised_noise(noise: Tensor, least: Tensor, short: Tensor) -> str:
    used = least.expand_as(noise)[short].max().item()
    return (
        f"The noise of {int(short.sum())} of {short.numel()} means of readings is raised from "
        f"{noise[short].min().item():.2g} to {used:.2g}{describe(short.flatten(-2).any(dim=-1))}, "
        "the least noise variance at which a covariance surely has a Cholesky factor. "
        "`noise_of_means` gives the noise that is used; set `min_noise_variance` to the least "
        "variance of a reading that you believe in."
    )


def _are_constant(means: Tensor, num_observed: Tensor) -> Tensor:
    spread = means.amax(dim=-2) - means.amin(dim=-2)
    rounding = torch.finfo(means.dtype).eps * means.abs().amax(dim=-2)
    # One observed row is no evidence of a constant outcome.
    return (spread <= rounding) & (num_observed > 1)
