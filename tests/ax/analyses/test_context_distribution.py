from typing import Any

import numpy as np
import pytest
from scipy.stats import truncnorm

from botorch_risk.ax import ContextDistributionPlot, under_uncertain_context
from botorch_risk.ax.fitted import model_of
from tests.ax.laboratory import HUMIDITY, adapter_of, card_of, laboratory, play, with_table

TWO = {**HUMIDITY, "purity_count": (0.0, 10.0)}  # a metric that every trial has


def under_contexts(contexts: dict[str, Any], **model_options: Any) -> Any:
    strategy = under_uncertain_context("purity", contexts, model_options=model_options)
    client = laboratory(strategy=strategy)
    play(client, 5)
    return client


def observed_humidity(client: Any) -> list[float]:
    data = client._experiment.lookup_data().df
    return data[data["metric_name"] == "humidity"]["mean"].tolist()


def test_the_curve_is_a_mean_of_kernels_within_the_bounds() -> None:
    client = under_contexts(HUMIDITY)
    card = card_of(client, ContextDistributionPlot())
    curve, ticks = card.df[~card.df["sampled"]], card.df[card.df["sampled"]]
    observed = np.array(observed_humidity(client))
    np.testing.assert_allclose(ticks["value"], observed, rtol=1e-9)
    assert ticks["trial_index"].tolist() == [0, 1, 2, 3, 4]
    assert (curve["value"].min(), curve["value"].max()) == (0.0, 100.0)
    width = observed.std() * (4 / 3 / len(observed)) ** 0.2  # Silverman's rule
    low, high = (0 - observed) / width, (100 - observed) / width
    for rows in (curve, ticks):
        kernels = truncnorm.pdf(rows["value"].to_numpy()[:, None], low, high, observed, width)
        np.testing.assert_allclose(rows["density"], kernels.mean(axis=-1), rtol=1e-6, atol=1e-300)
    assert "of 5 observed contexts (ticks)" in card.subtitle
    assert card.subtitle.endswith(f"Bandwidth: {width:.3g} of humidity.")


def test_a_context_without_an_outcome_counts_as_it_does_in_the_density() -> None:
    client = under_contexts(HUMIDITY)
    index = client.attach_trial({"heat": 0.5, "stir": 1.0})
    client.complete_trial(index, {"humidity": 80.0})
    ticks = card_of(client, ContextDistributionPlot()).df.query("sampled")
    model: Any = model_of(adapter_of(client), "purity")
    observed = model.reductions[0].environment.observed.flatten().tolist()
    assert ticks["value"].tolist() == observed and observed[-1] == 80.0


@pytest.mark.slow
def test_each_of_two_contexts_on_its_own() -> None:
    card = card_of(under_contexts(TWO), ContextDistributionPlot())
    for name, (lower, upper) in TWO.items():
        curve = card.df[(card.df["context"] == name) & ~card.df["sampled"]]
        assert (curve["value"].min(), curve["value"].max()) == (lower, upper)
        assert np.trapezoid(curve["density"], curve["value"]) == pytest.approx(1.0, abs=0.02)
    figure = card.get_figure()
    assert len(figure.data) == 4
    assert [figure.layout.xaxis.title.text, figure.layout.xaxis2.title.text] == list(TWO)


def test_where_no_density_is_learnt() -> None:
    assert card_of(with_table(), ContextDistributionPlot()).blob == (
        "Expected a strategy that learns the distribution of contexts, such as "
        "`under_uncertain_context`. Got a MeanVarianceGP of 'purity'."
    )
    clipped = under_contexts(HUMIDITY, density_options={"at_bounds": "clip"})
    assert card_of(clipped, ContextDistributionPlot()).blob == (
        "Expected a distribution with a density: `at_bounds` 'truncate' or 'reflect'. Got 'clip'."
    )
