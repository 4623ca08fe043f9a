r"""Choices of a link and of a noise that do not go together."""

from __future__ import annotations

import pytest
from botorch.exceptions.errors import UnsupportedError

from botorch_risk.models import MeanVarianceGP
from tests.models.examples import repeats, small_model, with_missing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variance_link": "sqrt"}, "`variance_link` in .*'sqrt'"),
        ({"sample_variance_noise": "bound"}, "no `sample_variance_noise` with the log link"),
        (
            {"variance_link": "identity", "sample_variance_noise": "other"},
            "`sample_variance_noise` in .*'other'",
        ),
        (
            {"variance_link": "identity", "sample_variance_noise": "bound"},
            "`max_noise_variance` where",
        ),
        ({"noise_beta": -1.0}, "`noise_beta` to be finite and >= 0. Got -1.0"),
        ({"noise_beta": float("nan")}, "`noise_beta` to be finite and >= 0. Got nan"),
        ({"min_noise_variance": 0.0}, "`min_noise_variance` > 0"),
        ({"max_noise_variance": float("inf")}, "`max_noise_variance` > 0 and finite"),
        (
            {"min_noise_variance": 2.0, "max_noise_variance": 1.0},
            "`min_noise_variance` <= `max_noise_variance`",
        ),
    ],
)
def test_refuses_choices_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        small_model(**options)


def test_refuses_one_noise_level_for_ragged_batches():
    X, Y = repeats(batch_shape=(2,))
    Y[1] = with_missing(Y[1])
    with pytest.raises(UnsupportedError, match="same rows of every replicate"):
        MeanVarianceGP(X, Y, variance_link="identity")
