r"""Pointwise functions of any batch of points, and what our acquisition functions share."""

from typing import Any

import numpy
import pytest
import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch_risk_testing.acquisition import AcquisitionCase
from torch import Tensor

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound, RiskUpperConfidenceBound
from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction, map_replicates
from botorch_risk.engine import PointwiseAcquisition
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.level_sets import Straddle
from botorch_risk.models import MeanVarianceGP
from botorch_risk.risk import ValueAtRisk
from tests.acquisition.cases import ACQUISITIONS


def test_replicates_are_mapped_with_their_points() -> None:
    def function(X: Tensor) -> Tensor:
        assert X.dim() == 3
        assert len(X) in (1, 3)
        return torch.arange(len(X)).unsqueeze(-1) + X.sum(dim=-1)

    for shape in ((4,), (3, 4), (5, 3, 4), (6, 5, 3, 4)):
        X = torch.rand(*shape, 2)
        values = map_replicates(function, X, torch.Size([3]))
        torch.testing.assert_close(values, torch.arange(3).unsqueeze(-1) + X.sum(dim=-1))
        torch.testing.assert_close(map_replicates(function, X, torch.Size()), X.sum(dim=-1))


class Height(PointwiseAcquisitionFunction):
    r"""The sum of the coordinates, once for each replicate."""

    def score(self, X: Tensor) -> Tensor:
        return X.sum(dim=-1)


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_forward_is_evaluate_of_one_point(batch: tuple[int, ...]) -> None:
    data = torch.rand(*batch, 4, 2, dtype=torch.float64)
    acqf = Height(SingleTaskGP(data, data[..., :1]))
    X = torch.rand(5, *batch, 1, 2, dtype=torch.float64)
    assert torch.equal(acqf(X), X.sum(dim=-1).squeeze(-1))
    assert acqf(X).shape == (5, *batch)
    for q in (0, 2):
        with pytest.raises(UnsupportedError, match=rf"q = 1 in Height. Got {q} points; pass `seq"):
            acqf(torch.rand(5, *batch, q, 2, dtype=torch.float64))
    acqf.set_X_pending(torch.tensor([[0, 1]]))
    assert acqf.X_pending.dtype == torch.float64
    acqf.set_X_pending(None)
    assert acqf.X_pending is None


def test_ordinary_acquisitions_are_not_pointwise() -> None:
    assert not issubclass(UpperConfidenceBound, PointwiseAcquisition)


class Seen(Height):
    r"""Keeps a model of its own, given pending points."""

    def _condition(self, X_pending: Tensor | None) -> SingleTaskGP:
        X = torch.rand(3, 2, dtype=torch.float64) if X_pending is None else X_pending
        return SingleTaskGP(X, X[..., :1].sin())


def test_a_conditioned_model_is_no_part_of_the_state() -> None:
    X = torch.rand(4, 2, dtype=torch.float64)
    plain, acqf = Height(SingleTaskGP(X, X[..., :1])), Seen(SingleTaskGP(X, X[..., :1]))
    acqf.set_X_pending(X[:2])
    assert torch.equal(acqf._conditioned.train_inputs[0], X[:2])
    assert acqf.state_dict().keys() == plain.state_dict().keys()
    assert len(list(acqf.modules())) == len(list(plain.modules()))
    acqf.set_X_pending(X[:0])  # no point is pending
    assert len(acqf._conditioned.train_inputs[0]) == 3


def test_own_arguments_are_those_of_the_input_constructor() -> None:
    @construct_from_own_arguments
    class Shifted(AcquisitionFunction):
        def __init__(self, model: object, shift: float, *, scale: float = 2.0) -> None:
            pass

    construct = get_acqf_input_constructor(Shifted)
    assert construct(model=1, shift=3.0) == {"model": 1, "shift": 3.0, "scale": 2.0}
    assert construct(model=1, shift=3.0, objective=None)["shift"] == 3.0  # as BoTorch passes it
    with pytest.raises(TypeError, match="missing a required argument: 'shift'"):
        construct(model=1)
    with pytest.raises(TypeError, match="Unexpected keyword argument `size`"):
        construct(model=1, shift=3.0, size=2)


@pytest.mark.parametrize("changed", ["evaluate", "upper"])
@pytest.mark.parametrize("kind", [RiskAverseUpperConfidenceBound, RiskUpperConfidenceBound])
def test_a_subclass_with_other_values_has_other_gradients(kind: type, changed: str) -> None:
    def steeper(self: AcquisitionFunction, X: Tensor) -> Tensor:
        return getattr(kind, changed)(self, X) + 3 * X.sum(dim=-1)

    generator = torch.Generator().manual_seed(0)
    X = torch.rand(9, 2, generator=generator, dtype=torch.double)
    Y = X.sum(dim=-1, keepdim=True) + torch.rand(9, 4, generator=generator, dtype=torch.double)
    steep = type("Steep", (kind,), {changed: steeper})
    if kind is RiskAverseUpperConfidenceBound:
        arguments = {"model": MeanVarianceGP(X, Y), "beta": 4.0, "risk_aversion": 1.0}
    else:
        environment = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        model = SingleTaskGP(X, Y[:, :1])
        arguments = {"model": model, "environment": environment}
        arguments |= {"risk_measure": ValueAtRisk(0.3), "beta": 4.0}
    d = X.shape[-1] if kind is RiskAverseUpperConfidenceBound else 1
    points = torch.rand(4, d, generator=generator, dtype=torch.double)
    (values, gradients), (others, other_gradients) = (
        each(**arguments).value_and_gradient(points) for each in (kind, steep)
    )
    torch.testing.assert_close(others, values + 3 * points.sum(dim=-1))
    torch.testing.assert_close(other_gradients, gradients + 3)


