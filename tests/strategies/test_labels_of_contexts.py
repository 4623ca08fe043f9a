r"""Strategies whose contexts have labels, the frequencies of which are learnt."""

import json
import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from botorch.models.kernels import CategoricalKernel
from torch import Tensor

from botorch_risk.environments import (
    DiscreteEnvironment,
    KernelDensityEnvironment,
    LabelFrequencies,
    ObservedContexts,
)
from botorch_risk.frames import FrameExperiment
from botorch_risk.papers import drbo_kde, drbo_mmd, risk_kde, sbo_kde
from botorch_risk.risk import (
    ChiSquareBall,
    ConditionalValueAtRisk,
    Expectation,
    KullbackLeiblerBall,
    MaximumMeanDiscrepancyBall,
    RiskMeasure,
    ShareAbove,
    TotalVariationBall,
    ValueAtRisk,
    WassersteinBall,
    WorstCase,
)
from botorch_risk.robust import pareto_search
from botorch_risk.strategies import Strategy, risk_search
from tests.strategies.cases import HUMID_LOTS, LOTS
from tests.strategies.loops import meet, play

SMALL: dict[str, Any] = {"num_initial": 6, "num_restarts": 3, "raw_samples": 32}
CODES = torch.tensor([[0.0], [1.0], [2.0]]).double()
GRID = torch.linspace(0, 1, 21).double().unsqueeze(-1)


def lots(prior: Any = 0.5) -> ObservedContexts:
    return ObservedContexts(LOTS.contexts, LabelFrequencies(prior=prior))


def search(measure: Any, environment: Any = None, seeds: Any = (0, 1), **options: Any) -> Strategy:
    parts = {"environment": environment or lots(), "risk_measure": measure, **SMALL, **options}
    return risk_search(LOTS.bounds, seeds, **parts)


def kernel() -> CategoricalKernel:
    return CategoricalKernel().double()


MEASURES: dict[str, RiskMeasure] = {
    "expectation": Expectation(),
    "value-at-risk": ValueAtRisk(0.2),
    "tail": ConditionalValueAtRisk(0.3),
    "worst": WorstCase(),
    "share": ShareAbove(0.0),
    "total variation": TotalVariationBall(0.3),
    "chi-square": ChiSquareBall(0.2),
    "divergence": KullbackLeiblerBall(0.1),
    "transport": WassersteinBall(0.2),
    "discrepancy": MaximumMeanDiscrepancyBall(0.2, kernel()),
}


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_every_risk_uses_the_learnt_frequencies_and_labels_of_failed_rows(
    measure: RiskMeasure,
) -> None:
    strategy = search(measure)
    X = meet(strategy, strategy.ask(), 0, LOTS)
    Y = LOTS.sample_repeats(X, 1, [torch.Generator().manual_seed(row) for row in (0, 1)])
    Y[:, 2] = math.nan  # what was made of this lot was lost, but it came
    strategy.tell(X, Y)
    belief: Any = strategy.belief
    environment = belief.environment
    assert environment.categories == (0,)
    counts = (CODES.mT == X[..., 1:]).double().sum(dim=-2)
    torch.testing.assert_close(environment.weights, (counts + 0.5) / 7.5)
    lower, upper = belief.lower(GRID.expand(2, -1, 1)), belief.upper(GRID.expand(2, -1, 1))
    assert (lower <= upper).all() and upper.isfinite().all()
    # By plain torch, through the posterior at each label.
    pairs, weights = environment.expand(GRID.expand(2, -1, 1))
    posterior = belief.model.posterior(pairs.flatten(-3, -2))
    mean, sd = (part.reshape(2, 21, 3) for part in (posterior.mean, posterior.variance.sqrt()))
    bound = measure.bind(environment)(mean + 2 * sd, weights.expand(2, 21, 3))
    torch.testing.assert_close(upper, bound, rtol=1e-7, atol=1e-7)
    assert strategy.ask().shape == (2, 1, 1)


@pytest.mark.parametrize("name", ["tail", "total variation", "divergence"])
def test_with_a_million_pseudo_observations_choices_are_those_under_known_frequencies(
    name: str,
) -> None:
    r"""The weights differ by six contexts in a million."""
    known = DiscreteEnvironment(CODES, LOTS.lots, categories=[0])
    options: dict[str, Any] = {"reporting": "posterior_mean", "num_restarts": 8}
    learning = search(MEASURES[name], lots(1e6 * LOTS.lots), **options)
    knowing = search(MEASURES[name], known, **options)
    X = meet(learning, learning.ask(), 0, LOTS)
    Y = LOTS.sample_repeats(X, 4, [torch.Generator().manual_seed(row) for row in (0, 1)])
    for each in (learning, knowing):
        each.ask()
        each.tell(X, Y)
    torch.testing.assert_close(learning.ask(), knowing.ask(), atol=1e-3, rtol=0)
    torch.testing.assert_close(learning.recommend(), knowing.recommend())
    bounds = [each.belief.upper(GRID.expand(2, -1, 1)) for each in (learning, knowing)]  # type: ignore[attr-defined]
    torch.testing.assert_close(*bounds, atol=1e-4, rtol=0)


