r"""Every acquisition function, one line each; `test_contract.py` tests what they share."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from botorch_risk_testing.acquisition import AcquisitionCase
from scipy.stats import norm
from torch import Tensor
from torch.nn import Module

from botorch_risk.acquisition import (
    JointRiskUpperConfidenceBound,
    LogRiskKnowledgeGradient,
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
    RiskUpperConfidenceBound,
    qRiskAverseUpperConfidenceBound,
)
from botorch_risk.acquisition.mean_variance import NoisePosteriorStandardDeviation
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.constraints.noise_quantile import NoiseDeviationBound, NoiseQuantileBound
from botorch_risk.engine import DomainPosterior
from botorch_risk.environments import DiscreteEnvironment, Environment, InputPerturbation
from botorch_risk.level_sets import Straddle
from botorch_risk.papers import Maximize, TruncatedVarianceReduction, TruncatedVarianceState
from botorch_risk.repeats import LogRiskAverseKnowledgeGradient
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, RiskMeasure
from tests import oracles
from tests.acquisition.worth_of_readings import knowledge_gradient_rate
from tests.contracts import (
    RepeatedData,
    mean_variance_gp,
    of_decision,
    of_decision_and_context,
    repeated_data,
)
from tests.devices import home
from tests.level_sets.cases import LEVEL_SETS


def arguments_at_home(case: AcquisitionCase) -> dict[str, Any]:
    r"""The arguments of the input constructor, on the device of the test."""
    return {name: _at_home(each) for name, each in case.arguments.items()}


def _at_home(value: Any) -> Any:
    if isinstance(value, TruncatedVarianceState):
        parts = {each.name: getattr(value, each.name) for each in fields(value)}
        return replace(value, **{name: _at_home(part) for name, part in parts.items()})
    if isinstance(value, list):
        return [_at_home(each) for each in value]
    return deepcopy(value).to(home()) if isinstance(value, Tensor | Module) else value


def acquisition(name: str, build: Any, oracle: Any, **options: Any) -> AcquisitionCase:
    r"""Of the model that learns the noise, unless another is given."""
    given = {"model": mean_variance_gp, **options}
    return AcquisitionCase(name=name, build=build, oracle=oracle, **given)


_WEIGHTS = {"beta": 3.0, "noise_beta": 2.0, "risk_aversion": 0.7}


def _bound(optimistic: bool) -> Callable[[Any, np.ndarray, np.ndarray], np.ndarray]:
    return lambda model, repeats, X: oracles.risk_averse_bound(
        model, repeats, X, optimistic=optimistic, **_WEIGHTS
    )


_CONTEXTS = torch.tensor([[0.1], [0.35], [0.5], [0.9]], dtype=torch.float64)
_SHIFTS = 0.1 * torch.tensor([[-1.0, 0.5], [0.0, 0.0], [0.7, 1.0]], dtype=torch.float64)


def risk_bound(
    name: str,
    model: Callable[[RepeatedData], Any],
    environment: Environment,
    risk_measure: RiskMeasure,
    risk: Callable[[np.ndarray, np.ndarray], float],
) -> AcquisitionCase:
    r"""`RiskUpperConfidenceBound` of a measure whose independent value is `risk`."""
    arguments = {"environment": environment, "risk_measure": risk_measure, "beta": 2.25}

    def build(model: Any, **options: Any) -> RiskUpperConfidenceBound:
        return RiskUpperConfidenceBound(model, **arguments, **options)

    def oracle(model: Any, repeats: np.ndarray, X: np.ndarray) -> np.ndarray:
        inputs, weights = environment.expand(torch.from_numpy(X).double())
        p = oracles.to_numpy(weights.expand(inputs.shape[:-1])[0])
        each = map(oracles.to_numpy, inputs)
        return np.array([risk(oracles.upper_bound(model, repeats, x, 2.25), p) for x in each])

    return acquisition(name, build, oracle, model=model, arguments=arguments)


def joint_bound(name: str, model: Callable[..., Any], environment: Environment) -> AcquisitionCase:
    r"""Of the expectation, whose moments follow from BoTorch's joint posterior."""
    arguments = {"environment": environment, "risk_measure": Expectation(), "beta": 2.25}

    def build(model: Any, **options: Any) -> JointRiskUpperConfidenceBound:
        return JointRiskUpperConfidenceBound(model, **arguments, **options)

    def oracle(model: Any, repeats: np.ndarray, X: np.ndarray) -> np.ndarray:
        inputs, weights = environment.expand(torch.from_numpy(X).to(model.train_targets))
        with torch.no_grad():
            posterior = model.posterior(inputs)
        mean = oracles.to_numpy(posterior.mean.squeeze(-1))
        covariance = oracles.to_numpy(posterior.distribution.covariance_matrix)
        p = oracles.to_numpy(weights.expand(inputs.shape[:-1]))
        variance = np.einsum("mi,mij,mj->m", p, covariance, p)
        return (p * mean).sum(axis=-1) + 1.5 * np.sqrt(variance)

    return acquisition(name, build, oracle, model=model, arguments=arguments)


