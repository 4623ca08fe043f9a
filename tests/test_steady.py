r"""Blocks in which what was checked once is not checked again."""

import pytest
import torch
from botorch.exceptions.errors import InputDataError

from botorch_risk.posterior import MarginalPredictor
from botorch_risk.risk import Expectation
from botorch_risk.steady import is_known, may_look, remember, steady
from tests.second_device import SIM, counted
from tests.waves import model_of


def test_what_is_remembered_ends_with_the_outermost_block() -> None:
    remember("key", None)
    assert not is_known("key")
    with steady():
        with steady():
            remember("key", None)
        assert is_known("key")
    assert not is_known("key")


def test_a_model_is_compared_with_its_factors_once_in_a_block_and_after_it_again() -> None:
    model = model_of().to(SIM)
    predictor, x = MarginalPredictor(model), torch.rand(3, 2, dtype=torch.double).to(SIM)
    before = predictor(x).mean
    with steady():
        predictor(x)
        with counted() as count:
            again = predictor(x).mean
        assert not count.synchronisations
    torch.testing.assert_close(again.cpu(), before.cpu())
    model.covar_module.lengthscale = 0.05  # through `.data`, which leaves versions as they are
    assert (predictor(x).mean - before).abs().max() > 0.01


def test_values_are_looked_at_outside_of_blocks_and_on_a_cpu() -> None:
    here = torch.ones(2)
    assert may_look(here) and may_look(here.to(SIM))
    with steady():
        assert may_look(here) and not may_look(here.to(SIM))


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


def test_other_weights_are_looked_at() -> None:
    values = torch.tensor([1.0, 2.0])
    with steady():
        Expectation()(values, torch.tensor([0.5, 0.5]))
        with pytest.raises(InputDataError, match="sum to 1"):
            Expectation()(values, torch.tensor([0.5, 0.6]))
