r"""Find wrong readings, and leave them out before a model is built.

A reading is compared with its prediction without it: the mean without this reading, and the noise
without its row, since a wrong reading inflates the spread of its own row. Readings more than a
limit of standard deviations off are dropped, worst first, up to a share of `MOST`; then the model
is refitted, since wrong readings can hide others.

The readings of one run agree with each other if the whole run is wrong. So the mean of a row is
also compared with what the other rows predict. A wrong row distorts the hyperparameters fitted to
it, under which it is at most sqrt(n) standard deviations off: the readings of rows that are more
than `SUSPECT` standard deviations off are judged by a model that was fitted without these rows.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.arguments import check_positive
from botorch_risk.models.far_readings import FAR, check_far_readings, ratios_to_others
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.models.training_data import TrainingData

# The share of the readings of a replicate that may be dropped.
MOST = 0.05
NUM_PASSES = 2
SUSPECT = 3.0


def without_wrong_readings(
    data: TrainingData, limit: float | None, kind: Callable[..., Any], options: Mapping[str, Any]
) -> tuple[TrainingData, Tensor]:
    r"""Run `drop_wrong_readings` with fits of new models of a class, with the same options.

    Each fit gets copies of modules, since a fit changes them. A limit of None drops nothing.
    """
    if limit is None:
        return data, torch.zeros(0, data.X.dim(), dtype=torch.long, device=data.X.device)
    check_positive(trim=limit)
    if data.readings is None:
        raise UnsupportedError(
            "Expected readings from which the noise is learnt, with the log link, if `trim` is "
            f"given. Got trim={limit} with a summary of readings, with other evidence, or with "
            "noise that is known."
        )

    def fitted(kept: TrainingData) -> Any:
        own = {
            name: copy.deepcopy(value) if isinstance(value, torch.nn.Module) else value
            for name, value in options.items()
        }
        model = kind(kept.X, kept.outcomes, **own)
        model.fit_processes()
        return model

    return drop_wrong_readings(data, limit, fitted)


def drop_wrong_readings(
    data: TrainingData, limit: float, fitted: Callable[[TrainingData], Any]
) -> tuple[TrainingData, Tensor]:
    r"""Drop the readings that are more than `limit` standard deviations off.

    `fitted` builds and fits a `MeanVarianceGP` on readings.

    Returns:
        The data without them, and the positions of the `m` dropped readings in `train_Y`, as
        replicate, row and column: `m x (b + 2)` for `b` batch dimensions. A row without any reading
        is left out; in a batch it stays, with a count of 0.
    """
    readings = data.readings
    assert readings is not None
    every = readings.isfinite().flatten(-2).sum(dim=-1)
    left = (MOST * every).long().reshape(*every.shape, 1, 1)
    dropped = _worst(ratios_to_others(readings), FAR, left)  # they would ruin every fit
    left, kept = left - _number(dropped), _without(data, dropped)
    assert kept.readings is not None
    check_far_readings(kept.readings, data.origin[kept.rows], data.num_columns)
    for _ in range(NUM_PASSES):
        here = readings.isfinite() & ~dropped
        wrong, suspects = _first_look(fitted(kept), kept, here, limit, left)
        left = left - _number(wrong)
        if bool(suspects.any()):
            others = fitted(_without(data, dropped | wrong | suspects))
            alone = _worst(scores_of_others(others, data.X, readings) * suspects, limit, left)
            wrong, left = wrong | alone, left - _number(alone)
        if not bool(wrong.any()):
            break
        dropped = dropped | wrong
        kept = _without(data, dropped)
    *replicate, row, column = dropped.nonzero(as_tuple=True)
    origin = data.origin[row, column]
    parts = [*replicate, origin // data.num_columns, origin % data.num_columns]
    return kept, torch.stack(parts, dim=-1)


def _first_look(
    model: Any, kept: TrainingData, here: Tensor, limit: float, left: Tensor
) -> tuple[Tensor, Tensor]:
    r"""The readings that are surely wrong, and all readings of rows to be judged by other rows.

    `here`, `batch_shape x n x k`, marks the readings of the whole table that are kept, to which the
    model was fitted. `left`, `batch_shape x 1 x 1`, is how many of a replicate may still be
    dropped.
    """
    assert kept.readings is not None
    size = torch.zeros(here.shape, dtype=kept.readings.dtype, device=here.device)
    of_rows = size[..., 0].clone()
    size[..., kept.rows, :] = scores_of_readings(model, kept.readings).abs().nan_to_num(0.0)
    of_rows[..., kept.rows] = scores_of_rows(model).abs().nan_to_num(0.0)
    wrong = _worst(size, limit, left)
    # One wrong reading makes good ones of its row look wrong.
    several = wrong.sum(dim=-1) > 1
    of_rows = of_rows.masked_fill(wrong.any(dim=-1), 0.0).masked_fill(several, torch.inf)
    wrong = wrong & ~several.unsqueeze(-1)
    order, counts = of_rows.argsort(dim=-1, descending=True, stable=True), here.sum(dim=-1)
    in_order = counts.gather(-1, order)
    before = torch.zeros_like(counts).scatter(-1, order, in_order.cumsum(dim=-1) - in_order)
    # The worst rows first, while the allowance for dropped readings lasts.
    suspect = (of_rows > SUSPECT) & (before < (left - _number(wrong)).squeeze(-1))
    return wrong, here & suspect.unsqueeze(-1)


def _worst(size: Tensor, limit: float, left: Tensor) -> Tensor:
    r"""The readings of a size above a limit, `batch_shape x n x k`, the worst of each replicate."""
    size = size.nan_to_num(0.0, posinf=torch.inf)
    rank = size.flatten(-2).argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    return (size > limit) & (rank.reshape(size.shape) < left)


def _number(marked: Tensor) -> Tensor:
    r"""How many readings of each replicate are marked, `batch_shape x 1 x 1`."""
    return marked.sum(dim=(-2, -1), keepdim=True)


def _without(data: TrainingData, dropped: Tensor) -> TrainingData:
    assert data.readings is not None
    readings = data.readings.masked_fill(dropped, torch.nan)
    outcomes = RepeatedOutcomes.from_repeats(readings, allow_missing=True)
    if data.X.shape[:-2]:
        return replace(data, readings=readings, outcomes=outcomes)
    keep = readings.isfinite().any(dim=-1).nonzero().squeeze(-1)
    return replace(
        data,
        X=data.X[keep],
        outcomes=outcomes.select(keep),
        readings=readings[keep],
        rows=data.rows[keep],
    )


@torch.no_grad()
def scores_of_readings(model: Any, readings: Tensor) -> Tensor:
    r"""Each reading, standardised by its leave-one-out prediction, `batch_shape x n x k`.

    At the mode of the log noise variances, row `i` acts like an observation of slope `g` and weight
    `w`. Without it, `h_i` is normal with variance `c = 1 / (1 / S_ii - w_i)`, where `S` is the
    posterior covariance, and mean `h_i - c g_i`. The noise `r` of a reading is the resulting
    expectation. The process without the row has mean `m = y - a_i / P_ii` and variance
    `v = 1 / P_ii - R_ii` ([Rasmussen2006gp]_, Eq. 5.12); it is then conditioned on the other
    readings of the row.
    """
    mean, spread, noise, data = _without_own_row(model)
    n = readings.shape[-2]
    unit = model.noise.unit_of(model.mean_model).reshape(-1, 1, 1).sqrt()
    table = readings.double().reshape(-1, n, readings.shape[-1])
    about = unit * (table - model.train_means.double().reshape(-1, n, 1))
    others = (data.counts - 1).unsqueeze(-1).clamp_min(0.0)
    offset = data.means.unsqueeze(-1)
    # The sum of the other readings of the row: of all of them, less this one.
    total = others * offset - about
    expected = (mean * noise + spread * total) / (noise + others * spread)
    uncertain = noise * spread / (noise + others * spread)
    scores = (offset + about - expected) / (noise + uncertain).sqrt()
    return scores.reshape(readings.shape).to(readings)


@torch.no_grad()
def scores_of_rows(model: Any) -> Tensor:
    r"""The mean of each row, standardised by what the other rows predict, `batch_shape x n`."""
    mean, spread, noise, data = _without_own_row(model)
    of_mean = noise.squeeze(-1) / data.counts.clamp_min(1.0)
    scores = (data.means - mean.squeeze(-1)) / (spread.squeeze(-1) + of_mean).sqrt()
    return scores.reshape(model.train_means.shape[:-1]).to(model.train_means)


@torch.no_grad()
def scores_of_others(model: Any, X: Tensor, readings: Tensor) -> Tensor:
    r"""Absolute standardised values of the readings of rows that a model has not seen.

    Inputs are `batch_shape x n x d`, readings and scores `batch_shape x n x k`.
    """
    mean, variance = (part.reshape(*X.shape[:-1], 1) for part in model.mean_marginals(X))
    return (readings - mean).abs() / (variance + model.predicted_noise(X)).sqrt()


def _without_own_row(model: Any) -> tuple[Tensor, Tensor, Tensor, Any]:
    r"""Mean and variance of f and the noise at each row, `R x n x 1`, by the other rows."""
    at, prior, data = model.noise.at_mode(model.mean_model, model._outcomes)
    part = at.likelihood
    weight = part.expected_curvature(data)
    root = weight.sqrt()
    # I + W^1/2 C W^1/2 has eigenvalues of at least 1, so its factor exists for any weights.
    balanced = prior * root.unsqueeze(-1) * root.unsqueeze(-2)
    balanced.diagonal(dim1=-2, dim2=-1).add_(1.0)
    factor = torch.linalg.cholesky(balanced)
    half = torch.linalg.solve_triangular(factor, root.unsqueeze(-1) * prior, upper=False)
    variance = prior.diagonal(dim1=-2, dim2=-1)
    posterior = variance - half.square().sum(dim=-2)
    cavity = 1 / (1 / posterior - weight)
    # Rounding, if the row is worth next to nothing.
    cavity = torch.where((cavity > 0) & (cavity <= variance), cavity, variance)
    # The expectation of a log-normal variable.
    noise = (at.h - cavity * part.slope + cavity / 2).exp().unsqueeze(-1)
    precision = part.precision.diagonal(dim1=-2, dim2=-1)
    mean = (data.means - part.weights / precision).unsqueeze(-1)
    own = part.noise + data.floor.unsqueeze(-1)
    # Rounding, if the noise of a row is far larger than what the others leave open.
    spread = (1 / precision - own).clamp_min(0.0).unsqueeze(-1)
    return mean, spread, noise, data
