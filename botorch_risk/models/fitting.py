r"""Fits of a model of several processes, each by a loss of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from botorch.fit import fit_gpytorch_mll
from gpytorch.mlls import ExactMarginalLogLikelihood, MarginalLogLikelihood

from botorch_risk.fit import fit_exact_gp


@runtime_checkable
class LossOfEachProcess(Protocol):
    r"""A loss that says itself how it applies to one process of a composed model."""

    def of_process(self, model: Any) -> MarginalLogLikelihood:
        r"""The loss of one `SingleTaskGP`."""
        ...


def fit_with_loss_like(mll: MarginalLogLikelihood, **options: Any) -> Callable[[Any], bool]:
    r"""Makes a function that fits one process by the loss of a composed model.

    The exact marginal likelihood is maximised in closed form (`fit_exact_gp`) unless options of
    BoTorch's optimiser are given, or that fails.

    Args:
        mll: The loss of the whole model; each process is fitted by one of the same class, or by
            the one that it makes itself.
        options: Further arguments of `fit_gpytorch_mll`.

    Returns:
        A function that fits a `SingleTaskGP` in place and returns whether it succeeded.
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
        fit_gpytorch_mll(part, **options)
        return not part.training

    return fit
