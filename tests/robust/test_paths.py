r"""Sample paths of risks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.sampling.pathwise import draw_matheron_paths, get_matheron_path_model

from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.robust.model import RobustModel
from botorch_risk.robust.paths import RobustPath
from botorch_risk.robust.reductions import Reduction
from tests.models.risks import ENVIRONMENT, decisions, gp, two_outputs


def robust(model: Any, *outcomes: int) -> RobustModel:
    measure = ConditionalValueAtRisk(0.5)
    return RobustModel(model, [Reduction(i, ENVIRONMENT, measure) for i in outcomes])


def test_a_path_of_risks_is_the_risk_of_a_path() -> None:
    X, measure = decisions(6), ConditionalValueAtRisk(0.5)
    torch.manual_seed(1)
    path = draw_matheron_paths(gp(), sample_shape=torch.Size([]))
    values = path(ENVIRONMENT.expand(X)[0].flatten(0, 1)).unflatten(-1, (6, 4))
    torch.manual_seed(1)
    drawn = draw_matheron_paths(robust(gp(), 0), sample_shape=torch.Size([]))
    assert isinstance(drawn, RobustPath)
    torch.testing.assert_close(drawn(X), measure(values, ENVIRONMENT.weights))


def test_the_distribution_of_paths_is_the_posterior() -> None:
    X = decisions(4, 1)
    model = RobustModel(gp(), [Reduction(0, ENVIRONMENT, Expectation())])
    paths = get_matheron_path_model(model, sample_shape=torch.Size([2000]))
    values = paths(X.unsqueeze(1).expand(4, 2000, 1, 2)).squeeze(-1).squeeze(-1)  # 4 x 2000
    posterior = model.posterior(X)
    spread = posterior.variance.sqrt().squeeze(-1).squeeze(-1)
    error = (values.mean(dim=-1) - posterior.mean.squeeze(-1).squeeze(-1)).abs()
    assert (error < 0.3 * spread).all()
    torch.testing.assert_close(values.std(dim=-1), spread, rtol=0.2, atol=0)


@pytest.mark.parametrize("outcomes", [(0,), (0, 1)])
def test_shapes(outcomes: tuple[int, ...]) -> None:
    paths = get_matheron_path_model(robust(two_outputs(), *outcomes))
    assert paths(decisions(5, 3)).shape == (5, 3, len(outcomes))


def test_thompson_sampling() -> None:
    torch.manual_seed(2)
    acqf = PathwiseThompsonSampling(robust(gp(), 0))
    X = decisions(5, 2).requires_grad_()
    values = acqf(X)
    assert values.shape == (5,)
    assert torch.equal(acqf(X), values)
    assert torch.autograd.gradcheck(acqf, X)
