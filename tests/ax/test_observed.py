import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ax.exceptions.core import UserInputError
from ax.generators.torch.botorch_modular.surrogate import ModelConfig, SurrogateSpec
from botorch.exceptions.warnings import BotorchWarning
from botorch.models import SingleTaskGP
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_risk.ax import readings
from botorch_risk.ax.contextual import ObservedDataset
from botorch_risk.ax.generator import RiskGenerator
from botorch_risk.ax.observed import ObservedAdapter, with_counts
from botorch_risk.level_sets.with_ax import level_set
from botorch_risk.models import MeanVarianceGP
from tests.ax.laboratory import laboratory, play

NAMES: dict[str, Any] = {"feature_names": ["a", "b"], "outcome_names": ["y"]}


def summary(tables: list[list[float]]) -> tuple[Tensor, Tensor, Tensor]:
    r"""Means, squared standard errors and counts."""
    found = [readings({"y": table}) for table in tables]
    pairs = [
        each["y"] if isinstance(each["y"], tuple) else (each["y"], torch.nan) for each in found
    ]
    mean, error = torch.tensor(pairs, dtype=torch.double).T.unsqueeze(-1)
    counts = torch.tensor([[each["y_count"]] for each in found], dtype=torch.double)
    return mean, error.square(), counts


def test_arms_that_come_back_are_pooled_as_all_their_readings() -> None:
    tables = [[1.0, 2.0, 4.0], [5.0], [0.0, 3.0], [9.0]]
    X = torch.tensor([[0.5, 1.0], [0.1, 0.2], [0.5, 1.0], [0.1, 0.2]], dtype=torch.double)
    mean, squares, counts = summary(tables)
    found = with_counts(SupervisedDataset(X, mean, Yvar=squares, **NAMES), counts)
    assert isinstance(found, ObservedDataset)
    assert torch.equal(found.X, X[:2])  # in the order in which they came
    expected = summary([tables[0] + tables[2], tables[1] + tables[3]])
    for ours, theirs in zip((found.Y, found.Yvar, found.counts), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_mean_without_a_count_is_one_reading() -> None:
    X, Y = torch.eye(2, dtype=torch.double), torch.ones(2, 1, dtype=torch.double)
    squares = torch.tensor([[0.1], [torch.nan]], dtype=torch.double)
    counts = torch.tensor([[3.0], [torch.nan]], dtype=torch.double)
    found = with_counts(SupervisedDataset(X, Y, Yvar=squares, **NAMES), counts)
    assert found.counts.flatten().tolist() == [3, 1]
    assert found.Yvar[0].item() == pytest.approx(0.1) and found.Yvar[1].isnan()
    alone = with_counts(SupervisedDataset(X, Y, **NAMES), torch.ones(2, 1))
    assert alone.counts.flatten().tolist() == [1, 1] and alone.Yvar is None
    plain = SupervisedDataset(X, Y, Yvar=squares, **NAMES)
    assert with_counts(plain, torch.full((2, 1), torch.nan)) is plain


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_single_readings_among_others_are_no_exact_ones(count: int) -> None:
    strategies = {"learns": None, "does not": level_set(0.5, num_initial=2)}
    found = {}
    for name, strategy in strategies.items():
        client = laboratory(strategy=strategy)
        for heat, values in ((0.1, [0.3, 0.4][:count]), (0.4, [0.5, 0.9]), (0.9, [1.0, 0.7])):
            index = client.attach_trial({"heat": heat, "stir": 1.0})
            client.complete_trial(index, readings({"purity": values}))
        client.get_next_trials(max_trials=1)
        adapter: Any = client._generation_strategy.adapter
        found[name] = adapter.generator.surrogate
    data = {name: surrogate.training_data[0] for name, surrogate in found.items()}
    assert data["learns"].counts.flatten().tolist() == [count, 2, 2]
    assert data["learns"].Yvar.isfinite().sum() == 1 + count
    assert (data["does not"].Yvar is None) == (count == 1)
    if count == 1:
        assert found["does not"].model.likelihood.noise.numel() == 1  # one level, learnt


def test_one_model_among_several_that_learns_its_noise_is_enough() -> None:
    learns, does_not = (
        ModelConfig(botorch_model_class=kind) for kind in (MeanVarianceGP, SingleTaskGP)
    )
    for configs, expected in (
        ([learns, does_not], True),
        ([does_not, learns], True),
        ([does_not, does_not], False),
    ):
        generator = RiskGenerator(surrogate_spec=SurrogateSpec(model_configs=configs))
        adapter: Any = SimpleNamespace(generator=generator)
        assert ObservedAdapter._learns_noise(adapter, "purity") == expected


def test_standard_errors_without_counts_are_known_noise() -> None:
    client = laboratory()
    for heat in (0.1, 0.4, 0.9):
        index = client.attach_trial({"heat": heat, "stir": 1.0})
        client.complete_trial(index, {"purity": (heat, 0.1 + heat)})
    client.get_next_trials(max_trials=1)
    adapter: Any = client._generation_strategy.adapter
    model = adapter.generator.surrogate.model
    expected = torch.tensor([[0.2], [0.5], [1.0]], dtype=torch.double).square()
    assert model.knows_variances
    torch.testing.assert_close(model.train_variances, expected)


@pytest.mark.parametrize("count", [0.0, 2.5])
def test_a_count_is_a_whole_number(count: float) -> None:
    X, Y = torch.eye(2, dtype=torch.double), torch.ones(2, 1, dtype=torch.double)
    with pytest.raises(UserInputError, match=rf"'y_count' to be whole numbers .* Got {count}"):
        with_counts(SupervisedDataset(X, Y, Yvar=Y, **NAMES), torch.tensor([[3.0], [count]]))


@pytest.mark.parametrize("count", [2.0, 3.0])
def test_several_readings_have_a_standard_error(count: float) -> None:
    X, Y = torch.eye(2, dtype=torch.double), torch.ones(2, 1, dtype=torch.double)
    with pytest.raises(UserInputError, match=r"a standard error of the mean 1.0 of 'y', which"):
        with_counts(SupervisedDataset(X, Y, **NAMES), torch.tensor([[1.0], [count]]))


def test_outcomes_that_the_store_would_lose_are_warned_of() -> None:
    client = laboratory()
    for heat in (0.1, 0.4, 0.9):
        index = client.attach_trial({"heat": heat, "stir": heat})
        client.complete_trial(index, readings({"purity": [1e-9 * heat, 2e-9 * heat]}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(client, 1)
    ours = [str(each.message) for each in caught if issubclass(each.category, BotorchWarning)]
    assert any("10 decimals are enough" in message for message in ours)
