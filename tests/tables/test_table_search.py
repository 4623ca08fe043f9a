r"""Named pairs of a finite table, and the condition that is recommended."""

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.acquisition.risk_measures import CVaR
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import InputDataWarning

from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MaximumMeanDiscrepancyBall,
    MeanVariance,
    RiskMeasure,
    ShareAbove,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.tables import (
    TABLE_RULES,
    Factors,
    Pair,
    RankedCondition,
    TableSearch,
    table_search,
)
from tests.risk.cases import risk_kernel

CONDITIONS = [f"{base}-{salt}" for base in "PQRS" for salt in "ab"]
CONTEXTS = list("stuvwxyz")
MEASURES = [
    Expectation(),
    ValueAtRisk(0.3),
    ConditionalValueAtRisk(0.3),
    WorstCase(),
    ShareAbove(0.3),
    MeanVariance(0.3),
    TotalVariationBall(0.4),
    MaximumMeanDiscrepancyBall(0.2, risk_kernel),
]


def outcomes() -> np.ndarray:
    r"""A table `8 x 8` in which the condition 'R-b' is best, and hardest in the context 'w'."""
    generator = np.random.default_rng(0)
    condition = np.array([0.0, 0.1, 0.2, 0.3, 0.7, 0.9, 0.1, 0.2])
    context = np.array([0.0, 0.1, -0.1, 0.2, -0.6, 0.0, 0.1, 0.3])
    return condition[:, None] + context + 0.05 * generator.standard_normal((8, 8))


Y = outcomes()


def outcome(pair: Pair) -> float:
    return float(Y[CONDITIONS.index(pair.condition), CONTEXTS.index(pair.context)])


def search(measure: RiskMeasure | None = None, **options: Any) -> TableSearch:
    measure = Expectation() if measure is None else measure
    return table_search(CONDITIONS, CONTEXTS, risk_measure=measure, **options)


def played(found: TableSearch, rounds: int = 3, q: int = 6) -> list[Pair]:
    tried = []
    for _ in range(rounds):
        pairs = found.ask(q)
        found.tell(pairs, torch.tensor([outcome(pair) for pair in pairs]))
        tried += pairs
    return tried


