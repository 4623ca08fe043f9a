r"""Acquisition functions of encoded points as functions of decisions, and the way back."""

import random
from typing import Any

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound, qUpperConfidenceBound
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from botorch_risk.acquisition.risk_bound import gp_ucb
from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.papers import RandomOrAcquire
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.robust import MonteCarloDecision
from botorch_risk.strategies import Acquire, Box, Strategy, risk_search
from botorch_risk.strategies.encoded_decisions import (
    AcquisitionOfDecisions,
    decoded,
    maximize_by_botorch,
)
from tests.strategies.cases import OVEN, SEASONS
from tests.strategies.loops import play

BOX = Box(OVEN.bounds, OVEN.integers, OVEN.categories)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16}


def model(*batch_shape: int) -> SingleTaskGP:
    X = BOX.initial(range(max(1, *batch_shape, 1)), 9).reshape(*batch_shape, 9, 3)
    return SingleTaskGP(BOX.unit(X), X.sin().sum(dim=-1, keepdim=True)).eval()


@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_values_are_at_the_encoded_points(batch_shape: tuple[int, ...]) -> None:
    gp = model(*batch_shape)
    X = BOX.initial(range(gp.batch_shape.numel()), 5).reshape(*batch_shape, 5, 3)
    for acqf in (gp_ucb(gp, 1, beta=4.0), UpperConfidenceBound(gp, beta=4.0)):
        wrapped = AcquisitionOfDecisions(acqf, BOX.unit)
        expected = torch.stack([acqf(BOX.unit(X[..., [row], :])) for row in range(5)], dim=-1)
        values = wrapped.evaluate(X)
        assert values.shape == (*batch_shape, 5)
        torch.testing.assert_close(values, expected.reshape(values.shape))
        torch.testing.assert_close(wrapped(X[..., :1, :]), expected[..., 0])


def test_pending_decisions_are_encoded_and_those_from_before_stay() -> None:
    gp = model()
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=0)
    before, decisions = BOX.initial([3], 1)[0], BOX.initial([4], 2)[0]
    acqf = qUpperConfidenceBound(gp, beta=4.0, sampler=sampler, X_pending=BOX.unit(before))
    wrapped = AcquisitionOfDecisions(acqf, BOX.unit)
    wrapped.set_X_pending(decisions)
    assert torch.equal(acqf.X_pending, BOX.unit(torch.cat([before, decisions])))
    wrapped.set_X_pending(None)
    assert torch.equal(acqf.X_pending, BOX.unit(before))


def test_what_takes_no_pending_points_is_refused_in_words() -> None:
    wrapped = AcquisitionOfDecisions(UpperConfidenceBound(model(), beta=4.0), BOX.unit)
    with pytest.raises(UnsupportedError, match="with pending points"):
        optimize_acqf_replicates(wrapped, BOX.bounds, q=2, seeds=0)


def test_one_hot_columns_and_back() -> None:
    X = torch.tensor([[0.25, 0.0, 1.0, 0.0, 0.5], [1.0, 0.1, 0.2, 0.7, 0.0]])
    back = decoded(X, {1: [4.0, 5.0, 6.0]}, num_columns=3)
    assert torch.equal(back, torch.tensor([[0.25, 0.5, 0.5], [1.0, 1.0, 0.0]]))


# Strategies.


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A not p.d.:linear_operator.utils.warnings.NumericalWarning")
def test_acquisitions_of_botorch_replicate_by_replicate() -> None:
    def improvement(model: Any, t: int) -> qLogExpectedImprovement:
        best = model.outcome_transform.untransform(model.train_targets.max())[0]
        sampler = SobolQMCNormalSampler(torch.Size([16]), seed=t)
        return qLogExpectedImprovement(model, best_f=best, sampler=sampler)

    inner = Acquire(improvement, **FAST)
    for method in (inner, RandomOrAcquire(inner)):
        strategy = Strategy(BOX, method, [0, 1], num_initial=6, batch_size=2)
        for X in play(strategy, 3, problem=OVEN):
            assert torch.equal(X[..., 1:], X[..., 1:].round())
            assert len(set(map(tuple, X[0].tolist()))) == X.shape[1]


