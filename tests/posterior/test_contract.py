r"""Properties of every model, and of every predictor of one."""

import itertools
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import oracles
from tests.contracts import BATCH_SHAPES, DTYPES, RepeatedData
from tests.devices import home
from tests.models.cases import MODELS
from tests.posterior.cases import POSTERIORS, ModelCase

pytestmark = pytest.mark.every_device

CASES = [*MODELS, *POSTERIORS]
PAIRS = [(case, b) for case in CASES for b in BATCH_SHAPES if len(b) <= case.batch_dims]

every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
with_batches = pytest.mark.parametrize(
    ("case", "batch_shape"), PAIRS, ids=[f"{case.name}-{b}" for case, b in PAIRS]
)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])


def points(*shape: int, like: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(*shape, 2, generator=generator, dtype=torch.float64).to(like)


def build(case: ModelCase, batch_shape: tuple[int, ...] = (), **options: Any) -> Any:
    data = RepeatedData.make(batch_shape, **options)
    model = case.fit(data)
    return case.build(model), model, data


@with_batches
@dtypes
def test_moments_equal_the_oracle(
    case: ModelCase, batch_shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    built, model, data = build(case, batch_shape, dtype=dtype)
    X = points(*batch_shape, 5, like=data.X)
    moments = case.predict(built, X)
    for moment in moments:
        assert moment.shape == (*batch_shape, 5)
        assert moment.dtype == dtype
        assert moment.device == home()
    for which, moment in enumerate(moments):

        def single(index: tuple[int, ...], which: int = which) -> Any:
            alone = case.replicate(model, data, index)
            at, repeats = oracles.to_numpy(X[index]), oracles.to_numpy(data.Y[index])
            return case.oracle(alone, repeats, at)[which]

        expected = oracles.loop(batch_shape, single)
        tolerance = 1e-7 if dtype == torch.float64 else 2e-3
        torch.testing.assert_close(moment.double().cpu(), expected, rtol=tolerance, atol=tolerance)


@with_batches
def test_a_replicate_is_the_model_of_its_own_data(
    case: ModelCase, batch_shape: tuple[int, ...]
) -> None:
    built, model, data = build(case, batch_shape)
    X = points(*batch_shape, 4, like=data.X)
    together = case.predict(built, X)
    for index in itertools.product(*map(range, batch_shape)):
        alone = case.predict(case.build(case.replicate(model, data, index)), X[index])
        for one, many in zip(alone, together, strict=True):
            torch.testing.assert_close(one, many[index])


@every
def test_gradient_in_the_points(case: ModelCase) -> None:
    built, _, data = build(case)
    X = points(3, like=data.X).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: tuple(case.predict(built, X)), X)


@every
def test_predictions_are_repeatable_and_survive_pickling(case: ModelCase) -> None:
    built, _, data = build(case)
    X = points(6, like=data.X)
    first = case.predict(built, X)
    for other in (built, pickle.loads(pickle.dumps(built))):
        for one, two in zip(first, case.predict(other, X), strict=True):
            assert torch.equal(one, two)


@every
def test_predictions_follow_the_hyperparameters(case: ModelCase) -> None:
    r"""No cache outlives the hyperparameters that it was made with, nor a state that is loaded."""
    built, model, data = build(case)
    fresh, other, _ = build(case)
    X = points(4, like=data.X)
    before = case.predict(built, X)
    for parameter in model.parameters():
        parameter.data.mul_(1.1).add_(0.1)
    if hasattr(model, "refresh_noise"):
        model.refresh_noise()
    after = case.predict(built, X)
    other.load_state_dict(model.state_dict())
    other.eval()
    for old, new, loaded in zip(before, after, case.predict(fresh, X), strict=True):
        assert not torch.allclose(old, new)
        torch.testing.assert_close(loaded, new)