@pytest.mark.parametrize("number", ["beta", "threshold"])
def test_a_number_per_replicate_needs_the_replicates_of_the_model(number: str) -> None:
    X = torch.rand(6, 1, dtype=torch.double)
    model = SingleTaskGP(X, X.sin()).eval()
    two = torch.tensor([0.5, 1.0], dtype=torch.double)
    with pytest.raises(
        BotorchTensorDimensionError, match=rf"`{number}` .* model, \(\)\. Got \(2,\)"
    ):
        Straddle(model, **{"threshold": 0.5, number: two})
    with pytest.raises(BotorchTensorDimensionError, match="batch shape"):
        RiskUpperConfidenceBound(model, DiscreteEnvironment([[0.0]]), ValueAtRisk(0.1), beta=two)


@pytest.mark.parametrize("of", [list, numpy.array])
def test_pending_points_may_be_lists_and_arrays(of: Any) -> None:
    X = torch.rand(6, 1, dtype=torch.double)
    acqf = Straddle(SingleTaskGP(X, X.sin()).eval(), 0.5, X_pending=of([[0.3]]))
    assert acqf.X_pending is not None
    assert acqf.X_pending.tolist() == [[0.3]]


@pytest.mark.parametrize("case", ACQUISITIONS, ids=[case.name for case in ACQUISITIONS])
def test_missing_pending_points_are_refused_and_the_old_ones_stay(case: AcquisitionCase) -> None:
    acqf, X = case.made(), case.points(3)
    if "X_pending" not in dir(acqf):  # it takes none
        return
    acqf.set_X_pending(X[:1])
    values = acqf(X[2:].unsqueeze(1))
    holed = X[:2].clone()
    holed[1, 0] = torch.nan
    with pytest.raises(InputDataError, match=r"finite `X_pending`. Got \[nan.* at \(1,\)"):
        acqf.set_X_pending(holed)
    torch.testing.assert_close(acqf(X[2:].unsqueeze(1)), values, rtol=0, atol=0)


def test_a_range_is_not_learnt_from_pending_points_or_candidates() -> None:
    data = 10 * torch.rand(6, 2, dtype=torch.float64)
    model = SingleTaskGP(data, data[:, :1], input_transform=Normalize(2))
    acqf = Height(model)
    model.train()
    transform: Any = model.input_transform
    before = transform.coefficient.clone()
    acqf.set_X_pending(torch.full((1, 2), 1e3, dtype=torch.float64))
    acqf(torch.full((1, 1, 2), -1e3, dtype=torch.float64))
    assert torch.equal(transform.coefficient, before)


@pytest.mark.filterwarnings("ignore:Data .* is not contained to the unit cube")
@pytest.mark.parametrize("transform", [None, "normalize"])
def test_the_score_falls_within_a_distance_in_the_range_of_the_inputs(transform: Any) -> None:
    data = torch.tensor([[0.0, 0.0], [100.0, 4.0], [30.0, 1.0]], dtype=torch.float64)
    options = {} if transform is None else {"input_transform": Normalize(2)}
    acqf = Height(SingleTaskGP(data, data[:, :1], **options))
    pending = torch.tensor([[50.0, 2.0]], dtype=torch.float64)
    acqf.set_X_pending(pending)
    away = torch.tensor([0.0, 0.5, 0.999, 1.001], dtype=torch.float64) * 0.05 * 2**0.5
    X = pending + torch.stack([100 * away, torch.zeros(4).double()], dim=-1)
    least, most = acqf.score(data).amin(), acqf.score(data).amax()
    expected = acqf.score(X) - 3 * (most - least) * torch.tensor([1.0, 0.5, 1e-3, 0.0]).double()
    torch.testing.assert_close(acqf.evaluate(X), expected)
    acqf.set_X_pending(None)
    assert torch.equal(acqf.evaluate(X), acqf.score(X))


def test_points_that_are_not_conditioned_on_have_a_distance_of_their_own() -> None:
    data = torch.rand(6, 2, dtype=torch.float64)
    acqf = Height(SingleTaskGP(data, data[:, :1], input_transform=Normalize(2)))
    near, far = torch.tensor([[[0.5, 0.5]], [[0.5, 0.2]]], dtype=torch.float64)
    acqf.keep_apart(far, 0.2)
    acqf.set_X_pending(near)  # the others stay

    def free(point: torch.Tensor, distance: float) -> bool:
        width = data.amax(dim=0) - data.amin(dim=0)
        X = point + torch.tensor([distance * 2**0.5, 0.0], dtype=torch.float64) * width
        return bool(acqf.evaluate(X) == acqf.score(X))

    assert free(near, 0.0501) and free(far, 0.2001)
    assert not free(near, 0.0499) and not free(far, 0.1999)
    acqf.keep_apart(None)
    assert free(far, 0.0) and not free(near, 0.0)


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
def test_a_model_of_several_outcomes_scales_points_as_a_model_of_one(batch: Any) -> None:
    data = torch.rand(*batch, 6, 2, dtype=torch.float64)
    one, two = (
        Height(SingleTaskGP(data, data[..., :m], input_transform=Normalize(2))) for m in (1, 2)
    )
    X = torch.rand(*batch, 32, 2, dtype=torch.float64)
    for each in (one, two):
        each.set_X_pending(X[..., :3, :])
    torch.testing.assert_close(one.evaluate(X), two.evaluate(X))
    assert (one.evaluate(X) < one.score(X)).any()
