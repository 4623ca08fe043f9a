r"""A user's own bound, reported by the rules of `recommend`."""

import pytest
import torch
from botorch.acquisition import AcquisitionFunction, PosteriorMean
from botorch.acquisition.penalized import PenalizedAcquisitionFunction
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition import PointwiseAcquisitionFunction
from botorch_risk.recommend import recommend


class WorstOfThree(PointwiseAcquisitionFunction):
    r"""A user's bound: the worst of three neighbours at the posterior mean."""

    def mean(self, X: Tensor) -> Tensor:
        neighbours = X.unsqueeze(-2) + torch.tensor([[-0.1], [0.0], [0.1]]).to(X)
        return self.model.posterior(neighbours).mean.squeeze(-1).amin(dim=-1)

    def score(self, X: Tensor) -> Tensor:
        return self.mean(X)


class WithLower(WorstOfThree):
    def lower(self, X: Tensor) -> Tensor:
        return self.mean(X) - 1.0


class Alone(AcquisitionFunction):
    r"""A user's acquisition function that is built on no class of ours."""

    def forward(self, X: Tensor) -> Tensor:
        return WorstOfThree(self.model).evaluate(X).squeeze(-1)


def test_a_bound_of_a_user_is_recommended_by_its_own_mean_or_refused() -> None:
    X = torch.linspace(0, 1, 21, dtype=torch.double)[:, None]  # a spike at 0.8, a hill at 0.3
    Y = torch.exp(-(((X - 0.8) / 0.05) ** 2)) + 0.7 * torch.exp(-(((X - 0.3) / 0.2) ** 2))
    model = SingleTaskGP(X, Y, torch.full_like(Y, 1e-6))
    model.covar_module.lengthscale = 0.05
    assert recommend(PosteriorMean(model), X, "posterior_mean").row == 16
    assert recommend(WithLower(model), X, "posterior_mean").row == 6
    assert recommend(WithLower(model), X, "lower_confidence_bound").value < 0.0
    penalty = PenalizedAcquisitionFunction(PosteriorMean(model), lambda X: X[:, 0, 0], 1.0)
    for bound, missing in (
        (WorstOfThree(model), "WorstOfThree without `lower`"),
        (Alone(model), "Alone without `check_points`, `lower`, `mean`"),
        (penalty, "PenalizedAcquisitionFunction without"),
    ):
        with pytest.raises(TypeError, match=missing):
            recommend(bound, X, "posterior_mean")