_GRID = torch.cartesian_prod(*[torch.linspace(0, 1, 4, dtype=torch.float64)] * 2)
_STATE = partial(TruncatedVarianceState.initial, _GRID, Maximize(), eta=0.2)


def truncated(model: Any, **options: Any) -> TruncatedVarianceReduction:
    domain = _GRID.to(model.train_targets)
    state = TruncatedVarianceState.initial(
        domain, Maximize(), eta=0.2, batch_shape=model.batch_shape
    )
    return TruncatedVarianceReduction(DomainPosterior(model, domain), state, **options)


def noise_quantile(model: Any, repeats: np.ndarray, X: np.ndarray) -> np.ndarray:
    r"""Upper bound of the quantile that one evaluation exceeds with probability 0.9."""
    moments = oracles.rahbo_moments(model, repeats, X)
    log_noise = moments["log_mean"] - np.sqrt(2.0 * moments["log_variance"])
    spread = np.sqrt(np.exp(log_noise))
    return moments["mean"] + np.sqrt(3.0 * moments["variance"]) - norm.ppf(0.9) * spread


def noise_deviation(model: Any, repeats: np.ndarray, X: np.ndarray) -> np.ndarray:
    r"""The negative standard deviation of the noise at its lower bound."""
    moments = oracles.rahbo_moments(model, repeats, X)
    return -np.exp((moments["log_mean"] - np.sqrt(2.0 * moments["log_variance"])) / 2)


_CHANCE = RiskConstraint.chance(DiscreteEnvironment(_CONTEXTS), 0.9, 0, delta=0.3, at_most=False)


def constrained(model: Any, **options: Any) -> ConstrainedUpperConfidenceBound:
    environment = DiscreteEnvironment(_CONTEXTS)
    bound = RiskUpperConfidenceBound(model, environment, Expectation(), beta=2.25)
    return ConstrainedUpperConfidenceBound(model, bound, [_CHANCE], beta=1.0, **options)


def constrained_value(model: Any, repeats: np.ndarray, X: np.ndarray) -> np.ndarray:
    r"""The mean of the upper bounds, less 20 times what the 0.3-quantile lacks to 0.9, bent."""
    bend = 0.01 * repeats.mean(axis=-1).std(ddof=1)
    inputs, weights = DiscreteEnvironment(_CONTEXTS).expand(torch.from_numpy(X).double())
    distribution, scores = oracles.to_numpy(weights[0]), []
    for x in map(oracles.to_numpy, inputs):
        objective = oracles.expectation(oracles.upper_bound(model, repeats, x, 2.25), distribution)
        values = np.sort(oracles.upper_bound(model, repeats, x, 1.0))
        missed = max(0.0, 0.9 + bend - values[1])  # the second of four equal weights
        bent = missed**2 / (2 * bend) if missed < bend else missed - bend / 2
        scores.append(objective - 20 * bent)
    return np.array(scores)


_COMPARED = torch.tensor([[0.1, 0.2], [0.5, 0.9], [0.8, 0.3], [0.4, 0.4]], dtype=torch.float64)
_WEIGHTED = DiscreteEnvironment(_CONTEXTS, torch.tensor([0.1, 0.25, 0.45, 0.2]))


def knowledge_gradient_of_a_mean(w_is_chosen: bool) -> AcquisitionCase:
    r"""Of the expectation over W, whose moves by a reading follow from the joint posterior."""
    arguments = {
        "environment": _WEIGHTED,
        "risk_measure": Expectation(),
        "X_compared": _COMPARED,
        "w_is_chosen": w_is_chosen,
    }

    def build(model: Any, **options: Any) -> LogRiskKnowledgeGradient:
        compared = {"X_compared": _COMPARED.to(model.train_targets)}
        return LogRiskKnowledgeGradient(model, **{**arguments, **compared, **options})

    def oracle(model: Any, repeats: np.ndarray, X: np.ndarray) -> np.ndarray:
        return np.array([_log_gain(model, x, w_is_chosen) for x in torch.from_numpy(X).double()])

    name = "risk_knowledge_gradient" + ("_of_the_best_w" if w_is_chosen else "")
    return acquisition(
        name,
        build,
        oracle,
        model=of_decision_and_context,
        arguments=arguments,
        batch_dims=1,
        tolerance=1e-4,
    )


