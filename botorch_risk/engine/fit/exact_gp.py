r"""Fit exact Gaussian processes in closed form, all replicates of a batch at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.models import ExactGP
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import as_tensor, check_counts, check_flags, check_nonnegative
from botorch_risk.engine.fit.fewer_points import begun_on_fewer_points, sizes_of_first_fits
from botorch_risk.engine.fit.input_or_noise import Ends, try_input_or_noise
from botorch_risk.engine.fit.objective import MarginalLikelihoodObjective
from botorch_risk.engine.fit.parameters import ExactGPParts, NotInClosedFormError
from botorch_risk.engine.fit.results import FitResult, FitStatus, Optimum
from botorch_risk.engine.fit.starts import ROUGHER, Starts, draws_of_restarts, make_starts
from botorch_risk.engine.projected_bfgs.minima import Minima
from botorch_risk.gradients import require_gradients
from botorch_risk.points import put_in_mode
from botorch_risk.seeding import as_seeds


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

    The objective is the model's own, `ExactMarginalLogLikelihood(model.likelihood, model)`. The
    gradients have a closed form in the logarithms of the positive hyperparameters, and the constant
    mean is optimal given these, by generalised least squares. Outcomes may have any unit and any
    offset. Every replicate converges on its own. After a numerical failure, which its status
    reports, a replicate keeps its hyperparameters and does not affect the others. Parameters that
    do not require gradients are kept. The model is left in evaluation mode.

    The closed form supports a `SingleTaskGP` (or a subclass with its `forward`) of any batch shape;
    RBF and Matern kernels, ARD or not, alone or in a `ScaleKernel`; constant and zero mean;
    inferred homoscedastic and fixed noise; any input transform without parameters to learn and any
    outcome transform; any priors on the hyperparameters themselves except uniform ones. BoTorch's
    `fit_gpytorch_mll` fits everything else, and the result says why. Both processes of a
    `MeanVarianceGP` that learns the noise from all readings are fitted at once, to the evidence of
    `models/laplace_evidence.py`, from starts of their own.

    On a CPU, from 800 points on, the starts are first optimised on 400 of the points, with
    intermediate sizes beyond 1,600 points, and the distinct optima start the fit to all points. A
    fit with `observed` starts on all points. Without `previous`, no fit ends below the model's
    current values, and from 300 points on, a fit tries for each input whether the noise that it has
    found is variation along this input, or the reverse.

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
        seeds: One for each replicate, the batch flattened; needed by `num_restarts` only.
        observed: An optional boolean mask, `batch_shape x n`, for replicates of different sizes.
            The fit equals one without the masked rows.
        previous: The `optimum` of the fit to almost the same data, as in the last round of a loop.
            It is then the only start, and a fit takes 3 to 6 evaluations instead of 25. A replicate
            also uses its other starts if it has at most 16 points (for a `MeanVarianceGP`, unless
            repeats determine the noise), if the points have become a quarter more since it last
            did, if a hyperparameter has moved by more than a factor of 2, or if it has not
            converged; the best result counts.
        max_iterations: The maximum number of steps from a start.
        tolerance: The largest entry of the gradient per observed point at which a start has
            converged. At 1e-7, fits from different starts agree to about this precision, for one or
            two more evaluations than at 1e-5. Rounding keeps it above about 1e-4 in float32.

    Raises:
        UnsupportedError: In `torch.inference_mode`, for a model that is not an exact Gaussian
            process, or if restarts or a mask are given for one that the closed form does not
            support.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.linspace(0, 1, 8, dtype=torch.double).unsqueeze(-1).expand(3, 8, 1)
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
    return _fit_loss(
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


def fit_to_data(
    model: SingleTaskGP,
    X: Tensor,
    targets: Tensor,
    noise: Tensor | None = None,
    counted: Tensor | None = None,
    *,
    make_mll: Callable[[], ExactMarginalLogLikelihood],
    rougher: Mapping[str, float] | None = ROUGHER,
    hope: float = np.inf,
    **options: Any,
) -> FitResult:
    r"""Fit the hyperparameters of a model to other data than its own, in place.

    The model still predicts from its own data.

    Args:
        model: As in `fit_exact_gp`, which also describes the errors.
        X: Inputs before the model's input transform, `batch_shape x M x d`.
        targets: Outcomes in the model's units, `batch_shape x M`.
        noise: Noise variances of the data, `batch_shape x M`, if the model's noise is fixed.
        counted: A mask of the data that count, `batch_shape x M`; None if all do.
        make_mll: Builds the loss of these data for BoTorch, if there is no closed form.
        rougher: The factors that make a second start from the first, by hyperparameter; None for
            no second start.
        hope: As in `minimize_rows`, for the other starts if there is a warm one.
        **options: Further arguments of `fit_exact_gp`.
    """
    require_gradients("fit_to_data")
    if noise is None and isinstance(model.likelihood, FixedNoiseGaussianLikelihood):
        raise InputDataError("Expected `noise` of the data, as the model's is fixed. Got None.")

    def read_data(parts: ExactGPParts) -> tuple[ExactGPParts, Tensor | None]:
        other = parts.of_data(model, X, targets, noise)
        return other, None if counted is None else counted.reshape(other.Y.shape)

    return _fit_loss(model, make_mll, read_data, rougher=rougher, hope=hope, **options)


def _fit_loss(
    model: SingleTaskGP,
    make_mll: Callable[[], ExactMarginalLogLikelihood],
    read_data: Callable[[ExactGPParts], tuple[ExactGPParts, Tensor | None]],
    *,
    observed: Tensor | None = None,
    rougher: Mapping[str, float] | None,
    num_restarts: int = 0,
    seeds: int | Sequence[int] | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-7,
    previous: Optimum | None = None,
    hope: float = np.inf,
) -> FitResult:
    r"""Fit a model to a marginal likelihood in closed form, or by BoTorch if there is none.

    `read_data` maps the parts of the model to parts with the data of the loss, and to the mask of
    these data, `R x n`, or None. `observed` is the mask that the user gave, which BoTorch does not
    accept.
    """
    check_counts(0, num_restarts=num_restarts, max_iterations=max_iterations)
    check_nonnegative(tolerance=tolerance)
    if seeds is not None:  # checked even if no restart needs them
        as_seeds(seeds)
    with mode_kept_on_errors(model):
        # In evaluation mode BoTorch stores the training inputs transformed.
        put_in_mode(model, training=True)
        try:
            parts = ExactGPParts.read(model)
        except NotInClosedFormError as error:
            if num_restarts or observed is not None:
                raise UnsupportedError(
                    "Expected a model that the closed form supports for `num_restarts` and "
                    f"`observed`. Got {error}."
                ) from error
            if not isinstance(model, ExactGP):
                raise UnsupportedError(
                    f"Expected an exact Gaussian process. Got {type(model).__name__}: fit this "
                    "model with another loss by `fit_gpytorch_mll`."
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
                # Without a warm start no start is given up because it promises little.
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
    draws = draws_of_restarts(parts.batch_shape, num_restarts, seeds)

    @cache  # made when first needed: most warm fits need none of them
    def starts() -> Starts:
        return make_starts(objective, parts.batch_shape, rougher, draws)

    def begun(chosen: ndarray) -> Starts:
        chosen_starts = starts().of(chosen)
        if observed is not None:  # the rows that count are not the same in all replicates
            return chosen_starts
        return begun_on_fewer_points(
            parts, objective.units, chosen_starts, lambda f, x: f.minimize(x, options)
        )

    def revise(minima: Minima, rows: ndarray) -> tuple[Minima, ndarray]:
        ends = Ends(objective, minima, rows, lambda x: objective.minimize(x, options))
        own = starts().own
        if observed is None and sizes_of_first_fits(parts.X):  # not yet tried on all points
            ends.extended(own.theta[:, None], own.rows)
        try_input_or_noise(ends)
        return ends.minima, ends.rows

    return objective.maximize(begun, previous, options, revise=revise)


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


def _fit_by_botorch(
    mll: ExactMarginalLogLikelihood, max_iterations: int, tolerance: float, reason: str
) -> FitResult:
    from botorch.fit import fit_gpytorch_mll  # SciPy's optimisers, which a closed form spares

    model = mll.model
    options = {"maxiter": max_iterations, "gtol": tolerance}
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": options})
    mll.train()  # the model then returns its prior at the training inputs
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
