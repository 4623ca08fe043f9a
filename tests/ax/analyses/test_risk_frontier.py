from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
import torch

from botorch_risk.ax import RiskFrontierPlot, best_arm, risk_averse, value_at_risk
from botorch_risk.ax.best_arm import Rule
from botorch_risk.ax.fitted import model_of
from botorch_risk.level_sets.with_ax import level_set
from tests.ax.laboratory import adapter_of, card_of, laboratory, play, with_table


def non_dominated(values: np.ndarray, feasible: np.ndarray) -> list[bool]:
    r"""Pair by pair; larger is better in both columns."""

    def beats(one: np.ndarray, other: np.ndarray) -> bool:
        return bool((one >= other).all() and (one > other).any())

    return [
        bool(feasible[i]) and not any(beats(values[j], values[i]) for j in np.flatnonzero(feasible))
        for i in range(len(values))
    ]


def check_marks(table: pd.DataFrame, signs: tuple[int, int]) -> None:
    values = table[table.columns[2:4]].to_numpy() * signs
    expected = non_dominated(values, table["feasible"].to_numpy())
    assert table["non_dominated"].tolist() == expected and 0 < sum(expected) < len(expected)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.slow
def test_arms_in_units_of_the_metric_and_in_its_direction(sign: float) -> None:
    client = with_table(sign, "purity" if sign > 0 else "-purity")
    table = card_of(client, RiskFrontierPlot()).df
    model: Any = model_of(adapter_of(client), "purity")
    X = torch.tensor([[heat / 10, 1.0] for heat in (1, 2, 3, 7, 8, 9)], dtype=torch.double)
    with torch.no_grad():
        quiet, noisy = (model.posterior(X, observation_noise=each) for each in (False, True))
    noise = (noisy.variance - quiet.variance).sqrt().flatten()
    np.testing.assert_allclose(table["purity_mean"], quiet.mean.flatten(), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(table["purity_noise_sd"], noise, rtol=1e-5)
    assert sign * table["purity_mean"][2] == pytest.approx(1.0, abs=0.1)
    check_marks(table, (int(sign), -1))
    assert table["recommended"].tolist() == [False, False, True, False, False, False]


def test_the_rule_decides_which_arm_is_recommended() -> None:
    client = with_table(strategy=risk_averse("purity", risk_aversion=0.0))
    for rule, index in zip(get_args(Rule), (2, 3), strict=True):
        card = card_of(client, RiskFrontierPlot(rule=rule))
        assert best_arm(client, rule).trial_index == index
        assert card.df["trial_index"][card.df["recommended"]].tolist() == [index]
        assert card.subtitle.endswith(f"recommends, Arm {index}_0.")
    with pytest.raises(ValueError, match=r"`rule` to be one of .* Got 'luckiest'"):
        RiskFrontierPlot(rule="luckiest")  # type: ignore[arg-type]


def test_arms_that_break_a_constraint_are_not_on_the_frontier() -> None:
    client = with_table(constraints=["cost <= 0.25"])
    card = card_of(client, RiskFrontierPlot())
    assert card.df["feasible"].tolist() == [True, True, False, False, False, False]
    assert not card.df["non_dominated"][2:].any()
    names = [each.name for each in card.get_figure().data]
    assert names[-2:] == ["likely infeasible", "recommended"]


@pytest.mark.filterwarnings("ignore::botorch_risk.recommend.InfeasibleRecommendationWarning")
def test_constraints_of_decisions_under_chosen_contexts() -> None:
    strategy = value_at_risk({"stir": ([0.99, 1.0], [0.5, 0.5])})
    client = with_table(constraints=["cost <= 0.25"], strategy=strategy)
    card = card_of(client, RiskFrontierPlot())
    assert card.df["feasible"].tolist() == [True, True, False, False, False, False]
    best = card.df[card.df["recommended"]].iloc[0]
    assert best["trial_index"] == best_arm(client).trial_index


@pytest.mark.slow
def test_the_star_is_the_recommended_arm() -> None:
    client = laboratory(strategy=risk_averse("purity", num_initial=6))
    play(client, 6)
    card = card_of(client, RiskFrontierPlot())
    star = card.get_figure().data[-1]
    best = card.df[card.df["recommended"]].iloc[0]
    assert best["trial_index"] == best_arm(client).trial_index
    assert star.marker.symbol == "star" and len(star.customdata) == 1
    assert card.get_figure().layout.xaxis.title.text == "mean of purity"


def test_where_there_is_no_risk_or_no_completed_trial() -> None:
    client = laboratory(strategy=level_set(0.5, num_initial=2))
    play(client, 2)
    assert "a confidence bound of a risk. Got Straddle" in card_of(client, RiskFrontierPlot()).blob
    client = laboratory()
    index = client.attach_trial({"heat": 0.5, "stir": 1.0})
    client.attach_data(index, {"purity": (1.0, 0.1), "purity_count": 3.0})
    found = card_of(client, RiskFrontierPlot()).blob
    assert found == "Expected a completed trial. Got none with data."