def _log_gain(model: Any, x: Tensor, w_is_chosen: bool) -> float:
    r"""By 150,001 outcomes of a reading at each w, as leads over the best decision now."""
    pairs, weights = _WEIGHTED.expand(torch.cat([_COMPARED, x[None]]))
    distribution = oracles.to_numpy(weights[0])
    like = model.train_targets
    with torch.no_grad():
        posterior = model.posterior(pairs.flatten(0, 1).to(like))
        noisy = model.posterior(pairs[-1].to(like), observation_noise=True)
    mean = oracles.to_numpy(posterior.mean[:, 0]).reshape(5, 4) @ distribution
    covariance = oracles.to_numpy(posterior.distribution.covariance_matrix).reshape(5, 4, 5, 4)
    spread = np.sqrt(oracles.to_numpy(noisy.variance[:, 0]))
    z, now = np.linspace(-37, 37, 150_001), mean[:4].argmax()
    density = norm.pdf(z) * (z[1] - z[0])
    gains = []
    for w in range(4):
        slopes = distribution @ covariance[:4, :, 4, w].T / spread[w]
        leads = (mean[:4] - mean[now])[:, None] + (slopes - slopes[now])[:, None] * z
        gains.append(leads.max(axis=0) @ density)
    return float(np.log(max(gains) if w_is_chosen else distribution @ np.array(gains)))


ACQUISITIONS = [
    *LEVEL_SETS,
    knowledge_gradient_of_a_mean(w_is_chosen=False),
    knowledge_gradient_of_a_mean(w_is_chosen=True),
    acquisition(
        "risk_averse_ucb",
        lambda model, **kwargs: RiskAverseUpperConfidenceBound(model, **_WEIGHTS, **kwargs),
        _bound(optimistic=True),
    ),
    acquisition(
        "risk_averse_lcb",
        lambda model, **kwargs: RiskAverseLowerConfidenceBound(model, **_WEIGHTS, **kwargs),
        _bound(optimistic=False),
    ),
    acquisition(
        "noise_uncertainty",
        NoisePosteriorStandardDeviation,
        lambda model, repeats, X: np.sqrt(oracles.rahbo_moments(model, repeats, X)["log_variance"]),
    ),
    acquisition(
        "straddle",
        lambda model, **kwargs: Straddle(model, 1.2, **kwargs),
        lambda model, repeats, X: oracles.straddle(model, repeats, X, 1.2, 1.96),
        arguments={"threshold": 1.2},
    ),
    acquisition(
        "straddle_of_gchk",
        lambda model, **kwargs: Straddle(model, 1.2, **{"beta": 9.0, **kwargs}),
        lambda model, repeats, X: oracles.straddle(model, repeats, X, 1.2, 3.0),
        arguments={"threshold": 1.2, "beta": 9.0},
    ),
    acquisition(
        "q_risk_averse_ucb",
        lambda model, **kwargs: qRiskAverseUpperConfidenceBound(model, **_WEIGHTS, **kwargs),
        _bound(optimistic=True),
    ),
    risk_bound(
        "risk_ucb",
        of_decision_and_context,
        DiscreteEnvironment(_CONTEXTS, torch.tensor([0.1, 0.25, 0.45, 0.2])),
        ConditionalValueAtRisk(0.4),
        lambda values, p: oracles.conditional_value_at_risk(values, p, level=0.4),
    ),
    joint_bound("joint_risk_ucb", of_decision_and_context, _WEIGHTED),
    joint_bound(
        "joint_risk_ucb_of_perturbations",
        of_decision,
        InputPerturbation(_SHIFTS, torch.tensor([0.5, 0.2, 0.3])),
    ),
    acquisition(
        "knowledge_gradient",
        lambda model, **options: LogRiskAverseKnowledgeGradient(
            model, risk_aversion=0.7, num_repeats=(1, 4), moving_cost=2.0, **options
        ),
        lambda model, repeats, X: knowledge_gradient_rate(
            model, repeats, X, 0.7, [1, 4], start=2.0
        ),
        tolerance=1e-3,
        batch_dims=1,
    ),
    acquisition(
        "truncated_variance",
        truncated,
        lambda model, repeats, X: oracles.truncated_reduction(
            model, repeats, X, oracles.to_numpy(_GRID), beta=_STATE().beta.item(), eta=0.2
        ),
        model=of_decision,
        arguments={"state": _STATE(), "domain": _GRID},
        batch_dims=1,
    ),
    risk_bound(
        "risk_ucb_of_perturbations",
        of_decision,
        InputPerturbation(_SHIFTS, torch.tensor([0.5, 0.2, 0.3])),
        Expectation(),
        oracles.expectation,
    ),
    acquisition(
        "noise_quantile",
        lambda model, **options: NoiseQuantileBound(model, 0.1, 3.0, 2.0, **options),
        noise_quantile,
        arguments={"delta": 0.1},
    ),
    acquisition(
        "noise_deviation",
        lambda model, **options: NoiseDeviationBound(model, 2.0, **options),
        noise_deviation,
    ),
    acquisition(
        "constrained_ucb",
        constrained,
        constrained_value,
        model=of_decision_and_context,
        arguments={
            "bound": RiskUpperConfidenceBound(
                of_decision_and_context(repeated_data()),
                DiscreteEnvironment(_CONTEXTS),
                Expectation(),
                beta=2.25,
            ),
            "risk_constraints": [_CHANCE],
        },
    ),
]
