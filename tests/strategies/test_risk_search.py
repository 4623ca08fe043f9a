r"""Any risk, with constraints on several outcomes."""

from functools import partial
from typing import Any

import pytest
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from gpytorch.kernels import MaternKernel
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.papers import v_ucb
from botorch_risk.recommend import InfeasibleRecommendationWarning
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, MeanVariance, ValueAtRisk
from botorch_risk.robust import MonteCarloDecision, pareto_search
from botorch_risk.seeding import generators
from botorch_risk.stopping import strategy_gap
from botorch_risk.strategies import (
    Box,
    DecisionThenValue,
    EnvironmentRisk,
    LargestKnowledgeGradient,
    RiskRecipe,
    Strategy,
    largest_bound,
    largest_reduction,
    risk_search,
)
from botorch_risk.strategies.decision_then_value import least_certain
from botorch_risk.strategies.history import ReplicateWithoutOutcomesWarning
from botorch_risk.tables import table_search
from botorch_risk.test_functions import ValueAtRiskBranin
from tests.strategies.limited import LimitedPrice

PROBLEM = LimitedPrice()
CONSTRAINTS = [
    RiskConstraint.chance(PROBLEM.environment, 0.0, outcome=i, delta=0.05, at_most=False)
    for i in (1, 2)
]
KNOWN: dict[str, Any] = {"environment": PROBLEM.environment, "risk_measure": Expectation()}
SMALL: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16}
quietly = pytest.mark.filterwarnings(
    "ignore::botorch_risk.recommend.InfeasibleRecommendationWarning",
    "ignore:No observation of outcome:botorch.exceptions.warnings.UserInputWarning",
)


def build(seeds: Any = (0, 1), **options: Any) -> Strategy:
    chosen = {**KNOWN, "constraints": CONSTRAINTS, **SMALL, **options}
    return risk_search(PROBLEM.decision_bounds, seeds, **chosen)


def outcomes(strategy: Strategy, X: Tensor, index: int) -> tuple[Tensor, Tensor]:
    if X.shape[-1] == 2:
        W = PROBLEM.draw_contexts(X, generators(strategy.seeds, "contexts", index))
        X = torch.cat([X, W], dim=-1)
    return X, PROBLEM.sample_outcomes(X, 1, generators(strategy.seeds, "noise", index))


def play(strategy: Strategy, rounds: int) -> None:
    for index in range(rounds):
        strategy.tell(*outcomes(strategy, strategy.ask(), index))


@quietly
@pytest.mark.slow
def test_it_maximises_the_bound_of_a_users_own_loop() -> None:
    strategy = build(num_restarts=8, raw_samples=128)
    play(strategy, 2)
    belief: Any = strategy.belief
    assert isinstance(belief, ConstrainedUpperConfidenceBound)
    assert isinstance(belief.model, ModelListGP)
    assert belief.model.num_outputs == 3
    asked = strategy.ask()
    method: Any = strategy.method
    assert method.choose == DecisionThenValue(largest_bound, largest_reduction)
    own = RiskUpperConfidenceBound(belief.model.models[0], PROBLEM.environment, Expectation(), 4.0)
    whole = ConstrainedUpperConfidenceBound(
        belief.model, own, CONSTRAINTS, beta=9.0, upper_beta=0.0
    )
    grid = torch.rand(2, 300, 2, dtype=torch.double)
    with torch.no_grad():
        assert (whole.evaluate(asked).squeeze(-1) >= whole.evaluate(grid).amax(dim=-1)).all()


@quietly
@pytest.mark.slow
def test_it_finds_the_feasible_optimum() -> None:
    strategy = build(range(3), num_initial=16, constraint_beta=4.0)
    play(strategy, 10)
    chosen = strategy.recommend()
    assert PROBLEM.is_feasible(chosen).all()
    regret = PROBLEM.best - PROBLEM.objective(chosen)
    assert regret.median() < 0.12  # random decisions: 0.26, of a range of feasible values of 0.97


def test_it_says_when_nothing_is_feasible_and_recommends_the_least_infeasible() -> None:
    hopeless = [
        RiskConstraint.chance(PROBLEM.environment, 0.9, outcome=2, delta=0.05, at_most=False)
    ]
    strategy = build(0, constraints=hopeless, reporting="posterior_mean")
    X = torch.tensor([[[0.9, 0.9], [0.8, 0.9], [0.5, 0.6]]], dtype=torch.double).repeat(1, 4, 1)
    X, Y = outcomes(strategy, X[:, :10] + 0.01 * torch.rand(1, 10, 2, dtype=torch.double), 0)
    strategy.tell(X, Y)
    with pytest.warns(InfeasibleRecommendationWarning, match="Got none among 10"):
        recommendation = strategy.method.recommendation(strategy.views[0][1])
    assert recommendation.feasible.tolist() == [False]
    assert ((recommendation.point - torch.tensor([0.5, 0.6])).abs() < 0.02).all()


