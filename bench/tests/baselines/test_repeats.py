r"""Replicable experimental design by Thompson sampling."""

import pytest
import torch
from botorch_risk_bench.baselines import bts_red, hetgp_horizon
from botorch_risk_bench.baselines.repeats import AdaptiveHorizon, ThompsonSamplingByNoise, _Ahead
from botorch_risk_bench.experiments.chosen_repeats import ChosenRepeats

from botorch_risk.papers import MeanVarianceSearch
from botorch_risk.papers.rahbo import Weights
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


def test_bad_arguments_of_sampled_points() -> None:
    for options, message in (
        ({"min_repeats": 0}, "`min_repeats` to be at least 1"),
        ({"min_repeats": 5, "max_repeats": 4}, "`min_repeats` <= `max_repeats`"),
    ):
        with pytest.raises(ValueError, match=message):
            bts_red(PROBLEM.bounds, 0, risk_aversion=1.0, **options)
    with pytest.raises(ValueError, match="`num_candidates` to be at least 2"):
        ThompsonSamplingByNoise(num_candidates=1)


OFTEN = ChosenRepeats(PROBLEM, 4)


def test_the_horizon_follows_the_share_of_distinct_points() -> None:
    rule = AdaptiveHorizon(target_ratio=0.4)
    new, same = [0.1, 2.0], [0.1, 2.0]
    # Shares 1/2 (longer), 1/4 (a replicate below the target: shorter), 1/6 (shorter).
    rows = torch.tensor([[new, same, same], [new, [0.3, 2.0], [0.5, 2.0]]]).double()
    assert rule.horizons(rows).tolist() == [-1, 3]
    assert rule.horizons(rows[:, :2]).tolist() == [0, 2]
    padded = torch.cat([rows, torch.full_like(rows[:, :1], torch.nan)], dim=1)
    assert rule.horizons(padded).tolist() == [-1, 3]
    assert AdaptiveHorizon(0.4, max_horizon=1).horizons(rows).tolist() == [-1, 1]


def test_steps_ahead_are_those_of_conditioned_models() -> None:
    strategy = hetgp_horizon(PROBLEM.bounds, [0, 1], risk_aversion=0.7, num_initial=6)
    play(strategy, 1, problem=OFTEN)
    ((_, view),) = strategy.views
    reporting = MeanVarianceSearch(Weights(0.7))
    new = torch.tensor([[[0.4]], [[1.6]]]).double()
    ahead = _Ahead.of(view, reporting, new, step=2)
    row = torch.tensor([6, 6])  # the new point
    model, x = view.belief, view.space.unit(new)
    conditioned = model.condition_on_pending(x, num_repeats=2)
    points = torch.cat([model.train_X, x], dim=-2)
    after = ahead.after(row)
    for found, process in (
        (after.mean, conditioned.mean_model),
        (after.noise, conditioned.noise.model),
    ):
        expected = process.posterior(points).distribution.covariance_matrix
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)
    removed = ahead.gains().gather(-1, row.unsqueeze(-1)).squeeze(-1)
    variances = [
        (each.weight * each.mean.diagonal(dim1=-2, dim2=-1)).sum(dim=-1)
        + (each.weight * each.slope.square() * each.noise.diagonal(dim1=-2, dim2=-1)).sum(dim=-1)
        for each in (ahead, after)
    ]
    torch.testing.assert_close(removed, variances[0] - variances[1])
    assert (after.counts[:, 6] == 2).all()


def test_a_low_target_replicates_and_a_high_one_explores() -> None:
    shares = []
    for target in (0.05, 1.0):
        strategy = hetgp_horizon(
            PROBLEM.bounds, [0, 1], target_ratio=target, risk_aversion=1.0, num_initial=5,
            num_restarts=2, raw_samples=16,
        )  # fmt: skip
        play(strategy, 6, problem=OFTEN)
        rows = strategy.history.X[..., 0]
        shares.append(sum(len(row.unique()) for row in rows) / rows.numel())
    assert shares[0] < shares[1]
    assert shares[1] > 0.7  # a horizon of 0 may replicate before it has come down to -1


def test_bad_arguments_of_a_horizon() -> None:
    for ratio in (0.0, 1.1):
        with pytest.raises(ValueError, match=r"`target_ratio` in \(0, 1\]"):
            hetgp_horizon(PROBLEM.bounds, 0, risk_aversion=1.0, target_ratio=ratio)
    with pytest.raises(ValueError, match="`step` to be at least 1"):
        hetgp_horizon(PROBLEM.bounds, 0, risk_aversion=1.0, step=0)