def test_the_order_of_the_codes_means_nothing() -> None:
    r"""The model has a column for each label, so renamed labels get the same choice."""
    renamed = torch.tensor([2.0, 0.0, 1.0]).double()
    first, second = (search(ConditionalValueAtRisk(0.3), num_restarts=8) for _ in range(2))
    X = meet(first, first.ask(), 0, LOTS)
    Y = LOTS.sample_repeats(X, 4, [torch.Generator().manual_seed(row) for row in (0, 1)])
    second.ask()
    first.tell(X, Y)
    second.tell(torch.cat([X[..., :1], renamed[X[..., 1:].long()]], dim=-1), Y)
    bounds = [each.belief.upper(GRID.expand(2, -1, 1)) for each in (first, second)]  # type: ignore[attr-defined]
    torch.testing.assert_close(*bounds, atol=1e-4, rtol=0)
    torch.testing.assert_close(first.ask(), second.ask(), atol=1e-3, rtol=0)


def test_an_unknown_label_is_named_and_changes_nothing() -> None:
    strategy = search(Expectation())
    asked = strategy.ask()
    X = meet(strategy, asked, 0, LOTS)
    X[1, 4, 1] = 3.0
    with pytest.raises(InputDataError, match=r"column 0 of .* 0 to 2. Got 3 at \(1, 4\)"):
        strategy.tell(X, X[..., :1])
    assert torch.equal(strategy.ask(), asked)


# -- the strategies of the papers ------------------------------------------------------------------


def test_the_radius_of_drbo_kde_follows_the_number_of_contexts() -> None:
    strategy = drbo_kde(
        LOTS.bounds, [0, 1], context_bounds=LOTS.contexts, context_categories=[0], **SMALL
    )
    for index in range(2):
        play(strategy, 1, index, problem=LOTS)
        belief: Any = strategy.belief
        assert belief.risk_measure == TotalVariationBall((7 + index) ** (-2 / 5))
        assert belief.environment.points.shape == (2, 3, 1)


@pytest.mark.parametrize(("t", "share"), [(6, 0.65), (20, 0.78), (100, 0.86), (1000, 0.94)])
def test_that_radius_includes_the_frequencies_ever_more_often(t: int, share: float) -> None:
    r"""Of labels they are learnt as fast as `t^(-1/2)`, and the radius shrinks more slowly."""
    generator = torch.Generator().manual_seed(0)
    contexts = LOTS.lots.expand(4000, 3).multinomial(t, replacement=True, generator=generator)
    learnt = lots().learnt(contexts.double().unsqueeze(-1), seeds=range(4000))
    off = (learnt.weights - LOTS.lots).abs().sum(dim=-1)
    included = (off <= (t + 1) ** (-2 / 5)).double().mean().item()
    assert included == pytest.approx(share, abs=0.02)  # which scatters by 0.006


def test_balls_that_need_distances_between_labels_need_a_kernel() -> None:
    labels = {"context_bounds": LOTS.contexts, "context_categories": [0]}
    with pytest.raises(UnsupportedError, match="`kernel` of your own for labels"):
        drbo_mmd(LOTS.bounds, 0, **labels, **SMALL)
    strategy = drbo_mmd(LOTS.bounds, 0, kernel=kernel(), radius_scale=0.1, **labels, **SMALL)
    play(strategy, 1, problem=LOTS)
    belief: Any = strategy.belief
    assert belief.environment.categories == (0,)
    assert strategy.ask().isfinite().all()
    with pytest.raises(UnsupportedError, match=r"Got labels in \[1\] of 2 columns"):
        drbo_mmd(
            LOTS.bounds,
            0,
            context_bounds=HUMID_LOTS.contexts,
            context_categories=[1],
            kernel=kernel(),
        )


@pytest.mark.parametrize("make", [sbo_kde, drbo_kde])
def test_labels_next_to_numbers_have_the_options_of_the_density(make: Any) -> None:
    strategy = make(
        HUMID_LOTS.bounds,
        [0, 1],
        context_bounds=HUMID_LOTS.contexts,
        context_categories=[1],
        n_w=8,
        density_options={"at_bounds": "clip"},
        batch_size=3,
        **SMALL,
    )
    play(strategy, 1, problem=HUMID_LOTS)
    environment = strategy.belief.environment
    count = 16 if make is drbo_kde else 8  # with those where the ball may put mass
    assert environment.points.shape == (2, count * 3, 2)
    assert environment.categories == (1,)
    first, *others = strategy.ask().unbind(dim=-2)
    assert all(((first - each).abs() > 1e-4).all() for each in others)


# -- in DataFrames ---------------------------------------------------------------------------------

LABELS = ["Lyon", "Oslo", "Rome"]


def bakery(make: Any = risk_kde, contexts: Any = None, **options: Any) -> FrameExperiment:
    parts = {"risk_measure": ConditionalValueAtRisk(0.3), **SMALL, **options}
    contexts = {"lot": LABELS} if contexts is None else contexts
    return FrameExperiment(
        {"x": (0.0, 1.0)}, {"rise": "maximize"}, make, contexts=contexts, **parts
    )


