r"""Risk in BoTorch's acquisition functions, equal to BoTorch's where the definitions coincide."""

from math import ceil
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition import risk_measures as botorch_measures
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.multi_objective import multi_output_risk_measures as multi_output
from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import UserInputWarning
from botorch.models import ModelList, SingleTaskGP
from botorch.models.transforms.input import AppendFeatures, ChainedInputTransform
from botorch.models.transforms.input import InputPerturbation as BotorchPerturbation
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor

from botorch_risk.constraints import NoiseConstraint, NoisyChanceConstraint, RiskConstraint
from botorch_risk.constraints.noise_quantile import NoiseQuantileModel
from botorch_risk.environments import DiscreteEnvironment, InputPerturbation, PerturbedEnvironment
from botorch_risk.models import RobustModel
from botorch_risk.models.outcomes import spread_of
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, ValueAtRisk, WorstCase
from botorch_risk.robust import robust
from tests.contracts import mean_variance_gp, repeated_data
from tests.models.risks import (
    DISTRIBUTION,
    ENVIRONMENT,
    W,
    decisions,
    gp,
    two_outcomes,
    two_outputs,
)

N_W = 5
POINTS = torch.linspace(0, 1, N_W, dtype=torch.float64).unsqueeze(-1)
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def sampler(seed: int = 3, size: int = 32) -> SobolQMCNormalSampler:
    return SobolQMCNormalSampler(torch.Size([size]), seed=seed)


def with_transform(model: SingleTaskGP, transform: Any) -> SingleTaskGP:
    r"""The same model with one of BoTorch's transforms to several points."""
    (X,), Y = model.train_inputs, model.outcome_transform.untransform(model.train_targets[:, None])
    other = SingleTaskGP(X, Y[0], covar_module=model.covar_module, input_transform=transform)
    other.likelihood = model.likelihood
    other.mean_module = model.mean_module
    return other.eval()


