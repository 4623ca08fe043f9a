r"""Convert BoTorch's environments and risk measures.

A pair is accepted if it has an exact counterpart: perturbations or values of W with equal weights,
and a measure of the same number of values. For everything else an error names the replacement.
"""

import warnings
from collections.abc import Callable
from typing import Any

from botorch.acquisition import risk_measures as of_one
from botorch.acquisition.multi_objective import multi_output_risk_measures as of_several
from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
from botorch.acquisition.objective import IdentityMCObjective
from botorch.exceptions.warnings import UserInputWarning
from botorch.models.transforms import input as transforms
from torch import Tensor

from botorch_risk.arguments import in_short
from botorch_risk.environments import DiscreteEnvironment, Environment, InputPerturbation
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    RiskMeasure,
    ValueAtRisk,
    WorstCase,
)


def parts_of(environment: Any, risk_measure: Any) -> tuple[Environment, RiskMeasure]:
    r"""Convert BoTorch's environment and risk measure to our equivalents.

    Our own parts are returned unchanged.

    Raises:
        ValueError: If a part of BoTorch has no exact counterpart.
    """
    environment = as_environment(environment)
    if not isinstance(risk_measure, of_one.RiskMeasureMCObjective):
        check_risk_measure(risk_measure)
        return environment, risk_measure
    measure = counterpart(risk_measure)
    weights: Any = environment._buffers.get("weights")
    n_w = risk_measure.n_w
    # 1e-6: equal up to the rounding of single precision. BoTorch's measures know no weights.
    if weights is None or weights.shape[-1] != n_w or bool((weights - 1 / n_w).abs().max() > 1e-6):
        raise ValueError(
            f"Expected an environment of {n_w} values with equal weights for BoTorch's "
            f"`{_name(risk_measure)}`. Got {type(environment).__name__} with "
            f"{'no weights' if weights is None else f'weights {in_short(weights)}'}; use "
            f"`{measure!r}` of `botorch_risk.risk`, which accepts any environment."
        )
    return environment, measure


def as_environment(environment: Any) -> Environment:
    r"""Convert an input transform of BoTorch to the equivalent environment."""
    if isinstance(environment, Environment):
        return environment
    if type(environment) is transforms.InputPerturbation:
        shifts: Any = environment.perturbation_set
        of_all_columns = isinstance(shifts, Tensor) and environment.indices is None
        if of_all_columns and not environment.multiplicative:
            return InputPerturbation(shifts, bounds=environment.bounds)
    elif type(environment) is transforms.AppendFeatures:
        parts: Any = environment
        if parts._f is None and not parts.skip_expand:
            return DiscreteEnvironment(parts.feature_set)
    elif not isinstance(environment, transforms.InputTransform):
        raise TypeError(
            "Expected an `Environment` of `botorch_risk.environments`. "
            f"Got {in_short(environment)}."
        )
    raise ValueError(
        "Expected BoTorch's `InputPerturbation`, additive with a tensor for all columns, or "
        f"`AppendFeatures` with a tensor. Got {_name(environment)}; to expand decisions in another "
        "way, subclass `botorch_risk.environments.Environment` with your own `expand`."
    )


def counterpart(measure: of_one.RiskMeasureMCObjective) -> RiskMeasure:
    r"""Our measure that equals BoTorch's for `n_w` values with equal weights."""
    make = _COUNTERPARTS.get(type(measure))
    if make is None:
        raise ValueError(
            "Expected a measure of one outcome at a time: `Expectation`, `ValueAtRisk`, "
            "`ConditionalValueAtRisk` or `WorstCase` of `botorch_risk.risk`. Got BoTorch's "
            f"`{_name(measure)}`."
        )
    before = measure.preprocessing_function
    if type(before) not in (IdentityMCObjective, IdentityMCMultiOutputObjective):
        raise ValueError(
            f"Expected BoTorch's `{_name(measure)}` without a `preprocessing_function`, which "
            f"would mix outcomes before the risks are taken. Got {before!r}; use "
            f"`{make(measure)!r}` of `botorch_risk.risk`, and objectives of the risks."
        )
    with warnings.catch_warnings():  # of levels that may be BoTorch's alpha
        warnings.simplefilter("ignore", UserInputWarning)
        return make(measure)


def check_risk_measure(risk_measure: Any) -> None:
    r"""Raise TypeError unless this is our `RiskMeasure`, and name BoTorch's counterpart."""
    if isinstance(risk_measure, RiskMeasure):
        return
    instead = ""
    if isinstance(risk_measure, of_one.RiskMeasureMCObjective):
        instead = f" Use `{counterpart(risk_measure)!r}`."
    raise TypeError(
        f"Expected a `RiskMeasure` of `botorch_risk.risk`. Got {in_short(risk_measure)}.{instead}"
    )


def _lowest(measure: Any) -> int:
    r"""The number of lowest values that BoTorch averages, or the index that it picks."""
    return int(measure.n_w - measure.alpha_idx)


def _value_at_risk(measure: Any) -> RiskMeasure:
    # Half an atom below the end of its own, so that rounding cannot reach a neighbour.
    return ValueAtRisk((_lowest(measure) - 0.5) / measure.n_w)


def _conditional_value_at_risk(measure: Any) -> RiskMeasure:
    tail = _lowest(measure)
    return Expectation() if tail == measure.n_w else ConditionalValueAtRisk(tail / measure.n_w)


_COUNTERPARTS: dict[type, Callable[[Any], RiskMeasure]] = {
    of_one.VaR: _value_at_risk,
    of_one.CVaR: _conditional_value_at_risk,
    of_one.WorstCase: lambda _: WorstCase(),
    of_one.Expectation: lambda _: Expectation(),
    of_several.IndependentVaR: _value_at_risk,
    of_several.IndependentCVaR: _conditional_value_at_risk,
    of_several.MultiOutputWorstCase: lambda _: WorstCase(),
    of_several.MultiOutputExpectation: lambda _: Expectation(),
}


def _name(part: Any) -> str:
    return type(part).__name__
