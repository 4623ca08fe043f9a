r"""Checks and warnings of the state of truncated variance reduction."""

from __future__ import annotations

import hashlib
import math
import warnings
from typing import Literal, get_args

from botorch.exceptions.warnings import BotorchWarning, InputDataWarning
from torch import Tensor

from botorch_risk.acquisition.epochs import ImplicitThreshold
from botorch_risk.posterior.domain import DomainPosterior

Task = Literal["maximize", "level_set"]


def check_task(task: Task, threshold: float | ImplicitThreshold | None) -> None:
    r"""Refuses an unknown task, or a threshold that does not fit it."""
    if task not in get_args(Task):
        raise ValueError(f"Expected `task` in {get_args(Task)}. Got {task!r}.")
    if (threshold is None) != (task == "maximize"):
        raise ValueError(
            f"Expected a `threshold` for level sets, and for them alone. Got {task=}, {threshold=}."
        )
    if isinstance(threshold, float | int) and not math.isfinite(threshold):
        raise ValueError(f"Expected a finite `threshold`. Got {threshold}.")


def fingerprint_of(domain: Tensor) -> str:
    r"""Tells one domain from another."""
    data = domain.detach().cpu().double().contiguous().numpy().tobytes()
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def warn_excluded(excluded: Tensor, best: Tensor) -> None:
    r"""Warns that the point of highest posterior mean was ruled out."""
    warnings.warn(
        f"The point of highest posterior mean, index {best[excluded].tolist()} in "
        f"{int(excluded.sum())} of {excluded.numel()} replicates, was ruled out before and cannot "
        "come back. Use `monotone=False`, or a larger `a`.",
        BotorchWarning,
        stacklevel=3,
    )


def warn_threshold(threshold: float | ImplicitThreshold | None, posterior: DomainPosterior) -> None:
    r"""Warns of a level that no outcome so far is near; a single outcome says nothing."""
    if threshold is None:
        return
    low, high = posterior.outcome_range
    if isinstance(threshold, ImplicitThreshold):
        outside = (low < high) & (high < threshold.baseline)
        what = f"a baseline below the largest outcome so far. Got {threshold.baseline}"
    else:
        outside = (low < high) & ((low > threshold) | (high < threshold))
        what = f"a threshold within the range of the outcomes so far. Got {threshold}"
    if bool(outside.any()):
        lowest, highest = low[outside].min().item(), high[outside].max().item()
        warnings.warn(
            f"Expected {what} for outcomes in [{lowest:.4g}, {highest:.4g}] in "
            f"{int(outside.sum())} of {outside.numel()} replicates.",
            InputDataWarning,
            stacklevel=4,
        )
