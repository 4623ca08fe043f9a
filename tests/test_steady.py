r"""Blocks in which what was checked once is not checked again."""

import pytest
import torch
from botorch.exceptions.errors import InputDataError

from botorch_risk.engine import Belief
from botorch_risk.risk import Expectation, ValueAtRisk
from botorch_risk.steady import (
    expect,
    fetched,
    is_known,
    looks_at_once,
    may_look,
    once,
    one_look,
    remember,
    steady,
)
from tests.second_device import SIM, counted, only_without_gpu
from tests.waves import model_of


def test_what_is_remembered_ends_with_the_outermost_block() -> None:
    remember("key", None)
    assert not is_known("key")
    with steady():
        with steady():
            remember("key", None)
        assert is_known("key")
    assert not is_known("key")


@only_without_gpu
def test_a_model_is_compared_with_its_factors_once_in_a_block_and_after_it_again() -> None:
    model = model_of().to(SIM)
    predictor, x = Belief(model), torch.rand(3, 2, dtype=torch.double).to(SIM)
    before = predictor(x).mean
    with steady():
        predictor(x)
        with counted() as count:
            again = predictor(x).mean
        assert not count.synchronisations
    torch.testing.assert_close(again.cpu(), before.cpu())
    model.covar_module.lengthscale = 0.05  # through `.data`, which leaves versions as they are
    assert (predictor(x).mean - before).abs().max() > 0.01


@only_without_gpu
def test_values_are_looked_at_outside_of_blocks_and_on_a_cpu() -> None:
    here = torch.ones(2)
    assert may_look(here) and may_look(here.to(SIM))
    with steady():
        assert may_look(here) and not may_look(here.to(SIM))


@only_without_gpu
def test_rows_that_are_not_finite_are_nan_without_a_look() -> None:
    weights = torch.tensor([0.5, 0.5], dtype=torch.double, device=SIM)
    values = torch.tensor([[1.0, 2.0], [torch.nan, 1.0]], dtype=torch.double, device=SIM)
    with steady():
        Expectation()(values, weights)  # looks at the weights
        with counted() as count:
            risk = Expectation()(values, weights)
        assert not count.synchronisations
        assert Expectation()(values[1:], weights).isnan().all()
    torch.testing.assert_close(risk.cpu(), torch.tensor([1.5, torch.nan]).double(), equal_nan=True)
    with pytest.raises(InputDataError, match="finite"):
        Expectation()(values[1:], weights)


def test_a_look_is_had_once_in_a_block_and_not_outside() -> None:
    looks: list[int] = []

    def look() -> int:
        looks.append(1)
        return len(looks)

    assert once("key", None, look) is None
    for number in (1, 2):
        with steady():
            assert [once("key", None, look) for _ in range(3)] == [number] * 3


@pytest.mark.parametrize("strict", [False, True])
def test_a_quantile_is_the_same_in_a_block(device: torch.device, strict: bool) -> None:
    measure = ValueAtRisk(0.3, strict)
    values = torch.randn(4, 10, dtype=torch.double)
    values[1, 3] = torch.nan
    for weights in (torch.full((10,), 0.1), torch.rand(10).softmax(-1), torch.rand(4, 10)):
        weights = weights.double() / weights.double().sum(-1, keepdim=True)
        expected, index = measure.pick(values, weights)
        with steady():
            for _ in range(2):
                risk, found = measure.pick(values.to(device), weights.to(device))
                assert found.tolist() == index.tolist()
                torch.testing.assert_close(risk.cpu(), expected, equal_nan=True)
                again = measure(values.to(device), weights.to(device)).cpu()
                torch.testing.assert_close(again, expected, equal_nan=True)


def test_other_weights_are_looked_at() -> None:
    values = torch.tensor([1.0, 2.0])
    with steady():
        Expectation()(values, torch.tensor([0.5, 0.5]))
        with pytest.raises(InputDataError, match="sum to 1"):
            Expectation()(values, torch.tensor([0.5, 0.6]))


def refuse() -> None:
    raise ValueError("no")


NO = torch.tensor(False)


def test_what_is_expected_on_a_cpu_is_looked_at_immediately() -> None:
    with one_look():
        expect(~NO, refuse)
        with pytest.raises(ValueError, match="no"):
            expect(NO, refuse)


@only_without_gpu
def test_what_is_expected_of_a_device_is_looked_at_once_at_the_end_of_the_outermost_block() -> None:
    said: list[str] = []
    flags = NO.to(SIM), (~NO).to(SIM)
    expect(flags[0], lambda: said.append("outside"))
    assert said == ["outside"]
    with counted() as count, one_look():
        for flag in flags:
            with one_look():
                expect(flag, lambda: said.append("inside"))
            assert said == ["outside"] and not may_look(flag)
        assert not count.synchronisations
    assert said == ["outside", "inside"] and count.synchronisations == {"download": 1}
    with one_look(), looks_at_once():
        expect(flags[0], lambda: said.append("at once"))
        assert said[-1] == "at once"


@only_without_gpu
def test_what_was_expected_is_said_before_the_error_that_comes_of_it() -> None:
    with pytest.raises(ValueError, match="no"), one_look():
        expect(NO.to(SIM), refuse)
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), one_look():
        expect((~NO).to(SIM), refuse)
        raise ZeroDivisionError
    expect(NO, lambda: None)  # nothing is left of a block


@only_without_gpu
def test_tensors_are_fetched_with_one_wait() -> None:
    tensors = torch.arange(6.0).view(2, 3).to(SIM), torch.tensor(True), torch.tensor([2]).to(SIM)
    with counted() as count:
        first, second, third = fetched(*tensors)
    assert count.synchronisations == {"download": 1}
    assert first.tolist() == [[0, 1, 2], [3, 4, 5]] and second == 1 and third.tolist() == [2]
    assert all(each.dtype == "float64" for each in (first, second, third))
    assert [each.tolist() for each in fetched(torch.ones(2), NO)] == [[1, 1], 0]
