r"""Quasi-Newton ascent as the `gen_candidates` of BoTorch's `optimize_acqf`."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.exceptions.warnings import OptimizationWarning
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import as_floating, check_flags, check_nonnegative, in_short
from botorch_risk.engine.optim.ascent import PATIENCE, WORTHWHILE
from botorch_risk.engine.optim.pointwise import PointwiseAcquisition, form_on_host
from botorch_risk.engine.projected_bfgs import minimize_rows
from botorch_risk.engine.projected_bfgs.minima import RowStatus
from botorch_risk.engine.recorded import ENTRIES_OF_A_POINT, Recorded, SelectedRows, are_recorded
from botorch_risk.gradients import differentiated, require_gradients
from botorch_risk.steady import steady

Bound = float | Tensor | None
# As in BoTorch's default.
MAX_ITERATIONS = 2000


def gen_candidates_quasi_newton(
    initial_conditions: Tensor,
    acquisition_function: Callable[[Tensor], Tensor],
    lower_bounds: Bound = None,
    upper_bounds: Bound = None,
    inequality_constraints: Sequence[Any] | None = None,
    equality_constraints: Sequence[Any] | None = None,
    nonlinear_inequality_constraints: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
    fixed_features: Mapping[int, float | Tensor] | None = None,
    timeout_sec: float | None = None,
    best_only: bool = True,
) -> tuple[Tensor, Tensor]:
    r"""Climb from all starts of BoTorch's `optimize_acqf` at once, and abandon overtaken ones.

    It replaces `gen_candidates_scipy`, BoTorch's default:

        optimize_acqf(acqf, bounds, ..., gen_candidates=gen_candidates_quasi_newton)

    It supports any acquisition function, any q and box bounds, and has tolerances like BoTorch's,
    in the unit cube. It is faster because it evaluates less: a start is abandoned once it climbs
    the hill of a better one, or if even 30 times the gain predicted from its curvature would leave
    it below. This is a heuristic; bench/speed/README.md says how often it loses the best end. It
    gains nothing if a single start climbs for long.

    Source: [Bertsekas1982projected]_; abandoning starts is our own addition.

    Args:
        initial_conditions: Starts, `b x q x d` or `q x d`.
        acquisition_function: Maps `b' x q x d` points, a subset of them, to `b'` values.
        lower_bounds: A number, one for each column (`d`), or none.
        upper_bounds: The upper ones: a number, one for each column (`d`), or none.
        inequality_constraints: Must be None: constraints are refused.
        equality_constraints: Must be None.
        nonlinear_inequality_constraints: Must be None.
        options: `maxiter`, the maximum number of steps from a start (default 2,000). The rest is
            for SciPy and is ignored.
        fixed_features: Columns to hold fixed, at a number or at a tensor of shape `b` or `b x q`.
        timeout_sec: Time in seconds after which to return the best so far.
        best_only: Whether only the best end matters. With `return_best_only=False` in
            `optimize_acqf`, which returns the ends of all starts, pass
            `functools.partial(gen_candidates_quasi_newton, best_only=False)`.

    Returns:
        The ends, in the shape of the starts, and their values, `b`, with minus infinity in place of
        values that are not finite.

    Raises:
        UnsupportedError: If there are constraints, or in `torch.inference_mode`.

    Warns:
        OptimizationWarning: If the acquisition function is not finite at a start, which is then its
            own end. `optimize_acqf` then tries other starts.

    Example:
        >>> from botorch.acquisition import LogExpectedImprovement
        >>> from botorch.optim import optimize_acqf
        >>> from botorch_risk.examples import model, unit
        >>> acqf, bounds = LogExpectedImprovement(model, best_f=0.9), unit.expand(2, 2)
        >>> X, value = optimize_acqf(
        ...     acqf, bounds, q=1, num_restarts=4, raw_samples=32,
        ...     gen_candidates=gen_candidates_quasi_newton,
        ... )
        >>> X.shape, bool(torch.isclose(acqf(X), value))
        (torch.Size([1, 2]), True)
    """
    check_flags(best_only=best_only)
    require_gradients("gen_candidates_quasi_newton")
    if inequality_constraints or equality_constraints or nonlinear_inequality_constraints:
        raise UnsupportedError("Expected box bounds only. Got constraints; use BoTorch's default.")
    initial_conditions = as_floating(initial_conditions, "initial_conditions")
    if initial_conditions.dim() not in (2, 3) or 0 in initial_conditions.shape:
        raise BotorchTensorDimensionError(
            "Expected `initial_conditions` to have shape `b x q x d` or `q x d`, with at least one "
            f"start. Got {initial_conditions.shape=}."
        )
    if timeout_sec is not None:
        check_nonnegative(timeout_sec=timeout_sec)
    starts = initial_conditions.detach().reshape(-1, *initial_conditions.shape[-2:]).clone()
    lower, upper = (
        _as_bound(name, bound, starts)
        for name, bound in (("lower_bounds", lower_bounds), ("upper_bounds", upper_bounds))
    )
    lower, upper = (np.nan_to_num(lower, nan=-np.inf), np.nan_to_num(upper, nan=np.inf))
    for column, value in (fixed_features or {}).items():
        fixed = as_floating(value, "fixed_features").to(starts)
        starts[..., column] = fixed.unsqueeze(-1) if fixed.dim() == 1 else fixed
        lower[..., column] = upper[..., column] = starts[..., column].cpu().numpy()
    rows = _Rows(acquisition_function, starts, lower, upper)
    deadline = np.inf if timeout_sec is None else time.monotonic() + timeout_sec
    with steady():
        minima = minimize_rows(
            rows.descend,
            rows.start,
            rows.lower,
            rows.upper,
            max_iterations=(options or {}).get("maxiter", MAX_ITERATIONS),
            precision=float(torch.finfo(starts.dtype).eps),
            worthwhile=WORTHWHILE,
            patience=PATIENCE,
            # One group: all starts climb the same function.
            groups=np.zeros(len(starts), dtype=np.int64) if best_only else None,
            is_out_of_time=lambda: time.monotonic() > deadline,
        )
    failed = np.flatnonzero(minima.status == RowStatus.FAILED)
    if failed.size:
        message = "The acquisition function or its gradient is not finite at starts "
        warnings.warn(f"{message}{in_short(failed)}.", OptimizationWarning, stacklevel=2)
    # Once more at the points that are returned, which are rounded to the starts' dtype.
    X = rows.points(minima.x)
    with torch.no_grad():
        values = acquisition_function(X)
    values = values.where(values.isfinite(), -torch.inf)
    return X.reshape(initial_conditions.shape), values


def _as_bound(name: str, bound: Bound, starts: Tensor) -> ndarray:
    r"""A bound of each coordinate of each start, `b x q x d`; NaN for none."""
    bound = as_floating(torch.nan if bound is None else bound, name).to(starts)
    array: ndarray = bound.expand(starts.shape).cpu().double().numpy().copy()
    return array


class _Rows:
    r"""Starts as rows of a box, of unit length where it is bounded, and back."""

    def __init__(self, acqf: Any, starts: Tensor, lower: ndarray, upper: ndarray) -> None:
        self.acqf, self.like = acqf, starts
        lower, upper = (bound.reshape(len(starts), -1) for bound in (lower, upper))
        width = upper - lower
        bounded = np.isfinite(width)  # other coordinates keep their own units
        self.origin = np.where(bounded, lower, 0.0)
        self.width = np.where(bounded & (width > 0), width, 1.0)
        points = starts.reshape(len(starts), -1).cpu().double().numpy()
        self.start, self.lower, self.upper = (
            (each - self.origin) / self.width for each in (points, lower, upper)
        )
        self.limits = lower, upper
        self.unit: float | None = None
        self.evaluated: SelectedRows | None = None
        self.on_host: Callable[..., tuple[ndarray, ndarray]] | None = None
        model: Any = getattr(acqf, "model", None)
        # The form for NumPy has float64 points of one model without a batch, one at a time.
        is_double = starts.dtype == torch.float64 and starts.device.type == "cpu"
        if is_double and starts.shape[-2] == 1 and model is not None and not model.batch_shape:
            self.on_host = form_on_host(acqf, len(starts))

    def points(self, rows: ndarray, index: ndarray | slice = slice(None)) -> Tensor:
        r"""Points `rows x q x d` of rows of the box."""
        X = torch.as_tensor(self._inside(rows, index)).to(self.like)
        return X.reshape(-1, *self.like.shape[1:])

    def _inside(self, rows: ndarray, index: ndarray | slice) -> ndarray:
        r"""The coordinates of rows of the box, `rows x (q d)`."""
        lower, upper = (limit[index] for limit in self.limits)
        X: ndarray = np.clip(self.origin[index] + self.width[index] * rows, lower, upper)
        return X  # clipped for its rounding

    def descend(self, rows: ndarray, index: ndarray) -> tuple[ndarray, ndarray]:
        r"""The acquisition function with its sign changed, in units of its spread at the starts."""
        value, gradient = self._evaluated(self._inside(rows, index), index)
        slope = gradient * self.width[index]
        if self.unit is None:  # the first call has all starts
            spread = float(np.std(value[np.isfinite(value)])) if np.isfinite(value).any() else 0.0
            # Tolerances as in BoTorch, or finer where all values are small.
            self.unit = min(1.0, spread) or 1.0
        return -value / self.unit, -slope / self.unit

    def _evaluated(self, inside: ndarray, index: ndarray) -> tuple[ndarray, ndarray]:
        if self.on_host is not None:
            return self.on_host(inside)
        if self.evaluated is None or not self.evaluated.has(index):
            self.evaluated = self._of(index)
        found = self.evaluated(inside, index)
        return found[:, 0], found[:, 1:]

    def _of(self, index: ndarray) -> SelectedRows:
        r"""Values and gradients of the active rows."""
        evaluate, like = self._differentiated, self.like
        entries = like.numel() // like.shape[-1] * ENTRIES_OF_A_POINT
        is_kept = self._is_pointwise and are_recorded(like.device, entries)
        part: Callable[[Tensor], Tensor] = Recorded(evaluate) if is_kept else evaluate
        return SelectedRows(index, [part], len(index), like, is_kept)

    @property
    def _is_pointwise(self) -> bool:
        has_gradient = isinstance(self.acqf, PointwiseAcquisition) and hasattr(
            self.acqf, "value_and_gradient"
        )
        return has_gradient and self.like.shape[-2] == 1 and not self.acqf.model.batch_shape

    def _differentiated(self, points: Tensor) -> Tensor:
        r"""Values and gradients of points `rows x (q d)`, side by side."""
        X = points.reshape(-1, *self.like.shape[1:])
        if self._is_pointwise:
            values, gradient = self.acqf.value_and_gradient(X.squeeze(-2))
        else:
            values, gradient = differentiated(self.acqf, X)
        return torch.cat([values.unsqueeze(-1), gradient.flatten(1)], dim=-1)
