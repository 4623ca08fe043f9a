r"""Rules for the next pairs, against what the readings would show."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.expected_risk import expected_risk
from botorch_risk.chunks import ChunkSize
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MeanVariance,
    RiskMeasure,
    ShareAbove,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.tables import TABLE_RULES, Factors, choose_plate, fit_table
from botorch_risk.tables import rules as rules_module
from botorch_risk.tables.kernel import TableHyperparameters, TableReadings
from botorch_risk.tables.posterior import TablePosterior
from botorch_risk.tables.rules import TableBelief, _largest, rule_for
from tests.tables import examples
from tests.tables.examples import CONDITIONS, CONTEXTS, N_W

N_X = len(CONDITIONS)
MEASURES = [
    Expectation(),
    ValueAtRisk(0.3),
    ConditionalValueAtRisk(0.3),
    WorstCase(),
    ShareAbove(5.2),
    MeanVariance(0.3),
    TotalVariationBall(0.4),
]
named = pytest.mark.parametrize("measure", MEASURES, ids=lambda each: type(each).__name__)
rules = pytest.mark.parametrize("rule", TABLE_RULES)


def belief(measure: RiskMeasure, num_replicates: int = 1, **options: float) -> TableBelief:
    data = examples.readings(num_replicates, **options)
    posterior = TablePosterior.of(data, examples.hyperparameters(num_replicates))
    free = torch.ones(num_replicates, N_X * N_W, dtype=torch.bool).scatter(1, data.pairs, False)
    shape = (num_replicates, N_X, N_W)
    return TableBelief(posterior, measure, examples.equal_weights(), free.reshape(shape))


def generators(number: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(each) for each in range(number)]


def test_conditions_of_a_large_bound_are_promising_too() -> None:
    factors = Factors.of(torch.eye(60, dtype=torch.double))
    generator = torch.Generator().manual_seed(0)
    Y = 5 + torch.randn(1, 90, generator=generator, dtype=torch.double)
    pairs = torch.arange(90).unsqueeze(0)  # of the first 45 conditions
    data = TableReadings(factors, Factors.of(torch.eye(2, dtype=torch.double)), pairs, Y, 0.1)
    posterior = TablePosterior.of(data, fit_table(data).hyperparameters)
    free = torch.ones(1, 60, 2, dtype=torch.bool)
    known = TableBelief(posterior, Expectation(), torch.full((2,), 0.5).double(), free)
    deviation = posterior.variance_of_combined(known.risk.gradient)[0].sqrt()
    found = known.promising()[0]
    assert found.unique().numel() == 48
    best = known.risk.value[0].topk(24).indices
    assert torch.equal(found[:24], best)
    upper = (known.risk.value + 2 * deviation)[0].index_fill(0, best, -torch.inf)
    assert upper[found[24:]].min() >= upper.topk(24).values.min()


@pytest.mark.parametrize(
    "measure", [ConditionalValueAtRisk(0.3), WorstCase(), TotalVariationBall(0.4)]
)
def test_a_ceiling_rules_out_no_promising_condition(measure: RiskMeasure) -> None:
    generator = torch.Generator().manual_seed(0)
    conditions = Factors.of(torch.rand(300, 2, generator=generator).double())
    pairs = torch.randperm(300 * N_W, generator=generator)[:80].reshape(2, 40)
    Y = conditions.features[pairs // N_W].sum(dim=-1)
    data = TableReadings(conditions, CONTEXTS, pairs, Y, 0.1)
    posterior = TablePosterior.of(data, fit_table(data).hyperparameters)
    free = torch.rand(2, 300, N_W, generator=generator) < 0.3
    known = TableBelief(posterior, measure, examples.equal_weights(), free)
    variance = posterior.variance_of_combined(known.risk.gradient)
    for among in (torch.ones_like(known.has_free), known.has_free):
        value = known.risk.value.masked_fill(~among, -torch.inf)
        expected = _largest(value, value + 2 * variance.sqrt())
        assert torch.equal(known.promising(among), expected)
    few = torch.zeros_like(known.has_free)
    few[:, 100:130] = True  # fewer than are compared: all of them are among these
    for row in known.promising(few):
        assert set(range(100, 130)) <= set(row.tolist())


def expected_best_risk(known: TableBelief, pair: int) -> float:
    r"""The largest expectation once the reading of a pair is known, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    posterior, one = known.posterior, torch.tensor([pair])
    at = posterior.mean.flatten(1)[0, pair]
    deviation = (posterior.variance.flatten(1)[0, pair] + posterior.read.noise[0]).sqrt()
    after = [
        posterior.with_reading(one, (at + deviation * node)[None]).mean[0].mean(dim=-1).max().item()
        for node in nodes
    ]
    return float(weights @ np.array(after) / weights.sum())


