r"""A risk as an objective, where BoTorch's own are."""

from typing import Any

import pytest
import torch
from botorch.acquisition import risk_measures as botorch_measures
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import AppendFeatures
from botorch.models.transforms.input import InputPerturbation as BotorchPerturbation
from botorch.sampling.normal import SobolQMCNormalSampler

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, TotalVariationBall, ValueAtRisk
from botorch_risk.robust import RiskObjective, robust
from tests.models.risks import (
    DISTRIBUTION,
    ENVIRONMENT,
    DecisionDependent,
    W,
    decisions,
    gp,
    shifts,
)


def with_features() -> SingleTaskGP:
    (X,), Y = gp().train_inputs, gp().outcome_transform.untransform(gp().train_targets[:, None])
    model = SingleTaskGP(X, Y[0], covar_module=gp().covar_module, input_transform=AppendFeatures(W))
    model.likelihood.noise = 1e-2
    return model.eval()


def test_values_are_those_of_the_reduced_model() -> None:
    measure, X = TotalVariationBall(0.3), decisions(4, 2)
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=0)
    objective = RiskObjective(ENVIRONMENT, measure)
    given = {"best_f": 0.2, "sampler": sampler}
    value = qLogExpectedImprovement(with_features(), objective=objective, **given)(X)
    reduced, _ = robust(gp(), ENVIRONMENT, measure)
    torch.testing.assert_close(value, qLogExpectedImprovement(reduced, **given)(X))


@pytest.mark.parametrize("with_X", [False, True])
def test_values_are_those_of_botorchs_measures(with_X: bool) -> None:
    samples = torch.randn(7, 3, 8, 1, dtype=torch.float64)
    X = decisions(3, 2) if with_X else None
    uniform = DiscreteEnvironment(W)
    for alpha in (0.5, 0.7):
        ours = RiskObjective(uniform, ValueAtRisk(1 - alpha, strict=True))
        theirs = botorch_measures.VaR(alpha, 4)
        torch.testing.assert_close(ours(samples, X=X), theirs(samples, X=X))


def test_noisy_improvement_and_gradients() -> None:
    measure, baseline, X = ConditionalValueAtRisk(0.3), decisions(5), decisions(3, 2, seed=9)
    objective = RiskObjective(ENVIRONMENT, measure)
    reduced, _ = robust(gp(), ENVIRONMENT, measure)
    found, expected = (
        qLogNoisyExpectedImprovement(
            model,
            baseline,
            SobolQMCNormalSampler(torch.Size([2048]), seed=0),
            objective=each,
            prune_baseline=False,
        )(X)
        for model, each in ((with_features(), objective), (reduced, None))
    )  # BoTorch draws the baseline in another order where it sees all q x n_w points
    torch.testing.assert_close(found, expected, rtol=0, atol=0.05)
    assert expected.max() - expected.min() > 0.3
    samples = torch.randn(2, 3, 8, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: objective(s, X=decisions(3, 2)), samples)


def test_weights_may_depend_on_the_decision() -> None:
    distribution, X = DecisionDependent(), decisions(3, 2)
    samples = torch.randn(5, 3, 8, 1, dtype=torch.float64)
    _, weights = distribution.expand(X)
    expected = (samples.squeeze(-1).unflatten(-1, (2, 4)) * weights).sum(dim=-1)
    torch.testing.assert_close(RiskObjective(distribution, Expectation())(samples, X=X), expected)
    with pytest.raises(UnsupportedError, match="the environment depends on points"):
        RiskObjective(distribution, Expectation())(samples)


def test_replicates_may_have_distributions_of_their_own() -> None:
    probabilities = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.0, 0.5, 0.5, 0.0]])
    distribution = DiscreteEnvironment(W.expand(3, 4, -1), probabilities.double())
    samples = torch.randn(5, 3, 8, 1, dtype=torch.float64)
    objective = RiskObjective(distribution, Expectation())
    each = samples.squeeze(-1).unflatten(-1, (2, 4)) * probabilities.double().unsqueeze(-2)
    torch.testing.assert_close(objective(samples), each.sum(dim=-1))
    torch.testing.assert_close(objective(samples, X=decisions(3, 2)), objective(samples))


def test_perturbations() -> None:
    distribution = shifts()
    (X,), Y = gp().train_inputs, torch.rand(10, 1, dtype=torch.float64)
    perturbed, plain = (
        SingleTaskGP(X, Y, input_transform=each).eval()
        for each in (BotorchPerturbation(distribution.perturbations), None)
    )
    measure, candidates = ConditionalValueAtRisk(0.4), decisions(3, 2, d=3, seed=9)
    given: dict[str, Any] = {
        "best_f": 0.2,
        "sampler": SobolQMCNormalSampler(torch.Size([16]), seed=0),
    }
    objective = RiskObjective(distribution, measure)
    value = qLogExpectedImprovement(perturbed, objective=objective, **given)(candidates)
    reduced, _ = robust(plain, distribution, measure)
    expected = qLogExpectedImprovement(reduced, **given)(candidates)
    torch.testing.assert_close(value, expected)


def test_a_model_without_the_points_is_refused() -> None:
    objective = RiskObjective(ENVIRONMENT, Expectation())
    message = r"q x n_w = 2 x 4 points.*`AppendFeatures.* Got samples at 2; .* takes no `RiskObj"
    with pytest.raises(BotorchTensorDimensionError, match=message):
        objective(torch.randn(5, 3, 2, 1, dtype=torch.float64), X=decisions(3, 2))
    reduced, _ = robust(gp(), ENVIRONMENT, Expectation())
    with pytest.raises(BotorchTensorDimensionError, match=message):
        qLogExpectedImprovement(reduced, best_f=0.0, objective=objective)(decisions(3, 2))
    with pytest.raises(BotorchTensorDimensionError, match=r"1 x 4 points.* Got samples at 7"):
        objective(torch.randn(5, 3, 7, 1, dtype=torch.float64))


def test_raw_constraints_beside_a_reduction_are_refused() -> None:
    r"""They need other outcomes, whose samples are not reduced."""
    objective = RiskObjective(ENVIRONMENT, Expectation())
    X = torch.rand(9, 3, dtype=torch.float64)
    model = SingleTaskGP(X, X[:, :2], input_transform=AppendFeatures(W)).eval()
    raw: Any = [lambda samples: samples[..., 1] - 0.5]
    acqf = qLogExpectedImprovement(model, best_f=0.0, objective=objective, constraints=raw)
    with pytest.raises(UnsupportedError, match=r"all q x n_w points\. Use `robust"):
        acqf(decisions(3, 1))


def test_bad_parts_are_refused() -> None:
    environment: Any = DISTRIBUTION
    with pytest.raises(TypeError, match="Expected an `Environment`"):
        RiskObjective(environment, Expectation())
