r"""Generation strategies for Ax, built from Ax's own nodes."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.utils.types import DEFAULT

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound, RiskUpperConfidenceBound
from botorch_risk.acquisition.lacing import LacingRule, check_has_lacing_value
from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.arguments import as_floating, check_counts, check_kind, check_positive, in_short
from botorch_risk.ax.acquisition import ChosenContextAcquisition, PerturbedInputsAcquisition
from botorch_risk.ax.contextual import ContextualRiskModel
from botorch_risk.ax.nodes import after_sobol, constraints_of, generator_spec, standardized
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.botorch_parts import check_risk_measure
from botorch_risk.risk import Expectation, RiskMeasure, ValueAtRisk
from botorch_risk.strategies.decision_then_value import ValueRule, value_of_rule


def risk_averse(
    metric: str,
    *,
    risk_aversion: float = 1.0,
    num_initial: int = 5,
    seed: int = 0,
    acquisition: type[AcquisitionFunction] = RiskAverseUpperConfidenceBound,
    acquisition_options: dict[str, Any] | None = None,
    model_options: dict[str, Any] | None = None,
) -> GenerationStrategy:
    r"""RAHBO in Ax: mean less risk aversion times the noise variance.

    Algorithm 1 of [Makarova2021rahbo]_.

    Trials of a Sobol sequence come first, then those that maximise a bound of
    `mean - risk_aversion * noise variance` (for a minimised metric, those that minimise a bound of
    `mean + ...`). The noise is learnt from trials of several readings; see `readings`. Other
    metrics of the optimisation, such as those in outcome constraints, get Ax's own model.

    Args:
        metric: The objective, which is read several times.
        risk_aversion: Weight of the noise variance, >= 0.
        num_initial: The number of trials of the Sobol sequence.
        seed: Seed of the Sobol sequence and of every other draw.
        acquisition: The acquisition function, which takes `risk_aversion`.
        acquisition_options: Further arguments of the acquisition function.
        model_options: Further arguments of `MeanVarianceGP`.

    Example:
        >>> risk_averse("purity", risk_aversion=2.0).name
        'risk_averse'
    """
    _check_metric(metric)
    as_nonnegative("risk_aversion", risk_aversion)
    model = standardized(
        "MeanVarianceGP",
        botorch_model_class=MeanVarianceGP,
        model_options=model_options or {},
        input_transform_classes=DEFAULT,
    )
    options = {"risk_aversion": risk_aversion, **(acquisition_options or {})}
    spec = generator_spec({metric: [model]}, acquisition, options, seed)
    return after_sobol(
        "risk_averse",
        spec,
        num_initial,
        seed,
        metrics=[metric],
        one_objective=True,
        one_metric=True,
        constraints=constraints_of(acquisition),
    )


def under_uncertain_context(
    metric: str,
    contexts: Mapping[str, tuple[float, float]],
    *,
    risk_measure: RiskMeasure | None = None,
    constraint_risk_measure: RiskMeasure | None = None,
    num_initial: int = 5,
    seed: int = 0,
    acquisition: type[AcquisitionFunction] = RiskUpperConfidenceBound,
    acquisition_options: dict[str, Any] | None = None,
    model_options: dict[str, Any] | None = None,
) -> GenerationStrategy:
    r"""SBO-KDE in Ax, for any risk: contexts are observed and cannot be chosen.

    Algorithm 1 of [Huang2024kde]_.

    Each trial is completed with the context that it met, as a tracking metric. The outcome is a
    function of the parameters and of the context, whose distribution is learnt as a kernel density;
    trials after a Sobol sequence maximise a bound of the risk over it. A minimised
    metric is negated first. Outcome constraints hold under a risk as well, and their
    metrics have a model of the same kind. Other arguments are as in `risk_averse`.

    Ax's own predictions, such as `Client.predict`, are risks of each metric itself: for a minimised
    one they describe the favourable tail. `best_arm` uses the unfavourable tail.

    Args:
        metric: The objective.
        contexts: The bounds of each context, by the name of its tracking metric.
        risk_measure: Larger is better; by default `Expectation()`, as in SBO-KDE.
        constraint_risk_measure: The measure of outcome constraints, such as `ValueAtRisk(0.1)` if
            they have to hold with probability 0.9; by default the objective's.
        acquisition: The acquisition function; one of BoTorch's sees a model of the risk.
        acquisition_options: Arguments of the acquisition function; by default `beta=4.0`.
        model_options: Further arguments of `ContextualRiskModel`.

    Example:
        >>> under_uncertain_context("purity", {"humidity": (0.0, 1.0)}).name
        'under_uncertain_context'
    """
    _check_metric(metric)
    bounds = _bounds_of(contexts)
    measure = Expectation() if risk_measure is None else risk_measure
    check_risk_measure(measure)
    of_constraints = _constraint_option(constraint_risk_measure)
    model = standardized(
        "ContextualRiskModel",
        botorch_model_class=ContextualRiskModel,
        model_options={
            "context_bounds": bounds,
            "risk_measure": measure,
            "seed": seed,
            **(model_options or {}),
        },
        input_transform_classes=DEFAULT,
    )
    width = {"beta": 4.0} if issubclass(acquisition, RiskUpperConfidenceBound) else {}
    options = {**width, **(acquisition_options or {})}
    spec = generator_spec(
        {metric: [model]},
        acquisition,
        options,
        seed,
        default=model,
        contexts=list(contexts),
        acquisition_options=of_constraints,
    )
    return after_sobol(
        "under_uncertain_context",
        spec,
        num_initial,
        seed,
        metrics=[metric],
        contexts=list(contexts),
        one_objective=True,
        constraints="absolute" if issubclass(acquisition, RiskUpperConfidenceBound) else "none",
    )


def value_at_risk(
    contexts: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    risk_level: float = 0.1,
    risk_measure: RiskMeasure | None = None,
    constraint_risk_measure: RiskMeasure | None = None,
    rule: LacingRule = "probability",
    value_rule: ValueRule = "lacing",
    num_initial: int = 5,
    seed: int = 0,
    acquisition_options: dict[str, Any] | None = None,
) -> GenerationStrategy:
    r"""V-UCB in Ax: contexts are parameters that a simulator can set.

    Algorithm 1 of [Nguyen2021vucb]_.

    The last parameters of the search space are contexts with known, independent distributions. A
    trial is the decision with the largest bound of the risk, and a context to try it with: one that
    decides the risk (a lacing value, the paper's rule), or, with another `value_rule`, the one
    whose reading most reduces the variance of the risk. A minimised objective is negated
    first. Other arguments are as in `risk_averse`.

    Args:
        contexts: The values of each context and their probabilities, by the name of its parameter.
        risk_level: The share of the worst outcomes that value-at-risk leaves aside.
        risk_measure: Another risk, instead of value-at-risk. `select_lacing_value` finds lacing
            values for coherent measures; the other rules take any measure.
        constraint_risk_measure: The measure of outcome constraints; by default the objective's.
        rule: The rule that chooses a lacing value, as in `select_lacing_value`.
        value_rule: The rule that chooses the context, as in `strategies.risk_search`: `"lacing"`,
            `"risk_variance"` (`select_value`) or `"outcome_variance"`, the least certain outcome.
        num_initial: The number of trials of the Sobol sequence, over decisions and contexts.
        acquisition_options: Further arguments of `RiskUpperConfidenceBound`; `beta` is 4.

    Raises:
        UnsupportedError: If the measure has no lacing values, and `value_rule` is `"lacing"`.

    Example:
        >>> value_at_risk({"wind": ([0.0, 0.5, 1.0], [0.2, 0.6, 0.2])}).name
        'value_at_risk'
    """
    measure = ValueAtRisk(risk_level) if risk_measure is None else risk_measure
    check_risk_measure(measure)
    _check_values_and_probabilities(contexts)
    check_kind(LacingRule, rule=rule)
    value_of_rule(value_rule)
    if value_rule == "lacing":
        check_has_lacing_value(measure)
    values, shares = zip(*contexts.values(), strict=True)
    points = [list(map(float, point)) for point in itertools.product(*values)]
    weights = [math.prod(share) for share in itertools.product(*shares)]
    DiscreteEnvironment(torch.tensor(points).double(), torch.tensor(weights).double())
    spec = generator_spec(
        {},
        RiskUpperConfidenceBound,
        {"risk_measure": measure, "beta": 4.0, **(acquisition_options or {})},
        seed,
        acquisition_class=ChosenContextAcquisition,
        acquisition_options={
            "contexts": list(contexts),
            "points": points,
            "weights": weights,
            "rule": rule,
            "value_rule": value_rule,
            "seed": seed,
            **_constraint_option(constraint_risk_measure),
        },
    )
    return after_sobol(
        "value_at_risk",
        spec,
        num_initial,
        seed,
        chosen=dict(zip(contexts, values, strict=True)),
        one_objective=True,
    )


def under_perturbed_inputs(
    deviations: Mapping[str, float],
    *,
    risk_measure: RiskMeasure | None = None,
    constraint_risk_measure: RiskMeasure | None = None,
    n_w: int = 64,
    num_initial: int = 5,
    seed: int = 0,
    acquisition_options: dict[str, Any] | None = None,
) -> GenerationStrategy:
    r"""Find decisions that stay good when they are carried out inexactly.

    Trials are evaluated exactly as suggested; later, the named parameters of the chosen arm have a
    normal error. Trials after a Sobol sequence maximise a bound of the risk over that error, and
    outcome constraints hold under a risk over it. Values outside the search space are moved to its
    edge. A minimised objective is negated first. Other arguments are as in
    `risk_averse`.

    Args:
        deviations: The standard deviation of the error of each parameter, by its name; for a
            log-scaled one in powers of ten.
        risk_measure: Larger is better; by default `Expectation()`.
        constraint_risk_measure: The measure of outcome constraints; by default the objective's.
        n_w: The number of perturbations that represent the distribution.
        acquisition_options: Further arguments of `RiskUpperConfidenceBound`; `beta` is 4.

    Example:
        >>> under_perturbed_inputs({"heat": 0.05}).name
        'under_perturbed_inputs'
    """
    if not isinstance(deviations, Mapping) or not deviations:
        raise ValueError(f"Expected positive deviations by name. Got {in_short(deviations)}.")
    check_positive(**{f"deviations[{name!r}]": each for name, each in deviations.items()})
    check_counts(n_w=n_w)
    measure = Expectation() if risk_measure is None else risk_measure
    check_risk_measure(measure)
    spec = generator_spec(
        {},
        RiskUpperConfidenceBound,
        {"risk_measure": measure, "beta": 4.0, **(acquisition_options or {})},
        seed,
        acquisition_class=PerturbedInputsAcquisition,
        acquisition_options={
            "deviations": dict(deviations),
            "n_w": n_w,
            "seed": seed,
            **_constraint_option(constraint_risk_measure),
        },
    )
    return after_sobol(
        "under_perturbed_inputs",
        spec,
        num_initial,
        seed,
        perturbed=list(deviations),
        one_objective=True,
    )


def _check_metric(metric: str) -> None:
    if not isinstance(metric, str):
        raise TypeError(f"Expected `metric` to be the name of one metric. Got {in_short(metric)}.")


def _bounds_of(contexts: Mapping[str, tuple[float, float]]) -> list[list[float]]:
    r"""The bounds of contexts; raises ValueError unless they are finite and in order."""
    pairs = list(contexts.values()) if isinstance(contexts, Mapping) else []
    if not pairs or not all(_are_numbers(pair) and len(pair) == 2 for pair in pairs):
        raise ValueError(f"Expected the bounds of each context, by name. Got {in_short(contexts)}.")
    bounds = [[float(bound) for bound in pair] for pair in pairs]
    for name, (lower, upper) in zip(contexts, bounds, strict=True):
        if not -math.inf < lower < upper < math.inf:
            raise ValueError(
                f"Expected finite bounds of the context {name!r}, the lower one below the upper "
                f"one. Got ({lower}, {upper})."
            )
    return bounds


def _check_values_and_probabilities(contexts: Mapping[str, Any]) -> None:
    pairs = list(contexts.values()) if isinstance(contexts, Mapping) else []
    are_pairs = all(isinstance(pair, Sequence) and len(pair) == 2 for pair in pairs)
    if not (pairs and are_pairs and all(_are_numbers(part) for pair in pairs for part in pair)):
        raise ValueError(
            "Expected the values of each context and their probabilities, by name, as in "
            f"{{'wind': ([0.0, 5.0], [0.4, 0.6])}}. Got {in_short(contexts)}."
        )
    if any(len(values) != len(shares) for values, shares in pairs):
        raise ValueError(
            f"Expected contexts with as many probabilities as values. Got {dict(contexts)}."
        )


def _are_numbers(values: Any) -> bool:
    r"""Whether it is a sequence of numbers, or a vector."""
    try:
        return not isinstance(values, str) and as_floating(values).dim() == 1
    except (TypeError, ValueError):
        return False


def _constraint_option(measure: RiskMeasure | None) -> dict[str, RiskMeasure]:
    r"""The option of `RiskAcquisition` that holds the risk measure of constraints."""
    if measure is None:
        return {}
    check_risk_measure(measure)
    return {"constraint_risk_measure": measure}
