r"""BoTorch's default model of outcomes at any scale."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models import SingleTaskGP

from botorch_risk.models.standardized_gp import standardized_gp
from tests.models.examples import points, repeats

DATA = repeats(k=1)


def test_is_the_default_model_at_ordinary_scales():
    X, test_X = DATA[0], points(4)
    model, plain = standardized_gp(*DATA), SingleTaskGP(*DATA)
    torch.testing.assert_close(model.posterior(test_X).mean, plain.posterior(test_X).mean)
    assert not model.train_inputs[0].requires_grad and model.train_inputs[0].shape == X.shape


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_predictions_follow_the_scale_of_the_outcome(scale):
    X, Y = DATA
    test_X = points(4)
    mean = standardized_gp(X, scale * Y).posterior(test_X).mean / scale
    torch.testing.assert_close(mean, standardized_gp(X, Y).posterior(test_X).mean)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ((DATA[0][0], DATA[1]), BotorchTensorDimensionError, "`train_X` of shape"),
        ((DATA[0], DATA[1][:3]), BotorchTensorDimensionError, "`train_Y` of shape"),
        ((DATA[0].float(), DATA[1]), InputDataError, "one floating-point dtype"),
        ((DATA[0], DATA[1] / 0), InputDataError, "finite `train_Y`"),
    ],
)
def test_refuses_data(data, error, message):
    with pytest.raises(error, match=message):
        standardized_gp(*data)
