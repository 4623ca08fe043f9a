r"""The closed-form fit as an optimizer of BoTorch's `fit_gpytorch_mll`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.optim.core import OptimizationResult, OptimizationStatus
from botorch.optim.fit import fit_gpytorch_mll_scipy
from gpytorch.mlls import ExactMarginalLogLikelihood, MarginalLogLikelihood

from botorch_risk.fit.exact_gp import fit_exact_gp
from botorch_risk.fit.parameters import NotInClosedFormError, read_exact_gp
from botorch_risk.fit.results import FitResult, FitStatus


def fit_gpytorch_mll_closed_form(
    mll: MarginalLogLikelihood,
    closure: Callable[..., Any] | None = None,
    *,
    rough_start: bool = True,
    max_iterations: int = 200,
    tolerance: float = 1e-5,
) -> OptimizationResult:
    r"""Maximises a marginal likelihood in closed form, called by BoTorch's own function.

    What `fit_exact_gp` does, for code that calls BoTorch's:

        fit_gpytorch_mll(mll, optimizer=fit_gpytorch_mll_closed_form)

    All of a batch converge on their own, the outputs of a multi-output model too. A fit that fails
    is a warning to BoTorch, which draws other starts from the priors and tries again. For models
    that the closed form does not know (see `fit_exact_gp`) and for other losses a `BotorchWarning`
    says so and `fit_gpytorch_mll_scipy` fits. A `ModelListGP` is fitted model by model.

    Source: [Rasmussen2006gp]_, Eqs. (5.8) and (5.9).

    Args:
        mll: The loss, in training mode.
        closure: BoTorch's slot for a loss with gradients, which the closed form cannot take.
        rough_start: Whether to start a second time at shorter lengthscales and less noise. Pass
            it, as the other options, by `optimizer_kwargs`.
        max_iterations: The most steps from a start.
        tolerance: The largest entry of the gradient per point of a start that has converged.

    Returns:
        The negative objective, summed over the batch, and how the fit ended.

    Raises:
        UnsupportedError: If a closure is given.

    Example:
        >>> import torch
        >>> from botorch.fit import fit_gpytorch_mll
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.linspace(0, 1, 8, dtype=torch.double).unsqueeze(-1)
        >>> model = SingleTaskGP(X, (6 * X).sin())
        >>> mll = ExactMarginalLogLikelihood(model.likelihood, model)
        >>> mll = fit_gpytorch_mll(mll, optimizer=fit_gpytorch_mll_closed_form)
        >>> round(model.covar_module.lengthscale.item(), 2)
        0.26
    """
    if closure is not None:
        raise UnsupportedError(
            f"Expected no `closure`: the closed form has its own loss and gradient. Got {closure}."
        )
    reason = _why_unknown(mll)
    if reason is not None:
        warnings.warn(
            f"`fit_gpytorch_mll_scipy` fits what the closed form does not know: {reason}.",
            BotorchWarning,
            stacklevel=2,
        )
        return fit_gpytorch_mll_scipy(mll, options={"maxiter": max_iterations, "gtol": tolerance})
    begin = time.monotonic()
    result = fit_exact_gp(
        mll.model, rough_start=rough_start, max_iterations=max_iterations, tolerance=tolerance
    )
    return _as_botorch(result, time.monotonic() - begin)


def _why_unknown(mll: MarginalLogLikelihood) -> str | None:
    if type(mll) is not ExactMarginalLogLikelihood:
        return f"a loss of type {type(mll).__name__}"
    try:
        read_exact_gp(mll.model.train())
    except NotInClosedFormError as error:
        return str(error)
    return None


def _as_botorch(result: FitResult, seconds: float) -> OptimizationResult:
    r"""In BoTorch's words; a warning is how it learns that a fit has failed."""
    statuses = [status.value for status in result.status]
    message = ", ".join(f"{statuses.count(each)} {each}" for each in dict.fromkeys(statuses))
    if result.has_failed:
        reason = next(filter(None, result.reasons))
        warnings.warn(f"A fit failed: {reason}", OptimizationWarning, stacklevel=3)
    evaluations = result.num_evaluations
    limit = FitStatus.ITERATION_LIMIT in result.status
    return OptimizationResult(
        step=0 if evaluations is None else int(evaluations.sum()),
        fval=-float(result.objective.nansum()),
        status=OptimizationStatus.STOPPED if limit else OptimizationStatus.SUCCESS,
        runtime=seconds,
        message=message,
    )
