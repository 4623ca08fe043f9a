r"""Baselines of contexts that are observed: what they make of the contexts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch_risk_bench.baselines import context_free_gp_ucb, stable_opt
from torch import Tensor

from tests.strategies.cases import PAIRS

FAST = {"num_initial": 6, "num_restarts": 2, "raw_samples": 16}


def after(make: Any, contexts: Tensor) -> Any:
    r"""The strategy after an initial design that has met these contexts; outcomes are the same."""
    strategy = make(PAIRS.bounds, [0, 1], context_bounds=PAIRS.contexts, **FAST)
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
    with pytest.raises(ValueError, match="at least one point"):
        stable_opt(PAIRS.bounds, 0, context_bounds=PAIRS.contexts, n_w=0)
    for make in (stable_opt, context_free_gp_ucb):
        with pytest.raises(ValueError, match="`beta`"):
            make(PAIRS.bounds, 0, context_bounds=PAIRS.contexts, beta=-1.0)
