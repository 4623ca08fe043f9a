r"""Tables of repeats in any form, and data that are refused."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    InputDataError,
)
from botorch.exceptions.warnings import InputDataWarning
from botorch.utils.datasets import SupervisedDataset

from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from tests.models.examples import (
    IDENTITY,
    UNSCALED,
    assert_same,
    fit,
    points,
    repeats,
    with_missing,
)


@pytest.mark.parametrize("options", [{}, IDENTITY])
def test_equal_rows_are_pooled(options):
    X, Y = repeats(n=8)
    doubled_X = torch.cat([X, X[[3, 1]]])
    extra = Y[[3, 1]] + 0.1 * torch.randn(2, 4, dtype=torch.double)
    doubled_Y = torch.cat([Y, extra])
    wide = torch.full((8, 8), torch.nan, dtype=torch.double)
    wide[:, :4] = Y
    wide[[3, 1], 4:] = extra
    pooled, together = (
        MeanVarianceGP(doubled_X, doubled_Y, **options),
        MeanVarianceGP(X, wide, **options),
    )
    assert torch.equal(pooled.train_X, X)
    assert_same(pooled, together, points(5))


def test_order_of_rows_and_repeats_does_not_matter():
    X, Y = repeats()
    Y = with_missing(Y)
    order, shuffled = torch.randperm(10), torch.randperm(4)
    first, second = MeanVarianceGP(X, Y), MeanVarianceGP(X[order], Y[order][:, shuffled])
    assert_same(first, second, points(4), rtol=1e-7, atol=1e-9)
    assert first.num_repeats == 4


def test_summaries_build_the_same_model():
    X, Y = repeats()
    Y = with_missing(Y)
    outcomes = RepeatedOutcomes.from_repeats(Y)
    raw = MeanVarianceGP(X, Y)
    parts = (outcomes.means, outcomes.variances.nan_to_num(nan=0.0), outcomes.counts)
    assert_same(raw, MeanVarianceGP.from_summary(X, *parts), points(4))
    negative = torch.full_like(outcomes.means, -1.0)
    with pytest.raises(InputDataError, match="variances >= 0"):
        MeanVarianceGP.from_summary(X, outcomes.means, negative, outcomes.counts)


def test_inputs_are_constructed_from_datasets():
    X, Y = repeats()
    names = {"feature_names": ["a", "b"]}
    dataset = SupervisedDataset(X, Y, outcome_names=list("pqrs"), **names)
    raw = MeanVarianceGP(**MeanVarianceGP.construct_inputs(dataset))
    means, variances = Y.mean(dim=-1, keepdim=True), Y.var(dim=-1, keepdim=True)
    dataset = SupervisedDataset(X, means, Yvar=variances / 4, outcome_names=["y"], **names)
    own_noise = MeanVarianceGP(**MeanVarianceGP.construct_inputs(dataset))
    expected = MeanVarianceGP(X, means, train_Yvar=variances / 4)
    assert_same(own_noise, expected, points(4))
    inputs = MeanVarianceGP.construct_inputs(dataset, counts=torch.full_like(means, 4))
    assert_same(raw, MeanVarianceGP(**inputs), points(4))


@pytest.mark.parametrize("options", [{}, IDENTITY])
def test_long_tables_and_lists_are_the_same_model(options):
    X, Y = repeats()
    wide = with_missing(Y)
    rows = [row[row.isfinite()] for row in wide]
    long_X = torch.cat([x.expand(len(row), 2) for x, row in zip(X, rows, strict=True)])
    long_Y = torch.cat(rows).unsqueeze(-1)
    # Readings as they come: the rows of one input need not stand together.
    order = torch.arange(len(long_X)).reshape(-1).roll(3).flip(0)
    expected, test_X = MeanVarianceGP(X, wide, **options), points(4)
    assert_same(expected, MeanVarianceGP(X, rows, **options), test_X)
    model = MeanVarianceGP(long_X[order], long_Y[order], **options)
    assert_same(expected, model, test_X, rtol=1e-6, atol=1e-8)
    assert model.train_X.shape == X.shape


def test_noise_levels_come_beside_readings():
    X, Y = repeats()
    with pytest.raises(ValueError, match="`train_Yvar` beside readings"):
        MeanVarianceGP(X, RepeatedOutcomes.from_repeats(Y), torch.ones_like(Y))
    with pytest.raises(InputDataError, match="finite noise variances > 0"):
        MeanVarianceGP(X, Y, torch.zeros_like(Y))


def test_data_with_a_history_of_gradients_are_detached():
    X, Y = repeats()
    model = MeanVarianceGP(X.requires_grad_(), Y.requires_grad_())
    fit(model)
    assert not model.train_X.requires_grad
    assert not model.posterior(points(3)).mean.detach().requires_grad


def changed(data, which, index, value):
    data = [tensor.clone() for tensor in data]
    data[which][index] = value
    return data


def erroneous_data():
    X, Y = one = repeats()
    many = repeats(batch_shape=(3,))
    dimension, data = BotorchTensorDimensionError, InputDataError
    yield (X[0], Y), dimension, "`train_X` of shape"
    yield (X[:5], Y), dimension, "one row for each row of repeats"
    yield (X, Y[0]), dimension, "`batch_shape x n x k`"
    yield (X.float(), Y), data, "one dtype"
    yield changed(one, 0, 2, torch.nan), data, "finite `train_X`.* in row 2"
    in_replicate = changed(many, 0, (1, 4), torch.inf)
    yield in_replicate, data, r"finite `train_X`.* in row 4 of replicate \(1,\)"
    yield changed(one, 1, (1, 2), torch.inf), data, "finite repeats.* row 1"
    yield changed(one, 1, 3, torch.nan), data, "at least one repeat.* row 3"
    yield (X, Y[:, :1]), data, "two repeats or more.*or give `known_noise`"
    single = changed(many, 1, (1, slice(None), slice(1, None)), torch.nan)
    yield single, data, "two repeats or more.* in replicate 1"
    yield (X, torch.ones_like(Y)), data, "outcomes that differ.*mean 1.0 in all 10 rows"


@pytest.mark.parametrize("case", range(11))
def test_refuses_data(case):
    data, error, message = list(erroneous_data())[case]
    with pytest.raises(error, match=message):
        MeanVarianceGP(*data)


@UNSCALED
def test_a_constant_replicate_is_named():
    X, Y = repeats(batch_shape=(3,))
    Y[1] = 2 + torch.tensor([0.5, -0.5, 0.25, -0.25], dtype=torch.double)
    with pytest.warns(InputDataWarning, match="constant in replicate 1; its model"):
        MeanVarianceGP(X, Y)