def test_without_constraints_at_a_quantile_it_is_v_ucb_with_observed_contexts() -> None:
    problem = ValueAtRiskBranin()
    bounds = problem.bounds[:, :1]
    options: dict[str, Any] = {"environment": problem.environment, "num_initial": 5, **SMALL}
    options["reporting"] = "posterior_mean"  # as the paper's
    ours = risk_search(bounds, [0, 1], risk_measure=ValueAtRisk(0.1), **options)
    v = v_ucb(bounds, [0, 1], risk_level=0.1, beta=4.0, w_is_chosen=False, **options)
    for index in range(3):
        X, same = ours.ask(), v.ask()
        assert torch.equal(X, same)
        draws = generators(ours.seeds, "contexts", index)
        rows = torch.cat([X, problem.environment.sample(X.shape[-2], draws)], dim=-1)
        for each in (ours, v):
            each.tell(rows, problem(rows, noise=False).unsqueeze(-1))
    assert torch.equal(ours.recommend(), v.recommend())


@quietly
def test_each_outcome_is_learnt_from_the_rows_in_which_it_was_observed() -> None:
    strategy = build(0, num_initial=8)
    X, Y = outcomes(strategy, strategy.ask(), 0)
    Y[:, 5:, :, 0] = torch.nan  # the objective failed where the constraints were measured
    Y[:, :1, :, 1:] = torch.nan
    strategy.tell(X, Y)
    counts = [len(each.train_targets[0]) for each in strategy.belief.model.models]
    assert counts == [5, 7, 7]
    assert strategy.ask().isfinite().all()
    expected = Y[0, 1:, 0, 1].mean()
    assert torch.allclose(strategy.history.means_of(1)[1].mean(), expected)


@quietly
@pytest.mark.slow
def test_a_replicate_without_one_kind_of_outcome_waits() -> None:
    strategy = build([0, 1], num_initial=6)
    X, Y = outcomes(strategy, strategy.ask(), 0)
    Y[1, ..., 2] = torch.nan
    strategy.tell(X, Y)
    assert [replicates for replicates, _ in strategy.views] == [[0]]
    asked = strategy.ask()
    assert asked.isfinite().all()
    with pytest.warns(ReplicateWithoutOutcomesWarning, match=r"Got none for seeds=\[1\]"):
        assert strategy.recommend().isfinite().all(dim=-1).tolist() == [True, False]
    rows, Z = outcomes(strategy, asked, 1)
    strategy.tell(rows, Z)
    assert sorted(replicates for replicates, _ in strategy.views) == [[0], [1]]


@quietly
def test_where_w_is_chosen_it_may_be_the_least_certain_value() -> None:
    strategy = build([3, 4], w_is_chosen=True, value_rule="outcome_variance", num_initial=6)
    play(strategy, 1)
    pair = strategy.ask()
    model: Any = strategy.belief.model
    for row in range(2):
        candidates = [torch.cat([pair[row, 0, :2], w]) for w in PROBLEM.environment.points.unbind()]
        spread = [each.train_targets for each in model.models]
        totals = []
        for each in candidates:
            total = 0.0
            for i, part in enumerate(model.models):
                scale = part.outcome_transform.untransform(spread[i].unsqueeze(-1))[0][row].std()
                inputs = each.expand(2, 1, -1)
                with torch.no_grad():
                    total += float(part.posterior(inputs).variance[row, 0, 0].sqrt() / scale)
            totals.append(total)
        best = candidates[int(torch.tensor(totals).argmax())]
        assert torch.equal(best, pair[row, 0])


@quietly
@pytest.mark.filterwarnings("ignore:When all training points are infeasible")
@pytest.mark.slow
def test_an_acquisition_function_of_botorch_chooses_what_its_own_loop_would() -> None:
    improvement = partial(qLogNoisyExpectedImprovement, prune_baseline=True)
    strategy = build(0, num_initial=5, decide=MonteCarloDecision(improvement))
    play(strategy, 1)
    asked = strategy.ask()
    assert asked.shape == (1, 1, 2)
    assert torch.equal(asked, strategy.ask())
    lower, upper = PROBLEM.decision_bounds
    assert ((asked >= lower) & (asked <= upper)).all()


@pytest.mark.slow
def test_constraints_in_a_box_of_whole_numbers() -> None:
    assert_whole_numbers_under_constraints(None)


def assert_whole_numbers_under_constraints(decide: Any) -> None:
    box = Box(torch.tensor([[0.0, 1.0, 0.0], [1.0, 4.0, 2.0]], dtype=torch.double), [1], [2])
    days = DiscreteEnvironment(torch.linspace(0, 1, 4, dtype=torch.double).unsqueeze(-1))
    used = RiskConstraint.chance(days, 4.0, outcome=1, delta=0.1)
    strategy = risk_search(
        box, 0, environment=days, risk_measure=Expectation(), constraints=[used],
        decide=decide, num_initial=12, num_restarts=2, raw_samples=16,
    )  # fmt: skip
    for index in range(2):
        X = strategy.ask()
        assert torch.equal(X[..., 1:], X[..., 1:].round())
        w = days.sample(X.shape[-2], generators([0], "days", index))
        gain = X[..., :1] + X[..., 1:2] + (X[..., 2:] - 1).square()
        Y = torch.stack([gain + w, X[..., 1:2] + w + X[..., :1]], dim=-1)
        strategy.tell(torch.cat([X, w], dim=-1), Y)
    best = strategy.recommend()
    assert torch.equal(best[:, 1:], best[:, 1:].round())
    assert (best[:, :2].sum(dim=-1) + 1 <= 4.05).all()  # it holds on the worst day too


