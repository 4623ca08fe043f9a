r"""The contract of every acquisition function."""

import inspect
import pickle
import warnings
from typing import Any

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from botorch.optim import optimize_acqf, optimize_acqf_discrete, optimize_acqf_mixed
from torch import Tensor

from botorch_risk.acquisition import PointwiseAcquisitionFunction
from tests import oracles
from tests.acquisition.cases import ACQUISITIONS, AcquisitionCase
from tests.contracts import BATCH_SHAPES, BOUNDS, DTYPES, RepeatedData
from tests.devices import home

pytestmark = pytest.mark.every_device

POINTWISE = [case for case in ACQUISITIONS if not case.joint]
FAST = {"num_restarts": 2, "raw_samples": 16, "options": {"maxiter": 5}}

every = pytest.mark.parametrize("case", ACQUISITIONS, ids=lambda case: case.name)
pointwise = pytest.mark.parametrize("case", POINTWISE, ids=lambda case: case.name)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])


def with_batches(cases: list[AcquisitionCase]) -> Any:
    r"""Every case with every batch shape that its model may have."""
    pairs = [(case, b) for case in cases for b in BATCH_SHAPES if len(b) <= case.batch_dims]
    names = [f"{case.name}-{batch_shape}" for case, batch_shape in pairs]
    return pytest.mark.parametrize(("case", "batch_shape"), pairs, ids=names)


def points(*shape: int, like: Tensor, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, 2, generator=generator, dtype=torch.float64).to(like)


def build(case: AcquisitionCase, batch_shape: tuple[int, ...] = (), **kwargs: Any) -> Any:
    data = RepeatedData.make(batch_shape, **kwargs)
    return case.build(case.model(data)), data