@pytest.mark.parametrize(
    "measure",
    [*MEASURES[:-1], pytest.param(MEASURES[-1], marks=pytest.mark.slow)],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.slow
def test_pairs_are_new_and_the_best_condition_is_found(measure: RiskMeasure) -> None:
    found = search(measure)
    tried = played(found, 4)
    assert len(set(tried)) == len(tried) == found.num_outcomes == 24
    best = found.recommend()
    assert isinstance(best, RankedCondition)
    assert best.condition.startswith("R-")
    lower, upper = best.interval
    assert lower <= best.risk <= upper
    ranking = found.ranking()
    assert ranking[0] == best
    assert [each.risk for each in ranking] == sorted((e.risk for e in ranking), reverse=True)
    total = sum(each.probability_best for each in ranking)
    if isinstance(measure, ShareAbove):  # of which several conditions may have the largest
        assert total > 1
    else:
        assert total == pytest.approx(1.0)
        assert best.probability_best == max(each.probability_best for each in ranking)


@pytest.mark.slow
def test_once_everything_is_known_the_ranking_is_the_truth() -> None:
    found = search(ConditionalValueAtRisk(0.25), noise_share=0.0)
    found.tell_matrix(Y)
    assert found.ask() == []
    true = np.sort(Y, axis=1)[:, :2].mean(axis=1)
    for each in found.ranking():
        risk = true[CONDITIONS.index(each.condition)]
        assert each.risk == pytest.approx(risk, abs=0.01)
        assert each.interval[1] - each.interval[0] < 0.02
    assert found.recommend().condition == CONDITIONS[true.argmax()]
    assert found.recommend().probability_best > 0.99


@pytest.mark.parametrize("rule", TABLE_RULES)
@pytest.mark.handful
def test_holes_are_never_asked_for(rule: Any) -> None:
    allowed = np.ones((8, 8), dtype=bool)
    allowed[5] = False  # 'R-b' cannot be run with anything
    allowed[:, 4] = False
    found = search(ConditionalValueAtRisk(0.3), rule=rule, allowed=allowed, num_initial=5)
    tried = played(found, 7, q=8)
    assert len(tried) == len(set(tried)) == 49 == allowed.sum()
    assert not [pair for pair in tried if pair.condition == "R-b" or pair.context == "w"]
    assert found.ask() == []


def test_failures_are_not_tried_again_and_tell_nothing() -> None:
    found, same = search(), search()
    first = found.ask(6)
    same.ask(6)
    for each in (found, same):
        each.tell(first[:5], [outcome(pair) for pair in first[:5]])
    found.tell(first[5:], [torch.nan])
    assert found.num_outcomes == 5
    assert found.running == []
    assert same.running == first[5:]
    assert first[5] not in [*found.ask(20), *same.ask(20)]
    torch.testing.assert_close(found.recommend().risk, same.recommend().risk, rtol=0.1, atol=0.1)


def test_matrices_pairs_and_frames_are_one() -> None:
    mask = np.random.default_rng(1).random((8, 8)) < 0.3
    told, by_pairs, framed = search(), search(), search()
    told.tell_matrix(np.where(mask, Y, np.nan))
    listed = [(CONDITIONS[i], CONTEXTS[j]) for i, j in np.argwhere(mask)]
    by_pairs.tell(listed, Y[mask])
    frame = pd.DataFrame(np.where(mask, Y, np.nan), CONDITIONS, CONTEXTS)
    framed.tell_matrix(frame.iloc[::-1, ::-1])  # a pivot sorts as it likes
    assert told.ranking() == by_pairs.ranking() == framed.ranking()
    assert told.ask(3) == by_pairs.ask(3) == framed.ask(3)
    permitted = search(allowed=pd.DataFrame(mask, CONDITIONS, CONTEXTS).iloc[:, ::-1])
    assert set(permitted.ask(64)) == set(listed)


def test_frames_of_descriptors_and_weights() -> None:
    conditions = pd.DataFrame(
        {"base": ["a", "a", "b"], "T": [20.0, 60.0, 40.0]}, index=["x1", "x2", "x3"]
    )
    contexts = torch.rand(4, 2, generator=torch.Generator().manual_seed(0))
    weights = torch.tensor([0.7, 0.1, 0.1, 0.1])
    found = table_search(conditions, contexts, risk_measure=Expectation(), weights=weights)
    table = np.array([[1.0, 0.0, 0.0, 0.0], [0.2, 0.9, 0.9, 0.9], [0.1, 0.2, 0.3, 0.4]])
    found.tell_matrix(table)
    assert found.recommend().condition == "x1"
    evenly = table_search(conditions, contexts, risk_measure=Expectation())
    evenly.tell_matrix(table)
    assert evenly.recommend().condition == "x2"
    assert {pair.context for pair in found.ask(3)} == set()


def test_weights_go_by_name_in_any_order() -> None:
    table = pd.DataFrame([[0.0, 0, 9], [1, 1, 3], [9, 2, 0]], list("PQR"), list("uvw"))

    def best(weights: Any) -> Any:
        found = table_search(list("PQR"), list("uvw"), risk_measure=Expectation(), weights=weights)
        found.tell_matrix(table)
        return found.ranking()

    expected = best([0.1, 0.1, 0.8])
    assert expected[0].condition == "P"
    assert best(pd.Series({"w": 0.8, "u": 0.1, "v": 0.1})) == expected
    assert best({"v": 0.1, "w": 0.8, "u": 0.1}) == expected
    for wrong in ({"u": 0.5, "v": 0.5}, pd.Series([0.1, 0.1, 0.8]), {"u": 0.1, "v": 0.1, "x": 0.8}):
        with pytest.raises(InputDataError, match=r"names of `weights` to be \['u', 'v', 'w'\]"):
            best(wrong)
    with pytest.raises(TypeError, match="`weights`"):
        best("uniform")


def test_distances_go_by_name_in_any_order() -> None:
    far = pd.DataFrame(
        [[0.0, 0.2, 1.0], [0.2, 0.0, 0.9], [1.0, 0.9, 0.0]], list("abc"), list("abc")
    )
    expected = Factors.with_distances("abc", far.to_numpy()).distances
    mixed = Factors.with_distances("abc", far.loc[list("cab"), list("bca")]).distances
    assert torch.equal(mixed, expected)
    with pytest.raises(InputDataError, match="names of `distances`"):
        Factors.with_distances("abd", far)


@pytest.mark.slow
def test_a_measure_of_botorch_counts_as_ours() -> None:
    theirs = table_search(CONDITIONS, CONTEXTS, risk_measure=CVaR(alpha=0.75, n_w=8))
    ours = search(ConditionalValueAtRisk(0.25))
    for each in (theirs, ours):
        each.tell_matrix(Y)
    assert theirs.recommend().condition == ours.recommend().condition


def test_a_search_resumes_from_json() -> None:
    found, resumed, other = search(seed=3), search(seed=3), search(seed=4)
    played(found, 2)
    found.ask(2)
    found.tell([found.running[0]], [torch.nan])
    state = json.loads(json.dumps(found.state_dict(), allow_nan=False))
    resumed.load_state_dict(state)
    assert resumed.running == found.running
    assert resumed.ranking() == found.ranking()
    assert resumed.ask(4) == found.ask(4)
    with pytest.raises(ValueError, match=r"Expected seed=3, as .* with. Got seed=4"):
        other.load_state_dict(state)
    assert other.num_outcomes == 0
    with pytest.raises(ValueError, match=r"a state from `state_dict\(\)`"):
        found.load_state_dict({"outcomes": []})


def test_refused_outcomes_change_nothing() -> None:
    found = search()
    pairs = found.ask(3)
    for told, values, error, message in (
        (pairs, [1.0, 2.0], BotorchTensorDimensionError, r"Got 3 pairs, 2 outcomes"),
        ([*pairs[:2], ("T", "s")], [1.0] * 3, InputDataError, r"name of the conditions. Got 'T'"),
        ([*pairs[:2], ("P-a", "q")], [1.0] * 3, InputDataError, r"name of the contexts. Got 'q'"),
        (pairs, [1.0, 2.0, torch.inf], InputDataError, r"finite `Y`"),
        (["Ps"], [1.0], InputDataError, r"Expected pairs \(condition, context\). Got 'Ps'"),
        (tuple(pairs[0]), [1.0], InputDataError, r"Expected pairs .* Got '[PQRS]-[ab]'"),
        ([(*pairs[0], "s")], [1.0], InputDataError, r"Expected pairs .* Got \('"),
        (pd.DataFrame([pairs[0]]), [1.0], InputDataError, r"Expected pairs .* Got 'condition'"),
        (
            [*pairs, pairs[0]],
            [[1.0, 2.0], [3.0, 4.0]],
            BotorchTensorDimensionError,
            "Got 4 pairs, 2 x 2",
        ),
    ):
        with pytest.raises(error, match=message):
            found.tell(told, values)
    assert found.running == pairs
    assert found.num_outcomes == 0
    with pytest.raises(BotorchTensorDimensionError, match=r"`Y` to have shape `8 x 8`"):
        found.tell_matrix(Y[:3])
    with pytest.raises(InputDataError, match=r"the names of `Y` to be"):
        found.tell_matrix(pd.DataFrame(Y[:2], CONDITIONS[:2], CONTEXTS))
    with pytest.raises(InputDataError, match="finite `Y`, NaN where missing"):
        found.tell_matrix(np.where(Y.min() < Y, Y, -np.inf))
    with pytest.raises(ValueError, match=r"outcomes of at least two pairs before that. Got 0"):
        found.recommend()
    with pytest.raises(ValueError, match=r"`q` to be at least 1"):
        found.ask(0)
    for num, message in ((0, "at least 1. Got 0"), (-1, "Got -1"), (2.5, "integer. Got 2.5")):
        with pytest.raises(ValueError, match=f"`num` to be .*{message}"):
            found.ranking(num)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"`rule` to be one of"):
        search(rule="thompson")
    with pytest.raises(ValueError, match=r"`noise_share` in \[0, 1\]. Got 2"):
        search(noise_share=2.0)
    with pytest.raises(BotorchTensorDimensionError, match=r"`allowed` to have shape `8 x 8`"):
        search(allowed=np.ones((8, 7), dtype=bool))
    with pytest.raises(BotorchTensorDimensionError, match=r"`probabilities` to have shape"):
        search(weights=torch.full((3,), 1 / 3))
    with pytest.raises(TypeError, match=r"risk"):
        table_search(CONDITIONS, CONTEXTS, risk_measure=0.3)  # type: ignore[arg-type]