def test_several_outcomes_of_one_dimension_too_few_are_refused() -> None:
    strategy = build(0)
    X, Y = outcomes(strategy, strategy.ask(), 0)
    for bad in (Y[..., 0], Y[..., :2]):
        with pytest.raises(BotorchTensorDimensionError, match=r"`1 x q x k x 3`, q >= 1. Got"):
            strategy.tell(X, bad)


@pytest.mark.parametrize("w_is_chosen", [False, True])
def test_the_number_of_values_of_w_chooses_no_other_method(w_is_chosen: bool) -> None:
    methods = []
    for number in (5, 256, 257, 2000):
        values = torch.linspace(0, 1, number).double().unsqueeze(-1)
        parts = {"environment": DiscreteEnvironment(values), "risk_measure": ValueAtRisk(0.2)}
        box = torch.tensor([[0.0], [1.0]])
        methods.append(risk_search(box, 0, w_is_chosen=w_is_chosen, **parts).method)
    assert methods[0].recipe.joint == w_is_chosen
    assert methods[0].reporting == "expected_risk_everywhere"
    assert all(each == methods[0] for each in methods)


def test_lacing_without_lacing_values_is_refused_before_anything_is_asked() -> None:
    unconstrained = {"constraints": (), "w_is_chosen": True, "value_rule": "lacing"}
    with pytest.raises(UnsupportedError, match=r"a risk measure among.* Got MeanVariance"):
        build(risk_measure=MeanVariance(1.0), **unconstrained)
    build(risk_measure=ValueAtRisk(0.1), **unconstrained)
    with pytest.raises(UnsupportedError, match=r"the rule 'lacing'. Got MeanVariance"):
        table_search(["P", "Q"], ["u", "v"], risk_measure=MeanVariance(1.0), rule="lacing")
    with pytest.raises(UnsupportedError, match="another `value_rule` for several objectives"):
        pareto_search(
            PROBLEM.decision_bounds,
            0,
            **KNOWN,
            reference_point=(0.0, 0.0),
            w_is_chosen=True,
            value_rule="lacing",
        )


@quietly
def test_what_knows_no_constraints_refuses_a_bound_with_constraints() -> None:
    strategy = build(0, num_initial=4, choose=LargestKnowledgeGradient())
    play(strategy, 1)
    for answer in (strategy.ask, lambda: strategy_gap(strategy, 0.1)):
        with pytest.raises(UnsupportedError, match=r"without constraints\. Got .* Constrained"):
            answer()


def test_bad_arguments_are_refused() -> None:
    parts = {**KNOWN, "constraints": CONSTRAINTS}
    with pytest.raises(TypeError, match="Expected"):
        risk_search(PROBLEM.decision_bounds, 0, **{**parts, "risk_measure": "cvar"})
    with pytest.raises(ValueError, match="beta"):
        risk_search(PROBLEM.decision_bounds, 0, beta=-1.0, **parts)
    by_bound = DecisionThenValue(largest_bound, least_certain)
    with pytest.raises(ValueError, match=r"`decide` or `choose`\. Got MonteCarlo.*, DecisionThen"):
        build(decide=MonteCarloDecision(qLogNoisyExpectedImprovement), choose=by_bound)
    perturbed = InputPerturbation(torch.zeros(3, 2, dtype=torch.double))
    with pytest.raises(UnsupportedError, match="w_is_chosen=False"):
        build(environment=perturbed, w_is_chosen=True)
    recipe = RiskRecipe(ConditionalValueAtRisk(0.1))
    with pytest.raises(ValueError, match="`num_outcomes` to be at least 1"):
        EnvironmentRisk(recipe, DecisionThenValue(largest_bound, least_certain), num_outcomes=0)


def matern(X: Tensor, Y: Tensor, input_transform: Any) -> SingleTaskGP:
    return standardized_gp(
        X,
        Y,
        input_transform=input_transform,
        covar_module=MaternKernel(nu=2.5, ard_num_dims=X.shape[-1], batch_shape=X.shape[:-2]),
    )


@pytest.mark.slow
def test_a_users_own_kernel_is_fitted_in_every_replicate() -> None:
    strategy, by_default, named = build(model=matern), build(), build(model=standardized_gp)
    for each in (strategy, by_default, named):
        play(each, rounds=1)
    for model in strategy.views[0][1].belief.model.models:
        lengthscales = model.covar_module.lengthscale
        assert isinstance(model.covar_module, MaternKernel)
        assert lengthscales.shape == (2, 1, 3) and not lengthscales[0].equal(lengthscales[1])
    torch.testing.assert_close(by_default.ask(), named.ask(), rtol=0, atol=0)
    assert not strategy.ask().allclose(named.ask(), atol=1e-6)
