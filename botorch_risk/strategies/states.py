r"""The state of an experiment as JSON, with a digest that shows damage."""

import hashlib
import json
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from botorch_risk.strategies.arguments import from_json

_FORMAT = 1


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    r"""The content with the number of the format and a digest of everything.

    Example:
        >>> state = sealed({"pending": [3, 1]})
        >>> opened({**state, "pending": [3, 7]}, "pending")
        Traceback (most recent call last):
            ...
        ValueError: Expected a state that fits its digest. Got one that was damaged or edited.
    """
    whole = {**content, "format": _FORMAT}
    whole.pop("digest", None)
    return {**whole, "digest": _digest(whole)}


def opened(state: Any, *names: str) -> dict[str, Any]:
    r"""The content of a sealed state.

    Args:
        state: What `sealed` returned, perhaps after a round trip through JSON.
        names: The parts that it must have.

    Raises:
        ValueError: If it is not a state, a part is missing, or the digest does not fit.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"Expected what `state_dict()` gives. Got {reprlib.repr(state)}.")
    if missing := [name for name in (*names, "format", "digest") if name not in state]:
        raise ValueError(f"Expected what `state_dict()` gives. Got no {missing[0]!r}.")
    if state["format"] != _FORMAT:
        raise ValueError(f"Expected a state of format {_FORMAT}. Got {state['format']!r}.")
    content = {name: part for name, part in state.items() if name != "digest"}
    if state["digest"] != _digest(content):
        raise ValueError(
            "Expected a state that fits its digest. Got one that was damaged or edited."
        )
    return content


def tensors_of(described: Any, names: Iterable[str]) -> dict[str, Tensor]:
    r"""Tensors in terms of JSON by their names, among which must be the given ones.

    Raises:
        ValueError: If they are none.
    """
    if not isinstance(described, Mapping) or set(names) - set(described):
        raise ValueError(f"Expected tensors named {list(names)}. Got {reprlib.repr(described)}.")
    return {name: from_json(value) for name, value in described.items()}


def state_like(
    described: Any, start: Mapping[str, Tensor], num_replicates: int
) -> dict[str, Tensor]:
    r"""The state of a method, each part on the device where it starts: a bandit stays on the CPU.

    Raises:
        ValueError: If a part is missing or has another shape.
    """
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
        raise ValueError(f"Expected a state of JSON. Got another: {error}.") from error
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
