r"""Where an outcome is, and what was observed of it."""

import warnings
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import UserInputWarning
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.transforms import Standardize

from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.outcomes import (
    locate_outcome,
    observed_outcomes,
    single_outcome,
    spread_of,
    warn_if_out_of_reach,
)
from tests.models.risks import batched, gp, two_outcomes, two_outputs


def test_outcomes_are_counted_over_the_list() -> None:
    pair, single = two_outputs(), gp()
    models = ModelListGP(pair, single)
    assert locate_outcome(models, 1) == (pair, 1)
    assert locate_outcome(models, 2) == (single, 0)
    assert locate_outcome(pair, 1) == (pair, 1)
    with pytest.raises(ValueError, match=r"outcome in 0\.\.2"):
        locate_outcome(models, 3)


def test_a_single_outcome() -> None:
    models = two_outcomes()
    assert single_outcome(models, 1) is models.models[1]
    alone = single_outcome(two_outputs(), 1)
    X = torch.rand(4, 3, dtype=torch.float64)
    torch.manual_seed(0)
    expected = two_outputs().posterior(X).mean[:, 1:]
    torch.manual_seed(0)
    torch.testing.assert_close(single_outcome(two_outputs(), 1).posterior(X).mean, expected)
    assert alone.num_outputs == 1

    class Whole(GenericDeterministicModel):
        def subset_output(self, idcs: list[int]) -> Any:
            raise NotImplementedError

    with pytest.raises(UnsupportedError, match=r"can be divided. Got Whole"):
        single_outcome(Whole(lambda X: X, num_outputs=2), 0)


def test_observed_outcomes_are_in_the_units_of_the_user() -> None:
    X, Y = torch.rand(6, 2).double(), 5 + torch.rand(6, 2).double()
    model = SingleTaskGP(X, Y, outcome_transform=Standardize(2))
    torch.testing.assert_close(observed_outcomes(model, 1), Y[:, 1])
    assert observed_outcomes(batched(), 0).shape == (3, 10)  # type: ignore[union-attr]
    repeats = 3 + torch.rand(6, 4).double()
    means = observed_outcomes(MeanVarianceGP(X, repeats), 0)
    torch.testing.assert_close(means, repeats.mean(dim=-1))
    assert observed_outcomes(GenericDeterministicModel(lambda X: X[..., :1]), 0) is None


def test_spreads() -> None:
    model = gp()
    values = observed_outcomes(model, 0)
    assert values is not None
    torch.testing.assert_close(spread_of(model, 0), values.std())
    several = batched()
    each = observed_outcomes(several, 0)
    assert each is not None
    torch.testing.assert_close(spread_of(several, 0), each.std(dim=-1))
    assert spread_of(GenericDeterministicModel(lambda X: X[..., :1]), 0) == 1


def test_an_outcome_without_a_spread_has_spread_1() -> None:
    X = torch.rand(2, 5, 2).double()
    Y = torch.stack([torch.full((5, 1), 3.0), torch.arange(5.0).unsqueeze(-1)]).double()
    several, single = SingleTaskGP(X, X[..., :1]), SingleTaskGP(X[0, :1], X[0, :1, :1])
    for model, values in ((several, Y), (single, Y[1, :1])):
        del model.outcome_transform
        model.set_train_data(targets=values.squeeze(-1), strict=True)
    torch.testing.assert_close(spread_of(several, 0), torch.tensor([1.0, 2.5**0.5]).double())
    assert spread_of(single, 0) == 1


def test_no_threshold_is_out_of_reach_of_no_data() -> None:
    empty = torch.zeros(0, 2).double()
    model = SingleTaskGP(empty, empty[:, :1], outcome_transform=None)
    warn_if_out_of_reach(model, 0, 1.0, at_most=False)  # warnings are errors here


@pytest.mark.parametrize("at_most", [False, True])
def test_thresholds_that_no_data_reach(at_most: bool) -> None:
    threshold = -100.0 if at_most else 100.0
    words = "most" if at_most else "least"
    with pytest.warns(UserInputWarning, match=rf"outcome 1 is at {words} .*10 observations lie in"):
        warn_if_out_of_reach(two_outcomes(), 1, threshold, at_most)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_out_of_reach(two_outcomes(), 1, -threshold, at_most)
        warn_if_out_of_reach(GenericDeterministicModel(lambda X: X[..., :1]), 0, 9.0, at_most)