@pytest.mark.parametrize("noise_share", [0.1, 1.0])
def test_a_mean_of_many_readings_is_as_certain_as_it_is(noise_share: float) -> None:
    r"""Of 100 readings with noise of variance 1 in each of 4 contexts, as in a textbook."""
    generator = np.random.default_rng(0)
    found = table_search(
        list("ABCD"), list("uvwx"), risk_measure=Expectation(), noise_share=noise_share
    )
    truth = generator.normal(size=(4, 4))
    for _ in range(100):
        pairs = [(x, w) for x in "ABCD" for w in "uvwx"]
        found.tell(pairs, (truth + generator.normal(size=(4, 4))).flatten())
    assert found.num_outcomes == 16
    for each in found.ranking():
        width = each.interval[1] - each.interval[0]
        assert width == pytest.approx(2 * 1.96 / np.sqrt(400), rel=0.25)
        assert abs(each.risk - truth["ABCD".index(each.condition)].mean()) < 3.3 / np.sqrt(400)


def test_a_failure_marked_by_a_number_is_named_once() -> None:
    told, table = search(), Y.copy()
    table[2, 3] = -9999.0
    with pytest.warns(InputDataWarning, match=r"Got -9999 of the pairs \[\('Q-a', 'v'\)\]"):
        told.tell_matrix(table)
    told.tell([("P-a", "s")], [0.1])
    with pytest.warns(InputDataWarning, match=r"Got -9999 of the pairs \[\('S-b', 'z'\)\]"):
        told.tell([("S-b", "z")], [-9999.0])


