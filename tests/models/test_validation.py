r"""Messages about training data that a model cannot be built from; more in test_training_data."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP

from botorch_risk.models import RepeatedOutcomes
from botorch_risk.models.validation import (
    validate_inputs,
    validate_outcomes,
    warning_of_small_scale,
)
from tests.models.examples import repeats


def test_inputs_fit_their_repeats():
    X, Y = repeats()
    outcomes = RepeatedOutcomes.from_repeats(Y)
    validate_inputs(X, outcomes)
    with pytest.raises(BotorchTensorDimensionError, match="one row for each row of repeats"):
        validate_inputs(X[:5], outcomes)
    with pytest.raises(InputDataError, match="one dtype"):
        validate_inputs(X.float(), outcomes)


def test_spread_is_needed_only_where_the_noise_is_learnt():
    _, Y = repeats(k=1)
    outcomes = RepeatedOutcomes.from_repeats(Y)
    validate_outcomes(outcomes, needs_spread=False)
    with pytest.raises(InputDataError, match="give `known_noise` or `train_Yvar`"):
        validate_outcomes(outcomes, needs_spread=True)


def test_constant_outcomes_are_an_error_alone_and_a_warning_in_a_batch():
    _, Y = repeats(batch_shape=(2,))
    Y[1] = 2 + torch.tensor([0.5, -0.5, 0.25, -0.25], dtype=torch.double)
    with pytest.warns(InputDataWarning, match="constant in replicate 1"):
        validate_outcomes(RepeatedOutcomes.from_repeats(Y), needs_spread=True)
    with pytest.raises(InputDataError, match="outcomes that differ between rows"):
        validate_outcomes(RepeatedOutcomes.from_repeats(Y[1]), needs_spread=True)


def test_small_scales_are_reported():
    X, Y = repeats(k=1)
    assert warning_of_small_scale(SingleTaskGP(X, Y)) is None
    message = warning_of_small_scale(SingleTaskGP(X, 1e-6 * Y))
    assert message is not None and "Rescale the outcomes" in message
