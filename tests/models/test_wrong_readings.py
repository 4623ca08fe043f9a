r"""Wrong readings are left out, by what a model of the others predicts."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from botorch_risk.models.far_readings import ratios_to_others
from botorch_risk.models.wrong_readings import scores_of_readings
from tests.models.examples import assert_same, everything, fit, points, repeats, with_missing

D = torch.double


def conditional(covariance: Tensor, values: Tensor, index: int) -> tuple[Tensor, Tensor]:
    r"""Mean and variance of one entry of a Gaussian vector of mean 0 given all the others."""
    others = torch.arange(len(values)) != index
    gain = torch.linalg.solve(covariance[others][:, others], covariance[others, index])
    return gain @ values[others], covariance[index, index] - gain @ covariance[others, index]


def prior_of(process: Any) -> Tensor:
    process.train()
    covariance: Tensor = process.covar_module(process.train_inputs[0]).to_dense().detach()
    return covariance


def plain_score(model: MeanVarianceGP, Y: Tensor, i: int, j: int) -> Tensor:
    r"""One covariance of all readings, and one of all observations of the log noise variance."""
    noise = model.noise_model
    sites = noise.train_targets - noise.mean_module.constant.detach()
    own = noise.likelihood.noise_covar.noise
    prior = prior_of(noise)
    expected, variance = conditional(prior + torch.diag(own), sites, i)
    level = noise.outcome_transform.means.squeeze() + noise.mean_module.constant.detach()
    of_row = (level + expected + (variance - own[i]) / 2).exp()
    mode = level + prior @ torch.linalg.solve(prior + torch.diag(own), sites)
    noises = mode.exp()
    noises[i] = of_row
    means = Y.nanmean(dim=-1)
    row, column = Y.isfinite().nonzero(as_tuple=True)
    scale = model.outcome_transform.stdvs.squeeze() ** 2
    of_mean = scale * prior_of(model.mean_model) + 4 * means.var(correction=0)
    floor = 1e-8 * means.var(correction=0)
    joint = (of_mean + floor * torch.eye(len(Y), dtype=D))[row][:, row] + torch.diag(noises[row])
    index = int(((row == i) & (column == j)).nonzero())
    values = Y[row, column] - means.mean()
    expected, variance = conditional(joint, values, index)
    return (values[index] - expected) / variance.sqrt()


def test_a_score_is_that_of_the_reading_given_all_others() -> None:
    X, Y = repeats(9, 3)
    Y = with_missing(Y)
    model = MeanVarianceGP(X, Y)
    fit(model)
    found = scores_of_readings(model, Y)
    assert torch.equal(found.isfinite(), Y.isfinite())
    for i, j in Y.isfinite().nonzero().tolist():
        torch.testing.assert_close(found[i, j], plain_score(model, Y, i, j), rtol=1e-5, atol=1e-5)


def with_wrong(n: int = 24, k: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    r"""A table in which two readings are far off, and the same without them."""
    X, Y = repeats(n, k)
    wrong = torch.zeros_like(Y, dtype=torch.bool)
    wrong[5, 0] = wrong[17, -1] = True
    return X, Y + 25.0 * wrong, Y.masked_fill(wrong, torch.nan)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.slow
def test_a_trimmed_model_is_that_of_the_other_readings(k: int) -> None:
    X, Y, kept = with_wrong(k=k)
    model, expected = MeanVarianceGP(X, Y, trim=5.0), MeanVarianceGP(X, kept)
    assert model.dropped_readings.tolist() == [[5, 0], [17, k - 1]]
    for one in (model, expected):
        fit(one)
    assert_same(model, expected, points(5), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_devices_drop_the_same_readings(device: torch.device) -> None:
    X, Y, _ = with_wrong()
    X, Y = torch.stack([X, X]), torch.stack([Y, Y.flip(-1)])
    here, there = (
        MeanVarianceGP(X.to(place), Y.to(place), trim=5.0)
        for place in (torch.device("cpu"), device)
    )
    assert there.dropped_readings.device == device
    assert there.dropped_readings.tolist() == here.dropped_readings.tolist()
    assert here.dropped_readings.tolist() == [[0, 5, 0], [0, 17, 2], [1, 5, 2], [1, 17, 0]]
    for one in (here, there):
        fit(one)
    at = points(2, 5)
    for mine, theirs in zip(everything(here, at), everything(there, at.to(device)), strict=True):
        torch.testing.assert_close(mine, theirs.cpu(), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_positions_are_those_of_the_table_that_was_given() -> None:
    X, Y, _ = with_wrong()
    long = MeanVarianceGP(X.repeat_interleave(3, 0), Y.reshape(-1, 1), trim=5.0)
    assert long.dropped_readings.tolist() == [[15, 0], [53, 0]]
    twice = torch.cat([X, X[:6]]), torch.cat([Y, Y[:6] - 25.0 * (Y[:6] > 20)])
    assert MeanVarianceGP(*twice, trim=5.0, keep_copies=True).dropped_readings.tolist() == [
        [5, 0],
        [17, 2],
    ]
    listed = MeanVarianceGP(X, [row[: 3 - (i == 0)] for i, row in enumerate(Y)], trim=5.0)
    assert listed.dropped_readings.tolist() == [[5, 0], [17, 2]]


@pytest.mark.slow
def test_replicates_are_trimmed_alone() -> None:
    X, Y, _ = with_wrong()
    other_X, other_Y = repeats(24, 3)
    model = MeanVarianceGP(torch.stack([other_X, X]), torch.stack([other_Y, Y]), trim=5.0)
    assert model.dropped_readings.tolist() == [[1, 5, 0], [1, 17, 2]]
    alone = MeanVarianceGP(X, Y, trim=5.0)
    for one in (model, alone):
        fit(one)
    test_X = points(2, 5)
    for mine, theirs in zip(everything(alone, test_X[1]), everything(model, test_X), strict=True):
        torch.testing.assert_close(mine, theirs[1], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("batch_shape", [(), (2,)])
@pytest.mark.slow
def test_a_row_whose_only_reading_is_wrong_is_left_out(batch_shape: tuple[int, ...]) -> None:
    X = torch.linspace(0, 1, 40, dtype=D).unsqueeze(-1).expand(*batch_shape, 40, 1)
    Y = (6 * X).sin() + 0.1 * torch.randn(*batch_shape, 40, 1, dtype=D)
    Y[..., 20, :] += 3.0
    model = MeanVarianceGP(X, Y, trim=5.0)
    assert model.dropped_readings[..., -2:].tolist() == [[20, 0]] * max(1, len(batch_shape) * 2)
    fit(model)
    at = torch.tensor([[0.5]], dtype=D).expand(*batch_shape, 1, 1)
    assert ((model.posterior(at).mean - (6 * at).sin()).abs() < 0.2).all()
    assert (model.train_counts.sum(dim=-2) == 39).all()


@pytest.mark.slow
def test_at_most_a_twentieth_is_dropped_the_worst_first() -> None:
    X, Y = repeats(16, 3)
    Y[[2, 7, 11], 0] += torch.tensor([20.0, 50.0, 35.0], dtype=D)
    dropped = MeanVarianceGP(X, Y, trim=1.0).dropped_readings.tolist()
    assert len(dropped) == 2 and [7, 0] in dropped
    assert MeanVarianceGP(X[:6], Y[:6], trim=1.0).dropped_readings.shape == (0, 2)


def test_nothing_is_dropped_below_the_limit() -> None:
    X, Y = repeats(20, 3)
    model, plain = MeanVarianceGP(X, Y, trim=50.0), MeanVarianceGP(X, Y)
    assert model.dropped_readings.shape == (0, 2) == plain.dropped_readings.shape
    for one in (model, plain):
        fit(one)
    assert_same(model, plain, points(5), rtol=0, atol=0)


@pytest.mark.slow
def test_a_state_goes_to_a_model_of_the_same_data() -> None:
    X, Y, _ = with_wrong()
    model, twin = (MeanVarianceGP(X, Y, trim=5.0) for _ in range(2))
    fit(model)
    twin.load_state_dict(model.state_dict())
    assert_same(model, twin, points(5), rtol=1e-10, atol=1e-12)
    conditioned = model.condition_on_observations(points(1), torch.ones(1, 1, dtype=D))
    assert torch.equal(conditioned.dropped_readings, model.dropped_readings)


def test_there_have_to_be_readings() -> None:
    X, Y = repeats(8, 3)
    for options in ({"noise_evidence": "spread"}, {"train_Yvar": torch.ones_like(Y)}):
        with pytest.raises(UnsupportedError, match="Expected readings from which the noise is"):
            MeanVarianceGP(X, Y, trim=5.0, **options)
    with pytest.raises(UnsupportedError, match="Expected readings from which the noise is"):
        MeanVarianceGP(X, RepeatedOutcomes.from_repeats(Y), trim=5.0)
    with pytest.raises(ValueError, match="Expected `trim` to be finite and > 0"):
        MeanVarianceGP(X, Y, trim=0.0)


def smooth(n: int, seed: int, k: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, 2, generator=generator, dtype=D)
    noise = torch.randn(n, k, generator=generator, dtype=D)
    return X, (4 * X).sin().sum(dim=-1, keepdim=True) + 0.1 * noise


def cases(*values: float) -> list[Any]:
    r"""The first combination in `make test`, all of them in `make test-all`."""
    found = [(n, value, seed) for n in (20, 40) for value in values for seed in range(4)]
    return [pytest.param(*each, marks=[pytest.mark.slow] * bool(i)) for i, each in enumerate(found)]


@pytest.mark.filterwarnings("ignore:Readings of row")
@pytest.mark.parametrize(("n", "value", "seed"), cases(8.0, 50.0, 1000.0))
def test_a_wrong_run_and_a_wrong_reading_are_found_and_no_good_one(
    n: int, value: float, seed: int
) -> None:
    X, Y = smooth(n, seed)
    row = 3 + seed
    run, reading, equal = Y.clone(), Y.clone(), Y.clone()
    run[row] = value + 0.1 * torch.tensor([0.3, -0.2, 0.9], dtype=D)
    reading[row, 1] = value
    equal[row] = value  # count once
    for told, expected in (
        (Y, []),
        (run, [[row, 0], [row, 1], [row, 2]]),
        (reading, [[row, 1]]),
        (equal, [[row, 0]]),
    ):
        assert MeanVarianceGP(X, told, trim=5.0).dropped_readings.tolist() == expected


def test_a_wrong_run_of_one_replicate_is_found_in_a_batch() -> None:
    X, Y = (torch.stack(each) for each in zip(smooth(24, 0), smooth(24, 1), strict=True))
    Y[1, 7] += 30.0
    found = MeanVarianceGP(X, Y, trim=5.0).dropped_readings.tolist()
    assert found == [[1, 7, 0], [1, 7, 1], [1, 7, 2]]


@pytest.mark.parametrize("sentinel", [-9999.0, 1e10, 1e30, 1e50, -1e100])
@pytest.mark.slow
def test_a_sentinel_is_left_out_and_its_good_neighbours_stay(sentinel: float) -> None:
    X, Y = smooth(20, 0)
    Y[3, 1] = sentinel
    assert MeanVarianceGP(X, Y, trim=5.0).dropped_readings.tolist() == [[3, 1]]


@pytest.mark.parametrize("trim", [None, 5.0])
def test_many_sentinels_are_refused_by_name(trim: float | None) -> None:
    X, Y = smooth(20, 0)
    Y[2:6] = 1e30
    Y[4, 2] = -1e50
    Y = torch.stack([Y[:, 0], Y[:, 2]]).unsqueeze(-1)
    # What may be trimmed is trimmed first.
    named = r"-1e\+50 in row 4 of replicate \(1,\)" if trim is None else r"1e\+30 in row 3 of .*"
    with pytest.raises(InputDataError, match=rf"Got {named} and [57] more.* failures as NaN\.$"):
        MeanVarianceGP(X.expand(2, -1, -1), Y, trim=trim)
    long, told = X.repeat_interleave(2, dim=0), Y.movedim(0, 1).reshape(-1, 1)
    named = r"-1e\+50 in row 9" if trim is None else r"1e\+30 in row [4-9]"
    with pytest.raises(InputDataError, match=rf"Got {named} and"):
        MeanVarianceGP(long, told, trim=trim)


def test_a_failure_marked_by_a_number_is_a_warning_that_names_it() -> None:
    X, Y = smooth(20, 0)
    Y[3, 1] = -9999.0
    with pytest.warns(InputDataWarning, match=r"Got -9999 in row 3, repeat 1, .* failures as NaN"):
        MeanVarianceGP(X, Y)
    Y[3] = 9.0  # far, not absurd
    MeanVarianceGP(X, Y + 0.1 * torch.randn_like(Y))


def test_ratios_are_those_of_a_plain_count() -> None:
    values = torch.tensor([[3.0, 1.0, torch.nan], [2.0, 4.0, 9.0], [-50.0, 2.5, 3.5]], dtype=D)
    listed = [value for value in values.flatten().tolist() if value == value]
    median = sorted(listed)[(len(listed) - 1) // 2]
    away = sorted(abs(value - median) for value in listed)
    scale = away[2 * len(away) // 3 - 1]
    expected = (values - median).abs().nan_to_num(0.0) / scale
    torch.testing.assert_close(ratios_to_others(values), expected)
    both = torch.stack([values, -7 * values + 3])
    found = ratios_to_others(both)
    torch.testing.assert_close(found[0], expected)
    assert ratios_to_others(values[:, :1]).abs().max() == 0  # too few to tell
    assert ratios_to_others(torch.tensor([[0.0]] * 9 + [[5.0]], dtype=D)).abs().max() == 0
