import warnings

import pytest
from ax.api.client import Client
from ax.exceptions.core import DataRequiredError, UnsupportedError, UserInputError

from botorch_risk.ax import best_arm, under_uncertain_context
from botorch_risk.ax.trials import measured_arms
from botorch_risk.level_sets.with_ax import level_set
from botorch_risk.recommend import InfeasibleRecommendationWarning
from botorch_risk.risk import WorstCase
from tests.ax.laboratory import HUMIDITY, PARAMETERS, laboratory, play, with_table

pytestmark = [pytest.mark.filterwarnings("ignore:No observation of outcome")]


@pytest.mark.parametrize(("sign", "objective"), [(1.0, "purity"), (-1.0, "-purity")])
@pytest.mark.slow
def test_the_quiet_arm_and_not_the_luckiest(sign: float, objective: str) -> None:
    found = best_arm(with_table(sign, objective))
    assert found.parameters["heat"] == 0.3 and found.trial_index == 2
    assert found.lower < found.mean < found.upper
    assert found.mean == pytest.approx(1.0, abs=0.3)
    other = found.runner_up
    assert other is not None and other.lower <= found.lower and other.runner_up is None


def test_rules_are_those_of_their_names() -> None:
    client = with_table()
    by_mean, by_bound = best_arm(client, "posterior_mean"), best_arm(client)
    assert by_mean.runner_up is not None and by_mean.mean >= by_mean.runner_up.mean
    assert by_bound.lower >= by_mean.lower


def test_what_breaks_a_constraint_is_not_recommended() -> None:
    assert best_arm(with_table(constraints=["cost <= 0.25"])).parameters["heat"] < 0.25


def test_where_no_arm_meets_a_constraint_the_least_infeasible_is_named_as_such() -> None:
    client = with_table(constraints=["cost <= -1"])
    with warnings.catch_warnings(record=True) as seen:  # `pytest.warns` would raise Ax's own ones
        warnings.simplefilter("always", InfeasibleRecommendationWarning)
        found = best_arm(client)
    (said,) = [str(each.message) for each in seen]
    assert "Got none among 6. The least infeasible" in said and "miss the limits by 1." in said
    assert found.parameters["heat"] == 0.1  # the cost is the heat
    assert found.feasible is False and found.lower < found.mean < found.upper
    assert abs(found.mean) < 2.0  # the risk itself, without a penalty
    assert found.runner_up is not None and found.runner_up.parameters["heat"] == 0.2


@pytest.mark.slow
def test_an_arm_says_whether_it_meets_the_constraints() -> None:
    assert best_arm(with_table()).feasible is None
    found = best_arm(with_table(constraints=["cost <= 0.25"]))
    assert found.feasible is True and found.runner_up is not None and found.runner_up.feasible


def test_contexts_and_what_came_after_the_last_candidate_count() -> None:
    strategy = under_uncertain_context("purity", HUMIDITY, risk_measure=WorstCase(), num_initial=3)
    client = laboratory(strategy=strategy)
    play(client, 5)
    before = best_arm(client)
    index = client.attach_trial({"heat": 0.0, "stir": 2.0})
    client.complete_trial(index, {"purity": 50.0, "humidity": 40.0})
    after = best_arm(client)
    assert after.trial_index == index and after.mean > before.mean


def test_bad_input() -> None:
    with pytest.raises(DataRequiredError, match=r"a completed trial. Got none with data"):
        best_arm(laboratory())
    aimless = Client()
    aimless.configure_experiment(parameters=PARAMETERS)
    with pytest.raises(UserInputError, match=r"an experiment with an objective\. Got none"):
        measured_arms(aimless._experiment)
    client = laboratory(strategy=level_set(0.5, num_initial=2))
    play(client, 3)
    with pytest.raises(UnsupportedError, match=r"a confidence bound of a risk. Got Straddle"):
        best_arm(client)
    with pytest.raises(ValueError, match=r"`rule` to be one of .* Got 'luckiest'"):
        best_arm(client, rule="luckiest")  # type: ignore[arg-type]