def test_conditions_that_are_all_certain_to_be_best_have_probability_one() -> None:
    found = table_search(list("ABC"), list("uvwx"), risk_measure=ShareAbove(0.5))
    found.tell_matrix(5 + 0.1 * np.random.default_rng(0).normal(size=(3, 4)))  # far above
    assert [(each.risk, each.probability_best) for each in found.ranking()] == [(1.0, 1.0)] * 3
    weights = [0.1, 0.2, 0.3, 0.4]  # 0.1 + 0.2 is not 0.3
    table = np.array([[9.0, 9, 0, 0], [0, 0, 9, 0], [9, 0, 0, 0]])
    uneven = table_search(
        list("ABC"), list("uvwx"), risk_measure=ShareAbove(4.5), weights=weights, noise_share=0.0
    )
    uneven.tell_matrix(table)
    best = {each.condition: each.probability_best for each in uneven.ranking()}
    assert best == {"A": 1.0, "B": 1.0, "C": 0.0}


@pytest.mark.slow
@pytest.mark.parametrize("measure", [ShareAbove(0.0), Expectation()], ids=str)
def test_the_probability_to_be_best_holds_at_its_rate(measure: RiskMeasure) -> None:
    r"""To a tenth, of 200 tables from the prior of which a third was read."""
    stated, true = [], []
    for seed in range(200):
        generator = np.random.default_rng(seed)
        rates, own = np.exp(generator.normal(-0.5, 1, 2)), np.exp(generator.normal(np.log(0.1), 1))
        variances = np.exp(generator.normal(np.log(1 / 3), 1, 3))
        K_x, K_w = (np.exp(-rate * (1 - np.eye(n))) for rate, n in zip(rates, (8, 6), strict=True))
        parts = (K_x, np.ones((6, 6))), (np.ones((8, 8)), K_w), (K_x, K_w)
        A = sum(v * np.kron(*part) for v, part in zip(variances, parts, strict=True))
        root = np.linalg.cholesky(A + (0.9 * own + 1e-9) * np.eye(48))
        f = (root @ generator.normal(size=48)).reshape(8, 6)
        found = table_search(list(range(8)), list(range(6)), risk_measure=measure)
        read = generator.permutation(48)[:16]
        noise = np.sqrt(0.1 * own) * generator.normal(size=16)
        found.tell([divmod(int(pair), 6) for pair in read], f.flatten()[read] + noise)
        best = found.recommend()
        risks = f.mean(axis=1) if isinstance(measure, Expectation) else (f >= 0).mean(axis=1)
        stated.append(best.probability_best)
        true.append(risks[best.condition] >= risks.max() - 1e-9)
    assert abs(np.mean(stated) - np.mean(true)) < 0.1


