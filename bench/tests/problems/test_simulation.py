r"""An expensive function is simulated once at each point."""

import copy
import pickle
import sys

import pytest
import torch
from botorch_risk_bench.problems import LunarLanding, SimulatedTestProblem
from botorch_risk_bench.problems.lunar_landing import action

from botorch_risk.seeding import generators


class SquaredNorm(SimulatedTestProblem):
    dim = 2
    continuous_inds: list[int] = [0, 1]  # noqa: RUF012 as in BoTorch
    _bounds: list[tuple[float, float]] = [(0.0, 9.0), (0.0, 9.0)]  # noqa: RUF012
    num_simulated = 0

    def _simulate(self, x: tuple[float, ...]) -> float:
        self.num_simulated += 1
        return x[0] ** 2 + x[1] ** 2


def test_every_point_is_simulated_once_and_has_its_value() -> None:
    problem = SquaredNorm()
    X = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [0.0, 1.0]]], dtype=torch.double)
    expected = X.square().sum(dim=-1)
    outcomes = problem.sample_repeats(X, 2, generators([0, 1], "noise"))
    assert torch.equal(outcomes, expected.unsqueeze(-1).expand(2, 2, 2))
    assert torch.equal(problem.objective(X[:, :1]), expected[:, :1])
    assert problem.num_simulated == 3
    for copied in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert torch.equal(copied.objective(X + 1), (X + 1).square().sum(dim=-1))
        assert copied.num_simulated == 5  # X + 1 has (2, 3) twice, and (1, 2)


def test_the_noise_is_drawn_at_every_evaluation() -> None:
    problem = SquaredNorm(noise_std=0.5)
    X = torch.ones(1, 3, 2, dtype=torch.double)
    outcomes = problem.sample_repeats(X, 400, generators([3], "noise"))
    assert problem.num_simulated == 1
    torch.testing.assert_close(outcomes.mean(), torch.tensor(2.0).double(), atol=0.1, rtol=0)
    torch.testing.assert_close(outcomes.std(), torch.tensor(0.5).double(), atol=0.05, rtol=0)


# What the simulator's own example controller uses: on the ground it does not turn.
GOOD = [0.5, 1.0, 0.4, 0.55, 0.5, 1.0, 0.5, 0.5, 0.0, 0.5, 0.05, 0.05]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ([0, 1, 0, 0, 0, 0, 0, 0], 0),  # high above the pad, at rest
        ([0, 1, 0, -3, 0, 0, 0, 0], 2),  # falling: main engine
        ([0, 1, 0, 0, -0.5, 0, 0, 0], 1),  # leaning over to one side and to the other
        ([0, 1, 0, 0, 0.5, 0, 0, 0], 3),
        ([0, 0, 0, 0, 0.5, 0, 1, 0], 0),  # a leg on the ground
    ],
)
def test_controller(state: list[float], expected: int) -> None:
    assert action(state, GOOD) == expected


def test_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"botorch-risk-bench\[problems\]"):
        LunarLanding()(torch.full((1, 12), 0.5).double())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_good_controller_lands() -> None:
    pytest.importorskip("Box2D")
    problem = LunarLanding(num_terrains=3)
    X = torch.tensor([GOOD, [0.0] * 12]).double()
    good, bad = problem(X).tolist()
    assert good > 150 > 0 > bad
    assert problem(X[:1]).item() == good


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="at least one terrain"):
        LunarLanding(num_terrains=0)