def baked(settings: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    r"""With the lots that came, never one from Rome, and what rose."""
    rng = np.random.default_rng(seed)
    lot = [LABELS[each] for each in rng.integers(2, size=len(settings))]
    settings = settings.assign(lot=lot, humidity=rng.random(len(settings)))
    return settings.assign(rise=np.sin(6 * settings["x"]) - (settings["lot"] == "Oslo"))


def columns(experiment: FrameExperiment, frame: pd.DataFrame) -> pd.DataFrame:
    return frame[list(experiment.data.columns)]


@pytest.mark.parametrize("make", [risk_kde, risk_search])
def test_labels_of_contexts_are_learnt_by_themselves(make: Any) -> None:
    experiment = bakery(make)
    rows = columns(experiment, baked(experiment.ask()))
    rows.loc[1, "rise"] = None  # a batch that was lost
    experiment.tell(rows)
    environment = experiment.strategy.belief.environment  # type: ignore[attr-defined]
    counts = [(rows["lot"] == label).sum() for label in LABELS]
    expected = torch.tensor(counts)[None].double().add(0.5) / 7.5
    torch.testing.assert_close(environment.weights, expected)
    assert environment.weights.min() == 0.5 / 7.5  # of Rome
    resumed = bakery(make)
    resumed.load_state_dict(json.loads(json.dumps(experiment.state_dict())))
    pd.testing.assert_frame_equal(resumed.ask(), experiment.ask())
    best = experiment.recommend()
    assert best.columns.tolist() == ["x", "rise_risk", "rise_risk_lower", "rise_risk_upper"]
    pd.testing.assert_frame_equal(resumed.recommend(), best)
    at = experiment.predict(pd.DataFrame({"x": 0.5, "lot": ["Lyon", "Oslo"]}))
    assert at["rise_mean"][0] > at["rise_mean"][1]


def test_labels_and_numbers_of_contexts_are_learnt_together() -> None:
    experiment = bakery(contexts={"humidity": (0.0, 1.0), "lot": LABELS}, n_w=8)
    experiment.tell(columns(experiment, baked(experiment.ask())))
    environment = experiment.strategy.belief.environment  # type: ignore[attr-defined]
    assert environment.categories == (1,)
    assert environment.points.shape == (1, 24, 2)
    assert experiment.ask().columns.tolist() == ["x"]


def test_a_label_that_is_not_listed_is_refused() -> None:
    experiment = bakery()
    rows = columns(experiment, baked(experiment.ask()))
    rows.loc[3, "lot"] = "Bern"
    with pytest.raises(InputDataError, match=r"'lot' to be one of .* Got 'Bern' in row 3"):
        experiment.tell(rows)
    assert experiment.data.empty


def test_an_environment_of_ones_own_has_to_learn_labels() -> None:
    r"""A density of their codes would mean nothing."""
    for wrong in (
        ObservedContexts(LOTS.contexts),
        ObservedContexts(LOTS.contexts + 1, LabelFrequencies()),
    ):
        with pytest.raises(ValueError, match=r"frequencies of the labels \{'lot': \['Lyon'"):
            bakery(risk_search, environment=wrong)
    prior = LabelFrequencies(prior=torch.tensor([10.0, 1.0, 1.0]))
    experiment = bakery(risk_search, environment=ObservedContexts(LOTS.contexts, prior))
    experiment.tell(columns(experiment, baked(experiment.ask())))
    environment = experiment.strategy.belief.environment  # type: ignore[attr-defined]
    assert environment.weights[0, 0] >= 10 / 18


def test_strategies_that_do_not_learn_labels_are_refused() -> None:
    def of_densities(bounds: Tensor, seed: int, *, context_bounds: Tensor) -> Strategy:
        raise AssertionError

    with pytest.raises(UnsupportedError, match="argument `context_categories` or `environment`"):
        FrameExperiment({"x": (0.0, 1.0)}, {"y": None}, of_densities, contexts={"lot": LABELS})
    with pytest.raises(UnsupportedError, match="Got 'day', which has steps"):
        bakery(contexts={"day": (0, 6, 1), "lot": LABELS})


def test_other_strategies_learn_labels_too() -> None:
    r"""Several objectives, replicate by replicate, with a number next to the label."""
    density = partial(KernelDensityEnvironment, n_w=4)
    both = ObservedContexts(HUMID_LOTS.contexts, LabelFrequencies([1], density=density))
    strategy = pareto_search(
        HUMID_LOTS.bounds,
        [0, 1],
        environment=both,
        risk_measure=Expectation(),
        reference_point=(-3.0, -3.0),
        num_initial=5,
        num_restarts=1,
        raw_samples=4,
    )
    for index in range(2):
        X = meet(strategy, strategy.ask(), index, HUMID_LOTS)
        Y = torch.stack([X[..., :1].sin() + X[..., 2:], -X[..., :1] - X[..., 1:2]], dim=-1)
        strategy.tell(X, Y)
    assert strategy.ask().isfinite().all()
