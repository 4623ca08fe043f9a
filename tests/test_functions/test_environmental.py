r"""Problems of a decision and an environmental variable: what comes of them in the loop."""

import math

import pytest
import torch
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.seeding import generators
from botorch_risk.test_functions import EnvironmentalTestProblem, bell_shaped_environment
from botorch_risk.test_functions.environmental import Risk


class Kitchen(EnvironmentalTestProblem):
    r"""An oven set to 180 or so in a room that is cold or warm."""

    num_decision, num_environment, dim = 1, 1, 2
    continuous_inds: list[int] = [0, 1]  # noqa: RUF012 as in BoTorch
    _bounds: list[tuple[float, float]] = [(150.0, 250.0), (10.0, 30.0)]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(noise_std=0.5)
        rooms = torch.tensor([[15.0], [25.0]], dtype=torch.double)
        self.environment = DiscreteEnvironment(rooms, torch.tensor([0.25, 0.75]))

    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        self._check_decisions(X)
        inputs, weights = self.environment.expand(X)
        values = self._evaluate_true(inputs)
        return (values * weights).sum(dim=-1) if risk is None else risk(values, weights)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -(X[..., 0] + X[..., 1] - 200).abs()


def test_the_decision_is_the_first_columns() -> None:
    assert Kitchen().decision_bounds.tolist() == [[150.0], [250.0]]
    X = torch.tensor([[[175.0]], [[185.0]]], dtype=torch.double)
    assert Kitchen().objective(X).tolist() == [[-2.5], [-7.5]]
    worst = Kitchen().objective(X, risk=lambda values, weights: values.amin(dim=-1))
    assert worst.tolist() == [[-10.0], [-10.0]]


def test_each_replicate_meets_contexts_of_its_own() -> None:
    problem, X = Kitchen(), torch.full((2, 500, 1), 180.0, dtype=torch.double)
    contexts = problem.draw_contexts(X, generators([3, 4], "contexts"))
    assert contexts.shape == (2, 500, 1)
    assert (contexts == 25.0).double().mean().item() == pytest.approx(0.75, abs=0.05)
    alone = problem.draw_contexts(X[1:], generators([4], "contexts"))
    assert torch.equal(contexts[1:], alone)
    (stream,) = generators(4, "contexts")
    assert torch.equal(problem.draw_contexts(X[1], stream), alone[0])


@pytest.mark.parametrize("value", [100.0, 300.0, math.nan])
def test_refuses_decisions_that_are_none(value: float) -> None:
    with pytest.raises(ValueError, match=r"shape `... x 1`, within the decision's bounds"):
        Kitchen().objective(torch.full((2, 1), value))
    with pytest.raises(ValueError, match=r"shape `... x 1`, within the decision's bounds"):
        Kitchen().objective(torch.full((2, 2), 180.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bell_shaped_environment(dtype: torch.dtype) -> None:
    environment = bell_shaped_environment(dtype)
    assert environment.points.dtype == dtype
    masses = [math.exp(-((i / 32 - 0.5) ** 2) / (2 * 0.15**2)) for i in range(33)]
    expected = torch.tensor([mass / sum(masses) for mass in masses], dtype=dtype)
    torch.testing.assert_close(environment.weights, expected)
    torch.testing.assert_close(environment.points[:, 0], torch.arange(33, dtype=dtype) / 32)
