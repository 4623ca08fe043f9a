r"""Boxes and frames with linear limits: even designs, refusals, and rounding."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError

from botorch_risk import papers, strategies
from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.frames import FrameExperiment
from botorch_risk.strategies import Box, LinearLimit
from tests.devices import home
from tests.strategies.test_limits import BOXES, FAST, TWENTIETHS, UNIT, WHOLE, off


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
        ([LinearLimit({0: 1, 1: 1, 2: 1}, "<=", 0)], ValueError, "choice. Got only one setting"),
        ([LinearLimit({3: 1}, "<=", 0)], ValueError, r"Expected columns in \[0, 3\)"),
        ([LinearLimit({0: 1, -3: 1}, "<=", 0)], ValueError, "Expected each column once"),
        ([LinearLimit({"resin": 1}, "<=", 0)], TypeError, "columns by number"),
        ([{0: 1}], TypeError, "Expected `limits`"),
    ],
)
def test_limits_that_exclude_all_settings_are_refused_with_the_reason(
    limits: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Box(UNIT, limits=limits)


def test_limits_on_steps_and_categories() -> None:
    with pytest.raises(ValueError, match="which excludes all settings within the bounds and"):
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
        papers.rahbo,
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
    with pytest.raises(UnsupportedError, match="list only settings within the limits"):
        FrameExperiment(
            pandas.DataFrame({"resin": [1.0, 2.0]}),
            {"strength": "maximize"},
            strategies.random_search,
            limits=[LinearLimit({"resin": 1}, "<=", 80)],
        )


def sum_of(*columns: int) -> dict[int, int]:
    return dict.fromkeys(columns, 1)


def test_a_limit_may_fix_a_column_or_follow_from_the_bounds() -> None:
    fixed = Box(UNIT, limits=[LinearLimit({0: 2}, "==", 0.6), WHOLE])
    X = fixed.initial([0, 1], 64)
    torch.testing.assert_close(X[..., 0], torch.full_like(X[..., 0], 0.3), atol=1e-12, rtol=0)
    assert off(fixed, X) <= 1e-12
    assert abs(float(X[..., 1].mean()) - 0.35) < 0.02
    within = Box(UNIT, limits=[LinearLimit(sum_of(0, 1, 2), "<=", 7)])
    X = within.initial([0], 1024)
    torch.testing.assert_close(X.mean(dim=1), torch.full((1, 3), 0.5).double(), atol=0.01, rtol=0)


def test_an_edge_of_the_box_is_filled_too() -> None:
    r"""x_0 = x_1 = 0 is all that a sum of at most 0 leaves; x_2 is free."""
    box = Box(UNIT, limits=[LinearLimit(sum_of(0, 1), "<=", 0)])
    X = box.initial([0], 256)
    assert float(X[..., :2].abs().max()) <= 1e-12
    assert abs(float(X[..., 2].mean()) - 0.5) < 0.02
    strategy = papers.rahbo(box, 0, num_repeats=2, risk_aversion=0.1, num_initial=4, **FAST)
    X = strategy.ask()
    strategy.tell(X, torch.cat([X[..., 2:], X[..., 2:] + 0.1], dim=-1))
    assert off(box, strategy.ask(2)) <= 1e-8 and off(box, strategy.recommend()) <= 1e-8


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        ([LinearLimit(sum_of(0, 1, 2), "<=", 2.9999999)], 10),  # not 3
        ([LinearLimit(sum_of(0, 1, 2), ">=", 57.0000001)], 10),  # not 57
        ([LinearLimit({0: 25, 1: 40}, "==", 200), LinearLimit({2: 1}, "<=", 1)], 4),
        ([LinearLimit({0: 2, 1: 3, 2: 5}, "==", 10)], 4),
    ],
)
def test_settings_in_steps_are_listed_and_designs_have_each_once(
    limits: list[LinearLimit], count: int
) -> None:
    box = Box(TWENTIETHS, [0, 1, 2], limits=limits)
    settings = box.settings()
    assert settings is not None and len(settings) == count and off(box, settings) == 0
    for X in box.initial([0, 1], count):
        assert torch.equal(X.unique(dim=0), settings)
    first = box.initial([0, 1], count - 1)
    assert torch.equal(box.initial([0, 1], 2 * count)[:, : count - 1], first)


def test_few_settings_are_searched_by_exchanges_of_several_steps() -> None:
    r"""Sacks of 25 and of 40 kg, 1,000 kg in all: eight of one for five of the other."""
    bounds = torch.tensor([[0.0, 0.0], [40.0, 25.0]], dtype=torch.double)
    box = Box(bounds, [0, 1], limits=[LinearLimit({0: 25, 1: 40}, "==", 1000)])
    expected = torch.tensor([[8.0 * k, 25.0 - 5 * k] for k in range(6)], dtype=torch.double)
    settings = box.settings()
    assert settings is not None and torch.equal(settings, expected)

    class NearOne:
        def evaluate(self, X: Any) -> Any:
            return -(X[..., 0] - 24).square()

    X, _ = optimize_acqf_replicates(
        NearOne(),
        bounds,
        seeds=[0, 1],
        num_restarts=1,
        raw_samples=1,
        discrete_dims=box.discrete_dims,
        **box.constraints,
    )
    assert torch.equal(X, expected[3].expand(2, 1, 2))


def test_categories_are_listed_with_the_settings_of_a_limit() -> None:
    box = Box(UNIT * 2, [0, 1], [2], limits=[LinearLimit(sum_of(0, 1), "==", 2)])
    settings = box.settings()
    assert settings is not None and len(settings) == 9 and off(box, settings) == 0
    assert Box(UNIT * 2, [0], [2], limits=[LinearLimit(sum_of(0, 1), "<=", 2)]).settings() is None


@pytest.mark.parametrize("step", [1 / 3, 0.3333333])
def test_steps_that_miss_an_equality_are_refused_however_close(step: float) -> None:
    names = ["resin", "filler", "water"]
    options: dict[str, Any] = {"limits": [LinearLimit(dict.fromkeys(names, 1), "==", 1)]}
    pytest.importorskip("pandas")

    def frame() -> FrameExperiment:
        parameters = dict.fromkeys(names, (0.0, 3 * step, step))
        outcomes: dict[str, Any] = {"strength": "maximize"}
        return FrameExperiment(parameters, outcomes, strategies.random_search, **options)

    if step == 1 / 3:
        assert len(frame().ask(10)) == 10
        return
    with pytest.raises(ValueError, match=r"`resin \+ filler \+ water == 1`, which excludes"):
        frame()


def test_rounded_rows_are_told_at_the_nearest_setting_within_the_limits() -> None:
    box = BOXES["fractions"]
    strategy = strategies.random_search(box, [0, 1], num_initial=3)
    X = strategy.ask()
    strategy.tell(X + 2e-7, X[..., :1])
    assert off(box, strategy.history.X) <= 1e-12
    assert off(box, strategy.recommend()) <= 1e-12
    again = strategies.random_search(box, [0, 1], num_initial=3)
    X = again.ask()
    again.tell(X, X[..., :1])
    assert torch.equal(again.history.X, X)


def test_a_table_of_rounded_fractions_is_pooled_and_saved() -> None:
    pandas = pytest.importorskip("pandas")

    def experiment() -> FrameExperiment:
        return FrameExperiment(
            {"resin": (0.0, 1.0), "filler": (0.0, 1.0), "water": (0.0, 1.0)},
            {"strength": "maximize"},
            strategies.random_search,
            limits=[LinearLimit({"resin": 1, "filler": 1, "water": 1}, "==", 1)],
        )

    mixture, same = experiment(), experiment()
    third = 0.3333333
    table = pandas.DataFrame({"resin": [third, 0.5], "filler": [third, 0.5], "water": [third, 0.0]})
    mixture.tell(table.assign(strength=[1.0, 2.0]))
    mixture.tell(table[:1].assign(strength=[1.5]))
    assert mixture.strategy.history.num_rows == 2
    assert float((mixture.strategy.history.X.sum(dim=-1) - 1).abs().max()) <= 1e-12
    same.load_state_dict(mixture.state_dict())
    assert same.ask(2).equals(mixture.ask(2))
    with pytest.raises(InputDataError, match="resin"):
        mixture.ask(pending=pandas.DataFrame({"resin": [1.0], "filler": [1.0], "water": [0.0]}))


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
def test_single_precision_is_within_the_limits_up_to_its_rounding() -> None:
    box = Box(UNIT.float(), limits=[WHOLE, LinearLimit({0: 1}, "<=", 0.7)])
    strategy = papers.rahbo(box, [0, 1], num_repeats=2, risk_aversion=0.1, num_initial=4, **FAST)
    for q in (None, 4, 1):
        X = strategy.ask(q)
        assert X.dtype == torch.float32 and off(box, X) <= 5e-7
        strategy.tell(X, torch.cat([X[..., :1], X[..., :1] + 0.1], dim=-1))
        assert torch.equal(strategy.history.X[:, -X.shape[1] :], X)
    assert off(box, strategy.recommend()) <= 5e-7


@pytest.mark.every_device
@pytest.mark.parametrize("place", ["fractions", "fractions-in-steps"])
def test_limits_are_kept_on_another_device(place: str) -> None:
    known = BOXES[place]
    box = Box(known.bounds.to(home()), known.integers, limits=known.limits)
    strategy = papers.rahbo(box, [0, 1], num_repeats=2, risk_aversion=0.1, num_initial=4, **FAST)
    for q in (None, 2):
        X = strategy.ask(q)
        assert X.device.type == home().type and off(known, X.cpu()) <= 1e-8
        strategy.tell(X, torch.cat([X[..., :1], X[..., :1] + 0.1], dim=-1))
    assert off(known, strategy.recommend().cpu()) <= 1e-8
