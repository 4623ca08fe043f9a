r"""The columns of an experiment in DataFrames: settings, contexts and outcomes with their signs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.outcome_constraint import OutcomeConstraint
from botorch_risk.arguments import in_short
from botorch_risk.environments import DiscreteEnvironment, LabelFrequencies, ObservedContexts
from botorch_risk.frames.named_columns import NamedColumn, check_names, numbers_of
from botorch_risk.papers.truvar.goals import LevelSetGoal
from botorch_risk.risk import ShareAbove
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.limits import LimitedColumns, LinearLimit
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy

Direction = Literal["maximize", "minimize"]
# Names of parts of options that are in the unit of an outcome.
_THRESHOLDS = ("threshold", "thresholds", "reference_point", "ref_point", "best_f")
# What predictions, recommendations and classes add to the name of an outcome.
_ENDS = ("", "_lower", "_upper")
_SUFFIXES = (
    *("_mean", "_lower", "_upper", "_class", "_probability"),
    *(f"_{estimate}{end}" for estimate in ("noise", "risk") for end in _ENDS),
)


@dataclass(frozen=True)
class FrameLayout:
    r"""Named columns and their places in a strategy's points and outcomes.

    Args:
        parameters: The columns that are set.
        contexts: The columns that are observed with the outcome but not set.
        signs: -1 for an outcome that is minimised, since strategies maximise; otherwise 1.
        domain: The list of settings, `|D| x d`; None for a box.
        limits: Linear constraints on the parameters, by their names.
    """

    parameters: tuple[NamedColumn, ...]
    contexts: tuple[NamedColumn, ...]
    signs: Mapping[str, float]
    domain: Tensor | None = field(default=None, compare=False)
    limits: tuple[LinearLimit, ...] = ()

    @classmethod
    def of(
        cls,
        parameters: Any,
        outcomes: Mapping[str, Direction | None],
        contexts: Mapping[str, Any],
        units: Mapping[str, str],
        limits: Sequence[LinearLimit] = (),
    ) -> FrameLayout:
        r"""The layout that a user describes; see `FrameExperiment`."""
        if hasattr(parameters, "columns") and hasattr(parameters, "index"):
            named, domain = _listed_settings(parameters, units)
        else:
            named, domain = _columns("parameters", parameters, units), None
        layout = cls(
            named,
            _columns("contexts", contexts, units),
            {name: _sign(name, direction) for name, direction in outcomes.items()},
            domain,
            tuple(limits),
        )
        layout._check(units)
        layout._limited  # noqa: B018 raises if no setting is feasible
        return layout

    def _check(self, units: Mapping[str, str]) -> None:
        names = self.names
        made = {f"{outcome}{suffix}" for outcome in self.signs for suffix in _SUFFIXES}
        if not self.parameters or not self.signs:
            raise ValueError(f"Expected at least one parameter and one outcome. Got {names}.")
        if twice := [name for name in names if names.count(name) > 1 or name in made]:
            raise ValueError(
                f"Expected each name once, and no name of a predicted column. Got {twice[0]!r}."
            )
        if logarithms := [each.name for each in self.contexts if each.is_log]:
            raise ValueError(
                "Expected (low, high) or labels for a context. Got "
                f"{logarithms[0]!r} on a logarithmic scale: add a column of logarithms instead."
            )
        if unknown := [name for name in units if name not in names]:
            raise ValueError(f"Expected units of the columns {names}. Got {unknown[0]!r}.")

    @property
    def columns(self) -> tuple[NamedColumn, ...]:
        r"""The columns of a point: the parameters, then the contexts."""
        return (*self.parameters, *self.contexts)

    @property
    def names(self) -> list[str]:
        return [*(each.name for each in self.columns), *self.signs]

    @cached_property
    def space(self) -> Box | Tensor:
        r"""The strategy's space: a box, or the domain `|D| x d`."""
        if self.domain is not None:
            return self.domain
        bounds = torch.tensor([each.bounds for each in self.parameters], dtype=torch.double)
        numbered = enumerate(self.parameters)
        integers = [i for i, each in numbered if each.step is not None]
        return Box(bounds.mT, integers, self._categories, self._coded_limits or None)

    @cached_property
    def _limited(self) -> LimitedColumns | None:
        r"""The parameters with their limits, in the user's units; None without limits."""
        if not self.limits:
            return None
        if self.domain is not None:
            raise UnsupportedError(
                "Expected no `limits` with a list of settings: list only settings within the "
                f"limits. Got `{self.limits[0]}`."
            )
        names, labelled = [each.name for each in self.parameters], self._categories
        logarithms = {each.name for each in self.parameters if each.is_log}
        for limit in self.limits:
            if found := logarithms & set(limit.coefficients):
                raise UnsupportedError(
                    "Expected `limits` on numbers without a logarithmic scale. Got "
                    f"{found.pop()!r} on a logarithmic scale in `{limit}`."
                )
        return LimitedColumns(
            names,
            [each.lower for each in self.parameters],
            [each.upper for each in self.parameters],
            [1.0 if each.labels else each.step for each in self.parameters],
            [names[i] for i in labelled],
            self.limits,
        )

    @property
    def _coded_limits(self) -> list[LinearLimit]:
        r"""The limits of the strategy's numbers, in which steps are counted."""
        numbers = {each.name: column for column, each in enumerate(self.parameters)}
        origin, unit = np.array([each.scale for each in self.parameters]).T
        return [limit.rescaled(numbers, origin, unit) for limit in self.limits]

    def within_limits(self, frame: Any, X: Tensor) -> Tensor:
        r"""Told points, moved by as little as rounding so that they satisfy `limits`.

        Args:
            X: Points, `n x d`, in the strategy's numbers; NaN where something is missing.
        """
        if self._limited is None or not isinstance(self.space, Box):
            return X
        origin, unit = torch.tensor([each.scale for each in self.parameters]).to(X).mT
        decisions, contexts = X.tensor_split([len(self.parameters)], dim=-1)
        settings = origin + unit * decisions
        self._limited.check(settings, lambda row: f"row {frame.index[row]!r}")
        return torch.cat([self.space.inside(decisions)[0], contexts], dim=-1)

    @property
    def _categories(self) -> tuple[int, ...]:
        return tuple(i for i, each in enumerate(self.parameters) if each.labels)

    def strategy(
        self, make: Callable[..., Strategy], seed: int, options: Mapping[str, Any]
    ) -> Strategy:
        r"""The strategy, with its contexts and with the options in its own signs."""
        while isinstance(make, functools.partial) and not make.args:
            given: functools.partial[Strategy] = make
            make, options = given.func, {**given.keywords, **options}
        options = {name: self._signed(name, value) for name, value in options.items()}
        made = make(self.space, seed, **self._with_contexts(make, options))
        space: Any = made.space
        if made.method.num_outcomes != len(self.signs):
            raise ValueError(
                f"Expected {made.method.num_outcomes} outcomes. Got {list(self.signs)}."
            )
        if space.num_columns != len(self.columns):
            raise UnsupportedError(
                f"Expected a strategy whose points have the columns "
                f"{[each.name for each in self.columns]}. Its points have {space.num_columns} "
                "columns."
            )
        box = getattr(space, "box", space)  # a space of the user's own may have neither
        if self._categories != tuple(getattr(box, "categories", ())):
            raise UnsupportedError(
                f"Expected a strategy that takes categories, for "
                f"{[self.parameters[i].name for i in self._categories]}. Got others: a finite "
                "domain has numbers alone."
            )
        if isinstance(space, EnvironmentSpace):
            self._check_environment(space.environment)
        return made

    def _check_environment(self, environment: Any) -> None:
        r"""Raise a `ValueError` unless each listed value of W has a named context."""
        if isinstance(environment, ObservedContexts) and environment.codes != self._codes:
            named = {each.name: list(each.labels) for each in self.contexts if each.labels}
            raise ValueError(
                f"Expected `environment` to learn the frequencies of the labels {named}, by "
                f"`LabelFrequencies({list(self._codes)})` with codes from 0. "
                f"Got {environment.codes or environment.learn}."
            )
        if not isinstance(environment, DiscreteEnvironment):
            return
        for each, column in zip(self.contexts, environment.points.unbind(dim=-1), strict=False):
            codes = column.unique().tolist()
            lower, upper = each.bounds
            labels = [float(code) for code in range(len(each.labels))]
            fits = codes == labels if labels else lower <= codes[0] <= codes[-1] <= upper
            if not fits:
                said = f"the codes {labels}, in this order, for {each}" if labels else str(each)
                counted = (
                    "" if each.bounds == (each.lower, each.upper) else ", steps counted from 0"
                )
                raise ValueError(f"Expected `environment` to have {said}{counted}. Got {codes}.")

    def _signed(self, name: str, value: Any) -> Any:
        r"""An option with its thresholds converted from the user's signs to the strategy's.

        Raises:
            UnsupportedError: If it has a threshold that cannot be converted.
        """
        signs = list(self.signs.values())
        minimized = [outcome for outcome, sign in self.signs.items() if sign < 0]
        if not minimized:
            return value
        if name == "reference_point":
            return [sign * each for sign, each in zip(signs, value, strict=False)]
        if isinstance(value, list | tuple):
            return type(value)(self._signed("", each) for each in value)
        if "reference_point" in getattr(value, "__dataclass_fields__", ()):
            point = self._signed("reference_point", value.reference_point)
            return replace(value, reference_point=(*point, *value.reference_point[len(signs) :]))
        parts, is_limit = {name: value}, isinstance(value, OutcomeConstraint)
        if is_limit:
            if signs[value.outcome : value.outcome + 1] != [-1.0]:
                return value
            parts = {**vars(value), "threshold": None}
        if (found := _threshold_in(parts)) is not None:
            raise UnsupportedError(
                f"Expected an outcome that is not minimised for {found}, which has the sign of "
                f"the strategy. Got {minimized[0]!r}: tell the negative outcome."
            )
        if is_limit:
            return value.of_negative()
        return value

    def _with_contexts(
        self, make: Callable[..., Strategy], options: dict[str, Any]
    ) -> dict[str, Any]:
        r"""The options, with bounds and labels for contexts whose distribution is learnt."""
        if not self.contexts or options.keys() & {"environment", "context_bounds"}:
            return options
        for each in self.contexts:
            if each.step is not None:
                raise UnsupportedError(
                    "Expected (low, high) or labels for a context whose distribution is learnt, or "
                    f"an `environment`. Got {each.name!r}, which has steps."
                )
        bounds = torch.tensor([each.bounds for each in self.contexts], dtype=torch.double).mT
        labels, arguments = list(self._codes), inspect.signature(make).parameters
        if "context_bounds" in arguments and (not labels or "context_categories" in arguments):
            named = {"context_categories": labels} if labels else {}
            return {**options, "context_bounds": bounds, **named}
        if "environment" in arguments:
            learnt = ObservedContexts(bounds)
            if labels:
                learnt = ObservedContexts(bounds, LabelFrequencies(labels))
            return {**options, "environment": learnt}
        said = "`context_categories`" if "context_bounds" in arguments else "`context_bounds`"
        raise UnsupportedError(
            f"Expected a strategy with the argument {said} or `environment`, such as "
            f"`risk_kde`, for the contexts {[each.name for each in self.contexts]}. Got {make}."
        )

    @property
    def _codes(self) -> dict[int, list[float]]:
        r"""The codes of each context that has labels."""
        numbered = enumerate(self.contexts)
        return {i: [*map(float, range(len(c.labels)))] for i, c in numbered if c.labels}

    def check_contexts(self, frame: Any, X: Tensor, space: Any) -> None:
        r"""Raise an `InputDataError` unless the known distribution can yield every context."""
        if not isinstance(space, EnvironmentSpace) or space.is_learnt:
            return
        decisions, contexts = X.split([len(self.parameters), len(self.contexts)], dim=-1)
        outside = contexts.isfinite().all(dim=-1) & ~space.environment.contains(decisions, contexts)
        for row in outside.nonzero().flatten().tolist():
            codes = zip(self.contexts, contexts[row].tolist(), strict=True)
            found = {each.name: each.value(code) for each, code in codes}
            raise InputDataError(
                f"Expected contexts in the support of `environment`. Got {found} in row "
                f"{frame.index[row]!r}."
            )

    def points(self, frame: Any, columns: Sequence[NamedColumn]) -> Tensor:
        r"""The points of the rows of a DataFrame, `n x d`, NaN where something is missing."""
        codes = [each.codes(frame) for each in columns]
        return torch.tensor(codes, dtype=torch.double).mT

    def outcomes(self, frame: Any) -> Tensor:
        r"""The readings of the rows of a DataFrame, `n` or `n x m`, where larger is better."""
        read = [numbers_of(frame, name) for name in self.signs]
        signs = torch.tensor(list(self.signs.values()), dtype=torch.double)
        y = torch.tensor(read, dtype=torch.double).mT * signs
        return y.squeeze(-1) if len(signs) == 1 else y

    def values(self, X: Tensor) -> dict[str, list[Any]]:
        r"""The named values of points `n x d`, which may have only the first columns."""
        named = zip(self.columns, X.mT.tolist(), strict=False)
        return {each.name: [each.value(code) for code in codes] for each, codes in named}