def measures(alpha: float) -> list[tuple[Any, Any]]:
    r"""BoTorch's measures, and ours."""
    averaged = N_W - ceil(alpha * N_W) + 1
    return [
        (botorch_measures.VaR(alpha, N_W), ValueAtRisk(1 - alpha, strict=True)),
        (botorch_measures.CVaR(alpha, N_W), ConditionalValueAtRisk(averaged / N_W)),
        (botorch_measures.WorstCase(N_W), WorstCase()),
        (botorch_measures.Expectation(N_W), Expectation()),
    ]


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (50, 100, 150))]
)
@pytest.mark.slow
def test_values_are_those_of_botorchs_measures_on_200_models(first: int) -> None:
    r"""With w appended and with perturbations, with evaluated points beside the candidates."""
    environment = DiscreteEnvironment(POINTS)
    for seed in range(first, first + 50):
        model = gp(seed, scale=0.3)
        alpha = [0.5, 0.6, 0.7, 0.9][seed % 4]
        theirs, ours = measures(alpha)[seed // 4 % 4]
        if seed % 2:
            X, distribution = decisions(2, 2, seed=seed), environment
            other = with_transform(model, AppendFeatures(POINTS))
        else:
            deltas = 0.4 * decisions(N_W, d=3, seed=seed) - 0.2
            X, distribution = decisions(2, 2, d=3, seed=seed), InputPerturbation(deltas)
            other = with_transform(model, BotorchPerturbation(deltas))
        reduced, options = robust(model, distribution, ours)
        assert options == {}
        given = {"best_f": 0.3, "sampler": sampler(seed)}
        expected = qLogExpectedImprovement(other, objective=theirs, **given)(X)
        value = qLogExpectedImprovement(reduced, **given)(X)
        torch.testing.assert_close(value, expected, **EXACT)
        # With evaluated points in front, which qLogNEI adds.
        front = decisions(2, d=X.shape[-1], seed=seed + 1000)
        X = torch.cat([front.expand(2, *front.shape), X], dim=-2)
        samples = sampler(seed)(reduced.posterior(X)).squeeze(-1)
        torch.testing.assert_close(samples, theirs(sampler(seed)(other.posterior(X))), **EXACT)


def test_perturbations_and_contexts_together() -> None:
    model, context = gp(d=3), DiscreteEnvironment(POINTS)
    shifts, X = 0.2 * decisions(3) - 0.1, decisions(3, 1)
    chain = ChainedInputTransform(
        shift=BotorchPerturbation(shifts), w=AppendFeatures(context.points)
    )
    environment = PerturbedEnvironment(InputPerturbation(shifts), context)
    reduced, _ = robust(model, environment, ConditionalValueAtRisk(3 / 15))
    samples = sampler()(reduced.posterior(X)).squeeze(-1)
    theirs = botorch_measures.CVaR(0.86, 15)  # the 15 - 13 + 1 = 3 lowest values
    raw = sampler()(with_transform(model, chain).posterior(X))
    torch.testing.assert_close(samples, theirs(raw), rtol=1e-7, atol=1e-7)


def test_several_outcomes_are_those_of_botorchs_measures() -> None:
    model, X, alpha = two_outputs(), decisions(3, 2), 0.6
    environment = DiscreteEnvironment(POINTS)
    raw = sampler()(model.posterior(environment.expand(X)[0].flatten(-3, -2)))
    level = (N_W - ceil(alpha * N_W) + 1) / N_W
    for theirs, ours in [
        (multi_output.IndependentVaR(alpha, N_W), ValueAtRisk(1 - alpha, strict=True)),
        (multi_output.IndependentCVaR(alpha, N_W), ConditionalValueAtRisk(level)),
        (multi_output.MultiOutputExpectation(N_W), Expectation()),
        (multi_output.MultiOutputWorstCase(N_W), WorstCase()),
    ]:
        reduced, options = robust(model, environment, ours)
        assert options == {}
        torch.testing.assert_close(sampler()(reduced.posterior(X)), theirs(raw), **EXACT)


def loop_over_samples(samples: Tensor, weights: Tensor, bound: float, delta: float) -> Tensor:
    r"""Whether P(f(x, W) <= bound) >= 1 - delta, by adding up weights, one sample at a time."""
    holds = torch.zeros(samples.shape[:-1], dtype=torch.bool)
    for index in np.ndindex(*samples.shape[:-1]):
        pairs = zip(samples[index].tolist(), weights.tolist(), strict=True)
        holds[index] = sum(weight for value, weight in pairs if value <= bound) >= 1 - delta - 1e-12
    return holds


@pytest.mark.parametrize("delta", [0.1, 0.3, 0.5])
def test_constraints_against_a_loop_over_samples(delta: float) -> None:
    model, X = two_outcomes(), decisions(4, 2)
    constraint = RiskConstraint.chance(ENVIRONMENT, 0.4, outcome=1, delta=delta)
    reduced, options = robust(model, ENVIRONMENT, Expectation(), constraints=[constraint])
    (callback,) = options["constraints"]
    posterior = reduced.posterior(X)
    base = sampler()
    risks = base(posterior.posteriors[1])  # the posterior of the constraint alone
    raw = sampler()(model.models[1].posterior(ENVIRONMENT.expand(X)[0].flatten(-3, -2)))
    values = raw.squeeze(-1).unflatten(-1, (2, 4)).detach()
    together = torch.cat([torch.zeros_like(risks), risks], dim=-1)
    assert torch.equal(callback(together) <= 0, loop_over_samples(values, DISTRIBUTION, 0.4, delta))


def test_a_constraint_and_an_objective_of_one_outcome_share_their_samples() -> None:
    model, X = gp(), decisions(4, 2)
    constraint = RiskConstraint(ENVIRONMENT, WorstCase(), -1.0, outcome=0)
    reduced, options = robust(
        model, ENVIRONMENT, Expectation(), constraints=[constraint], objectives=[0]
    )
    assert isinstance(reduced, RobustModel)
    samples = sampler()(reduced.posterior(X))
    assert samples.shape[-1] == 2
    assert (samples[..., 0] >= samples[..., 1]).all()
    torch.testing.assert_close(options["objective"](samples, X), samples[..., 0])
    shortfall = (-1.0 - samples[..., 1]) / spread_of(model, 0)
    torch.testing.assert_close(options["constraints"][0](samples), shortfall)


@pytest.mark.parametrize("kind", ["list", "outputs"])
@pytest.mark.parametrize("flipped", [False, True])
def test_options_pick_the_outcomes(kind: str, flipped: bool) -> None:
    r"""Whichever outcome is the constraint, the columns are in the order of the outcomes."""
    model = two_outcomes() if kind == "list" else two_outputs()
    constraint = RiskConstraint(ENVIRONMENT, Expectation(), 0.1, outcome=0 if flipped else 1)
    reduced, options = robust(model, ENVIRONMENT, WorstCase(), constraints=[constraint])
    samples = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    objective = options["objective"](samples, None)
    assert objective.item() == (2.0 if flipped else 1.0)
    missed = options["constraints"][0](samples) * spread_of(model, constraint.outcome)
    assert missed.item() == pytest.approx(0.1 - (1.0 if flipped else 2.0))
    best = reduced.posterior(decisions(3, 1)).mean
    assert best.shape == (3, 1, 2)
    acqf = qLogNoisyExpectedImprovement(reduced, decisions(4), sampler=sampler(), **options)
    assert acqf(decisions(3, 2, seed=9)).shape == (3,)


def test_several_objectives_with_their_own_measures() -> None:
    model = ModelList(gp(0), gp(1), gp(2))
    constraint = RiskConstraint(ENVIRONMENT, Expectation(), 0.1, outcome=1)
    other = DiscreteEnvironment(W[:2])
    reduced, options = robust(
        model, [ENVIRONMENT, other], [WorstCase(), Expectation()], constraints=[constraint]
    )
    assert isinstance(options["objective"], IdentityMCMultiOutputObjective)
    samples = torch.arange(3.0).reshape(1, 1, 3)
    assert options["objective"](samples).flatten().tolist() == [0.0, 2.0]
    assert reduced.models[2].reductions[0].environment is other
    assert robust(model, ENVIRONMENT, WorstCase()).options == {}


def test_noise_that_was_learnt() -> None:
    data = repeated_data()
    noisy = mean_variance_gp(data)
    model = ModelList(SingleTaskGP(data.X, data.Y.mean(dim=-1, keepdim=True)), noisy)
    constraint = NoisyChanceConstraint(2.0, outcome=1, delta=0.05)
    still = InputPerturbation(torch.zeros(1, 2, dtype=torch.float64))
    reduced, options = robust(model, still, Expectation(), constraints=[constraint])
    assert isinstance(reduced.models[1], NoiseQuantileModel)
    X = decisions(3, 1)
    mean = reduced.posterior(X).mean
    deviation = noisy.predicted_noise(X).sqrt()
    torch.testing.assert_close(
        options["constraints"][0](mean).squeeze(-1) * spread_of(noisy, 0),
        (noisy.posterior(X).mean + 1.6448536269514722 * deviation - 2.0).flatten(),
    )
    with pytest.raises(UnsupportedError, match=r"not an objective.*outcome 1"):
        robust(model, still, Expectation(), constraints=[constraint], objectives=[1])
    cautious = NoisyChanceConstraint(2.0, outcome=1, delta=0.05, noise_beta=9.0)
    with pytest.raises(UnsupportedError, match="without `noise_beta`"):
        robust(model, still, Expectation(), constraints=[cautious])
    with pytest.raises(UnsupportedError, match="for a `NoiseConstraint` use"):
        robust(model, still, Expectation(), constraints=[NoiseConstraint(0.3, outcome=1)])


def test_thresholds_that_no_data_reach_are_reported() -> None:
    constraint = RiskConstraint(ENVIRONMENT, Expectation(), 50.0, outcome=1)
    with pytest.warns(UserInputWarning, match=r"outcome 1 is at least the threshold 50"):
        robust(two_outcomes(), ENVIRONMENT, Expectation(), constraints=[constraint])


def test_bad_roles_are_refused() -> None:
    constraint = RiskConstraint(ENVIRONMENT, Expectation(), 0.0, outcome=2)
    model = two_outcomes()
    with pytest.raises(ValueError, match=r"outcome in 0\.\.1.* Got 2"):
        robust(model, ENVIRONMENT, Expectation(), constraints=[constraint])
    with pytest.raises(ValueError, match=r"outcome in 0\.\.1.* Got 3"):
        robust(model, ENVIRONMENT, Expectation(), objectives=[3])
    with pytest.raises(TypeError, match=r"`model` to be a model of BoTorch\. Got 'a'"):
        robust("a", ENVIRONMENT, Expectation())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="each outcome once"):
        robust(model, ENVIRONMENT, Expectation(), objectives=[1, 1])
    only = RiskConstraint(ENVIRONMENT, Expectation(), 0.0, outcome=0)
    with pytest.raises(ValueError, match=r"at least one objective.*objectives=\[\]"):
        robust(gp(), ENVIRONMENT, Expectation(), constraints=[only])
    with pytest.raises(ValueError, match=r"one `risk_measure`, or one for each of the 2"):
        robust(model, ENVIRONMENT, [Expectation()])
    with pytest.raises(ValueError, match=r"one `environment`, or one for each of the 2"):
        robust(model, [ENVIRONMENT] * 3, Expectation())
    measure: Any = "CVaR"
    with pytest.raises(ValueError, match=r"one `risk_measure`.*'CVaR'"):
        robust(model, ENVIRONMENT, measure)
    reduced = robust(gp(), ENVIRONMENT, Expectation()).model
    with pytest.raises(UnsupportedError, match="Got a RobustModel"):
        robust(reduced, ENVIRONMENT, Expectation())
