r"""Baselines that know the distribution of W: which w they query beside a decision."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch_risk_bench.baselines import (
    adversarial_stable_opt,
    context_free_gp_ucb,
    contextual_gp_ucb,
    random_pairs,
    stable_opt,
)
from torch import Tensor

from botorch_risk.environments import InputPerturbation, StandardDeviationBox
from botorch_risk.risk import Expectation, WorstCase
from tests.strategies.cases import PAIRS
from tests.strategies.loops import play

FAST = {"num_initial": 5, "num_restarts": 2, "raw_samples": 16}
LEVEL = {"risk_level": 0.1}


def build(make: Any, seeds: Any, **options: Any) -> Any:
    return make(PAIRS.bounds, seeds, environment=PAIRS.environment, **FAST, **options)


def test_every_w_is_one_that_a_decision_may_meet() -> None:
    for make, options in (
        (adversarial_stable_opt, {}),
        (contextual_gp_ucb, LEVEL),
        (random_pairs, LEVEL),
    ):
        for X in play(build(make, [0, 1], **options), 3, problem=PAIRS):
            d_x = PAIRS.bounds.shape[-1]
            assert PAIRS.environment.contains(X[..., :d_x], X[..., d_x:]).all()


def test_the_adversary_queries_the_w_of_the_smallest_lower_bound() -> None:
    strategy = build(adversarial_stable_opt, [0, 1])
    play(strategy, 2, problem=PAIRS)
    X = strategy.ask()
    d_x = PAIRS.bounds.shape[-1]
    others = build(contextual_gp_ucb, [0, 1], **LEVEL)
    play(others, 2, problem=PAIRS)
    assert X.shape == others.ask().shape == (2, 1, d_x + PAIRS.contexts.shape[-1])
    assert not torch.equal(X, others.ask())


def test_random_pairs_do_not_depend_on_the_outcomes() -> None:
    one, two = (build(random_pairs, [0, 1], **LEVEL) for _ in range(2))
    X = one.ask()
    one.tell(X, X[..., :1].sin())
    two.tell(X, X[..., :1].cos())
    assert torch.equal(one.ask(), two.ask())


def test_w_is_drawn_from_its_distribution() -> None:
    strategy = build(random_pairs, range(300), **LEVEL)
    X = strategy.ask()
    strategy.tell(X, X[..., :1].sin())
    w = strategy.ask()[:, 0, PAIRS.bounds.shape[-1] :]
    points, weights = PAIRS.environment.points, PAIRS.environment.weights
    torch.testing.assert_close(w.mean(dim=0), weights @ points, atol=0.03, rtol=0)


WITH_SIX = {"num_initial": 6, "num_restarts": 2, "raw_samples": 16}


def after(make: Any, contexts: Tensor) -> Any:
    r"""The strategy after an initial design that has met these contexts; outcomes are the same."""
    strategy = make(PAIRS.bounds, [0, 1], context_bounds=PAIRS.contexts, **WITH_SIX)
    X = strategy.ask()
    strategy.tell(torch.cat([X, contexts.to(X)], dim=-1), (5 * X).sin())
    return strategy


def test_gp_ucb_without_contexts_takes_no_notice_of_them() -> None:
    contexts = torch.rand(2, 6, 1, dtype=torch.double)
    one, two = (after(context_free_gp_ucb, each) for each in (contexts, contexts.flip(1)))
    assert torch.equal(one.ask(), two.ask())
    assert torch.equal(one.recommend(), two.recommend())


def test_stable_opt_guards_against_the_contexts_that_it_has_met() -> None:
    contexts = torch.rand(2, 6, 1, dtype=torch.double)
    one, two = (after(stable_opt, each) for each in (contexts, contexts.flip(1)))
    assert not torch.equal(one.ask(), two.ask())
    assert one.ask().shape == (2, 1, PAIRS.bounds.shape[-1])


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="`n_w` to be at least 1"):
        stable_opt(PAIRS.bounds, 0, context_bounds=PAIRS.contexts, n_w=0)
    for make in (stable_opt, context_free_gp_ucb):
        with pytest.raises(ValueError, match="`beta`"):
            make(PAIRS.bounds, 0, context_bounds=PAIRS.contexts, beta=-1.0)


def test_a_drawn_w_needs_a_distribution_of_its_own() -> None:
    shifts = InputPerturbation(torch.tensor([[-0.1], [0.1]], dtype=torch.double))
    with pytest.raises(UnsupportedError, match=r"`IndependentEnv.*Got InputPerturbation"):
        contextual_gp_ucb(PAIRS.bounds, 0, environment=shifts, **LEVEL, **FAST)


@pytest.mark.parametrize(
    ("make", "environment", "measure"),
    [
        (stable_opt, StandardDeviationBox, WorstCase),
        (context_free_gp_ucb, InputPerturbation, Expectation),
    ],
)
def test_it_is_its_environment_and_its_risk_measure(
    make: Any, environment: type, measure: type
) -> None:
    strategy = after(make, torch.rand(2, 6, 1, dtype=torch.double))
    assert isinstance(strategy.belief.environment, environment)
    assert isinstance(strategy.belief.risk_measure, measure)
    assert strategy.belief.beta == 2.25
