r"""The saved parts of a strategy: its history, its method's state and its proposal."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from botorch.exceptions.errors import BotorchError
from torch import Tensor

from botorch_risk.strategies.built_with import to_json
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.history import History
from botorch_risk.strategies.method import Method, State
from botorch_risk.strategies.space import Space
from botorch_risk.strategies.states import opened, sealed, state_like, tensors_of

_TENSORS = ("X", "Y", "recorded", "running")  # of a history


def saved(
    arguments: Mapping[str, Any], history: History, state: State, proposal: Tensor | None
) -> dict[str, Any]:
    r"""What a strategy needs to continue, as JSON; `loaded` is its inverse.

    Args:
        arguments: The arguments that built the strategy.
        history: All rows, and those that are running.
        state: The method's state.
        proposal: The rows that `ask` has given since the last round, `R x q x d_asked`, if any.
    """
    asked = history.running[:, :0] if proposal is None else proposal
    tensors = {**{name: getattr(history, name) for name in _TENSORS}, "asked": asked}
    return sealed(
        {
            "arguments": arguments,
            "num_initial": history.num_initial,
            "rounds": history.rounds.tolist(),
            "history": {name: to_json(value) for name, value in tensors.items()},
            "state": {name: to_json(value) for name, value in state.items()},
        }
    )


def loaded(
    content: Any, arguments: Mapping[str, Any], like: History, start: State
) -> tuple[History, State, Tensor | None]:
    r"""The history, the method's state and the proposal in a state that `saved` returned.

    Args:
        content: The saved state.
        arguments: The arguments that built the strategy that loads it.
        like: A history of that strategy.
        start: The state that its method starts with.

    Raises:
        ValueError: As in `Strategy.load_state_dict`, except for the rows themselves.
    """
    names = "num_initial", "rounds", "history", "state"
    num_initial, rounds, told, learnt = opened(content, arguments, *names)
    tensors = tensors_of(told, (*_TENSORS, "asked"))
    asked = tensors.pop("asked")
    history = replace(like, num_initial=_count(num_initial)).restored(rounds, **tensors)
    if asked.dim() != 3 or asked.shape[::2] != like.running.shape[::2]:
        num_replicates, _, width = like.running.shape
        raise ValueError(
            f"Expected 'asked' of shape `{num_replicates} x q x {width}`. Got {tuple(asked.shape)}."
        )
    state = state_like(learnt, start, len(like.seeds))
    return history, state, asked if asked.shape[1] else None


def check_history(history: History, space: Space, method: Method) -> None:
    r"""Raise a `ValueError` unless `tell` would accept the rows of a history."""
    X = told = history.X
    if isinstance(space, EnvironmentSpace) and space.perturbs:
        told = space.inputs(X)
    try:
        history.checked(X, history.Y)
        space.rows(told, lambda: X)
        method.check(history)
    except BotorchError as error:
        raise ValueError(f"Expected rows that `tell` accepts. {error}") from error


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"Expected 'num_initial' of at least 1. Got {value!r}.")
    return value
