r"""The values of W by which BoTorch's measures know its distribution."""

from __future__ import annotations

from typing import Any

import torch
from botorch.models.transforms.input import Normalize
from botorch_risk_bench.baselines import random_pareto_search
from botorch_risk_bench.baselines.appended_values import (
    maximize_singly,
    model_with_values,
    resampled_values,
    without_numerical_warnings,
)

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.risk import Expectation
from botorch_risk.seeding import generators
from botorch_risk.strategies.environment import Turn

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)


def turn(environment: DiscreteEnvironment) -> Turn:
    r"""The first choice of two replicates after the initial design."""
    strategy = random_pareto_search(
        UNIT,
        [0, 1],
        environment=environment,
        risk_measures=[Expectation(), Expectation()],
        num_initial=4,
    )
    X = strategy.ask()
    w = environment.sample(4, generators([0, 1], "contexts"))
    strategy.tell(torch.cat([X, w], dim=-1), torch.stack([X, X.cos()], dim=-1))
    method: Any = strategy.method
    return Turn(method.search, strategy.views[0][1], 0, None)


def test_values_are_in_proportion_to_their_weights() -> None:
    points = torch.tensor([[0.0], [0.4], [0.7], [1.0]], dtype=torch.double)
    masses = torch.tensor([0.5, 0.0, 0.3, 0.2], dtype=torch.double)
    values = resampled_values(turn(DiscreteEnvironment(points, masses)), 10)[..., 0]
    counts = torch.stack([(values == point).sum(dim=-1) for point in points[:, 0]], dim=-1)
    assert counts.tolist() == [[5, 0, 3, 2]] * 2


def test_as_many_values_as_equal_weights_are_all_of_them() -> None:
    weather = DiscreteEnvironment(torch.rand(2, 10, 2, dtype=torch.double))  # one a replicate
    torch.testing.assert_close(resampled_values(turn(weather), 10), weather.points)


def test_a_model_appends_the_values_to_each_decision() -> None:
    X = torch.rand(5, 2, dtype=torch.double)
    w_set = torch.tensor([[0.2], [0.7]], dtype=torch.double)
    model = model_with_values(X, X.sum(dim=-1, keepdim=True), w_set, UNIT.expand(2, 2)).eval()
    mean = model.posterior(torch.tensor([[0.3]], dtype=torch.double)).mean
    pairs = torch.tensor([[0.3, 0.2], [0.3, 0.7]], dtype=torch.double)
    plain = standardized_gp(
        X, X.sum(dim=-1, keepdim=True), input_transform=Normalize(2, bounds=UNIT.expand(2, 2))
    )
    torch.testing.assert_close(mean, plain.posterior(pairs).mean)


def test_the_maximiser_returns_one_point() -> None:
    def parabola(X: torch.Tensor) -> torch.Tensor:
        return -(X - 0.3).square().sum(dim=(-2, -1))

    acquisition: Any = parabola
    with without_numerical_warnings(), torch.random.fork_rng():
        torch.manual_seed(0)
        found = maximize_singly(acquisition, UNIT, 2, 8, 20)
    torch.testing.assert_close(found, torch.full((1, 1), 0.3).double(), atol=1e-4, rtol=0)
