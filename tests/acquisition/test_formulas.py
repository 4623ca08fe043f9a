r"""Each acquisition function is its formula in plain torch, through BoTorch's own posterior.

A formula uses `model.posterior`, the environment and the risk measure, and nothing of the engine.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.special import ndtr

from botorch_risk.acquisition import (
    JointRiskUpperConfidenceBound,
    LogRiskKnowledgeGradient,
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
    RiskUpperConfidenceBound,
    qRiskAverseUpperConfidenceBound,
)
from botorch_risk.acquisition.expected_gain import log_expected_gain
from botorch_risk.acquisition.mean_variance import NoisePosteriorStandardDeviation
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.constraints.noise_quantile import NoiseDeviationBound, NoiseQuantileBound
from botorch_risk.engine import DomainPosterior
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.gradients import differentiated
from botorch_risk.level_sets import ExpectedClassification, RiskStraddle, Straddle
from botorch_risk.papers import Maximize, TruncatedVarianceReduction, TruncatedVarianceState
from botorch_risk.repeats import LogRiskAverseKnowledgeGradient
from botorch_risk.risk import Expectation, ValueAtRisk
from tests.acquisition.cases import ACQUISITIONS
from tests.acquisition.test_risk_ucb_contract import BETA, build, decisions, every_pair
from tests.contracts import mean_variance_gp, of_decision, of_decision_and_context, repeated_data
from tests.environments.cases import EnvironmentCase
from tests.risk.cases import RiskMeasureCase

SHAPES = [(), (2,)]
GRID = torch.cartesian_prod(*[torch.linspace(0, 1, 4, dtype=torch.double)] * 2)
COMPARED = torch.tensor([[0.1, 0.2], [0.5, 0.9], [0.8, 0.3], [0.4, 0.4]], dtype=torch.double)
W = DiscreteEnvironment(
    torch.tensor([[0.1], [0.35], [0.5], [0.9]], dtype=torch.double),
    torch.tensor([0.1, 0.25, 0.45, 0.2], dtype=torch.double),
)


def each(model: Any, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean and variance at single points `batch_shape x m x d`."""
    posterior = model.posterior(X.movedim(-2, 0).unsqueeze(-2))
    return tuple(part[..., 0, 0].movedim(0, -1) for part in (posterior.mean, posterior.variance))  # type: ignore[return-value]