@pytest.mark.slow
def test_the_knowledge_gradient_is_the_best_of_all_pairs() -> None:
    known = belief(Expectation())
    gains = torch.tensor([expected_best_risk(known, pair) for pair in range(N_X * N_W)])
    gains = gains.masked_fill(~known.free.flatten(), -torch.inf)
    chosen = int(TABLE_RULES["knowledge_gradient"](known, generators(1)))
    assert gains[chosen] >= gains.max() - 1e-4  # of the quadrature, whose integrand has kinks
    assert gains.max() - gains[gains.isfinite()].min() > 1e-3


def test_where_no_reading_can_change_the_choice_the_most_telling_one_is_chosen() -> None:
    known = belief(Expectation())
    Y = torch.tensor([[0.3, 0.1]]).double()
    data = TableReadings(Factors.of([("base 0", "salt 0")]), CONTEXTS, torch.tensor([[0, 1]]), Y)
    alone = TablePosterior.of(data, examples.hyperparameters())
    known = replace(known, posterior=alone, free=torch.ones(1, 1, N_W, dtype=torch.bool))
    chosen = int(TABLE_RULES["knowledge_gradient"](known, generators(1)))
    one = torch.zeros(1, 1, dtype=torch.long)
    moves = alone.moves(torch.full((1, 1, N_W), 1 / N_W).double(), one, one)
    assert chosen == moves.abs().argmax()


def test_the_second_pair_of_a_plate_knows_of_the_first() -> None:
    known = belief(Expectation())
    first, second = choose_plate(known, "knowledge_gradient", 2, generators(1))[0]
    assert first == TABLE_RULES["knowledge_gradient"](known, generators(1))
    after = known.after(first[None], torch.zeros(8).double())
    assert after.moved is not None
    assert (after.moved == 0).all()
    torch.testing.assert_close(after.posterior.mean, known.posterior.mean)
    moved = known.after(first[None], torch.tensor([2.0]).double()).moved
    at = known.posterior.mean.flatten(1)[0, first]
    noise = known.posterior.read.noise[0]
    y = at + 2 * (known.posterior.variance.flatten(1)[0, first] + noise).sqrt()
    really = known.posterior.with_reading(first[None], y[None]).mean.mean(dim=-1)
    torch.testing.assert_close(moved[0, 0], (really - known.risk.value)[0])
    assert second != first


@named
def test_stein_slopes_are_what_readings_do_to_the_expected_risk(measure: RiskMeasure) -> None:
    r"""The slopes are the derivative of a Monte-Carlo risk in the outcome of a reading."""
    known = replace(belief(measure), num_samples=20_000)
    one = torch.tensor([[2]])
    slopes = known.posterior.moves(known.risk_at(one).gradient, one, one)[0, 0, 0]
    step = 1e-2
    for w in range(N_W):
        pair, values = torch.tensor([2 * N_W + w]), []
        at = known.posterior.mean.flatten(1)[:, int(pair)]
        deviation = (
            known.posterior.variance.flatten(1)[0, int(pair)] + known.posterior.read.noise
        ).sqrt()
        for sign in (-1, 1):
            moved = known.posterior.with_reading(pair, at + sign * step * deviation)
            # The mean moves; the covariance does not change.
            same = replace(known.posterior, mean=moved.mean)
            values.append(replace(known, posterior=same).risk.value[0, 2])
        difference = (values[1] - values[0]) / (2 * step)
        torch.testing.assert_close(slopes[w], difference, rtol=0.05, atol=2e-3)


