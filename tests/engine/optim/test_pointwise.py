import numpy as np
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound, qKnowledgeGradient, qUpperConfidenceBound
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.engine.optim.pointwise import PointwiseEvaluator

# The box is not the unit cube, to see its units.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")

BOX = torch.tensor([[0.0, -1.0], [2.0, 3.0]], dtype=torch.float64)


class Bound:
    def __init__(self, model: SingleTaskGP) -> None:
        self.model = model
        self.sizes: list[int] = []

    def evaluate(self, X: Tensor) -> Tensor:
        self.sizes.append(X.shape[-2])
        posterior = self.model.posterior(X)
        return (posterior.mean + 2.0 * posterior.variance.sqrt()).squeeze(-1)


def model(*batch_shape: int) -> SingleTaskGP:
    X = BOX[0] + (BOX[1] - BOX[0]) * torch.rand(*batch_shape, 8, 2, dtype=torch.float64)
    return SingleTaskGP(X, X.sin().sum(-1, keepdim=True)).eval()


@pytest.mark.parametrize("batch_shape", [(), (1,), (3,)])
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_with_and_without_evaluate_are_the_same(batch_shape: tuple[int, ...], limit: int) -> None:
    gp = model(*batch_shape)
    count = gp.batch_shape.numel()
    rows = np.repeat(np.arange(count), [2, 1, 4][:count])
    points = np.random.default_rng(0).uniform(size=(len(rows), 2))
    bound = Bound(gp)
    evaluator = PointwiseEvaluator(bound, BOX, count, limit)
    values, gradients = evaluator.value_and_gradient(points, evaluator.packing(rows))
    assert max(bound.sizes) <= max(1, limit // count)
    ordinary = PointwiseEvaluator(UpperConfidenceBound(gp, beta=4.0), BOX, count, limit)
    expected = ordinary.value_and_gradient(points, ordinary.packing(rows))
    np.testing.assert_allclose(values, expected[0], atol=1e-8)
    np.testing.assert_allclose(gradients, expected[1], atol=1e-6)


def test_gradients_are_in_units_of_the_cube() -> None:
    evaluator = PointwiseEvaluator(Bound(model(2)), BOX, 2, 100)
    rows, points = evaluator.packing(np.array([0, 1])), np.full((2, 2), 0.4)
    _, gradients = evaluator.value_and_gradient(points, rows)
    step = np.array([0.0, 1e-6])
    above, _ = evaluator.value_and_gradient(points + step, rows)
    below, _ = evaluator.value_and_gradient(points - step, rows)
    np.testing.assert_allclose(gradients[:, 1], (above - below) / 2e-6, rtol=1e-4, atol=1e-5)


def test_points_stay_in_the_box_in_float32() -> None:
    box = torch.tensor([[0.1], [0.7]])
    evaluator = PointwiseEvaluator(Bound(model(1)), box, 1, 100)
    X = evaluator.scale_up(np.array([[[0.0], [1.0]]]))
    assert X.dtype == torch.float32 and X.flatten().tolist() == box.flatten().tolist()


def test_bad_models_and_acquisitions() -> None:
    with pytest.raises(BotorchTensorDimensionError, match=r"batch shape \[2\], one for each seed"):
        PointwiseEvaluator(UpperConfidenceBound(model(3), beta=1.0), BOX, 2, 100)
    with pytest.raises(BotorchTensorDimensionError, match="one for each seed"):
        PointwiseEvaluator(qUpperConfidenceBound(model(), beta=1.0), BOX, 2, 100)
    with pytest.raises(
        UnsupportedError, match="qKnowledgeGradient, which also optimises fantasies"
    ):
        PointwiseEvaluator(qKnowledgeGradient(model(), num_fantasies=2), BOX, 1, 100)


class Parabola:
    r"""Knows its gradient and refuses to be differentiated."""

    def evaluate(self, X: Tensor) -> Tensor:
        assert not X.requires_grad
        return -X.square().sum(dim=-1)

    def value_and_gradient(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return self.evaluate(X), -2 * X


@pytest.mark.parametrize("limit", [1, 1000])
def test_an_acquisition_function_may_know_its_gradient(limit: int) -> None:
    evaluator = PointwiseEvaluator(Parabola(), BOX, 2, limit)
    points = np.random.default_rng(0).uniform(size=(5, 2))
    values, gradients = evaluator.value_and_gradient(
        points, evaluator.packing(np.array([0, 0, 0, 1, 1]))
    )
    X = (BOX[0] + (BOX[1] - BOX[0]) * torch.as_tensor(points)).numpy()
    np.testing.assert_allclose(values, -np.square(X).sum(axis=-1))
    np.testing.assert_allclose(gradients, -2 * X * np.array([2.0, 4.0]))
