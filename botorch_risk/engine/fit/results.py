r"""The result of a fit, replicate by replicate."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from botorch.exceptions.warnings import OptimizationWarning
from torch import Tensor


class FitStatus(StrEnum):
    r"""The outcome of one replicate's fit.

    `CONVERGED` stands for an optimum: where the best start ended, no small step raises the
    objective. There may be several optima; the starts find the highest in most cases, not in all.
    """

    CONVERGED = "converged"
    ITERATION_LIMIT = "iteration limit"
    STALLED = "stalled"
    FAILED = "failed"
    NOT_REPORTED = "not reported"


@dataclass(frozen=True)
class Optimum:
    r"""The ends of the fits of `R` replicates, as starts of the next fits.

    Args:
        theta: The hyperparameters in the fit's coordinates, `R x p`: logarithms of positive ones,
            and the constant's distance from the targets' centre in their units. NaN after failure.
        metric: The approximate inverse Hessian there of the objective per observed point,
            `R x p x p`; NaN where it is unknown.
        fresh_at: The number of observed points when a fit last started from the defaults, `R`.
    """

    theta: Tensor
    metric: Tensor
    fresh_at: Tensor

    def state(self, name: str) -> dict[str, Tensor]:
        r"""The tensors for a strategy's state, each under `name` followed by its own name."""
        return {f"{name}.{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of_state(cls, name: str, state: Mapping[str, Tensor]) -> Optimum | None:
        if f"{name}.theta" not in state:
            return None
        return cls(*(state[f"{name}.{field.name}"] for field in fields(cls)))


@dataclass(frozen=True)
class FitResult:
    r"""The result of a fit, replicate by replicate.

    Args:
        objective: GPyTorch's `ExactMarginalLogLikelihood` at the fitted hyperparameters, priors
            included, per observed point; `batch_shape`. NaN where a replicate failed.
        status: A status for each replicate, the batch flattened.
        reasons: Why a replicate failed or stalled, and an empty string for the others.
        num_evaluations: The number of evaluations of the objective for all points, summed over all
            starts, `batch_shape`; None if BoTorch fitted.
        method: "closed form" or "fit_gpytorch_mll".
        fallback_reason: The part of the model that the closed form does not support, if BoTorch
            fitted.
        optimum: The ends of the fits, for the next round; None if BoTorch fitted.
    """

    objective: Tensor
    status: tuple[FitStatus, ...]
    reasons: tuple[str, ...]
    num_evaluations: Tensor | None
    method: str
    fallback_reason: str | None = None
    optimum: Optimum | None = None

    @property
    def has_failed(self) -> bool:
        return FitStatus.FAILED in self.status

    def warn_of_failures(self, seeds: Sequence[int], stacklevel: int = 3) -> None:
        r"""Name the replicates whose fit failed, by their seeds, in one warning."""
        failed = [
            f"seed {seed}: {reason}"
            for seed, status, reason in zip(seeds, self.status, self.reasons, strict=True)
            if status == FitStatus.FAILED
        ]
        if failed:
            warnings.warn(
                f"A fit failed; the hyperparameters stay at the start ({'; '.join(failed)}).",
                OptimizationWarning,
                stacklevel=stacklevel,
            )
