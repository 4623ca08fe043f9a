r"""Replicable experimental design by Thompson sampling."""

from __future__ import annotations

import pytest
import torch
from botorch_risk_bench.baselines import bts_red
from botorch_risk_bench.baselines.repeats import ThompsonSamplingByNoise
from botorch_risk_bench.experiments.chosen_repeats import ChosenRepeats

from botorch_risk.test_functions import HeteroscedasticSine
from tests.strategies.loops import play

PROBLEM = HeteroscedasticSine()
MEASURED = ChosenRepeats(PROBLEM, 10)


def test_readings_grow_with_the_noise() -> None:
    seeds = range(12)
    strategy = bts_red(
        PROBLEM.bounds, seeds, max_repeats=4, risk_aversion=0.0, num_initial=8, initial_repeats=4
    )
    X = strategy.ask()
    play(strategy, 1, problem=ChosenRepeats(PROBLEM, 4))
    asked = strategy.ask()
    ((_, view),) = strategy.views
    upper = view.belief.noise.upper(view.space.unit(asked[..., :-1]), 4.0).flatten()
    largest = view.belief.noise.upper(view.space.unit(X[..., :-1]), 4.0).flatten(1).amax(dim=-1)
    expected = [min(max(-(-4 * u // m), 2), 4) for u, m in zip(upper, largest, strict=True)]
    assert asked.flatten(1)[:, -1].tolist() == [float(each) for each in expected]
    assert len(set(asked[..., -1].flatten().tolist())) > 1


def test_points_are_sampled_from_the_belief_where_the_best_point_is() -> None:
    r"""With readings almost without noise nearly all samples are at the peak that is known."""
    strategy = bts_red(PROBLEM.bounds, range(8), risk_aversion=1.0, num_initial=20)
    X = strategy.ask()
    quiet = (torch.pi * 2 * X[..., :1]).sin() - (X[..., :1] - 0.25).abs()
    noise = 1e-3 * torch.randn(8, 20, 3, generator=torch.Generator().manual_seed(0))
    strategy.tell(X, quiet + noise)
    assert ((strategy.ask()[..., 0] - 0.25).abs() < 0.1).float().mean() > 0.8


def test_bad_arguments() -> None:
    for options, message in (
        ({"min_repeats": 0}, "`min_repeats` to be at least 1"),
        ({"min_repeats": 5, "max_repeats": 4}, "`min_repeats` <= `max_repeats`"),
    ):
        with pytest.raises(ValueError, match=message):
            bts_red(PROBLEM.bounds, 0, risk_aversion=1.0, **options)
    with pytest.raises(ValueError, match="`num_candidates` to be at least 2"):
        ThompsonSamplingByNoise(num_candidates=1)