def test_many_categories_are_searched_as_the_seed_says() -> None:
    r"""BoTorch draws among more than 20 categories by Python's own generator."""
    bounds = torch.tensor([[0.0, 0.0], [1.0, 30.0]], dtype=torch.double)
    box = Box(bounds, categories=[1])
    X = box.initial([0], 8)[0]
    gp = SingleTaskGP(box.unit(X), (X[:, :1] + X[:, 1:].cos()).sin()).eval()
    acqf = AcquisitionOfDecisions(UpperConfidenceBound(gp, beta=4.0), box.unit)
    random.seed(5)
    first = maximize_by_botorch(acqf, box, 3, **FAST)
    kept = random.random()
    assert torch.equal(first, maximize_by_botorch(acqf, box, 3, **FAST))
    random.seed(5)
    assert random.random() == kept


@pytest.mark.parametrize("name", ["CVaR-UCB", "qLogEI"])
def test_any_risk_of_mixed_decisions(name: str) -> None:
    def improvement(model: Any, X: Tensor, X_pending: Any, **options: Any) -> Any:
        best = model.posterior(X).mean.max()
        return qLogExpectedImprovement(model, best_f=best, X_pending=X_pending, **options)

    box = Box(SEASONS.bounds, SEASONS.integers, SEASONS.categories)
    known = {"environment": SEASONS.environment, "risk_measure": ConditionalValueAtRisk(0.2)}
    decide = MonteCarloDecision(improvement) if name == "qLogEI" else None
    strategy = risk_search(box, [0, 1], decide=decide, num_initial=6, **known, **FAST)
    for X in play(strategy, 2, problem=SEASONS):
        assert torch.equal(X[..., 1:], X[..., 1:].round())


def test_known_noise_sees_decisions() -> None:
    seen: list[Tensor] = []

    def noise(X: Tensor) -> Tensor:
        seen.append(X.detach())
        return 0.01 + 0.0 * X[..., :1]

    options = {"num_repeats": 4, "risk_aversion": 1.0, "num_initial": 6, "known_noise": noise}
    from botorch_risk.papers import rahbo

    play(rahbo(BOX, [0, 1], **options, **FAST), 2, problem=OVEN)
    for X in seen:
        assert X.shape[-1] == 3
        assert torch.equal(BOX.checked(X), X)


CODES = [0, 1, 2, 3], [2, 0, 3, 1]


def play_codes(codes: list[int], categories: list[int]) -> tuple[Tensor, Tensor]:
    r"""Decisions and positions of w in five rounds over four settings of a machine, by code."""
    heights = torch.tensor([0.0, 2.0, 0.3, 1.0], dtype=torch.double)
    peaks = torch.tensor([0.2, 0.7, 0.6, 0.4], dtype=torch.double)
    points = torch.tensor(codes, dtype=torch.double).unsqueeze(-1)
    machine = DiscreteEnvironment(points, categories=categories)
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    parts = {"environment": machine, "risk_measure": ConditionalValueAtRisk(0.5)}
    options = {"num_initial": 6, "num_restarts": 2, "raw_samples": 16}
    strategy = risk_search(unit, [1, 2], w_is_chosen=True, **parts, **options)
    asked = []
    for _ in range(5):
        X = strategy.ask()
        position = (X[..., 1:] == points.squeeze(-1)).double().argmax(dim=-1)
        Y = heights[position] - 4 * (X[..., 0] - peaks[position]) ** 2
        strategy.tell(X, Y.unsqueeze(-1))
        asked.append((X[..., 0], position))
    decisions, positions = zip(*asked, strict=True)
    return torch.cat(decisions, dim=-1), torch.cat(positions, dim=-1)


@pytest.mark.slow
def test_categories_of_w_have_no_order() -> None:
    r"""Codes in another order are asked for at the same decisions and settings."""
    plain, coded = ([play_codes(codes, each) for codes in CODES] for each in ([], [0]))
    torch.testing.assert_close(coded[0], coded[1], atol=1e-4, rtol=0)
    assert not torch.allclose(plain[0][0], plain[1][0], atol=1e-2)
