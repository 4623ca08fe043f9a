r"""What users pass as tensors, in the other forms that they have: each example is called again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

from botorch_risk.recommend import recommend
from botorch_risk.recommend_everywhere import recommend_everywhere
from botorch_risk.repeats import next_readings, repeat_advice
from tests.limits import called, first_call
from tests.public_objects import Public, hints_of, holds_tensor, public_objects

PUBLIC: dict[str, Any] = {
    **public_objects(),
    **{each.__name__: each for each in (recommend, recommend_everywhere)},
    **{each.__name__: each for each in (next_readings, repeat_advice)},
}

FORMS: dict[str, Callable[[Tensor], Any]] = {
    "lists": Tensor.tolist,
    "arrays": lambda each: each.numpy(force=True),
    "integers": lambda each: each.long() if each.dtype == torch.bool else each.round().long(),
}

# Tensors that no user passes, or whose example takes long: a name, and the reason.
WITHOUT_ARRAYS = {
    "repeats.Readings": "a result",
    "repeats.RepeatAdvice": "a result",
    "acquisition.Selection": "a result",
    "acquisition.Status": "a result",
    "acquisition.TruncatedVarianceState": "a state, whose classmethod takes the domain",
    "ax.ContextualRiskModel": "Ax builds it",
    "bandits.ScaledReward": "a result",
    "diagnostics.Calibration": "a result",
    "environments.IndependentEnvironment": "abstract",
    "fit.Estimates": "a result",
    "fit.Hyperparameters": "a part of a computation",
    "fit.LogMarginalLikelihood": "a result",
    "fit.PseudoPoints": "a result",
    "metrics.LevelSetScores": "a result",
    "metrics.LevelSets": "a result",
    "metrics.MeanAndStandardError": "a result",
    "metrics.ParetoSets": "a result",
    "posterior.Marginals": "a result",
}
SLOW = ("optim.maximize_value_at_risk",)


def tensors_of(value: Public) -> list[str]:
    r"""The arguments that are tensors, by their types."""
    hints = hints_of(value)
    return [name for name, hint in hints.items() if name != "return" and holds_tensor(hint)]


def cases() -> Iterator[tuple[str, str]]:
    r"""Each public name with each of its arguments that may be a tensor."""
    for name, value in PUBLIC.items():
        if name not in WITHOUT_ARRAYS:
            yield from ((name, argument) for argument in tensors_of(value))


@cache
def _tensors_in_example(name: str) -> set[str]:
    arguments = first_call(PUBLIC[name])
    assert arguments is not None, f"Expected an example of {name}."
    return {each for each, value in arguments.items() if isinstance(value, Tensor)}


def results(name: str, argument: str, form: str) -> tuple[Any, Any] | None:
    r"""What a name gives for a tensor and for the same numbers in another form.

    `None` where its example has no tensor there.
    """
    if argument not in _tensors_in_example(name):
        return None
    arguments = first_call(PUBLIC[name])
    assert arguments is not None
    torch.manual_seed(0)
    expected = called(PUBLIC[name], arguments)
    torch.manual_seed(0)
    other = FORMS[form](arguments[argument])
    return expected, called(PUBLIC[name], {**arguments, argument: other})