def _columns(
    kind: str, described: Mapping[str, Any], units: Mapping[str, str]
) -> tuple[NamedColumn, ...]:
    if not isinstance(described, Mapping) or not all(isinstance(name, str) for name in described):
        raise ValueError(f"Expected `{kind}` to be named by strings. Got {in_short(described)}.")
    return tuple(
        NamedColumn.of(name, values, units.get(name, "")) for name, values in described.items()
    )


def _listed_settings(
    frame: Any, units: Mapping[str, str]
) -> tuple[tuple[NamedColumn, ...], Tensor]:
    r"""The range of each column of a list of settings, and the list `|D| x d`."""
    names = list(frame.columns)
    check_names(frame, names)
    domain = torch.tensor([numbers_of(frame, name) for name in names], dtype=torch.double).mT
    if domain.isnan().any() or not domain.numel():
        raise ValueError("Expected complete settings. Got a missing value, or no row.")
    ends = zip(names, domain.amin(dim=0).tolist(), domain.amax(dim=0).tolist(), strict=True)
    named = tuple(
        NamedColumn(name, lower, upper, unit=units.get(name, "")) for name, lower, upper in ends
    )
    return named, domain


def _threshold_in(value: Any) -> str | None:
    r"""The first threshold inside an option, in words."""
    if isinstance(value, LevelSetGoal | ShareAbove):
        return repr(value)
    if value is None or (isinstance(value, OutcomeConstraint) and value.of_negative() is value):
        return None  # the deviation of the noise has no sign
    if isinstance(value, functools.partial):
        parts: Mapping[Any, Any] = {**value.keywords, "": value.args}
    elif is_dataclass(value) and not isinstance(value, type):
        parts = vars(value)
    elif isinstance(value, Mapping):
        parts = value
    else:
        parts = dict(enumerate(value)) if isinstance(value, list | tuple) else {}
    for name, part in parts.items():
        if name in _THRESHOLDS and part is not None:
            return f"{name}={part!r}"
        if (found := _threshold_in(part)) is not None:
            return found
    return None


def _sign(name: str, direction: str | None) -> float:
    if not isinstance(name, str) or direction not in (*get_args(Direction), None):
        raise ValueError(
            f"Expected outcomes by name, each 'maximize', 'minimize' or None. "
            f"Got {name!r}: {direction!r}."
        )
    return -1.0 if direction == "minimize" else 1.0
