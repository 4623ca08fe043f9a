r"""Linear limits: every strategy stays within them, and the initial design fills them evenly."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.exceptions.errors import InputDataError, UnsupportedError
from torch import Tensor

from botorch_risk import strategies
from botorch_risk.acquisition import LevelSet
from botorch_risk.constraints import NoiseConstraint, NoisyChanceConstraint, RiskConstraint
from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.seeding import generators
from botorch_risk.strategies import (
    Acquire,
    Box,
    FrameExperiment,
    HypervolumeImprovement,
    LargestKnowledgeGradient,
    LinearLimit,
    Strategy,
)

SEEDS = (0, 1)
UNIT = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.double)
WHOLE = LinearLimit({0: 1, 1: 1, 2: 1}, "==", 1)
TWENTIETHS = UNIT * 20
BOXES = {
    "fractions": Box(UNIT, limits=[WHOLE]),
    "steps": Box(
        UNIT * torch.tensor([4.0, 1.0, 1.0]), [0], limits=[LinearLimit({0: 0.2, 1: 1}, "<=", 0.8)]
    ),
    "category": Box(
        UNIT * torch.tensor([1.0, 1.0, 2.0]),
        categories=[2],
        limits=[LinearLimit({0: 1, 1: 1}, "<=", 0.8), LinearLimit({0: 1, 1: -1}, ">=", -0.1)],
    ),
    "fractions-in-steps": Box(
        TWENTIETHS, [0, 1, 2], limits=[LinearLimit({0: 1, 1: 1, 2: 1}, "==", 20)]
    ),
    "one-in-steps": Box(
        UNIT * torch.tensor([10.0, 1.0, 1.0]),
        [0],
        limits=[LinearLimit({0: 0.1, 1: 1, 2: 1}, "==", 1)],
    ),
}
WEATHER = DiscreteEnvironment(torch.linspace(0, 1, 4, dtype=torch.double).unsqueeze(-1))
CONTEXTS = torch.tensor([[0.0], [1.0]], dtype=torch.double)
CVAR = ConditionalValueAtRisk(0.3)
FAST: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16}
FEW: dict[str, Any] = {"num_restarts": 1, "raw_samples": 4}


@dataclass(frozen=True)
class Limited:
    r"""A strategy as `make(box, seeds)`, and the largest batch that it takes."""

    name: str
    make: Callable[..., Strategy]
    batch_size: int = 3


def with_options(make: Any, label: str = "", batch_size: int = 3, **options: Any) -> Limited:
    return Limited(make.__name__ + label, partial(make, **{**FAST, **options}), batch_size)


def improvement(model: Any, t: int) -> qLogExpectedImprovement:
    return qLogExpectedImprovement(model, best_f=model.posterior(model.train_inputs[0]).mean.max())


def acquire(box: Box, seeds: Any, *, num_initial: int, **options: Any) -> Strategy:
    return Strategy(box, Acquire(improvement, **options), seeds, num_initial=num_initial)


def safe(box: Box, seeds: Any, *, num_initial: int, **options: Any) -> Strategy:
    return strategies.safe_rahbo(
        box, seeds, safe_points=box.initial([7], num_initial)[0], **options
    )


def perturbed(box: Box, seeds: Any, **options: Any) -> Strategy:
    moves = torch.tensor([[0.0], [0.05], [-0.05]], dtype=torch.double)
    moves = torch.cat([0 * moves, moves, 0 * moves], dim=-1)
    return strategies.v_ucb(box, seeds, environment=InputPerturbation(moves), **options)


MEAN_AND_VARIANCE: dict[str, Any] = {"num_repeats": 3, "risk_aversion": 0.5}
SAFETY: dict[str, Any] = {
    "constraints": [
        NoisyChanceConstraint(-50.0, outcome=0, delta=0.5, at_most=False),
        NoiseConstraint(50.0),
    ],
    "num_candidates": 32,
}
RISK: dict[str, Any] = {"environment": WEATHER, "risk_measure": CVAR}
USED = [RiskConstraint.chance(WEATHER, 1e3, outcome=1, delta=0.1)]
STRATEGIES = [
    with_options(strategies.rahbo, **MEAN_AND_VARIANCE),
    with_options(strategies.rahbo_us, num_uncertainty=1, **MEAN_AND_VARIANCE),
    with_options(strategies.risk_averse_kg, **MEAN_AND_VARIANCE),
    Limited("safe_rahbo", partial(safe, **FAST, **MEAN_AND_VARIANCE, **SAFETY)),
    with_options(strategies.adaptive_repeats, batch_size=1, risk_aversion=0.5),
    Limited("random_search", strategies.random_search),
    with_options(strategies.uhe_bo),
    with_options(acquire),
    with_options(strategies.sbo_kde, context_bounds=CONTEXTS, n_w=8),
    with_options(strategies.risk_kde, context_bounds=CONTEXTS, n_w=8, risk_measure=CVAR),
    with_options(strategies.drbo_kde, context_bounds=CONTEXTS, n_w=8),
    with_options(strategies.drbo_mmd, context_bounds=CONTEXTS, num_points=4, radius_scale=0.1),
    with_options(strategies.v_ucb, environment=WEATHER, risk_level=0.3),
    with_options(perturbed, risk_level=0.3),
    with_options(strategies.risk_search, **RISK),
    with_options(strategies.risk_search, "-chosen", w_is_chosen=True, **RISK),
    with_options(strategies.risk_search, "-constrained", constraints=USED, **RISK),
    with_options(
        strategies.risk_search,
        "-knowledge-gradient",
        choose=LargestKnowledgeGradient(num_compared=4, num_candidates=8, num_samples=4),
        **RISK,
    ),
    with_options(
        strategies.risk_search, "-botorch", acquisition=qLogNoisyExpectedImprovement, **RISK | FEW
    ),
    with_options(strategies.level_set_search, goal=LevelSet(0.0), num_points=24, **RISK),
    with_options(
        strategies.pareto_search,
        acquisition=HypervolumeImprovement((-5.0, -5.0), num_samples=4),
        max_iterations=2,
        **RISK | FEW,
    ),
]
# They choose among a list, from which settings outside the limits are left out.
OF_LISTS = {"truvar", "table_search"}


def test_every_named_strategy_of_a_box_is_among_them() -> None:
    named = {
        name
        for name in strategies.__all__
        if hasattr(getattr(strategies, name), "__code__")
        and "Strategy" in str(getattr(strategies, name).__annotations__.get("return"))
    }
    assert named - OF_LISTS <= {case.name for case in STRATEGIES}


def outcomes(strategy: Strategy, X: Tensor, index: int) -> Tensor:
    r"""Repeats `R x q x 3` or `R x q x 3 x m` of a smooth function, best near a limit."""
    m = strategy.method.num_outcomes
    noise = [
        torch.randn(X.shape[1], 3, m, generator=each, dtype=torch.double)
        for each in generators(strategy.seeds, "noise", index)
    ]
    width = strategy.space.bounds[1]
    decisions = X[..., : len(width)] / width
    peak = torch.tensor([0.6, 0.4, 0.1], dtype=torch.double)
    value = -(decisions - peak).square().sum(dim=-1) - 0.1 * X[..., -1] * decisions[..., 0]
    Y = value[..., None, None] + 0.05 * torch.stack(noise)
    return Y.squeeze(-1) if m == 1 else Y


def told_of(strategy: Strategy, X: Tensor, index: int) -> Tensor:
    r"""What was asked for, with the context that it met if it is not chosen."""
    space: Any = strategy.space
    if getattr(space, "perturbs", False):
        return X
    missing = strategy.space.num_columns - X.shape[-1]
    if not missing:
        return X
    streams = generators(strategy.seeds, "contexts", index)
    return torch.cat([X, WEATHER.sample(X.shape[1], streams)], dim=-1)


def off(box: Box, X: Tensor) -> float:
    r"""How far decisions are outside limits and bounds, at most, or their whole numbers off."""
    lower, upper = box.bounds
    found = [(lower - X).max(), (X - upper).max()]
    for limit in box.limits or ():
        over = sum(c * X[..., column] for column, c in limit.coefficients.items()) - limit.bound
        found.append({"<=": over, ">=": -over, "==": abs(over)}[limit.relation].max())
    whole = X[..., box.discrete]
    return max(0.0, *map(float, found), *(whole - whole.round()).abs().flatten().tolist())


# Of few settings in steps the same one may be pending already.
@pytest.mark.filterwarnings("ignore:A not p.d.:linear_operator.utils.warnings.NumericalWarning")
@pytest.mark.parametrize("place", BOXES)
@pytest.mark.parametrize("case", STRATEGIES, ids=lambda case: case.name)
def test_all_that_is_asked_for_and_recommended_is_within_the_limits(
    case: Limited, place: str
) -> None:
    box = BOXES[place]
    if case.name == "perturbed" and box.discrete:
        pytest.skip("whole numbers are not perturbed")
    strategy = case.make(box, SEEDS, num_initial=6)
    d = box.num_columns
    for index, q in enumerate((None, 1, min(3, case.batch_size), 1)):
        X = strategy.ask(q)
        perturbs = getattr(strategy.space, "perturbs", False)
        if not perturbs:  # x + w is evaluated, and x is within them
            assert off(box, X[..., :d]) <= 1e-8
        rows = told_of(strategy, X, index)
        strategy.tell(rows, outcomes(strategy, rows, index))
        assert off(box, strategy.history.X[..., :d]) <= 1e-8
        if index:
            reported = strategy.recommend().reshape(-1, d)
            assert off(box, reported[~reported.isnan().any(dim=-1)]) <= 1e-8


@pytest.mark.parametrize("place", BOXES)
def test_a_replicate_does_not_depend_on_its_company(place: str) -> None:
    box = BOXES[place]
    both = [strategies.rahbo(box, seeds, **MEAN_AND_VARIANCE, **FAST) for seeds in (SEEDS, (1,))]
    asked = []
    for strategy in both:
        asked.append([])
        for index in range(3):
            X = strategy.ask(None if index == 0 else 2)
            asked[-1].append(X[-1:])
            strategy.tell(X, outcomes(strategy, X, index))
    for many, one in zip(*asked, strict=True):
        torch.testing.assert_close(many, one, atol=1e-6, rtol=0)
    alone = box.random_points([1], 5, "any stream")
    assert torch.equal(box.random_points(SEEDS, 5, "any stream")[1:], alone)
    assert not torch.equal(alone, box.random_points([1], 5, "another"))


@pytest.mark.parametrize("draw", ["initial", "random_points"])
def test_points_on_a_simplex_are_uniform(draw: str) -> None:
    r"""Dirichlet(1, 1, 1): means 1/3, variances 1/18, covariances -1/36."""
    X = getattr(BOXES["fractions"], draw)(range(8), 2048).flatten(0, 1)
    moments = torch.full((3, 3), -1 / 36, dtype=torch.double) + torch.eye(3).double() / 12
    # The standard errors of a mean and of a covariance are 0.002 and 0.0005 at most.
    torch.testing.assert_close(X.mean(dim=0), torch.full((3,), 1 / 3).double(), atol=6e-3, rtol=0)
    torch.testing.assert_close(X.mT.cov(), moments, atol=2e-3, rtol=0)


def test_the_design_counts_whole_numbers_by_what_the_limits_leave_to_them() -> None:
    r"""Of x_0 / 5 + x_1 <= 0.8, a trapezium: 0.8, 0.6, 0.4, 0.2 and 0 for x_0 = 0, .., 4."""
    X = BOXES["steps"].initial(range(8), 1024).flatten(0, 1)
    shares = torch.stack([(X[:, 0] == k).double().mean() for k in range(5)])
    expected = torch.tensor([0.4, 0.3, 0.2, 0.1, 0.0], dtype=torch.double)
    torch.testing.assert_close(shares, expected, atol=0.02, rtol=0)
    X = BOXES["fractions-in-steps"].initial([0], 231 * 40)[0]
    counts = X.unique(dim=0, return_counts=True)[1]
    assert len(counts) == 231 and counts.min() >= 25 and counts.max() <= 60  # 40 each


@pytest.mark.parametrize(
    ("limits", "error", "message"),
    [
        ([LinearLimit({0: 1, 1: 1}, ">=", 3)], ValueError, "is at most 2 within the bounds"),
        ([LinearLimit({0: 1, 1: 1}, "==", -1)], ValueError, "is at least 0 within the bounds"),
        (
            [WHOLE, LinearLimit({2: 1}, "<=", 0.9), LinearLimit({0: 1, 1: 1}, ">=", 1.5)],
            ValueError,
            r"Got `column 0 \+ column 1 \+ column 2 == 1` and `column 0 \+ column 1 >= 1.5`, which "
            "exclude each other",
        ),
        ([LinearLimit({0: 1, 1: 1, 2: 1}, "<=", 0)], ValueError, "leave a choice. Got one setting"),
        ([LinearLimit({3: 1}, "<=", 0)], ValueError, r"Expected columns in \[0, 3\)"),
        ([LinearLimit({0: 1, -3: 1}, "<=", 0)], ValueError, "Expected each column once"),
        ([LinearLimit({"resin": 1}, "<=", 0)], TypeError, "columns by number"),
        ([{0: 1}], TypeError, "Expected `limits`"),
    ],
)
def test_limits_that_cannot_be_met_are_refused_with_the_reason(
    limits: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Box(UNIT, limits=limits)


def test_limits_on_steps_and_categories() -> None:
    with pytest.raises(ValueError, match="which no setting meets within the bounds and steps"):
        Box(TWENTIETHS, [0, 1], limits=[LinearLimit({0: 2, 1: 2}, "==", 3)])
    with pytest.raises(UnsupportedError, match="Got column 1 in `column 1 <= 3`"):
        Box(TWENTIETHS, categories=[1], limits=[LinearLimit({1: 1}, "<=", 3)])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (({0: 1}, "<", 1), ValueError, "Expected `relation` to be one of"),
        (({0: 0}, "<=", 1), ValueError, "not 0"),
        (({}, "<=", 1), ValueError, "not 0"),
        (({0.5: 1}, "<=", 1), TypeError, "by number or by name"),
        (({0: float("nan")}, "<=", 1), ValueError, "finite"),
        (({0: 1}, "<=", float("inf")), ValueError, "finite"),
        (([1, 2], "<=", 1), TypeError, "coefficients"),
    ],
)
def test_wrong_limits(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        LinearLimit(*arguments)


def test_told_rows_outside_the_limits_are_refused_and_named() -> None:
    strategy = strategies.random_search(BOXES["fractions"], 0, num_initial=2)
    X = strategy.ask()
    wrong = X.clone()
    wrong[0, 1, 0] += 1e-3
    with pytest.raises(InputDataError, match=r"within `column 0 .* == 1`. Got 1.001 in \["):
        strategy.tell(wrong, torch.zeros(1, 2, 1))
    strategy.tell(X + 1e-7, torch.zeros(1, 2, 1))  # rounding


def test_a_state_knows_its_limits() -> None:
    strategy = strategies.random_search(BOXES["fractions"], 0, num_initial=2)
    other = strategies.random_search(UNIT, 0, num_initial=2)
    with pytest.raises(ValueError, match="Expected limits="):
        other.load_state_dict(strategy.state_dict())
    strategies.random_search(BOXES["fractions"], 0, num_initial=2).load_state_dict(
        strategy.state_dict()
    )


def test_frames_name_their_limits_and_count_steps() -> None:
    pandas = pytest.importorskip("pandas")
    mixture = FrameExperiment(
        {"resin": (0, 100, 5), "filler": (10.0, 60.0), "solvent": ["water", "ethanol"]},
        {"strength": "maximize"},
        strategies.rahbo,
        num_repeats=2,
        risk_aversion=0.1,
        num_initial=5,
        limits=[LinearLimit({"resin": 1, "filler": 2}, "<=", 80)],
        **FAST,
    )
    settings = mixture.ask()
    assert (settings["resin"] + 2 * settings["filler"] <= 80 + 1e-8).all()
    assert (settings["resin"] % 5 == 0).all()
    readings = pandas.concat([settings, settings], ignore_index=True)
    readings["strength"] = readings["resin"] + readings.index % 7
    wrong = readings.copy()
    wrong.loc[3, "filler"] = 59.0
    with pytest.raises(InputDataError, match=r"`resin \+ 2 \* filler <= 80`. Got .* in row 3"):
        mixture.tell(wrong)
    mixture.tell(readings)
    for found in (mixture.ask(3), mixture.recommend()):
        assert (found["resin"] + 2 * found["filler"] <= 80 + 1e-8).all()
    with pytest.raises(ValueError, match=r"\['resin', 'filler'\]. Got 'resign'"):
        FrameExperiment(
            {"resin": (0, 100, 5), "filler": (10.0, 60.0)},
            {"strength": "maximize"},
            strategies.random_search,
            limits=[LinearLimit({"resign": 1}, "<=", 80)],
        )
    with pytest.raises(UnsupportedError, match="leave the settings outside them out of the list"):
        FrameExperiment(
            pandas.DataFrame({"resin": [1.0, 2.0]}),
            {"strength": "maximize"},
            strategies.random_search,
            limits=[LinearLimit({"resin": 1}, "<=", 80)],
        )
