r"""What a model cannot take is named when it is built."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from gpytorch.means import ConstantMean
from gpytorch.priors import GammaPrior

from botorch_risk.models import MeanVarianceGP
from tests.models.examples import repeats

X, Y = repeats(8, 3)
FAULTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"known_noise": 0.01}, TypeError, "`known_noise` to be a function or None. Got 0.01"),
    ({"known_noise": lambda X: X.sum(-1)}, BotorchTensorDimensionError, r"\(8, 1\).* Got \(8,\)"),
    ({"known_noise": lambda X: 0.1}, BotorchTensorDimensionError, "Got float"),
    ({"known_noise": lambda X: X[..., :1] - 9}, InputDataError, "variances >= 0 .*Got -.* in row"),
    ({"covar_module": "rbf"}, TypeError, "`covar_module` to be of type `Kernel`.* Got 'rbf'"),
    ({"mean_module": "zero"}, TypeError, "`mean_module` .* Got 'zero'"),
    (
        {"mean_module": ConstantMean(constant_prior=GammaPrior(2.0, 1.0))},
        UnsupportedError,
        "normal priors on the constant of `mean_module`.* Got GammaPrior",
    ),
    ({"noise_covar_module": "rbf"}, TypeError, "`noise_covar_module` .* Got 'rbf'"),
    ({"outcome_transform": "log"}, TypeError, "`outcome_transform` .* Got 'log'"),
    ({"input_transform": "unit"}, TypeError, "`input_transform` .* Got 'unit'"),
    ({"keep_copies": "no"}, TypeError, "`keep_copies` to be True or False. Got 'no'"),
    ({"trim": "5"}, TypeError, "`trim` to be a number or None. Got '5'"),
    ({"noise_beta": "4"}, TypeError, "`noise_beta` to be a number. Got '4'"),
    ({"train_Y": 1e160 + 0 * Y}, InputDataError, r"squares are finite .* Got 1e\+160 in row 0"),
    (
        {"train_X": X.half(), "train_Y": Y.half()},
        InputDataError,
        "single or double precision. Got torch.float16",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), FAULTS)
def test_the_culprit_is_named(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MeanVarianceGP(**{"train_X": X, "train_Y": Y, **options})


def test_one_huge_mean_is_named_by_row_and_replicate() -> None:
    batch = torch.stack([Y, Y])
    batch[1, 5] = 1e155
    with pytest.raises(InputDataError, match=r"Got 1e\+155 in row 5 of replicate \(1,\)"):
        MeanVarianceGP(torch.stack([X, X]), batch)


def test_a_data_frame_is_a_table() -> None:
    holes = Y.clone()
    holes[2, 1] = torch.nan
    frames = pd.DataFrame(X.numpy()), pd.DataFrame(holes.numpy()).astype("Float64")
    found, expected = MeanVarianceGP(*frames), MeanVarianceGP(X, holes)
    np.testing.assert_array_equal(found.train_means, expected.train_means)
    np.testing.assert_array_equal(found.train_counts, expected.train_counts)
    assert found.train_counts.flatten().tolist() == [3, 3, 2, 3, 3, 3, 3, 3]
