r"""Gradients in PyTorch's modes without them, and through what a model is conditioned on."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.acquisition import qKnowledgeGradient
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.models.transforms.input import Normalize, Warp
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.engine import Belief, FastMarginals
from botorch_risk.gradients import require_gradients
from botorch_risk.models import MeanVarianceGP
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.robust import robust
from tests.acquisition.botorch_checks import noisy
from tests.finite_differences import assert_gradient
from tests.models.risks import decisions, gp, shifts

MEASURE = ConditionalValueAtRisk(0.4)
TRANSFORMS: dict[str, Callable[[], Any]] = {
    "as they are": lambda: None,
    "normalized": lambda: Normalize(3),
    "warped": lambda: Warp(3, indices=[0, 1, 2]),
}
transforms = pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)


def noisy_of_normalized() -> MeanVarianceGP:
    X = decisions(8, d=3, seed=5)
    Y = X.sum(dim=-1, keepdim=True) + 0.1 * decisions(8, d=4, seed=6)
    return MeanVarianceGP(X, Y, input_transform=Normalize(3))


CONDITIONED: dict[str, Callable[[], Any]] = {
    "mean-variance model": noisy,
    "mean-variance model of normalized inputs": noisy_of_normalized,
    "risks": lambda: robust(gp(), shifts(), MEASURE).model,
    "risks of a mean-variance model": lambda: robust(noisy(), shifts(), MEASURE).model,
}


def test_gradients_can_be_switched_on_in_no_grad_but_not_in_inference_mode() -> None:
    require_gradients("fit")
    with torch.no_grad():
        require_gradients("fit")
    with (
        torch.inference_mode(),
        pytest.raises(UnsupportedError, match=r"Expected gradients, which fit needs"),
    ):
        require_gradients("fit")


@pytest.mark.parametrize("moment", ["mean", "variance"])
@pytest.mark.parametrize("make", CONDITIONED.values(), ids=CONDITIONED)
def test_predictions_are_differentiable_in_what_a_model_is_conditioned_on(
    make: Callable[[], Any], moment: str
) -> None:
    model, at, Y = make(), decisions(2, d=3), torch.ones(2, 1, dtype=torch.float64)
    sampler = SobolQMCNormalSampler(torch.Size([3]), seed=1)

    def after_observations(X: Tensor) -> Tensor:
        conditioned = model.condition_on_observations(X[0], Y)
        return getattr(conditioned.posterior(at), moment).sum().unsqueeze(0)

    def after_fantasies(X: Tensor) -> Tensor:
        posterior = model.fantasize(X, sampler=sampler).posterior(at.unsqueeze(0))
        return getattr(posterior, moment).sum(dim=(0, -2, -1))

    X = decisions(1, 2, d=3, seed=8)
    assert_gradient(after_observations, X)
    assert_gradient(after_fantasies, X)


@transforms
def test_a_bound_on_a_model_that_botorch_conditioned_is_differentiable_in_its_data(
    transform: Callable[[], Any],
) -> None:
    model, at = gp(input_transform=transform()), decisions(2, d=3)
    model.posterior(at)

    def score(X: Tensor) -> Tensor:
        conditioned = model.condition_on_observations(X[0], X[0].sum(dim=-1, keepdim=True))
        bound = RiskUpperConfidenceBound(conditioned, shifts(), MEASURE, beta=4.0)
        return bound.evaluate(at).sum().unsqueeze(0)

    assert_gradient(score, decisions(1, 2, d=3, seed=8))


@transforms
@pytest.mark.parametrize("view", [lambda model: model, FastMarginals], ids=["model", "view"])
def test_knowledge_gradients_are_differentiable_on_a_view(
    view: Callable[[Model], Model], transform: Callable[[], Any]
) -> None:
    acqf = qKnowledgeGradient(view(gp(input_transform=transform())), num_fantasies=3)
    assert_gradient(acqf, decisions(2, 4, d=3))


def test_bounds_of_a_conditioned_mean_variance_model_follow_its_data() -> None:
    model, at, Y = noisy_of_normalized(), decisions(2, d=3), torch.ones(2, 1).double()

    def bounds(X: Tensor) -> Tensor:
        conditioned = model.condition_on_observations(X[0], Y)
        lower, upper = conditioned.confidence_bounds(at, beta=4.0)
        return (lower + 2 * upper + conditioned.mean_marginals(at).variance).sum().unsqueeze(0)

    assert_gradient(bounds, decisions(1, 2, d=3, seed=8))


@transforms
def test_data_without_a_gradient_keep_the_closed_form(transform: Callable[[], Any]) -> None:
    model = gp(input_transform=transform())
    model.posterior(decisions(2, d=3))
    conditioned = model.condition_on_observations(decisions(2, d=3), torch.ones(2, 1).double())
    assert Belief.serves(conditioned)


def test_a_model_conditioned_on_constants_lets_backward_run_twice() -> None:
    model = robust(gp(), shifts(), MEASURE).model
    after = model.condition_on_observations(decisions(2, d=3), torch.ones(2, 1).double())
    for _ in range(2):
        X = decisions(2, d=3).requires_grad_()
        after.posterior(X).mean.sum().backward()
        assert X.grad is not None
