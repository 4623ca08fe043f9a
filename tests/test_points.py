r"""Points against the inputs of a model, and BoTorch's t-batches as further points."""

import itertools

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import MultiTaskGP

from botorch_risk.engine import Belief
from botorch_risk.points import TBatch, joint_shape
from tests.engine.posterior.examples import log_outcomes, make_model

SHAPES = [
    # points, model, folded
    ((4, 2), (), (4, 2)),
    ((5, 1, 2), (), (5, 2)),
    ((5, 6, 3, 2), (), (90, 2)),
    ((3, 4, 2), (3,), (3, 4, 2)),
    ((4, 2), (3,), (3, 4, 2)),
    ((1, 4, 2), (3,), (3, 4, 2)),
    ((5, 3, 1, 2), (3,), (3, 5, 2)),
    ((5, 1, 1, 2), (3,), (3, 5, 2)),
    ((5, 6, 3, 4, 2), (3,), (3, 120, 2)),
    ((5, 2, 3, 1, 2), (2, 3), (2, 3, 5, 2)),
    ((5, 4, 2), (1,), (5, 4, 2)),  # a replicate that is broadcast itself
    ((0, 1, 2), (), (0, 2)),
    ((0, 3, 1, 2), (3,), (3, 0, 2)),
]


@pytest.mark.parametrize(("points", "batch_shape", "folded"), SHAPES, ids=str)
def test_there_and_back(
    points: tuple[int, ...], batch_shape: tuple[int, ...], folded: tuple[int, ...]
) -> None:
    X = torch.rand(points)
    batch = torch.Size(batch_shape)
    t_batch = TBatch.of(X, batch)
    assert t_batch.fold(X).shape == folded
    shape = torch.broadcast_shapes(X.shape[:-2], batch)
    back = t_batch.unfold(t_batch.fold(X), points_dim=-2)
    assert torch.equal(back, X.expand(*shape, *X.shape[-2:]))
    assert torch.equal(t_batch.unfold(t_batch.fold(X).sum(dim=-1)), back.sum(dim=-1))


def test_each_replicate_keeps_its_points() -> None:
    X = torch.arange(5 * 3).reshape(5, 3, 1, 1).float()  # b x R x 1 x d
    folded = TBatch.of(X, torch.Size([3])).fold(X)
    assert torch.equal(folded[1].flatten(), torch.tensor([1.0, 4.0, 7.0, 10.0, 13.0]))


def test_joint_shapes_are_those_of_pytorch() -> None:
    shapes = [torch.Size(s) for n in range(4) for s in itertools.product((0, 1, 3), repeat=n)]
    for first, second in itertools.product(shapes, repeat=2):
        try:
            expected = torch.broadcast_shapes(first, second)
        except RuntimeError:
            with pytest.raises(RuntimeError, match="broadcast"):
                joint_shape(first, second)
        else:
            assert joint_shape(first, second) == expected
    assert joint_shape(None, torch.Size([2])) == joint_shape(torch.Size([2]), None) == (2,)


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
    predictor = Belief(model)
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
            Belief(model)(X)


@pytest.mark.parametrize("make", [make_model, lambda: make_model("rq"), log_outcomes])
@pytest.mark.parametrize("shape", [(0, 2), (3, 0, 2), (0, 4, 2)], ids=str)
def test_no_points_have_no_moments(make, shape):
    X = torch.rand(shape, dtype=torch.double, requires_grad=True)
    mean, variance = Belief(make())(X)
    assert mean.shape == variance.shape == shape[:-1]
    assert torch.autograd.grad((mean + variance).sum(), X)[0].shape == shape
    batched = Belief(make_model(batch_shape=(2, 3)))(torch.rand(0, 2).double())
    assert batched.mean.shape == (2, 3, 0)


@pytest.mark.parametrize("make", [make_model, lambda: make_model("rq"), log_outcomes])
def test_whole_numbers_are_points(make):
    predictor, X = Belief(make()), torch.tensor([[0, 1], [1, 1]])
    torch.testing.assert_close(predictor(X), predictor(X.double()))