@with_batches(POINTWISE)
@dtypes
def test_evaluate_equals_the_oracle(
    case: AcquisitionCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    acqf, data = build(case, batch_shape, dtype=dtype)
    X = points(*batch_shape, 5, like=data.X)
    values = acqf.evaluate(X)
    assert values.shape == (*batch_shape, 5)
    assert values.dtype == dtype
    assert values.device == home()

    def single(index: tuple[int, ...]) -> Any:
        model = case.replicate(acqf.model, data, index)
        return case.oracle(model, oracles.to_numpy(data.Y[index]), oracles.to_numpy(X[index]))

    expected = oracles.loop(batch_shape, single)
    tolerance = case.tolerance if dtype == torch.float64 else 2e-3
    torch.testing.assert_close(values.double().cpu(), expected, rtol=tolerance, atol=tolerance)


@every
@dtypes
@pytest.mark.parametrize("t_batch", [(5,), (5, 3)], ids=str)
def test_forward_has_the_shape_of_the_t_batch(
    case: AcquisitionCase, dtype: torch.dtype, t_batch: tuple[int, ...]
) -> None:
    acqf, data = build(case, dtype=dtype)
    X = points(*t_batch, 1, like=data.X)
    values = acqf(X)
    assert values.shape == t_batch
    assert values.dtype == dtype
    singly = oracles.loop(t_batch, lambda index: acqf(X[index]).squeeze(0).detach())
    torch.testing.assert_close(values, singly, rtol=1e-4, atol=1e-5)
    assert acqf(X[0] if len(t_batch) == 1 else X[0, 0]).shape == (1,)


@every
def test_forward_equals_the_oracle(case: AcquisitionCase) -> None:
    acqf, data = build(case)
    X = points(6, 1, like=data.X)
    expected = case.oracle(acqf.model, oracles.to_numpy(data.Y), oracles.to_numpy(X.squeeze(-2)))
    torch.testing.assert_close(
        acqf(X).cpu(), torch.as_tensor(expected), rtol=case.tolerance, atol=case.tolerance
    )


@with_batches(ACQUISITIONS)
def test_forward_on_batched_models(case: AcquisitionCase, batch_shape: tuple[int, ...]) -> None:
    acqf, data = build(case, batch_shape)
    X = points(4, *batch_shape, 1, like=data.X)
    assert acqf(X).shape == (4, *batch_shape)


@with_batches(POINTWISE)
def test_replicates_may_share_their_points(
    case: AcquisitionCase, batch_shape: tuple[int, ...]
) -> None:
    r"""`evaluate` broadcasts, and the gradient is the sum over those who share a point."""
    acqf, data = build(case, batch_shape)
    X = points(4, like=data.X).requires_grad_()
    each = X.expand(*batch_shape, 4, 2)
    values, expected = acqf.evaluate(X), acqf.evaluate(each)
    torch.testing.assert_close(values, expected)
    weights = torch.linspace(-1, 2, values.numel()).reshape(values.shape).to(values)
    gradients = [torch.autograd.grad((weights * v).sum(), X)[0] for v in (values, expected)]
    torch.testing.assert_close(gradients[0], gradients[1])


@with_batches(POINTWISE)
@dtypes
@pytest.mark.parametrize("num_pending", [0, 2], ids=["none pending", "two pending"])
def test_values_and_gradients_are_those_of_autograd(
    case: AcquisitionCase, dtype: torch.dtype, batch_shape: tuple[int, ...], num_pending: int
) -> None:
    acqf, data = build(case, batch_shape, dtype=dtype)
    with warnings.catch_warnings():  # BoTorch's of a model of float32, conditioned on the points
        warnings.simplefilter("ignore", InputDataWarning)
        acqf.set_X_pending(points(*batch_shape, num_pending, like=data.X, seed=2))
    X = points(*batch_shape, 5, like=data.X)
    values, gradients = acqf.value_and_gradient(X)
    assert not (values.requires_grad or gradients.requires_grad or X.requires_grad)
    X.requires_grad_()
    expected = acqf.evaluate(X)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    torch.testing.assert_close(values, expected.detach(), rtol=tolerance, atol=tolerance)
    (slope,) = torch.autograd.grad(expected.sum(), X)
    torch.testing.assert_close(gradients, slope, rtol=tolerance, atol=tolerance)


@pointwise
def test_replicates_may_have_weights_of_their_own(case: AcquisitionCase) -> None:
    acqf, data = build(case, (3,))
    names = {"beta", "noise_beta", "risk_aversion", "threshold"} & dict(acqf.named_buffers()).keys()
    X = points(3, 4, like=data.X)
    for name in names:
        weight, shares = getattr(acqf, name), torch.tensor([0.5, 0.8, 1.5]).to(data.X)
        setattr(acqf, name, weight * shares)
        together = acqf.evaluate(X)
        for row, share in enumerate(shares):
            setattr(acqf, name, weight * share)
            torch.testing.assert_close(together[row], acqf.evaluate(X)[row])
        setattr(acqf, name, weight)


@with_batches(POINTWISE)
def test_forward_of_a_t_batch_is_evaluate_of_its_points(
    case: AcquisitionCase, batch_shape: tuple[int, ...]
) -> None:
    acqf, data = build(case, batch_shape)
    X = points(6, *batch_shape, 1, like=data.X)
    expected = acqf.evaluate(X.squeeze(-2).movedim(0, -2)).movedim(-1, 0)
    torch.testing.assert_close(acqf(X), expected)


@pointwise
@pytest.mark.parametrize("batch_shape", [(), (2,)], ids=str)
def test_no_points_have_no_values(case: AcquisitionCase, batch_shape: tuple[int, ...]) -> None:
    acqf, data = build(case, batch_shape)
    X = points(*batch_shape, 0, like=data.X).requires_grad_()
    values = acqf.evaluate(X)
    assert values.shape == (*batch_shape, 0)
    assert torch.autograd.grad(values.sum(), X)[0].shape == X.shape


@pointwise
def test_whole_numbers_are_points(case: AcquisitionCase) -> None:
    acqf, _ = build(case)
    X = torch.tensor([[[0, 1]], [[1, 1]]], device=home())
    torch.testing.assert_close(acqf(X), acqf(X.double()))
    acqf.set_X_pending(X[0])
    pending = acqf(X)
    acqf.set_X_pending(X[0].double())
    torch.testing.assert_close(acqf(X.double()), pending)


@pointwise
@pytest.mark.parametrize("batch_shape", [(), (2,)], ids=str)
@pytest.mark.parametrize("columns", [1, 3])
def test_other_columns_than_the_model_has_are_refused(
    case: AcquisitionCase, columns: int, batch_shape: tuple[int, ...]
) -> None:
    r"""One column would broadcast to both, and be answered."""
    acqf, _ = build(case, batch_shape)
    message = r"have (the )?2 columns|make the 3 inputs of the model|batch_shape x m x 2"
    with pytest.raises(BotorchTensorDimensionError, match=message):
        acqf.evaluate(torch.zeros(*batch_shape, 4, columns, dtype=torch.float64, device=home()))


@every
def test_gradient(case: AcquisitionCase) -> None:
    acqf, data = build(case)
    X = points(3, 1, like=data.X).requires_grad_()
    assert torch.autograd.gradcheck(acqf, X)


@every
def test_determinism_pickle_and_state(case: AcquisitionCase) -> None:
    acqf, data = build(case)
    X = points(4, 1, like=data.X)
    values = acqf(X)
    assert torch.equal(acqf(X), values)
    assert torch.equal(pickle.loads(pickle.dumps(acqf))(X), values)
    other, _ = build(case)
    for parameter in other.model.parameters():
        parameter.data.add_(0.5)
    other(X)
    other.load_state_dict(acqf.state_dict())
    torch.testing.assert_close(other(X), values)


@every
def test_pending_points_lower_the_value_of_staying_close(case: AcquisitionCase) -> None:
    acqf, data = build(case)
    X = points(1, 1, like=data.X)
    pending = X[0] + 0.01
    conditioned = case.build(acqf.model, X_pending=pending)
    if "lcb" in case.name:
        assert conditioned(X) > acqf(X)
    else:
        assert conditioned(X) < acqf(X)
    acqf.set_X_pending(pending)
    torch.testing.assert_close(acqf(X), conditioned(X))
    acqf.set_X_pending(None)
    torch.testing.assert_close(acqf(X), case.build(acqf.model)(X))


@every
def test_botorch_optimisers(case: AcquisitionCase) -> None:
    acqf, data = build(case)
    bounds = torch.tensor(BOUNDS, dtype=torch.float64, device=home())
    X, value = optimize_acqf(acqf, bounds, q=1, **FAST)
    assert X.shape == (1, 2)
    torch.testing.assert_close(value, acqf(X).squeeze())
    X, _ = optimize_acqf(acqf, bounds, q=4, sequential=True, **FAST)
    assert X.shape == (4, 2)
    assert torch.pdist(X).min() > 1e-6
    assert acqf.X_pending is None
    X, _ = optimize_acqf_discrete(acqf, q=2, choices=points(8, like=data.X))
    assert X.shape == (2, 2)
    fixed = [{0: 0.0}, {0: 1.0}]
    X, _ = optimize_acqf_mixed(acqf, bounds, q=1, fixed_features_list=fixed, **FAST)
    assert X[0, 0] in (0.0, 1.0)


@every
def test_input_constructor_has_the_defaults_of_the_class(case: AcquisitionCase) -> None:
    acqf, _ = build(case)
    built = get_acqf_input_constructor(type(acqf))(model=acqf.model, **case.arguments_at_home())
    defaults = inspect.signature(type(acqf).__init__).parameters
    for name in built.keys() - {"model", *case.arguments}:
        if defaults[name].default is not inspect.Parameter.empty:
            assert built[name] == defaults[name].default, name


@every
def test_input_constructor(case: AcquisitionCase) -> None:
    acqf, data = build(case)
    constructor = get_acqf_input_constructor(type(acqf))
    pending = points(1, like=data.X, seed=5)
    # What Ax passes to every acquisition function, whether it takes it or not.
    arguments = constructor(
        model=acqf.model,
        training_data=None,
        X_baseline=data.X,
        X_pending=pending,
        posterior_transform=None,
        objective=None,
        constraints=None,
        **case.arguments_at_home(),
    )
    built = type(acqf)(**arguments)
    assert torch.equal(built.X_pending, pending)
    assert built(points(3, 1, like=data.X)).shape == (3,)


@pointwise
def test_q_larger_than_one_names_the_way_out(case: AcquisitionCase) -> None:
    acqf, data = build(case)
    assert isinstance(acqf, PointwiseAcquisitionFunction)
    with pytest.raises(UnsupportedError, match=r"q = 1 .* Got 2 points; pass `sequential=True`"):
        acqf(points(3, 2, like=data.X))
