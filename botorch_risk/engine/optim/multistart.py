r"""Maximise an acquisition function from many starts, all replicates of a batch at once."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction, AnalyticAcquisitionFunction
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    CandidateGenerationError,
    UnsupportedError,
)
from botorch.exceptions.warnings import OptimizationWarning
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import (
    as_floating,
    check_bounds,
    check_counts,
    check_nonnegative,
    in_short,
)
from botorch_risk.engine.optim.ascent import Scale, alternate, climb
from botorch_risk.engine.optim.constraints import Constraints
from botorch_risk.engine.optim.discrete_columns import DiscreteColumns, Values, discrete_columns
from botorch_risk.engine.optim.pointwise import PointwiseAcquisition, PointwiseEvaluator
from botorch_risk.engine.optim.polytope import Polytope, polytope_of
from botorch_risk.engine.optim.polytope_sampler import PolytopeSampler
from botorch_risk.engine.projected_bfgs.minima import RowStatus
from botorch_risk.gradients import require_gradients
from botorch_risk.seeding import Draws, as_seeds, sobol_points_of_each, streams
from botorch_risk.steady import steady

# How far outside constraints a given point may be by rounding, in units of the range of the sum.
_ROUNDING = 1e-6


def optimize_acqf_replicates(
    acqf: AcquisitionFunction | PointwiseAcquisition,
    bounds: Tensor,
    q: int = 1,
    *,
    seeds: int | Sequence[int],
    num_restarts: int = 10,
    raw_samples: int = 256,
    fixed_features: Mapping[int, float] | None = None,
    discrete_dims: Values | None = None,
    cat_dims: Values | None = None,
    eta: float = 1.0,
    max_iterations: int = 200,
    batch_limit: int | None = None,
    raw_points: Tensor | None = None,
    inequality_constraints: Constraints = None,
    equality_constraints: Constraints = None,
) -> tuple[Tensor, Tensor]:
    r"""Maximise an acquisition function in a box for each of `R` replicates.

    It generalises `optimize_acqf` to a model of batch shape `[R]`: the Boltzmann rule chooses
    starts among scrambled Sobol points (always including the best), and projected quasi-Newton
    steps [Bertsekas1982projected]_ climb from every start, each with its own line search and its
    own end. A replicate's draws depend on its own seed only. Acquisitions that are not
    `PointwiseAcquisition`s are called with `m x R x 1 x d` points; BoTorch's analytic ones see
    their model through `FastMarginals`.

    Under linear constraints, starts are chosen among points that fill the polytope evenly, and each
    step minimises the quadratic quasi-Newton model within the constraints, by the dual active-set
    method [Goldfarb1983dual]_ for all rows at once. Neighbours in discrete columns may differ by
    two steps that compensate each other; their continuous columns move to the nearest point
    inside.

    Discrete columns are searched as in `optimize_acqf_mixed_alternating`: from each start, moves to
    the best neighbour (a step of one column of `discrete_dims`, or any other value of one of
    `cat_dims`) and quasi-Newton steps over the other columns alternate until neither improves. It
    is a local search from every start.

    For `q > 1` the points are chosen one after the other, each with the ones before it pending.

    Args:
        acqf: An acquisition function on a model of batch shape `[R]`, or `[]` for `R = 1`. One
            without a `model` is assumed to have batch shape `[R]`.
        bounds: Lower and upper bounds, `2 x d`, in the units of the acquisition's inputs. The
            points get the dtype of the bounds; integers count as float64.
        q: The number of points to choose.
        seeds: One for each replicate; an integer means `R = 1`. A loop passes new seeds in every
            round, such as `derive_seed(seed, "round", t)`.
        num_restarts: The number of starts of each replicate.
        raw_samples: The number of Sobol points of each replicate.
        fixed_features: Inputs to hold fixed, as a dictionary from columns to values.
        discrete_dims: Ordered columns with a list of values, as a dictionary from columns to
            values.
        cat_dims: Columns of categories, as a dictionary from columns to unordered values.
        eta: The inverse temperature of the Boltzmann rule.
        max_iterations: The maximum number of steps from a start.
        batch_limit: The maximum number of points to evaluate in one call, all replicates together.
            Default: 8,192 on a CPU, 2^20 on a GPU.
        raw_points: Points within the bounds to choose the starts from, `R x n x d`, instead of
            Sobol points; `raw_samples` is then ignored. Each column of `discrete_dims` starts at
            the value nearest to the point's.
        inequality_constraints: Tuples of columns `n`, their coefficients `n` and the least sum, as
            in `optimize_acqf`, for each point by itself. None may be on a category; those on
            columns of `discrete_dims` need evenly spaced values.
        equality_constraints: Likewise, tuples of columns `n`, coefficients `n` and the exact sum.

    Returns:
        The points, `R x q x d`, and their values, `R`. For `q > 1` the values of the points, each
        given those before it, are summed.

    Raises:
        CandidateGenerationError: If no raw point of a replicate has a finite value.
        UnsupportedError: In `torch.inference_mode`, if the acquisition is a one-shot one, if
            `q > 1` and it does not support pending points, or if a constraint is on a category, on
            uneven values, or on several points.
        ValueError: If a seed repeats, or no point is within the constraints.

    Example:
        >>> class Parabola:
        ...     def evaluate(self, X):
        ...         peaks = torch.tensor([[0.25], [0.5]], dtype=X.dtype)
        ...         return -(X.squeeze(-1) - peaks).square()
        >>> from botorch_risk.examples import unit
        >>> X, values = optimize_acqf_replicates(Parabola(), unit, seeds=[0, 1], num_restarts=2)
        >>> X.round(decimals=4).flatten().tolist()
        [0.25, 0.5]

        >>> X, _ = optimize_acqf_replicates(
        ...     Parabola(), unit, seeds=[0, 1], num_restarts=2, discrete_dims={0: [0.0, 0.3, 1.0]}
        ... )
        >>> X.flatten().tolist()
        [0.3, 0.3]
    """
    require_gradients("optimize_acqf_replicates")
    listed = as_seeds(seeds)
    check_counts(q=q, num_restarts=num_restarts, raw_samples=raw_samples)
    if batch_limit is not None:
        check_counts(batch_limit=batch_limit)
    check_counts(0, max_iterations=max_iterations)
    check_nonnegative(eta=eta)
    box = _box(bounds, fixed_features or {})
    discrete = discrete_columns(discrete_dims, cat_dims, box, list(fixed_features or {}))
    given = None if raw_points is None else _checked_raw(raw_points, box, len(listed), discrete)
    polytope = None
    if inequality_constraints or equality_constraints:
        polytope = polytope_of(box, inequality_constraints, equality_constraints, discrete)
        if given is not None and not polytope.contains(given, _ROUNDING).all():
            raise ValueError("Expected `raw_points` within the constraints. Got a point outside.")
    raw_samples = raw_samples if given is None else given.shape[1]
    if num_restarts > raw_samples:
        raise ValueError(
            f"Expected as many raw points as starts. Got {num_restarts=}, {raw_samples=}."
        )
    evaluator = PointwiseEvaluator(acqf, box, len(listed), batch_limit, discrete)
    pending = _PendingPoints(acqf, len(evaluator.batch_shape)) if q > 1 else None
    picks, total = [], box.new_zeros(len(listed))
    try:
        for pick in range(q):
            with steady():  # a pending point changes the acquisition function
                raw = given
                if raw is None:
                    raw = _sobol_points(listed, raw_samples, box, pick, discrete, polytope)
                starts, scale = _choose_starts(evaluator, raw, listed, num_restarts, eta, pick)
                picks.append(_ascend(evaluator, starts, scale, max_iterations, polytope))
                with torch.no_grad():
                    total += evaluator.values(picks[-1]).squeeze(-1)
            if pending is not None:
                pending.set(torch.cat(picks, dim=-2))
    finally:
        if pending is not None:
            pending.restore()
    return torch.cat(picks, dim=-2), total


def _box(bounds: Tensor, fixed_features: Mapping[int, float]) -> Tensor:
    r"""The bounds, equal where an input is fixed."""
    # The minimiser keeps a coordinate whose bounds are equal.
    bounds = as_floating(bounds, "bounds")
    check_bounds(bounds, may_be_equal=True)
    box = bounds.detach().clone()
    d = box.shape[-1]
    for column, value in fixed_features.items():
        if not -d <= column < d:
            raise ValueError(f"Expected columns in [0, {d}) in `fixed_features`. Got {column}.")
        if not bounds[0, column] <= value <= bounds[1, column]:
            raise ValueError(
                f"Expected the value of column {column} in `fixed_features` within its bounds, "
                f"{bounds[:, column].tolist()}. Got {value}."
            )
        box[:, column] = value
    if len({column % d for column in fixed_features}) < len(fixed_features):
        raise ValueError(f"Expected each column of `fixed_features` once. Got {fixed_features}.")
    return box


def _checked_raw(
    raw_points: Tensor, box: Tensor, num_replicates: int, discrete: DiscreteColumns | None
) -> ndarray:
    r"""Convert given points to search points."""
    raw = as_floating(raw_points, "raw_points").detach().to(box)
    if raw.dim() != 3 or len(raw) != num_replicates or raw.shape[-1] != box.shape[-1]:
        raise BotorchTensorDimensionError(
            f"Expected `raw_points` to have shape `{num_replicates} x n x {box.shape[-1]}`. "
            f"Got {tuple(raw.shape)}."
        )
    lower, upper = box
    if not ((raw >= lower) & (raw <= upper)).all():
        raise ValueError("Expected `raw_points` within the bounds. Got a point outside.")
    width = (upper - lower).where(upper > lower, 1.0)  # a column that is held fixed
    scaled: ndarray = ((raw - lower) / width).cpu().double().numpy()
    return scaled if discrete is None else discrete.located(scaled, raw)


def _sobol_points(
    seeds: Sequence[int],
    count: int,
    box: Tensor,
    pick: int,
    discrete: DiscreteColumns | None,
    polytope: Polytope | None,
) -> ndarray:
    d = box.shape[-1]
    own = streams(seeds, "raw points", pick)  # other points for each of the `q`
    if polytope is not None:
        return PolytopeSampler(polytope).search_points(own, count)
    uniforms = sobol_points_of_each(own, count, d).numpy()
    return uniforms if discrete is None else discrete.indexed(uniforms)


def _choose_starts(
    evaluator: PointwiseEvaluator,
    raw: ndarray,
    seeds: Sequence[int],
    num_restarts: int,
    eta: float,
    pick: int,
) -> tuple[ndarray, Scale]:
    r"""Choose starts `R x num_restarts x d` by the Boltzmann rule, a top-k rule under Gumbel noise.

    `pick` says which of the `q` points is chosen. Also returns the units of each replicate's
    ascent.
    """
    with torch.no_grad():
        values = evaluator.values(evaluator.scale_up(raw)).cpu().double().numpy()
    finite = np.isfinite(values)
    for replicate in np.flatnonzero(~finite.all(axis=1)).tolist():
        name = f"replicate {replicate} (seed {seeds[replicate]})"
        if not finite[replicate].any():
            raise CandidateGenerationError(
                f"Expected finite acquisition values. Got none at the raw points of {name}."
            )
        message = f"The acquisition is not finite at some raw points of {name}: not started from."
        warnings.warn(message, OptimizationWarning, stacklevel=3)
    count = finite.sum(axis=1)
    known = np.where(finite, values, 0.0)
    center = known.sum(axis=1) / count
    centered = np.where(finite, values - center[:, None], 0.0)
    spread = np.sqrt(np.square(centered).sum(axis=1) / count)
    spread[spread == 0.0] = 1.0  # equal values, as of a plateau: any start is as good
    # The largest scores under Gumbel noise are draws without replacement in proportion to
    # exp(eta * standardised value), the Boltzmann rule.
    score = eta * centered / spread[:, None] + Draws(seeds, "starts", pick).gumbels(raw.shape[1])
    score[~finite] = -np.inf
    # The best raw point is a start in any case, as in BoTorch.
    best = np.where(finite, values, -np.inf).argmax(axis=1)
    score[np.arange(len(best)), best] = np.inf
    chosen = np.argsort(-score, axis=1, kind="stable")[:, :num_restarts]
    # With fewer finite values than starts, the best one takes the place of the others.
    usable = np.take_along_axis(finite, chosen, axis=1)
    chosen = np.where(usable, chosen, best[:, None])
    return np.take_along_axis(raw, chosen[..., None], axis=1), Scale(center, spread)


def _ascend(
    evaluator: PointwiseEvaluator,
    starts: ndarray,
    scale: Scale,
    max_iterations: int,
    polytope: Polytope | None,
) -> Tensor:
    r"""Climb from every start of every replicate to each one's best point, `R x 1 x d`."""
    if evaluator.discrete is not None:
        columns = evaluator.discrete
        points, failed = alternate(evaluator, columns, starts, scale, max_iterations, polytope)
    else:
        points, failed = _best_end(evaluator, starts, scale, max_iterations, polytope)
    if polytope is not None:  # the rounding of many steps
        points = polytope.repaired(points[:, 0])[0][:, None]
    if failed.size:
        message = (
            "The acquisition or its gradient is not finite at some starts of replicates "
            f"{in_short(failed)}: these starts stay where they are."
        )
        warnings.warn(message, OptimizationWarning, stacklevel=3)
    return evaluator.scale_up(points)


