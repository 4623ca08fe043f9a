r"""A replicate in a batch is the replicate alone, whichever rows and repeats it misses."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms import Normalize, Standardize
from botorch.models.transforms.outcome import ChainedOutcomeTransform

from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from tests.models.examples import repeats

PATTERNS = ["rows", "single repeats", "both", "most", "none"]


def with_gaps(Y, pattern):
    r"""The repeats with gaps that differ between replicates."""
    Y = Y.clone()
    if pattern in ("rows", "both"):
        Y[0, [0, 3]] = torch.nan
        Y[1, 5:] = torch.nan
    if pattern in ("single repeats", "both"):
        Y[0, 6:, 1:] = torch.nan
        Y[1, :2, 1:] = torch.nan
    if pattern == "most":
        Y[0, 2:] = torch.nan
        Y[1, 1:, 2:] = torch.nan
    return Y


def predictions(model, X):
    return (
        *model.mean_marginals(X),
        *model.noise_confidence_bounds(X, 4.0),
        model.predicted_noise(X).squeeze(-1),
        model.posterior(X).mean.squeeze(-1),
    )


OPTIONS = [
    {},
    {"input_transform": True},
    {"outcome_transform": Standardize(1, batch_shape=torch.Size([2]))},
    {"outcome_transform": None},
    {"noise_evidence": "readings"},
    {"variance_link": "identity", "sample_variance_noise": "pointwise", "min_noise_variance": 1e-3},
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
def test_a_replicate_in_a_batch_is_the_replicate_alone(pattern, options):
    torch.manual_seed(1)
    X, Y = repeats(n=10, batch_shape=(2,))
    Y, test_X = with_gaps(Y, pattern), torch.rand(2, 6, 2, dtype=torch.double)
    if options.get("input_transform"):
        X, test_X = 7 * X - 2, 7 * test_X - 2

    def build(X, Y, batch_shape=()):
        chosen = dict(options)
        if chosen.get("input_transform"):
            chosen["input_transform"] = Normalize(2, batch_shape=torch.Size(batch_shape))
        if chosen.get("outcome_transform") is not None and not batch_shape:
            chosen["outcome_transform"] = Standardize(1)
        return MeanVarianceGP(X, RepeatedOutcomes.from_repeats(Y, allow_missing=True), **chosen)

    together = predictions(build(X, Y, (2,)), test_X)
    for i in range(2):
        observed = Y[i].isfinite().any(dim=-1)
        alone = predictions(build(X[i, observed], Y[i, observed]), test_X[i])
        for a, b in zip(together, alone, strict=True):
            torch.testing.assert_close(a[i], b, rtol=1e-6, atol=1e-8)


def test_the_typical_number_of_repeats_is_that_of_rows_with_outcomes():
    Y = torch.randn(3, 6, 4, dtype=torch.double)
    Y[1:] = torch.nan
    outcomes = RepeatedOutcomes.from_repeats(Y, allow_missing=True)
    assert MeanVarianceGP(torch.rand(3, 6, 1, dtype=torch.double), outcomes).num_repeats == 4


def test_transforms_that_learn_from_fillers_are_refused():
    X, Y = repeats(batch_shape=(2,))
    outcomes = RepeatedOutcomes.from_repeats(with_gaps(Y, "rows"), allow_missing=True)
    chained = ChainedOutcomeTransform(first=Standardize(1, batch_shape=torch.Size([2])))
    with pytest.raises(UnsupportedError, match="where a replicate misses rows"):
        MeanVarianceGP(X, outcomes, outcome_transform=chained)
    whole = ChainedOutcomeTransform(first=Standardize(1, batch_shape=torch.Size([2])))
    assert MeanVarianceGP(X, Y, outcome_transform=whole).batch_shape == (2,)