def test_risk_variance_leaves_the_least_variance_of_the_mean() -> None:
    known = belief(Expectation(), 2)
    chosen = TABLE_RULES["risk_variance"](known, generators(2))
    for row in range(2):
        x = int(chosen[row]) // N_W
        left = {}
        for w in known.free[row, x].nonzero()[:, 0].tolist():
            pair = torch.full((2,), x * N_W + w)
            after = known.posterior.with_reading(pair)
            weights = torch.full((2, N_X, N_W), 1 / N_W).double()
            left[w] = after.variance_of_combined(weights)[row, x].item()
        assert int(chosen[row]) % N_W == min(left, key=left.__getitem__)


def test_lacing_of_the_worst_case_reads_the_lowest_bound() -> None:
    known = belief(WorstCase())
    known = replace(known, free=torch.ones_like(known.free))
    chosen = int(TABLE_RULES["lacing"](known, generators(1)))
    lower, upper = known.bounds
    assert chosen // N_W == upper.amin(dim=-1).argmax()
    assert chosen % N_W == lower[0, chosen // N_W].argmin()
    known = replace(belief(ShareAbove(5.2)), free=torch.ones_like(known.free))
    chosen = int(TABLE_RULES["lacing"](known, generators(1)))
    lower, upper = (bound[0].flatten()[chosen] for bound in known.bounds)
    assert lower <= 5.2 < upper
    with pytest.raises(UnsupportedError, match=r"for the rule 'lacing'. Got MeanVariance"):
        TABLE_RULES["lacing"](belief(MeanVariance(0.3)), generators(1))


@rules
@named
@pytest.mark.handful
def test_pairs_are_free_and_different_whatever_is_batched(rule: str, measure: RiskMeasure) -> None:
    if rule == "lacing" and isinstance(measure, MeanVariance):
        return
    known = belief(measure, 3)
    known.free[:, 1] = False  # holes: a condition that cannot be run
    plate = choose_plate(known, rule, 4, generators(3))
    assert plate.shape == (3, 4)
    for row in range(3):
        chosen = plate[row].tolist()
        assert len(set(chosen)) == 4
        assert known.free[row].flatten()[chosen].all()
        data, theta = examples.readings(3), examples.hyperparameters(3)
        alone = TableReadings(CONDITIONS, CONTEXTS, data.pairs[[row]], data.Y[[row]])
        posterior = TablePosterior.of(alone, TableHyperparameters(*(each[[row]] for each in theta)))
        single = TableBelief(posterior, measure, known.weights, known.free[[row]])
        assert choose_plate(single, rule, 4, generators(3)[row : row + 1])[0].tolist() == chosen


@rules
def test_a_plate_may_take_all_that_is_left(rule: str) -> None:
    known = belief(ConditionalValueAtRisk(0.5))
    left = known.free.flatten().nonzero()[:, 0].tolist()
    plate = choose_plate(known, rule, len(left), generators(1))
    assert sorted(plate[0].tolist()) == left


def test_many_conditions_are_compared_by_their_promise() -> None:
    value = torch.linspace(0, 1, 200).double()[None]
    deviation = torch.zeros_like(value)
    deviation[0, :30] = 5.0
    compared: Tensor = _largest(value, value + 2 * deviation)
    assert compared.shape == (1, 48)
    assert len(set(compared[0].tolist())) == 48
    assert set(range(176, 200)) < set(compared[0].tolist())
    assert set(range(6, 30)) < set(compared[0].tolist())


@rules
def test_pairs_are_free_where_the_promising_conditions_are_taken(rule: str) -> None:
    conditions = Factors.of(torch.arange(60.0)[:, None])
    pairs = torch.tensor([[0, 100, 200, 239]])
    Y = torch.tensor([[0.0, 1.0, 2.0, 2.5]]).double()
    data = TableReadings(conditions, CONTEXTS, pairs, Y)
    posterior = TablePosterior.of(data, fit_table(data).hyperparameters)
    free = torch.zeros(1, 60, N_W, dtype=torch.bool)
    free[:, :2] = True
    known = TableBelief(posterior, Expectation(), examples.equal_weights(), free)
    assert (choose_plate(known, rule, 8, generators(1)) < 2 * N_W).all()


def test_the_rule_for_each_risk() -> None:
    assert [rule_for(measure) for measure in MEASURES[:5]] == [
        "knowledge_gradient",
        "risk_variance",
        "risk_variance",
        "lacing",
        "risk_variance",
    ]


@rules
def test_equal_conditions_are_chosen_at_random(rule: str) -> None:
    r"""Untried conditions without descriptors are equal: their order in the table says nothing."""
    conditions, seeds = Factors.of([f"c{i}" for i in range(12)]), range(200)
    pairs = torch.tensor([[0, 1, N_W, N_W + 1]]).expand(len(seeds), -1)
    Y = torch.tensor([[0.3, 0.1, 0.2, 0.4]]).double().expand(len(seeds), -1)
    data = TableReadings(conditions, CONTEXTS, pairs, Y)
    posterior = TablePosterior.of(data, fit_table(data).hyperparameters)
    free = torch.ones(len(seeds), 12, N_W, dtype=torch.bool)
    free[:, :2] = False
    known = TableBelief(posterior, Expectation(), examples.equal_weights(), free)
    chosen = choose_plate(known, rule, 1, [torch.Generator().manual_seed(s) for s in seeds])
    counts = torch.bincount(chosen.flatten() // N_W, minlength=12)[2:]
    assert counts.sum() == len(seeds)
    assert (counts >= 5).all()  # of 20 expected: below 5 with a probability of 1e-4 each


class WithoutClosedForm(RiskMeasure):
    r"""A measure whose expectation is sampled, and which counts the conditions it is called for."""

    def __init__(self) -> None:
        self.rows = 0

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        self.rows += values.shape[:-2].numel()
        return ConditionalValueAtRisk(0.3)._evaluate(values, weights)


def test_the_risk_is_sampled_where_it_is_needed_alone() -> None:
    r"""The context of one condition needs the covariance of that condition, not of all."""
    measure = WithoutClosedForm()
    known = belief(measure)
    measure.rows = 0
    TABLE_RULES["risk_variance"](known, generators(1))
    # Bounds have no samples: one row for all conditions.
    assert measure.rows == 1 + 2


@pytest.mark.parametrize(
    "measure", [ConditionalValueAtRisk(0.3), MeanVariance(0.3), ShareAbove(5.2)]
)
def test_risks_in_blocks_are_those_of_all(
    measure: RiskMeasure, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = belief(measure, 2)
    some = torch.tensor([[3, 0, 2], [1, 1, 4]])
    for size in (2**19, 2 * N_W**2 * 2):
        monkeypatch.setattr(rules_module, "_COVARIANCES", ChunkSize(cpu=size, gpu=size))
        found, every = known.risk_at(some), replace(known).risk
        torch.testing.assert_close(found.value, every.value.gather(-1, some))
        for row, conditions in enumerate(some):
            torch.testing.assert_close(found.gradient[row], every.gradient[row, conditions])
        expected = expected_risk(
            measure,
            known.posterior.mean,
            known.posterior.variance,
            known.weights,
            lambda: known.posterior.covariance_over_contexts(torch.arange(N_X).expand(2, -1)),
        )
        torch.testing.assert_close(every.value, expected.value)