def test_pairs_that_somebody_else_has_started_run() -> None:
    mine, other = search(num_initial=4), search(num_initial=4)
    first = mine.ask(q=4)
    for each in (mine, other):
        each.tell(first, [outcome(pair) for pair in first])
    plate = mine.ask(q=3)
    (new,) = other.ask(1, pending=[*plate[:2], *first, plate[0]])
    assert other.running == [*plate[:2], new]
    assert other.num_outcomes == 4
    assert new == plate[2]
    with pytest.raises(InputDataError, match=r"Expected a name of the contexts. Got 'nowhere'"):
        other.ask(pending=[(CONDITIONS[0], "nowhere")])
    assert len(other.running) == 3


def test_what_is_cancelled_or_withdrawn_never_was_and_what_is_corrected_was_told_right() -> None:
    expected, found = search(num_initial=4), search(num_initial=4)
    first = expected.ask(q=4)
    assert found.ask(q=4) == first
    values = [outcome(pair) for pair in first]
    expected.tell(first, values)
    found.tell(first, [values[0], 9.0, *values[2:]])
    found.tell(first[1:2], [8.0])
    found.correct(first[1:2], values[1:2])
    assert found.state_dict() == expected.state_dict()
    found.cancel(found.ask(q=3))
    stranger = next(pair for pair in every_pair() if pair not in first)
    found.tell([stranger, stranger], [1.0, torch.nan])
    found.withdraw([stranger])
    assert found.state_dict() == expected.state_dict()
    assert found.ask(q=3) == expected.ask(q=3)
    assert found.recommend() == expected.recommend()


def test_what_does_not_run_and_was_not_told_is_named() -> None:
    found = search(num_initial=4)
    pairs = found.ask(q=4)
    found.tell(pairs[:2], [1.0, 2.0])
    before = found.state_dict()
    name = re.escape(str(tuple(pairs[0])))
    with pytest.raises(ValueError, match=f"Expected pairs that run. Got {name}"):
        found.cancel(pairs)
    name = re.escape(str(tuple(pairs[2])))
    with pytest.raises(ValueError, match=f"Expected pairs that were told. Got {name}"):
        found.withdraw(pairs)
    with pytest.raises(ValueError, match=f"Expected pairs that were told. Got {name}"):
        found.correct(pairs, [1.0] * 4)
    with pytest.raises(BotorchTensorDimensionError, match="Got 2 pairs, 1 outcomes"):
        found.correct(pairs[:2], [1.0])
    assert found.state_dict() == before


def every_pair() -> list[Pair]:
    return [Pair(condition, context) for condition in CONDITIONS for context in CONTEXTS]


def test_distances_of_the_user_tell_which_conditions_are_alike() -> None:
    r"""The same as descriptors, of which the distances are those that are given."""
    numbers = torch.linspace(0, 1, len(CONDITIONS), dtype=torch.double)[:, None]
    of_numbers = Factors.of(numbers)
    own = Factors.with_distances(CONDITIONS, of_numbers.distances)
    found = []
    for conditions in (numbers, own):
        one = table_search(conditions, CONTEXTS, risk_measure=Expectation(), num_initial=4)
        for _ in range(2):
            pairs = [(one.conditions.names.index(x), w) for x, w in one.ask(q=4)]
            one.tell(
                [(one.conditions.names[x], w) for x, w in pairs],
                [outcome(Pair(CONDITIONS[x], w)) for x, w in pairs],
            )
        found.append((pairs, one.recommend().risk))
    assert found[0] == found[1]