def over_w(acqf: Any, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Mean and deviation at each (x, w_j), `batch_shape x m x n_w`, and the weights."""
    inputs, weights = acqf.environment.expand(X)
    mean, variance = each(acqf.model, inputs.flatten(-3, -2))
    grid = inputs.shape[-3:-1]
    return mean.unflatten(-1, grid), variance.sqrt().unflatten(-1, grid), weights


def together(model: Any, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean and covariance of points `batch_shape x p x d`, jointly."""
    posterior = model.posterior(X)
    return posterior.mean.squeeze(-1), posterior.distribution.covariance_matrix


def agree(found: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def check(acqf: Any, formula: Callable[[Tensor], Tensor], X: Tensor) -> None:
    r"""Values to 1e-10 and gradients to 1e-8, of the base class and of `forward`."""
    values, gradient = differentiated(formula, X)
    found = acqf.value_and_gradient(X)
    agree(acqf.evaluate(X), values, 1e-10)
    agree(found[0], values, 1e-10)
    agree(found[1], gradient, 1e-8)
    Z = X.movedim(-2, 0).unsqueeze(-2).clone().requires_grad_()  # as BoTorch's optimisers call
    forward = acqf(Z)
    (slope,) = torch.autograd.grad(forward.sum(), Z)
    agree(forward.detach().movedim(0, -1), values, 1e-10)
    agree(slope.squeeze(-2).movedim(0, -2), gradient, 1e-8)


def bound_of_risk(acqf: Any, X: Tensor, side: int) -> Tensor:
    mean, deviation, weights = over_w(acqf, X)
    bounds = mean - math.sqrt(BETA) * deviation, mean + math.sqrt(BETA) * deviation
    measure = acqf.risk_measure
    if measure.monotone:
        return measure(bounds[side], weights)
    return measure.bounds(*bounds, weights)[side]


@every_pair
@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_of_a_risk(
    environment: EnvironmentCase, measure: RiskMeasureCase, shape: tuple[int, ...]
) -> None:
    acqf, X = build(environment, measure, *shape), decisions(environment, *shape, 3)
    check(acqf, lambda X: bound_of_risk(acqf, X, side=1), X)
    agree(acqf.lower(X), bound_of_risk(acqf, X, side=0), 1e-10)
    mean, _, weights = over_w(acqf, X)
    agree(acqf.mean(X), acqf.risk_measure(mean, weights), 1e-10)


def joint_bound(acqf: Any, X: Tensor) -> Tensor:
    r"""Of the expectation: `q' mu + sqrt(beta q' C q)`."""
    inputs, q = acqf.environment.expand(X)  # batch_shape x m x n_w x d
    parts = []
    for points in inputs.unbind(-3):
        mean, covariance = together(acqf.model, points)
        along = q.expand(inputs.shape[:-1])[..., 0, :]
        variance = (along.unsqueeze(-1) * covariance * along.unsqueeze(-2)).sum((-1, -2))
        parts.append((along * mean).sum(-1) + (acqf.beta * variance).sqrt())
    return torch.stack(parts, dim=-1)


def noise_bounds(model: Any, X: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    mean, variance = each(model.noise.model, X)
    reach = math.sqrt(beta) * variance.sqrt()
    return (mean - reach).exp(), (mean + reach).exp()


def mean_variance_bound(acqf: Any, X: Tensor, sign: int) -> Tensor:
    mean, variance = each(acqf.model.mean_model, X)
    lower, upper = noise_bounds(acqf.model, X, 2.0)
    noise = lower if sign > 0 else upper
    return mean + sign * (3.0 * variance).sqrt() - 0.7 * noise


def noise_quantile(acqf: Any, X: Tensor) -> Tensor:
    mean, variance = each(acqf.model.mean_model, X)
    z = -math.sqrt(2) * torch.erfinv(torch.tensor(2 * 0.1 - 1.0, dtype=torch.double))
    return mean + (3.0 * variance).sqrt() - z * noise_bounds(acqf.model, X, 2.0)[0].sqrt()


def straddle(acqf: Any, X: Tensor) -> Tensor:
    mean, variance = each(acqf.model, X)
    return 1.96 * variance.sqrt() - (mean - 1.2).abs()


def straddle_of_risk(acqf: Any, X: Tensor) -> Tensor:
    upper = joint_bound(acqf.bound, X)
    mean = (over_w(acqf.bound, X)[0] * W.weights).sum(-1)
    return (upper - mean) - (mean - 1.2).abs()


def slopes(acqf: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Of readings at `n_w` pairs (x, w): moves `n_w x P`, the risks and their variances, `P`."""
    pairs, q = W.expand(torch.cat([acqf.X_compared.to(x), x[None]]))
    mean, C = together(acqf.model, pairs.flatten(0, 1))
    P, n_w, q = len(acqf.X_compared), len(q[0]), q[0]
    C = C.unflatten(0, (P + 1, n_w)).unflatten(-1, (P + 1, n_w))
    noise = acqf.model.likelihood.noise * acqf.model.outcome_transform.stdvs.squeeze() ** 2
    reading = (C[-1, :, -1].diagonal() + noise).sqrt()
    moves = torch.einsum("pvw,v->wp", C[:-1, :, -1], q) / reading.unsqueeze(-1)
    variance = torch.einsum("pvpw,v,w->p", C[:-1, :, :-1], q, q)
    return moves, mean.unflatten(0, (P + 1, n_w))[:-1] @ q, variance


def knowledge_gradient(acqf: Any, X: Tensor) -> Tensor:
    values = []
    for x in X:
        moves, risk, _ = slopes(acqf, x)
        gains = log_expected_gain(risk.expand_as(moves), moves)
        values.append(gains.max() if acqf.w_is_chosen else (gains + W.weights.log()).logsumexp(0))
    return torch.stack(values)


def classification(acqf: Any, X: Tensor) -> Tensor:
    values = []
    for x in X:
        moves, risk, variance = slopes(acqf, x)
        moves, excess = moves.abs(), risk - 1.2
        width = (acqf.beta * (variance - moves.square())).sqrt()
        after = ndtr((excess - width) / moves) + ndtr((-excess - width) / moves)
        now = excess.abs() > (acqf.beta * variance).sqrt()
        score = (after - now.to(after) + 0.1 * moves.square() / variance).sum(-1)
        values.append(score @ W.weights)
    return torch.stack(values)


def constrained_bound(acqf: Any, X: Tensor) -> Tensor:
    r"""The objective less 20 times what the 0.3-quantile lacks to 0.9, bent near 0."""
    mean, deviation, weights = over_w(acqf.bound, X)
    slack = ValueAtRisk(0.3)(mean + deviation, weights) - 0.9
    bend = 0.01 * acqf.spreads.squeeze()
    missed = (bend - slack).clamp_min(0.0)
    bent = torch.where(missed < bend, missed.square() / (2 * bend), missed - bend / 2)
    return ((mean + 1.5 * deviation) * weights).sum(-1) - 20 * bent


def constrained(model: Any) -> ConstrainedUpperConfidenceBound:
    bound = RiskUpperConfidenceBound(model, W, Expectation(), beta=2.25)
    chance = RiskConstraint.chance(W, 0.9, 0, delta=0.3, at_most=False)
    return ConstrainedUpperConfidenceBound(model, bound, [chance], beta=1.0)


def truncated_reduction(acqf: Any, X: Tensor) -> Tensor:
    r"""`sum_j max(beta s_j^2, eta^2) - max(beta s_j^2 after the sample, eta^2)` over the domain."""
    beta, noise = acqf.state.beta, acqf.model.likelihood.noise
    noise = noise * acqf.model.outcome_transform.stdvs.squeeze() ** 2
    least, values = beta * acqf.state.target_variance(acqf.posterior), []
    for x in X:
        _, C = together(acqf.model, torch.cat([GRID, x[None]]))
        before = C.diagonal()[:-1]
        after = before - C[:-1, -1].square() / (C[-1, -1] + noise)
        values.append(((beta * before).maximum(least) - (beta * after).maximum(least)).sum())
    return torch.stack(values)


def truncated(model: Any) -> TruncatedVarianceReduction:
    state = TruncatedVarianceState.initial(GRID, Maximize(), eta=0.2)
    return TruncatedVarianceReduction(DomainPosterior(model, GRID), state)


LEVEL: Mapping[str, Any] = {"threshold": 1.2, "beta": 2.25}
FORMULAS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Tensor], bool]] = {
    "joint bound": (
        of_decision_and_context,
        lambda model: JointRiskUpperConfidenceBound(model, W, Expectation(), 2.25),
        joint_bound,
        True,
    ),
    "mean-variance bound": (
        mean_variance_gp,
        lambda model: RiskAverseUpperConfidenceBound(
            model, beta=3.0, noise_beta=2.0, risk_aversion=0.7
        ),
        lambda acqf, X: mean_variance_bound(acqf, X, 1),
        True,
    ),
    "mean-variance lower bound": (
        mean_variance_gp,
        lambda model: RiskAverseLowerConfidenceBound(
            model, beta=3.0, noise_beta=2.0, risk_aversion=0.7
        ),
        lambda acqf, X: mean_variance_bound(acqf, X, -1),
        True,
    ),
    "uncertainty of the noise": (
        mean_variance_gp,
        NoisePosteriorStandardDeviation,
        lambda acqf, X: each(acqf.model.noise.model, X)[1].sqrt(),
        True,
    ),
    "noise quantile": (
        mean_variance_gp,
        lambda model: NoiseQuantileBound(model, 0.1, 3.0, 2.0),
        noise_quantile,
        True,
    ),
    "noise deviation": (
        mean_variance_gp,
        lambda model: NoiseDeviationBound(model, 2.0),
        lambda acqf, X: -noise_bounds(acqf.model, X, 2.0)[0].sqrt(),
        True,
    ),
    "constrained bound": (of_decision_and_context, constrained, constrained_bound, False),
    "straddle": (of_decision, lambda model: Straddle(model, 1.2), straddle, True),
    "straddle of a risk": (
        of_decision_and_context,
        lambda model: RiskStraddle(model, W, Expectation(), **LEVEL),
        straddle_of_risk,
        True,
    ),
    "knowledge gradient": (
        of_decision_and_context,
        lambda model: LogRiskKnowledgeGradient(model, W, Expectation(), COMPARED),
        knowledge_gradient,
        False,
    ),
    "knowledge gradient of the best w": (
        of_decision_and_context,
        lambda model: LogRiskKnowledgeGradient(model, W, Expectation(), COMPARED, w_is_chosen=True),
        knowledge_gradient,
        False,
    ),
    "expected classification": (
        of_decision_and_context,
        lambda model: ExpectedClassification(
            model, W, Expectation(), COMPARED, variance_weight=0.1, **LEVEL
        ),
        classification,
        False,
    ),
    "truncated variance": (of_decision, truncated, truncated_reduction, False),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FORMULAS)
def test_it_is_its_formula(name: str, shape: tuple[int, ...]) -> None:
    model, make, formula, batched = FORMULAS[name]
    if shape and not batched:
        return
    acqf = make(model(repeated_data(shape)))
    X = torch.rand(*shape, 3, 2, generator=torch.Generator().manual_seed(3), dtype=torch.double)
    check(acqf, lambda X: formula(acqf, X), X)


def test_the_picked_value_has_the_gradient_of_all() -> None:
    acqf = RiskUpperConfidenceBound(
        of_decision_and_context(repeated_data()), W, ValueAtRisk(0.3), beta=BETA
    )
    X = torch.rand(4, 2, generator=torch.Generator().manual_seed(5), dtype=torch.double)
    check(acqf, lambda X: bound_of_risk(acqf, X, side=1), X)


def test_a_batch_of_one_is_the_mean_variance_bound() -> None:
    options = {"beta": 3.0, "noise_beta": 2.0, "risk_aversion": 0.7}
    acqf = qRiskAverseUpperConfidenceBound(mean_variance_gp(repeated_data()), **options)
    X = torch.rand(4, 2, generator=torch.Generator().manual_seed(5), dtype=torch.double)
    expected = differentiated(lambda X: mean_variance_bound(acqf, X, 1), X)
    found = differentiated(lambda X: acqf(X.unsqueeze(-2)), X)
    agree(found[0], expected[0], 1e-10)
    agree(found[1], expected[1], 1e-8)


def test_every_acquisition_function_has_a_formula() -> None:
    r"""Except gains of repeats, which are integrals: their oracle conditions the model by rows."""
    made = {type(make(model(repeated_data()))) for model, make, *_ in FORMULAS.values()}
    made |= {RiskUpperConfidenceBound, qRiskAverseUpperConfidenceBound}
    listed = {type(case.example) for case in ACQUISITIONS}
    assert listed - made == {LogRiskAverseKnowledgeGradient}
