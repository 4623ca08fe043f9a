r"""Descend on a device by replaying steps from a recording.

A step is 220 kernels with little arithmetic: launched one by one they take 1 ms, most of it on the
host. A recording has one shape, so all rows stay until the last has finished, and finished ones are
computed in vain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.projected_bfgs.arrays import Array, Arrays
from botorch_risk.engine.projected_bfgs.leaders import Leaders
from botorch_risk.engine.projected_bfgs.minima import Minima
from botorch_risk.engine.projected_bfgs.step import RUNNING, Rows, Rules, advance, begin
from botorch_risk.engine.recorded import Portable, Replays, are_recorded
from botorch_risk.steady import sent

# Steps before the first look at which rows have finished, and between later ones. A look costs as
# much as three launches, while the device waits; a step too many costs the arithmetic of a step.
FIRST_LOOK, BETWEEN_LOOKS = 4, 8

# What the caller gets, and first of all what a look needs.
_ENDS = ("status", "value", "evaluations", "fresh", "x", "metric")
_DTYPES = {"held": torch.bool, "fresh": torch.bool, "group": torch.long}


def is_replayed(on: Arrays, rows: Rows) -> bool:
    r"""Whether steps of these rows are recorded."""
    if on.device is None or rows.within is not None or not len(rows.index):
        return False
    return are_recorded(on.device, rows.metric.size)


@dataclass(frozen=True)
class Layout:
    r"""Rows and leaders as one vector of float64, field by field."""

    count: int  # the number of rows
    p: int  # the number of coordinates
    groups: int | None  # the entries of the leaders; None without leaders

    @property
    def fields(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        r"""The name and the shape of each field; linear constraints have no recording."""
        count, p = self.count, self.p
        others = (each for each in Rows.names() if each not in (*_ENDS, "whole_step"))
        for name in (*_ENDS, *others):
            if name == "metric":
                yield name, (count, p, p)
            elif name in ("lower", "upper", "x", "gradient", "held", "free_gradient", "trial"):
                yield name, (count, p)
            else:
                yield name, (count,)

    def parts(self, rows: Rows, leaders: Leaders | None) -> list[Array]:
        r"""The fields, each as a vector of its own dtype."""
        parts = [getattr(rows, name).reshape(-1) for name, _ in self.fields]
        return parts if leaders is None else [*parts, leaders.value, leaders.x.reshape(-1)]

    def pack(self, rows: Rows, leaders: Leaders | None) -> Tensor:
        return torch.cat([part.double() for part in self.parts(rows, leaders)])

    def unpack(self, on: Arrays, rules: Rules, flat: Tensor) -> tuple[Rows, Leaders | None]:
        shapes = [shape for _, shape in self.fields]
        sizes = [math.prod(shape) for shape in shapes]
        *parts, rest = flat.split([*sizes, len(flat) - sum(sizes)])
        named: dict[str, Any] = {
            name: part.view(shape).to(_DTYPES.get(name, torch.double))
            for (name, shape), part in zip(self.fields, parts, strict=True)
        }
        # A step within linear limits has no recording, so any tensor does for `whole_step`.
        rows = Rows(index=np.arange(self.count), whole_step=named["x"], **named)
        if self.groups is None:
            return rows, None
        value, x = rest.split([self.groups, self.groups * self.p])
        # A copy, as leaders are written in place.
        return rows, Leaders(on, value, x.view(-1, self.p).clone(), rules.hope, rules.kinks)

    def trial(self, flat: Tensor) -> Tensor:
        start = 0
        for name, shape in self.fields:
            if name == "trial":
                return flat.narrow(0, start, math.prod(shape)).view(shape)
            start += math.prod(shape)
        raise AssertionError("a field of its own")

    def ends(self, flat: Tensor) -> Minima:
        r"""The results of the rows, in one download."""
        shapes = [shape for name, shape in self.fields if name in _ENDS]
        stops = np.cumsum([math.prod(shape) for shape in shapes])
        parts = np.split(flat[: stops[-1]].cpu().numpy(), stops[:-1])
        named = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        status, value, evaluations, fresh, x, metric = named
        metric = np.where(fresh[:, None, None] > 0, np.nan, metric)  # nothing was learnt
        return Minima(x, value, status.astype(int), evaluations.astype(int), metric)


Objective = Callable[[Array, ndarray], tuple[Array, Array]]


def descend_by_replays(
    on: Arrays, rules: Rules, objective: Objective, rows: Rows, leaders: Leaders | None
) -> Minima:
    r"""`minimize_rows` with the state on a device."""
    assert on.device is not None  # for the type checker
    count, p = rows.x.shape
    layout = Layout(count, p, None if leaders is None else len(leaders.value))
    steps: _StepsWithin | _StepsAround
    if isinstance(objective, Portable):
        steps = _StepsWithin(on, rules, layout, objective)
    else:
        steps = _StepsAround(on, rules, layout, objective, rows.index)
    first = np.concatenate(layout.parts(rows, leaders), dtype=np.float64, casting="unsafe")
    flat = steps.begin(sent(first, on.device))
    pause = 0
    while True:
        pause = BETWEEN_LOOKS if pause else FIRST_LOOK
        for _ in range(pause):
            flat = steps.advance(flat)
        if (flat[: layout.count].cpu().numpy() != RUNNING).all():  # the status comes first
            return layout.ends(flat)


class _StepsWithin:
    r"""Steps that are recorded together with the objective."""

    def __init__(self, on: Arrays, rules: Rules, layout: Layout, objective: Portable) -> None:
        key = rules, layout, objective.key

        def entered(step: Callable[..., None], flat: Tensor, *given: Tensor) -> Tensor:
            rows, leaders = layout.unpack(on, rules, flat)
            step(on, rules, rows, leaders, *objective.function(rows.trial, *given))
            return layout.pack(rows, leaders)

        self.begin = Replays(("begin", key), partial(entered, begin), *objective.given)
        self.advance = Replays(("advance", key), partial(entered, advance), *objective.given)


class _StepsAround:
    r"""Steps around an objective that is called, and may be a recording of its own."""

    def __init__(
        self, on: Arrays, rules: Rules, layout: Layout, objective: Objective, index: ndarray
    ) -> None:
        self._layout, self._objective, self._index = layout, objective, index
        sizes = layout.count, layout.count * layout.p

        def entered(step: Callable[..., None], both: Tensor) -> Tensor:
            flat, value, gradient = both.split([len(both) - sum(sizes), *sizes])
            rows, leaders = layout.unpack(on, rules, flat)
            step(on, rules, rows, leaders, value, gradient.view(layout.count, layout.p))
            return layout.pack(rows, leaders)

        self._begun = Replays(("begin", rules, layout), partial(entered, begin))
        self._advanced = Replays(("advance", rules, layout), partial(entered, advance))

    def begin(self, flat: Tensor) -> Tensor:
        return self._begun(self._with_values(flat))

    def advance(self, flat: Tensor) -> Tensor:
        return self._advanced(self._with_values(flat))

    def _with_values(self, flat: Tensor) -> Tensor:
        value, gradient = self._objective(self._layout.trial(flat), self._index)
        return torch.cat([flat, value, gradient.reshape(-1)])
