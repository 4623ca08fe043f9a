r"""A state as JSON: data, a format, the arguments of the experiment, and a digest."""

import hashlib
import json
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from botorch_risk.strategies.built_with import check_alike, from_json

_FORMAT = 2


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    r"""The content, with the number of the format and a digest of everything added."""
    whole = {**content, "format": _FORMAT}
    whole.pop("digest", None)
    return {**whole, "digest": _digest(whole)}


def opened(state: Any, arguments: Mapping[str, Any], *names: str) -> list[Any]:
    r"""Some parts of a sealed state, in their order.

    Args:
        state: What `sealed` returned, perhaps after a round trip through JSON.
        arguments: The arguments that built the object that loads it.
        names: The parts.

    Raises:
        ValueError: If it is not a state, has another format or other arguments, a part is missing,
            or the digest does not fit.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"Expected a state from `state_dict()`. Got {reprlib.repr(state)}.")
    if state.get("format", _FORMAT) != _FORMAT:
        raise ValueError(f"Expected a state of format {_FORMAT}. Got {state['format']!r}.")
    if missing := [name for name in ("arguments", *names, "format", "digest") if name not in state]:
        raise ValueError(
            f"Expected a state from `state_dict()`. Got a state without {missing[0]!r}."
        )
    if state["digest"] != sealed(state)["digest"]:
        raise ValueError("Expected a state that fits its digest. Got a damaged or edited state.")
    check_alike(state["arguments"], arguments)
    return [state[name] for name in names]


def tensors_of(described: Any, names: Iterable[str]) -> dict[str, Tensor]:
    r"""Tensors from their JSON form, by name; the given names must be among them."""
    if not isinstance(described, Mapping) or set(names) - set(described):
        raise ValueError(f"Expected tensors named {list(names)}. Got {reprlib.repr(described)}.")
    return {name: from_json(value) for name, value in described.items()}


def state_like(
    described: Any, start: Mapping[str, Tensor], num_replicates: int
) -> dict[str, Tensor]:
    r"""The state of a method, each part on the device of its start (for a bandit, the CPU)."""
    found = tensors_of(described, start)
    for name, part in found.items():
        like = start.get(name, part)
        if part.shape[:1] != (num_replicates,) or part.dim() != like.dim():
            raise ValueError(
                f"Expected {name!r} of {num_replicates} replicates. Got {tuple(part.shape)}."
            )
        found[name] = part.to(like.device)
    return found


def _digest(content: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(content, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected a state that JSON can store. Got an error: {error}.") from error
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
