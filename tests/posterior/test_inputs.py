r"""Columns and dtypes of points against the inputs of a model."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import MultiTaskGP

from botorch_risk.posterior import MarginalPredictor
from tests.posterior.examples import (
    log_outcomes,
    make_model,
)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of linear_operator's interpolation
@pytest.mark.parametrize("fixed", [False, True])
def test_one_task_of_a_multi_task_model(fixed):
    X, tasks = torch.rand(12, 2).double(), torch.arange(12).remainder(2).unsqueeze(-1)
    model = MultiTaskGP(
        torch.cat([X, tasks], dim=-1),
        X.sum(dim=-1, keepdim=True).sin(),
        task_feature=-1,
        output_tasks=[1],
        train_Yvar=torch.full((12, 1), 1e-3).double() if fixed else None,
    )
    points = torch.rand(2, 5, 2).double()
    predictor = MarginalPredictor(model)
    posterior = model.posterior(points.unsqueeze(-2))
    for inputs in (points, torch.cat([points, torch.ones(2, 5, 1)], dim=-1)):
        mean, variance = predictor(inputs)
        torch.testing.assert_close(mean, posterior.mean[..., 0, 0])
        torch.testing.assert_close(variance, posterior.variance[..., 0, 0])
    with pytest.raises(BotorchTensorDimensionError, match=r"the 2 or 3 columns of the model"):
        predictor(points[..., :1])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("inputs", [None, "normalize", "warp"])
@pytest.mark.parametrize("batch_shape", [(), (2,)], ids=str)
def test_a_missing_column_does_not_broadcast(batch_shape, inputs, training):
    model = make_model("rbf", batch_shape=batch_shape, inputs=inputs).train(training)
    for columns in (1, 3):
        X = torch.rand(*batch_shape, 4, columns, dtype=torch.double)
        message = rf"Expected `X` to have the 2 columns of the model's inputs. Got .* {columns}\)"
        with pytest.raises(BotorchTensorDimensionError, match=message):
            MarginalPredictor(model)(X)


@pytest.mark.parametrize("make", [make_model, lambda: make_model("rq"), log_outcomes])
@pytest.mark.parametrize("shape", [(0, 2), (3, 0, 2), (0, 4, 2)], ids=str)
def test_no_points_have_no_moments(make, shape):
    X = torch.rand(shape, dtype=torch.double, requires_grad=True)
    mean, variance = MarginalPredictor(make())(X)
    assert mean.shape == variance.shape == shape[:-1]
    assert torch.autograd.grad((mean + variance).sum(), X)[0].shape == shape
    batched = MarginalPredictor(make_model(batch_shape=(2, 3)))(torch.rand(0, 2).double())
    assert batched.mean.shape == (2, 3, 0)


@pytest.mark.parametrize("make", [make_model, lambda: make_model("rq"), log_outcomes])
def test_whole_numbers_are_points(make):
    predictor, X = MarginalPredictor(make()), torch.tensor([[0, 1], [1, 1]])
    torch.testing.assert_close(predictor(X), predictor(X.double()))
