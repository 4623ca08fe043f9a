r"""The closed-form fit as an optimizer of BoTorch's `fit_gpytorch_mll`."""

import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import BotorchWarning, OptimizationWarning
from botorch.optim.core import OptimizationResult, OptimizationStatus
from botorch.optim.fit import fit_gpytorch_mll_scipy
from gpytorch.mlls import ExactMarginalLogLikelihood, MarginalLogLikelihood
from torch import Tensor

from botorch_risk.arguments import check_counts, check_flags, check_nonnegative, in_short
from botorch_risk.engine import (
    FitResult,
    MarginalLikelihoodObjective,
    NotInClosedFormError,
    Optimum,
    fit_exact_gp,
)

# How many models a `WarmStartedFit` remembers, and how much standardised targets may differ.
MEMORY, SAME = 32, 1e-7


def fit_gpytorch_mll_closed_form(
    mll: MarginalLogLikelihood,
    closure: Callable[..., Any] | None = None,
    *,
    rough_start: bool = True,
    max_iterations: int = 200,
    tolerance: float = 1e-7,
) -> OptimizationResult:
    r"""Maximise a marginal likelihood in closed form, called by BoTorch's own function.

    It does the work of `fit_exact_gp` for code that calls BoTorch's function:

        fit_gpytorch_mll(mll, optimizer=fit_gpytorch_mll_closed_form)

    Each entry of a batch converges on its own, and so does each output of a multi-output model. If
    a fit fails, a warning tells BoTorch to draw other starts from the priors and to try again.
    Models that the closed form does not support (see `fit_exact_gp`), and other losses, are left to
    `fit_gpytorch_mll_scipy`, with a `BotorchWarning`. A `ModelListGP` is fitted model by model.

    Source: [Rasmussen2006gp]_, Eqs. (5.8) and (5.9).

    Args:
        mll: The loss, in training mode.
        closure: BoTorch's argument for a loss with gradients, which the closed form refuses.
        rough_start: As in `fit_exact_gp`, like the next two; pass them by `optimizer_kwargs`.
        max_iterations: As in `fit_exact_gp`.
        tolerance: As in `fit_exact_gp`.

    Returns:
        The negative objective, summed over the batch, and how the fit ended.

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
    check_counts(0, max_iterations=max_iterations)
    check_nonnegative(tolerance=tolerance)
    parts = _read(mll, closure)
    if isinstance(parts, str):
        return _fitted_by_scipy(mll, parts, max_iterations, tolerance)
    begin = time.monotonic()
    result = fit_exact_gp(
        mll.model, rough_start=rough_start, max_iterations=max_iterations, tolerance=tolerance
    )
    return _as_botorch(result, time.monotonic() - begin)


# A `MeanVarianceGP` asks an optimizer to fit both of its processes at once.
fit_gpytorch_mll_closed_form.fit_model = fit_exact_gp  # type: ignore[attr-defined]


class WarmStartedFit:
    r"""The closed-form fit with a memory, for loops that fit almost the same data in each round.

    Make one before the loop and pass it in every round:

        fit = WarmStartedFit()
        ...
        fit_gpytorch_mll(mll, optimizer=fit)

    A fit then begins where the last one ended, with its curvature, and needs 3 to 6 evaluations of
    the likelihood instead of 25. Occasionally, and if the optimum has moved far, it also starts
    from the defaults: see `previous` of `fit_exact_gp`. One object can serve several models, such
    as those of a `ModelListGP`: it recognises the earlier fit by the targets, whose first rows are
    the same up to location and scale. The two processes of a `MeanVarianceGP` are fitted at once.
    It does not remember models that the closed form does not support.

    Args:
        rough_start: As in `fit_gpytorch_mll_closed_form`, for fits from the defaults.

    Example:
        >>> import torch
        >>> from botorch.fit import fit_gpytorch_mll
        >>> from botorch.models import SingleTaskGP
        >>> fit, X = WarmStartedFit(), torch.linspace(0, 1, 20, dtype=torch.double).unsqueeze(-1)
        >>> Y = (6 * X).sin() + 0.1 * torch.randn_like(X)
        >>> for n in (18, 19, 20):
        ...     model = SingleTaskGP(X[:n], Y[:n])
        ...     mll = ExactMarginalLogLikelihood(model.likelihood, model)
        ...     mll = fit_gpytorch_mll(mll, optimizer=fit)
        >>> fit.num_evaluations[0] > 2 * fit.num_evaluations[-1]
        True
    """

    def __init__(self, *, rough_start: bool = True) -> None:
        check_flags(rough_start=rough_start)
        self.rough_start = rough_start
        self._memory: deque[_Fit] = deque(maxlen=MEMORY)
        self.num_evaluations: list[int] = []
        r"""The evaluations of each fit so far, summed over its batch."""

    def __call__(
        self,
        mll: MarginalLogLikelihood,
        closure: Callable[..., Any] | None = None,
        *,
        max_iterations: int = 200,
        tolerance: float = 1e-7,
    ) -> OptimizationResult:
        r"""Fit as `fit_gpytorch_mll_closed_form` does, from where the last fit ended."""
        parts = _read(mll, closure)
        if isinstance(parts, str):
            return _fitted_by_scipy(mll, parts, max_iterations, tolerance)
        shape = tuple((each.name, each.size) for each in parts.hyperparameters)
        begin = time.monotonic()
        result = self._remember(
            shape,
            parts.Y.detach(),
            lambda previous: fit_exact_gp(
                mll.model,
                rough_start=self.rough_start,
                previous=previous,
                max_iterations=max_iterations,
                tolerance=tolerance,
            ),
        )
        return _as_botorch(result, time.monotonic() - begin)

    def fit_model(self, model: Any) -> FitResult:
        r"""Fit both processes of a `MeanVarianceGP` at once, from where the last fit ended."""
        targets = model.mean_model.train_targets.detach()
        return self._remember(
            (("both processes", model.train_X.shape[-1]),),
            targets.reshape(-1, targets.shape[-1]),
            lambda previous: model.fit_in_closed_form(previous=previous),
        )

    def _remember(
        self,
        shape: tuple[tuple[str, int], ...],
        targets: Tensor,
        fit: Callable[[Optimum | None], FitResult],
    ) -> FitResult:
        known = next(
            (each for each in reversed(self._memory) if each.precedes(shape, targets)), None
        )
        result = fit(None if known is None else known.optimum)
        assert result.optimum is not None  # for the type checker: the closed form knows the model
        if known is not None:
            self._memory.remove(known)
        self._memory.append(_Fit(shape, targets, result.optimum))
        evaluations = result.num_evaluations
        self.num_evaluations.append(0 if evaluations is None else int(evaluations.sum()))
        return result


@dataclass(frozen=True, eq=False)
class _Fit:
    shape: tuple[tuple[str, int], ...]  # of the hyperparameters
    targets: Tensor  # R x n
    optimum: Optimum

    def precedes(self, shape: tuple[tuple[str, int], ...], targets: Tensor) -> bool:
        r"""Whether a fit has these hyperparameters, and targets that begin with the same rows.

        The location and the scale may differ, in each replicate.
        """
        # A loop may standardise its outcomes again in every round.
        (count, n), (new_count, new_n) = self.targets.shape, targets.shape
        if (self.shape, count) != (shape, new_count) or n > new_n:
            return False
        if self.targets.device != targets.device:
            return False
        pair = [x - x.mean(dim=-1, keepdim=True) for x in (self.targets, targets[:, :n])]
        ours, theirs = (x / x.norm(dim=-1, keepdim=True) for x in pair)
        return bool(((ours - theirs).abs() < SAME).all())


def _read(mll: MarginalLogLikelihood, closure: Callable[..., Any] | None) -> Any:
    r"""The parts of the model, or why the closed form does not support it or the loss."""
    if closure is not None:
        raise UnsupportedError(
            "Expected no `closure`: the closed form has its own loss and gradient. "
            f"Got {in_short(closure)}."
        )
    if type(mll) is not ExactMarginalLogLikelihood:
        return f"a loss of type {type(mll).__name__}"
    try:
        return MarginalLikelihoodObjective.of(mll.model.train()).parts
    except NotInClosedFormError as error:
        return str(error)


def _fitted_by_scipy(
    mll: MarginalLogLikelihood, reason: str, max_iterations: int, tolerance: float
) -> OptimizationResult:
    warnings.warn(
        f"`fit_gpytorch_mll_scipy` fits what the closed form does not support: {reason}.",
        BotorchWarning,
        stacklevel=3,
    )
    return fit_gpytorch_mll_scipy(mll, options={"maxiter": max_iterations, "gtol": tolerance})


def _as_botorch(result: FitResult, seconds: float) -> OptimizationResult:
    r"""Report the result to BoTorch, which learns of a failed fit by a warning."""
    statuses = [status.value for status in result.status]
    message = ", ".join(f"{statuses.count(each)} {each}" for each in dict.fromkeys(statuses))
    if result.has_failed:
        reason = next(filter(None, result.reasons))
        warnings.warn(f"A fit failed: {reason}", OptimizationWarning, stacklevel=4)
    evaluations = result.num_evaluations
    limit = "iteration limit" in result.status
    return OptimizationResult(
        step=0 if evaluations is None else int(evaluations.sum()),
        fval=-float(result.objective.nansum()),
        status=OptimizationStatus.STOPPED if limit else OptimizationStatus.SUCCESS,
        runtime=seconds,
        message=message,
    )
