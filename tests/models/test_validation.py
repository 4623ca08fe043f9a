r"""Messages about training data that a model cannot be built from; more in test_training_data."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior
from torch import Tensor

from botorch_risk.acquisition import (
    Maximize,
    Straddle,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
)
from botorch_risk.models import RepeatedOutcomes
from botorch_risk.models.training_data import (
    validate_inputs,
    validate_outcomes,
    notes_on_noise,
)
from botorch_risk.posterior import DomainPosterior
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
    noise, counts = torch.ones_like(Y), torch.zeros_like(Y)
    assert notes_on_noise(SingleTaskGP(X, Y), noise, counts) == []
    (message,) = notes_on_noise(SingleTaskGP(X, 1e-6 * Y), noise, counts)
    assert "Rescale the outcomes" in message


@pytest.mark.parametrize("kernel", [None, "matern", "scaled"])
def test_a_model_that_is_not_fitted_is_noticed_where_its_prior_does_not_hold(
    kernel: str | None,
) -> None:
    unit = torch.rand(8, 2, dtype=torch.double)
    Y = (4 * unit).sin().sum(dim=-1, keepdim=True)
    matern = get_matern_kernel_with_gamma_prior(2)
    options: dict[str, Any] = {} if kernel is None else {"covar_module": matern}
    if kernel == "matern":
        options["covar_module"] = matern.base_kernel

    def build(X: Tensor, **further: Any) -> SingleTaskGP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputDataWarning)  # BoTorch's, of the unit cube
            return SingleTaskGP(X, Y, **options, **further)

    message = r"fitted model, or inputs in the unit cube.*Got initial ones for inputs in \["
    with pytest.warns(InputDataWarning, match=message):
        Straddle(build(50 * unit), threshold=0.5)
    with pytest.warns(InputDataWarning, match=message):
        posterior = DomainPosterior(build(50 * unit), 50 * unit)
        state = TruncatedVarianceState.initial(50 * unit, Maximize()).update(posterior)
        TruncatedVarianceReduction(posterior, state, noise=1e-2)
    fitted = build(50 * unit)
    fitted.covar_module.initialize(
        **{"base_kernel.lengthscale" if kernel == "scaled" else "lengthscale": 20.0}
    )
    for fine in (fitted, build(unit), build(50 * unit, input_transform=Normalize(2))):
        Straddle(fine, threshold=0.5)
