r"""Risks of several objectives by BoTorch's own measures."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.monte_carlo import qSimpleRegret
from botorch.acquisition.multi_objective.multi_output_risk_measures import IndependentCVaR
from botorch.acquisition.risk_measures import CVaR
from botorch.exceptions.errors import UnsupportedError
from botorch.models import ModelListGP
from botorch.models.transforms.input import Normalize
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.sampling import manual_seed
from botorch_risk_bench.baselines import (
    botorch_risk_measure,
    conditional_value_at_risk_log_nehvi,
    mars_log_nei,
    random_pareto_search,
)
from botorch_risk_bench.baselines.appended_values import (
    maximize_singly,
    model_with_values,
    resampled,
    resampled_values,
    without_numerical_warnings,
)
from botorch_risk_bench.baselines.botorch_pareto import (
    BoTorchDecision,
    IndependentRiskHypervolume,
    ScalarizedRiskImprovement,
)
from botorch_risk_bench.baselines.botorch_risk_measure import AppendedValues

from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.robust import pareto_search
from botorch_risk.robust.monte_carlo import model_of_replicate
from botorch_risk.robust.pareto_search import HypervolumeImprovement
from botorch_risk.seeding import generators
from botorch_risk.strategies import random_decision, risk_search
from botorch_risk.strategies.environment_risk import Turn
from tests.strategies.cases import OBJECTIVES, PAIRS
from tests.strategies.loops import play

OPTIONS: dict[str, Any] = {
    "environment": OBJECTIVES.environment,
    "risk_level": 0.4,
    "reference_point": (-5.0, -5.0),
    "n_w": 3,
    "num_samples": 4,
    "num_initial": 5,
    "num_restarts": 1,
    "raw_samples": 4,
    "max_iterations": 2,
}


def models(w_set: torch.Tensor) -> tuple[ModelListGP, torch.Tensor]:
    r"""Two outcomes of six pairs, with values of W appended, and the decisions."""
    X = torch.rand(6, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    values = (X.sin(), -X.square())
    parts = [model_with_values(X, each.sum(-1, keepdim=True), w_set, bounds) for each in values]
    return ModelListGP(*parts).eval(), X[:, :1]


@pytest.mark.parametrize("n_w, number", [(19, 2), (29, 3), (39, 4), (20, 3), (33, 4)])
def test_botorchs_measure_takes_as_many_values_as_the_docstring_says(n_w: int, number: int) -> None:
    values = torch.randn(1, n_w, 2, dtype=torch.double)
    found = IndependentCVaR(alpha=0.9, n_w=n_w)(values)
    expected = values.sort(dim=-2).values[:, :number].mean(dim=-2, keepdim=True)
    torch.testing.assert_close(found, expected)
    assert number == n_w - int(np.ceil(0.9 * n_w)) + 1


def test_both_are_acquisition_functions_of_decisions() -> None:
    model, X = models(OBJECTIVES.environment.points)
    parts = (-5.0, -5.0), 0.6, 3, 4
    for build in (IndependentRiskHypervolume(*parts), ScalarizedRiskImprovement(*parts)):
        with manual_seed(0), without_numerical_warnings():
            acquisition = build(model, X, X_pending=X[:1] + 0.1)
            assert acquisition(torch.rand(3, 1, 1, dtype=torch.double)).shape == (3,)


@pytest.mark.slow
@pytest.mark.parametrize("make", [conditional_value_at_risk_log_nehvi, mars_log_nei])
def test_it_meets_the_contexts_that_our_search_meets(make: Any) -> None:
    r"""The same initial decisions, decisions alone asked for, and several at once."""
    strategy = make(OBJECTIVES.bounds, [0, 1], batch_size=2, **OPTIONS)
    ours = pareto_search(
        OBJECTIVES.bounds,
        [0, 1],
        environment=OBJECTIVES.environment,
        risk_measure=strategy.method.report.recipe.risk_measures,
        acquisition=HypervolumeImprovement((-5.0, -5.0)),
        num_initial=5,
    )
    X = strategy.ask()
    assert torch.equal(X, ours.ask())
    pairs = torch.cat([X, OBJECTIVES.environment.sample(5, generators([0, 1], "w"))], dim=-1)
    Y = OBJECTIVES.sample_outcomes(pairs, 2, generators([0, 1], "y"))
    for each in (strategy, ours):
        each.tell(pairs, Y)
    assert torch.equal(strategy.recommend().nan_to_num(), ours.recommend().nan_to_num())
    asked = strategy.ask()
    assert asked.shape == (2, 2, 1)
    assert not torch.equal(asked[:, 0], asked[:, 1])


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"`n_w` to be at least 1\. Got 0"):
        BoTorchDecision(IndependentRiskHypervolume((0.0, 0.0), 0.9, 1, 1), n_w=0)
    with pytest.raises(ValueError, match="risk_level"):
        mars_log_nei(OBJECTIVES.bounds, 0, **{**OPTIONS, "risk_level": 1.5})


CVAR = ConditionalValueAtRisk(0.3)
KNOWN: dict[str, Any] = {"environment": PAIRS.environment, "risk_measure": CVAR, "num_initial": 5}


def test_values_come_in_proportion_to_their_weights() -> None:
    points = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.double)
    environment = DiscreteEnvironment(points, torch.tensor([0.25, 0.0, 0.75], dtype=torch.double))
    values = resampled(environment, 8, torch.tensor([0.3], dtype=torch.double))
    assert values.shape == (8, 1)
    assert [int((values == point).sum()) for point in points] == [2, 0, 6]


def test_the_model_with_values_appended_is_the_model_at_pairs() -> None:
    strategy = risk_search(PAIRS.bounds, [0, 1], **KNOWN)
    play(strategy, 1, problem=PAIRS)
    method: Any = strategy.method
    model = model_of_replicate(Turn(method, strategy.views[0][1], 0, None), 1)
    appended, options = AppendedValues(partial(CVaR, alpha=0.7), 4)(model, PAIRS.environment, CVAR)
    assert options["objective"].n_w == 4
    X = torch.rand(3, 2, 1, dtype=torch.double)
    W = appended.input_transform["append"].feature_set  # 4 x 1
    pairs = torch.cat([X.repeat_interleave(4, dim=-2), W.repeat(2, 1).expand(3, -1, -1)], dim=-1)
    expected, found = model.posterior(pairs), appended.posterior(X)
    torch.testing.assert_close(found.mean, expected.mean)
    torch.testing.assert_close(found.variance, expected.variance)
    sampler = SobolQMCNormalSampler(torch.Size([64]), seed=0)
    acqf = qSimpleRegret(appended, sampler=sampler, **options)
    by_hand = sampler(expected).squeeze(-1).reshape(64, 3, 2, 4).sort(dim=-1).values
    lowest = by_hand[..., :2].mean(dim=-1)  # BoTorch's mean of the worst 4 (1 - 0.7), one more
    torch.testing.assert_close(acqf(X), lowest.amax(dim=-1).mean(dim=0))
    assert not model.posterior(pairs).mean.isnan().any()  # the model itself is as it was


def test_it_recommends_as_risk_search_does() -> None:
    options: dict[str, Any] = {"num_restarts": 1, "raw_samples": 4}
    strategy = botorch_risk_measure(
        PAIRS.bounds, [0, 1], objective=partial(CVaR, alpha=0.7), n_w=4, **KNOWN, **options
    )
    options["reporting"] = "posterior_mean"
    other = risk_search(PAIRS.bounds, [0, 1], **KNOWN, **options)
    for each in (strategy, other):
        play(each, 1, problem=PAIRS)
    assert torch.equal(strategy.recommend(), other.recommend())
    assert strategy.ask().shape == (2, 1, 1)


def test_random_decisions_are_within_the_box() -> None:
    strategy = risk_search(PAIRS.bounds, [0, 1], **KNOWN)
    play(strategy, 1, problem=PAIRS)
    method: Any = strategy.method
    turn = Turn(method, strategy.views[0][1], 0, None)
    X = random_decision(turn)
    assert X.shape == (2, 1, 1)
    assert ((PAIRS.bounds[0] <= X) & (PAIRS.bounds[1] >= X)).all()
    assert torch.equal(X, random_decision(turn))
    assert not torch.equal(X[0], X[1])


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="`n_w` to be at least 1"):
        botorch_risk_measure(PAIRS.bounds, 0, objective=partial(CVaR, alpha=0.7), n_w=0, **KNOWN)
    perturbed = {**KNOWN, "environment": InputPerturbation(torch.zeros(2, 1, dtype=torch.double))}
    with pytest.raises(UnsupportedError, match="Got InputPerturbation"):
        botorch_risk_measure(PAIRS.bounds, 0, objective=partial(CVaR, alpha=0.7), **perturbed)


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
    return Turn(method.report, strategy.views[0][1], 0, None)


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
