r"""Outside baselines where the law of W is known: the same ask and tell as the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.seeding import generators
from botorch_risk.strategies import (
    RandomPairs,
    RhoKnowledgeGradient,
    Strategy,
    ValueAtRiskLogNEI,
)
from botorch_risk.test_functions import ValueAtRiskBranin, ValueAtRiskHartmann

PROBLEM = ValueAtRiskBranin()
DECISIONS = PROBLEM.bounds[:, :1]
SMALL: dict[str, Any] = {
    "n_w": 4,
    "num_samples": 4,
    "num_initial": 4,
    "num_restarts": 1,
    "raw_samples": 4,
    "max_iterations": 2,
}
KINDS: dict[str, Any] = {
    "knowledge_gradient": lambda *args, **options: RhoKnowledgeGradient(
        *args, **{"num_fantasies": 2, **SMALL, **options}
    ),
    "log_nei": lambda *args, **options: ValueAtRiskLogNEI(*args, **{**SMALL, **options}),
}
every = pytest.mark.parametrize("kind", KINDS)


def build(kind: str, seeds: Any = (0, 1), **options: Any) -> Any:
    return KINDS[kind](DECISIONS, PROBLEM.environment, 0.1, seeds, **options)


def play(strategy: Any, rounds: int, first: int = 0) -> list[Tensor]:
    asked = []
    for index in range(first, first + rounds):
        asked.append(X := strategy.ask())
        draws = generators(strategy.seeds, "noise", index)
        noise = [torch.randn(X.shape[-2], 1, generator=each).double() for each in draws]
        strategy.tell(X, PROBLEM(X, noise=False).unsqueeze(-1) + 0.1 * torch.stack(noise))
    return asked


@every
def test_protocol_and_state(kind: str) -> None:
    r"""Also where hyperparameters are those of an earlier round."""
    strategy, resumed = (build(kind, batch_size=2, refit_every=2) for _ in range(2))
    assert isinstance(strategy, Strategy)
    initial = RandomPairs(DECISIONS, PROBLEM.environment, 0.1, [0, 1], num_initial=4).ask()
    first, second = play(strategy, 2)
    assert torch.equal(first, initial)
    assert second.shape == (2, 2, 2)
    assert ((second >= 0) & (second <= 1)).all()
    assert PROBLEM.environment.supports(second[..., 1:]).all()
    resumed.load_state_dict(strategy.state_dict())
    assert torch.equal(strategy.ask(), resumed.ask())
    assert torch.equal(strategy.recommend(), resumed.recommend())
    rivals = RandomPairs(DECISIONS, PROBLEM.environment, 0.1, [0, 1], num_initial=4)
    rivals.tell(strategy._X, strategy._Y)
    assert torch.equal(strategy.recommend(), rivals.recommend())


@every
def test_a_replicate_does_not_depend_on_its_company(kind: str) -> None:
    together, alone = build(kind, [4, 0]), build(kind, 0)
    X, Y = (play(each, 2)[1] for each in (together, alone))
    assert torch.equal(X[1:], Y)


def test_hyperparameters_stay_between_estimates() -> None:
    strategy = build("log_nei", 0, refit_every=2)
    lengthscales = []
    for index in range(4):
        play(strategy, 1, first=index)
        w_set = torch.rand(4, 1).double()
        model = strategy._model(0, w_set)
        assert len(model.train_targets) == 4 + index
        assert torch.equal(model.input_transform.append.feature_set, w_set)
        lengthscales.append(model.covar_module.lengthscale.detach())
    assert torch.equal(lengthscales[0], lengthscales[1])
    assert torch.equal(lengthscales[2], lengthscales[3])
    assert not torch.equal(lengthscales[0], lengthscales[2])


def test_rows_without_an_outcome_are_left_out() -> None:
    strategy = build("log_nei")
    X = strategy.ask()
    Y = PROBLEM(X, noise=False).unsqueeze(-1).expand(2, 4, 2).clone()
    Y[1, :2] = torch.nan
    Y[1, 2, 0] = torch.nan
    strategy.tell(X, Y)
    assert len(strategy._model(1, X[0, :, 1:]).train_targets) == 2
    assert strategy.ask().isfinite().all()


def test_appended_values_are_in_proportion_to_their_weights() -> None:
    points = torch.tensor([[0.0], [0.4], [0.7], [1.0]], dtype=torch.double)
    masses = torch.tensor([0.5, 0.0, 0.3, 0.2], dtype=torch.double)
    strategy = ValueAtRiskLogNEI(
        DECISIONS, DiscreteEnvironment(points, masses), 0.1, [0, 1], **{**SMALL, "n_w": 10}
    )
    values = strategy._resampled(0)[..., 0]
    counts = torch.stack([(values == point).sum(dim=-1) for point in points[:, 0]], dim=-1)
    assert counts.tolist() == [[5, 0, 3, 2]] * 2
    law = DiscreteEnvironment(torch.rand(2, 10, 2, dtype=torch.double))  # equal, one a replicate
    own = ValueAtRiskLogNEI(DECISIONS, law, 0.1, [0, 1], **{**SMALL, "n_w": 10})
    torch.testing.assert_close(own._resampled(0), law.points)


def test_w_is_moved_to_the_nearest_value_of_its_law() -> None:
    points = torch.tensor([[0.0, 0.0], [0.1, 50.0], [1.0, 0.0]], dtype=torch.double)
    law = DiscreteEnvironment(points, torch.tensor([0.5, 0.5, 0.0]))
    strategy = ValueAtRiskLogNEI(DECISIONS, law, 0.1, [0, 1], **SMALL)
    chosen = torch.tensor([[[0.3, 0.09, 20.0]], [[0.3, 1.0, 10.0]]], dtype=torch.double)
    moved = strategy._with_supported_w(chosen, 0)
    torch.testing.assert_close(moved[:, 0, 0], chosen[:, 0, 0])
    assert torch.equal(moved[:, 0, 1:], points[[1, 1]])


def test_continuous_law_and_bad_numbers() -> None:
    problem = ValueAtRiskHartmann(1, "continuous")
    strategy = KINDS["knowledge_gradient"](DECISIONS, problem.environment, 0.1, 0)
    X = strategy.ask()
    strategy.tell(X, problem(X, noise=False).unsqueeze(-1))
    assert problem.environment.supports(strategy.ask()[..., 1:]).all()
    for name in ("n_w", "num_samples", "refit_every", "max_iterations"):
        with pytest.raises(ValueError, match=f"at least 1.*{name}=0"):
            build("log_nei", **{name: 0})
