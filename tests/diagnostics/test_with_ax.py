from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from botorch_risk.ax import risk_averse, under_uncertain_context
from botorch_risk.ax.fitted import model_of
from botorch_risk.diagnostics import leave_one_out, verdict
from botorch_risk.diagnostics.with_ax import CalibrationPlot
from botorch_risk.level_sets.with_ax import level_set
from tests.ax.laboratory import HUMIDITY, adapter_of, card_of, laboratory, play, with_table


def played(strategy: Any, num_trials: int = 9) -> Any:
    client = laboratory(strategy=strategy)
    play(client, num_trials)
    return client


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_shares_of_the_rows_within_their_bands(sign: float) -> None:
    client = with_table(sign, "purity" if sign > 0 else "-purity")
    table = card_of(client, CalibrationPlot()).df.set_index("level")
    model: Any = model_of(adapter_of(client), "purity")
    check = leave_one_out(model)
    np.testing.assert_allclose(check.observed, model.train_means.flatten())
    for level in (0.1, 0.5, 0.9):
        width = norm.ppf((1 + level) / 2) * check.standard_deviation
        inside = (check.observed - check.mean).abs() <= width
        row = table.loc[table.index[np.argmin(np.abs(table.index - level))]]
        assert row["coverage"] == inside.double().mean()
        assert row["lower"] <= level <= row["upper"]
    assert (table["noise_coverage"].diff().dropna() >= 0).all()


@pytest.mark.slow
def test_the_verdict_is_the_subtitle_and_the_figure_has_both_curves() -> None:
    client = played(risk_averse("purity", num_initial=9))
    card = card_of(client, CalibrationPlot())
    found = verdict(leave_one_out(model_of(adapter_of(client), "purity")))  # type: ignore[arg-type]
    assert card.subtitle.startswith(found.sentence) and "of 9 outcomes" in found.sentence
    assert card.title == "Calibration of purity"
    names = [each.name for each in card.get_figure().data if each.name]
    assert names == ["95 % of right models", "outcomes", "sample variances"]


def test_under_contexts_it_is_of_the_outcome_at_the_context_that_was_met() -> None:
    client = played(under_uncertain_context("purity", HUMIDITY, num_initial=9))
    card = card_of(client, CalibrationPlot())
    model: Any = model_of(adapter_of(client), "purity")
    check = leave_one_out(model.model)
    within = check.residuals.abs() <= norm.ppf((1 + 0.5) / 2)
    assert (
        card.df.loc[card.df["level"].sub(0.5).abs().idxmin(), "coverage"] == within.double().mean()
    )
    assert "noise_coverage" not in card.df


@pytest.mark.slow
def test_another_metric_and_one_without_a_model() -> None:
    client = played(level_set(0.5, num_initial=9))
    assert card_of(client, CalibrationPlot("humidity")).title == "Calibration of humidity"
    found = card_of(client, CalibrationPlot("weight")).blob
    assert found == "Expected a metric in ['humidity', 'purity']. Got 'weight'."