def _best_end(
    evaluator: PointwiseEvaluator,
    starts: ndarray,
    scale: Scale,
    max_iterations: int,
    polytope: Polytope | None,
) -> tuple[ndarray, ndarray]:
    r"""The best point of each replicate, `R x 1 x d`, and the replicates with a failed start."""
    num_replicates, num_starts, d = starts.shape
    replicates = np.repeat(np.arange(num_replicates), num_starts)
    rows = starts.reshape(-1, d)
    minima = climb(evaluator, rows, replicates, scale, max_iterations, polytope)
    values = minima.value.reshape(num_replicates, num_starts)
    failed = minima.status.reshape(num_replicates, num_starts) == RowStatus.FAILED
    best = np.where(np.isfinite(values), values, np.inf).argmin(axis=1)
    points = minima.x.reshape(starts.shape)[np.arange(num_replicates), best]
    return points[:, None, :], np.flatnonzero(failed.any(axis=1))


class _PendingPoints:
    r"""Add points to those pending for an acquisition function, and remove them again."""

    def __init__(self, acqf: AcquisitionFunction | PointwiseAcquisition, batch_dims: int) -> None:
        # BoTorch's analytic functions refuse pending points.
        if (
            not isinstance(acqf, AcquisitionFunction)
            or isinstance(acqf, AnalyticAcquisitionFunction)
            or "X_pending" not in dir(acqf)
        ):
            raise UnsupportedError(
                "Expected an acquisition function with pending points, `X_pending`, for q > 1. "
                f"Got {type(acqf).__name__}."
            )
        self._acqf, self._batch_dims = acqf, batch_dims
        self._before: Tensor | None = acqf.X_pending

    def set(self, X: Tensor) -> None:
        X = X if self._batch_dims else X.squeeze(0)
        if self._before is not None:
            before = self._before.expand(*X.shape[:-2], *self._before.shape[-2:])
            X = torch.cat([before, X], dim=-2)
        self._acqf.set_X_pending(X)

    def restore(self) -> None:
        self._acqf.set_X_pending(self._before)
