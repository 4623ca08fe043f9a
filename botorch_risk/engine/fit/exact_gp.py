r"""Fit exact Gaussian processes in closed form, all replicates of a batch at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood, MarginalLogLikelihood
from gpytorch.models import ExactGP
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import as_tensor, check_counts, check_flags, check_nonnegative
from botorch_risk.engine.fit.fewer_points import begun_on_fewer_points, sizes_of_first_fits
from botorch_risk.engine.fit.input_or_noise import Ends, try_input_or_noise
from botorch_risk.engine.fit.objective import MarginalLikelihoodObjective
from botorch_risk.engine.fit.parameters import ExactGPParts, NotInClosedFormError, read_exact_gp
from botorch_risk.engine.fit.results import FitResult, FitStatus, Optimum
from botorch_risk.engine.fit.starts import (
    ROUGHER,
    FitObjective,
    Starts,
    has_moved,
    is_due,
    make_starts,
    warm_starts,
)
from botorch_risk.engine.projected_bfgs import minimize_rows
from botorch_risk.engine.projected_bfgs.minima import Minima, RowStatus
from botorch_risk.gradients import require_gradients
from botorch_risk.seeding import as_seeds
from botorch_risk.steady import sent, steady

# No step changes the logarithm of a hyperparameter by more than this: a longer one leaves the
# basin of the start on the strength of one gradient.
MAX_LOG_STEP = 4.0

# Nor has a start converged while its next step promises more than this, per observed point: towards
# a hyperparameter of 0 or infinity the objective flattens as an exponential does.
PROMISE = 1e-7
# The error of the objective in units of its precision, where covariance matrices are
# ill-conditioned: 1e-9. In values it hides far longer steps of a hyperparameter than in gradients.
NOISE = 5e6

_DEFAULTS = {
    "decrease_tolerance": PROMISE,
    "max_step": MAX_LOG_STEP,
    "hope": np.inf,  # a likelihood has long flat valleys, whose slopes promise little
}

_STATUS = {
    RowStatus.CONVERGED: (FitStatus.CONVERGED, ""),
    RowStatus.ITERATION_LIMIT: (FitStatus.ITERATION_LIMIT, ""),
    RowStatus.STALLED: (FitStatus.STALLED, "no step along the gradient raises the objective"),
    RowStatus.FAILED: (
        FitStatus.FAILED,
        "the objective is not finite at any start: is the covariance matrix positive definite?",
    ),
}


def fit_exact_gp(
    model: SingleTaskGP,
    *,
    rough_start: bool = True,
    num_restarts: int = 0,
    seeds: int | Sequence[int] | None = None,
    observed: Tensor | None = None,
    previous: Optimum | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-7,
) -> FitResult:
    r"""Maximise the marginal likelihood of an exact Gaussian process, with its priors, in place.

    The objective is the model's own, `ExactMarginalLogLikelihood(model.likelihood, model)`, which
    `fit_gpytorch_mll` also maximises. The gradients have a closed form in the logarithms of the
    positive hyperparameters, and the constant mean is optimal given these, by generalised least
    squares. Outcomes may have any unit and any offset. Every replicate converges on its own. A
    numerical failure is reported in the replicate's status; it keeps its hyperparameters and does
    not affect the others. Parameters that do not require gradients are kept. The model is left in
    evaluation mode.

    The closed form supports a `SingleTaskGP` (or a subclass with its `forward`) of any batch shape;
    RBF and Matern kernels, ARD or not, alone or in a `ScaleKernel`; constant and zero mean;
    inferred homoscedastic and fixed noise; any input transform without parameters to learn and any
    outcome transform; any priors on the hyperparameters themselves except uniform ones. BoTorch's
    `fit_gpytorch_mll` fits everything else, and the result says why. Both processes of a
    `MeanVarianceGP` that learns the noise from all readings are fitted at once, to the evidence of
    `fit/laplace_evidence.py`, from starts of their own.

    On a CPU, from 800 points on, the starts are first optimised on 400 of the points, with
    intermediate sizes from 1,600 points on, and the distinct optima start the fit to all points. A
    fit with `observed` starts on all points. Without `previous`, no fit ends below the model's
    current values, and from 300 points on, a fit tries for each input whether the noise at its end
    is variation along this input, or the reverse.

    Source: [Rasmussen2006gp]_, Eqs. (5.8) and (5.9).

    Args:
        model: The model. Its current hyperparameters are the first start.
        rough_start: Whether to start a second time at shorter lengthscales and less noise, and to
            keep the better result: the optimum that is found depends on the start. It doubles the
            cost; `bench/speed/fit_quality.py` shows the benefit. A replicate whose targets are far
            from standardised always has two further starts, in their units. Without effect on a
            `MeanVarianceGP`, which has starts of its own.
        num_restarts: Further starts for each replicate, drawn from the priors (or around the first
            start if a prior cannot be sampled); the best result counts.
        seeds: One seed for each replicate, the batch flattened; needed by `num_restarts` only.
        observed: An optional boolean mask, `batch_shape x n`, for replicates of different sizes.
            The fit equals one without the masked rows.
        previous: The `optimum` of the fit to almost the same data, as in the last round of a loop.
            It is then the only start, and a fit takes 3 to 6 evaluations instead of 25. A replicate
            also uses its other starts if it has at most 16 points, if their number has grown by a
            quarter since it last did, if a hyperparameter has moved by more than a factor of 2, or
            if it has not converged; the best result counts. With at most 16 points one start is
            enough if repeats determine the noise.
        max_iterations: The maximum number of steps from a start.
        tolerance: The largest entry of the gradient per observed point at which a start has
            converged. At 1e-7, fits from different starts agree to about this precision, for one or
            two more evaluations than at 1e-5. Rounding keeps it above about 1e-4 in float32.

    Raises:
        BotorchTensorDimensionError: If `observed` does not have the shape of the targets, or
            `previous` does not match the replicates or the hyperparameters.
        UnsupportedError: In `torch.inference_mode`, for a model that is not an exact Gaussian
            process, or if restarts or a mask are given for one that the closed form does not
            support.
        ValueError: If the number of seeds does not match the replicates, or another number is out
            of its range.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.linspace(0, 1, 8, dtype=torch.float64).unsqueeze(-1).expand(3, 8, 1)
        >>> Y = torch.stack([(k * X[0]).sin() for k in (3, 6, 9)])
        >>> result = fit_exact_gp(SingleTaskGP(X, Y))
        >>> [status.value for status in result.status], result.method
        (['converged', 'converged', 'converged'], 'closed form')
    """
    require_gradients("fit_exact_gp")
    check_flags(rough_start=rough_start)
    observed = as_tensor("observed", observed)
    if isinstance(model, FitsItself):
        composed: Any = model
        if num_restarts or observed is not None:
            raise UnsupportedError(
                f"Expected one process for `num_restarts` and `observed`. Got {type(model)}."
            )
        try:
            with mode_kept_on_errors(composed):
                result: FitResult = composed.fit_in_closed_form(
                    previous=previous, max_iterations=max_iterations, tolerance=tolerance
                )
            return result
        except NotInClosedFormError as error:
            mll = ExactMarginalLogLikelihood(composed.likelihood, composed)
            return _fit_by_botorch(mll, max_iterations, tolerance, str(error))
    return fit_loss(
        model,
        lambda: ExactMarginalLogLikelihood(model.likelihood, model),
        lambda parts: (parts, _mask(parts, observed)),
        observed=observed,
        rougher=ROUGHER if rough_start else None,
        num_restarts=num_restarts,
        seeds=seeds,
        previous=previous,
        max_iterations=max_iterations,
        tolerance=tolerance,
    )


def fit_loss(
    model: SingleTaskGP,
    make_mll: Callable[[], ExactMarginalLogLikelihood],
    read_data: Callable[[ExactGPParts], tuple[ExactGPParts, Tensor | None]],
    *,
    observed: Tensor | None,
    rougher: Mapping[str, float] | None,
    num_restarts: int,
    seeds: int | Sequence[int] | None,
    max_iterations: int,
    tolerance: float,
    previous: Optimum | None = None,
    hope: float = np.inf,
) -> FitResult:
    r"""Fit a model to a marginal likelihood in closed form, or by BoTorch if there is none.

    Args:
        model: The model, left in evaluation mode.
        make_mll: Builds the loss, for BoTorch.
        read_data: Maps the parts of the model to parts with the data of the loss, and to the mask
            of these data, `R x n`, or None.
        observed: The mask that the user gave, which BoTorch does not accept.
        rougher: The factors that make a second start from the first; None for no second start.
        num_restarts: As in `fit_exact_gp`, like the other arguments.
        hope: As in `minimize_rows`, for other starts next to a warm one.
    """
    check_counts(0, num_restarts=num_restarts, max_iterations=max_iterations)
    check_nonnegative(tolerance=tolerance)
    if seeds is not None:
        as_seeds(seeds)
    with mode_kept_on_errors(model):
        model.train()
        try:
            parts = read_exact_gp(model)
        except NotInClosedFormError as error:
            if num_restarts or observed is not None:
                raise UnsupportedError(
                    "Expected a model that the closed form supports for `num_restarts` and "
                    f"`observed`. Got {error}."
                ) from error
            if not isinstance(model, ExactGP):
                raise UnsupportedError(
                    f"Expected an exact Gaussian process. Got {type(model).__name__}: fit it to a "
                    "loss of its own by `fit_gpytorch_mll`."
                ) from error
            return _fit_by_botorch(make_mll(), max_iterations, tolerance, str(error))
        result = _fit_parts(
            *read_data(parts),
            rougher=rougher,
            num_restarts=num_restarts,
            seeds=seeds,
            previous=previous,
            options={
                "max_iterations": max_iterations,
                "gradient_tolerance": tolerance,
                "hope": np.inf if previous is None else hope,
            },
        )
        model.eval()
        return result


@contextmanager
def mode_kept_on_errors(model: Any) -> Iterator[None]:
    r"""Put a model back into training or evaluation mode if an error ends the block."""
    was_training = model.training
    try:
        yield
    except Exception:
        model.train(was_training)
        raise


def _fit_parts(
    parts: ExactGPParts,
    observed: Tensor | None,
    *,
    rougher: Mapping[str, float] | None,
    num_restarts: int,
    seeds: int | Sequence[int] | None,
    previous: Optimum | None,
    options: Mapping[str, Any],
) -> FitResult:
    r"""Fit the parts that were read from a model, and write its hyperparameters."""
    objective = MarginalLikelihoodObjective(parts, observed)
    starts = make_starts(objective, parts.batch_shape, rougher, num_restarts, seeds)

    def begun(chosen: ndarray) -> Starts:
        if observed is not None:  # the rows that count are not the same in all replicates
            return starts.of(chosen)
        return begun_on_fewer_points(
            parts, objective.units, starts.of(chosen), lambda f, x: minimize(f, x, options)
        )

    def revise(minima: Minima, rows: ndarray) -> tuple[Minima, ndarray]:
        ends = Ends(objective, minima, rows, lambda x: minimize(objective, x, options))
        own = starts.own
        if observed is None and sizes_of_first_fits(parts.X):  # not yet tried on all points
            ends.extended(own.theta[:, None], own.rows)
        try_input_or_noise(ends)
        return ends.minima, ends.rows

    return maximize(objective, begun, previous, options, revise=revise)


def maximize(
    objective: FitObjective,
    starts: Callable[[ndarray], Starts],
    previous: Optimum | None,
    options: Mapping[str, Any],
    compete: bool | ndarray = True,
    revise: Callable[[Minima, ndarray], tuple[Minima, ndarray]] | None = None,
) -> FitResult:
    r"""Maximise an objective from its starts, or from the end of the previous fit.

    `starts` makes the starts for the masked replicates. Replicates without competing explanations
    (`compete`, a mask `R`) use them more rarely. `revise` may add minima of a cold fit.
    """
    if previous is None:
        begun = starts(np.ones(len(objective.num_observed), dtype=bool))
        minima, rows = minimize(objective, begun, options), begun.rows
        if revise is not None:
            minima, rows = revise(minima, rows)
        return _collect(objective, minima, rows, objective.num_observed)
    warm_start = warm_starts(objective, previous)
    due = is_due(objective, previous, compete)
    begun = warm_start.followed_by(starts(due)) if due.any() else warm_start
    minima, rows, count = minimize(objective, begun, options), begun.rows, len(due)
    warm = minima.of(np.arange(count))
    late = has_moved(previous, warm) & ~due
    if late.any():
        again = starts(late)
        # Rows of their own, in whatever the objective keeps of each.
        again = again._replace(rows=count + again.rows)
        known = warm.x, np.where(warm.status == RowStatus.CONVERGED, warm.value, np.nan)
        minima = minima.joined(minimize(objective, again, {**options, "known": known}))
        rows = np.concatenate([rows, again.rows])
        order = np.argsort(rows)
        minima, rows = minima.of(order), rows[order]
    fresh_at = np.where(due | late, objective.num_observed, previous.fresh_at.cpu().numpy())
    return _collect(objective, minima, rows, fresh_at)


@steady()
def minimize(objective: FitObjective, starts: Starts, options: Mapping[str, Any]) -> Minima:
    r"""Minimise an objective from each start; `options` go to `minimize_rows`."""
    rows = starts.rows
    return minimize_rows(
        lambda theta, index: objective(theta, rows[index]),
        starts.theta,
        *objective.bounds(rows),
        relative_tolerance=1e-11,
        precision=objective.precision,
        noise=min(NOISE * objective.precision, 1e-4),  # in float32 the product is of order 1
        metric=starts.metric,
        groups=rows % len(objective.num_observed),
        **{**_DEFAULTS, **options},
    )


def _mask(parts: ExactGPParts, observed: Tensor | None) -> Tensor | None:
    if observed is None:
        return None
    expected = (*parts.batch_shape, parts.Y.shape[-1])
    if observed.shape != expected or observed.dtype != torch.bool:
        raise BotorchTensorDimensionError(
            f"Expected `observed` to be boolean of shape `batch_shape x n`, {expected}. "
            f"Got {observed.dtype=}, {observed.shape=}."
        )
    return observed.reshape(parts.Y.shape).to(parts.Y.device)


def _collect(
    objective: FitObjective, minima: Minima, rows: ndarray, fresh_at: ndarray
) -> FitResult:
    r"""Write the best start of each replicate into the model and report on it."""
    count = objective.batch_shape.numel()
    # Within its noise the value of a start that goes on may rise above one that was given up.
    ended = ~np.isin(minima.status, (RowStatus.FAILED, RowStatus.OVERTAKEN))
    values = np.full((rows[-1] // count + 1) * count, np.inf)
    values[rows] = np.where(ended, minima.value, np.inf)
    lowest = values.reshape(-1, count).argmin(axis=0) * count + np.arange(count)
    best = np.searchsorted(rows, lowest)
    evaluations = np.zeros(count, dtype=np.int64)
    np.add.at(evaluations, rows % count, minima.num_evaluations)
    outcomes = [_STATUS[RowStatus(code)] for code in minima.status[best]]
    for replicate, reason in objective.broken_data().items():
        outcomes[replicate] = (FitStatus.FAILED, reason)
    lost = np.array([status is FitStatus.FAILED for status, _ in outcomes])
    theta = objective.write(minima.x[best], keep=lost, rows=rows[best])
    like = objective.like

    both = np.stack([np.where(lost, np.nan, -minima.value[best]), evaluations])
    values, counts = sent(both, like.device).view(2, *objective.batch_shape)
    return FitResult(
        objective=values.to(like.dtype),
        status=tuple(status for status, _ in outcomes),
        reasons=tuple(reason for _, reason in outcomes),
        num_evaluations=counts.long(),
        method="closed form",
        optimum=Optimum(
            torch.as_tensor(np.where(lost[:, None], np.nan, theta)),
            torch.as_tensor(minima.metric[best]),
            torch.as_tensor(fresh_at),
        ),
    )


def _fit_by_botorch(
    mll: ExactMarginalLogLikelihood, max_iterations: int, tolerance: float, reason: str
) -> FitResult:
    from botorch.fit import fit_gpytorch_mll  # SciPy's optimisers, which a closed form spares

    model = mll.model
    options = {"maxiter": max_iterations, "gtol": tolerance}
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": options})
    mll.train()
    with torch.no_grad():
        inputs = [model.transform_inputs(X=X) for X in model.train_inputs]
        objective = mll(model(*model.train_inputs), model.train_targets, *inputs)
    mll.eval()
    count = objective.numel()
    return FitResult(
        objective=objective,
        status=(FitStatus.NOT_REPORTED,) * count,
        reasons=("",) * count,
        num_evaluations=None,
        method="fit_gpytorch_mll",
        fallback_reason=reason,
    )


@runtime_checkable
class FitsItself(Protocol):
    r"""A model of several processes that are fitted at once."""

    def fit_in_closed_form(self, **options: Any) -> FitResult: ...


@runtime_checkable
class LossOfEachProcess(Protocol):
    r"""A loss that can build the loss of one `SingleTaskGP` in a composed model."""

    def of_process(self, model: Any) -> MarginalLogLikelihood: ...


def fit_with_loss_like(mll: MarginalLogLikelihood, **options: Any) -> Callable[[Any], bool]:
    r"""Make a function that fits one `SingleTaskGP` of a composed model and returns its success.

    The exact marginal likelihood is maximised in closed form (`fit_exact_gp`), unless there are
    options for BoTorch's optimiser, or the closed form fails. Any other loss is rebuilt for each
    process.
    """
    options = {name: value for name, value in options.items() if value is not None}
    in_closed_form = type(mll) is ExactMarginalLogLikelihood and not options

    def fit(process: Any) -> bool:
        if in_closed_form and not fit_exact_gp(process).has_failed:
            return True
        if isinstance(mll, LossOfEachProcess):
            part = mll.of_process(process)
        else:
            part = type(mll)(process.likelihood, process)
        from botorch.fit import fit_gpytorch_mll

        fit_gpytorch_mll(part, **options)
        return not part.training

    return fit
