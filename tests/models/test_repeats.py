r"""Repeats of an experiment: counts, means, variances and what is refused."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.models.utils.gpytorch_modules import get_matern_kernel_with_gamma_prior
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_risk.engine import DomainPosterior
from botorch_risk.level_sets import Straddle
from botorch_risk.models import RepeatedOutcomes
from botorch_risk.models.repeats import pool_repeated_rows
from botorch_risk.models.training_data import NotesOnNoise, validate_inputs, validate_outcomes
from botorch_risk.papers import Maximize, TruncatedVarianceReduction, TruncatedVarianceState
from tests.models.examples import repeats

NAN = float("nan")


def numpy_statistics(repeats):
    r"""Mean, unbiased variance (NaN for one repeat) and count of a list of floats."""
    repeats = np.asarray(repeats, dtype=np.float64)
    variance = repeats.var(ddof=1) if len(repeats) > 1 else NAN
    return repeats.mean(), variance, float(len(repeats))


def as_rows(outcomes):
    return torch.cat([outcomes.means, outcomes.variances, outcomes.counts], dim=-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)])
def test_statistics_equal_a_loop(batch_shape, dtype):
    Y = torch.rand(*batch_shape, 5, 4, dtype=dtype)
    Y[..., 1, 2:] = NAN
    Y[..., 3, 1:] = NAN  # a single repeat
    outcomes = RepeatedOutcomes.from_repeats(Y)
    rows = Y.reshape(-1, 4).tolist()
    expected = torch.tensor(
        [numpy_statistics([y for y in row if y == y]) for row in rows], dtype=dtype
    )
    assert outcomes.means.shape == (*batch_shape, 5, 1)
    assert outcomes.means.dtype == outcomes.variances.dtype == outcomes.counts.dtype == dtype
    torch.testing.assert_close(as_rows(outcomes).reshape(-1, 3), expected, equal_nan=True)


def test_variances_keep_their_digits_far_from_zero():
    Y = 1e6 + torch.tensor([[0.0, 1.0, 2.0]], dtype=torch.double)
    assert RepeatedOutcomes.from_repeats(Y).variances.item() == 1.0


values = st.floats(-1e3, 1e3, allow_subnormal=False)

experiments = st.lists(
    st.tuples(st.integers(0, 3), st.lists(values, min_size=1, max_size=5)), min_size=1, max_size=8
)


@settings(max_examples=60, deadline=None)
@given(experiments)
def test_pooling_equals_concatenating_repeats(rows):
    longest = max(len(repeats) for _, repeats in rows)
    Y = torch.tensor([r + [NAN] * (longest - len(r)) for _, r in rows], dtype=torch.double)
    X = torch.tensor([[x, -1.0] for x, _ in rows], dtype=torch.double)
    together: dict[int, list[float]] = {}
    for x, taken in rows:
        together.setdefault(x, []).extend(taken)
    pooled_X, pooled = pool_repeated_rows(X, RepeatedOutcomes.from_repeats(Y))
    assert pooled_X[:, 0].tolist() == list(together)  # in order of first appearance
    expected = torch.tensor([numpy_statistics(r) for r in together.values()], dtype=torch.double)
    torch.testing.assert_close(as_rows(pooled), expected, rtol=1e-9, atol=1e-8, equal_nan=True)


def test_rows_that_differ_in_the_last_bit_stay_apart():
    X = torch.tensor([[0.1], [np.nextafter(0.1, 1.0)], [0.1]], dtype=torch.double)
    pooled_X, pooled = pool_repeated_rows(X, RepeatedOutcomes.from_repeats(torch.rand(3, 2)))
    assert torch.equal(pooled_X, X[:2])
    assert pooled.counts.flatten().tolist() == [4.0, 2.0]


def test_summary_equals_raw_repeats():
    Y = torch.rand(4, 3, dtype=torch.double)
    Y[1, 1:] = NAN
    raw = RepeatedOutcomes.from_repeats(Y)
    # The variance of a single repeat is ignored, whatever it says.
    variances = raw.variances.nan_to_num(nan=-7.0)
    summary = RepeatedOutcomes.from_summary(raw.means, variances, raw.counts.long())
    torch.testing.assert_close(as_rows(summary), as_rows(raw), equal_nan=True)
    for rows in ([2, 0], torch.tensor([True, False, True, False])):
        torch.testing.assert_close(
            as_rows(raw.select(rows)), as_rows(raw)[rows], equal_nan=True, rtol=0, atol=0
        )


@pytest.mark.parametrize(
    ("Y", "error", "message"),
    [
        (torch.ones(3), BotorchTensorDimensionError, "`batch_shape x n x k`"),
        (torch.tensor([[1.0, 2.0], [1.0, torch.inf]]), InputDataError, "infinite one in row 1"),
        (torch.tensor([[1.0, 2.0], [NAN, NAN]]), InputDataError, "none in row 1"),
        (
            torch.tensor([[[1.0, 2.0]], [[NAN, NAN]]]),
            InputDataError,
            r"none in row 0 of replicate \(1,\)",
        ),
    ],
)
def test_refuses_repeats_that_are_none(Y, error, message):
    with pytest.raises(error, match=message):
        RepeatedOutcomes.from_repeats(Y)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("means", NAN, "finite means"),
        ("counts", 0.0, "whole counts of at least 1"),
        ("counts", 2.5, "whole counts of at least 1"),
        ("variances", NAN, "finite variances"),
        ("variances", -1.0, "variances >= 0"),
    ],
)
def test_refuses_summaries_that_are_none(name, value, message):
    summary = {key: torch.full((3, 1), 2.0) for key in ("means", "variances", "counts")}
    summary[name] = torch.tensor([[2.0], [value], [2.0]])
    with pytest.raises(InputDataError, match=f"Expected {message}.*in row 1"):
        RepeatedOutcomes.from_summary(**summary)


@pytest.mark.parametrize("shape", [(3,), (3, 2), (1, 1)])
def test_refuses_summaries_of_different_shapes(shape):
    with pytest.raises(BotorchTensorDimensionError, match=r"one shape `batch_shape x n x 1`"):
        RepeatedOutcomes.from_summary(torch.ones(3, 1), torch.ones(shape), torch.ones(3, 1))


@pytest.mark.parametrize("k", [2, 3, 5, 6, 7, 100])
def test_equal_repeats_have_no_spread_whatever_their_mean_is_rounded_to(k):
    values = torch.rand(500, 1, dtype=torch.double)
    assert (RepeatedOutcomes.from_repeats(values.expand(500, k)).variances == 0).all()
    X = torch.arange(500).repeat(k).unsqueeze(-1).double()
    _, pooled = pool_repeated_rows(X, RepeatedOutcomes.from_repeats(values.repeat(k, 1)))
    assert (pooled.counts == k).all()
    assert (pooled.variances == 0).all()


def test_a_spread_just_above_rounding_is_kept():
    Y = torch.tensor([[1.0, 1.0 + 1e-12]], dtype=torch.double)
    assert RepeatedOutcomes.from_repeats(Y).variances.item() == pytest.approx(5e-25, rel=1e-3)


def test_rows_of_any_lengths_come_as_a_list():
    rows = [torch.rand(k, dtype=torch.double) for k in (2, 1, 5)]
    outcomes = RepeatedOutcomes.from_repeats(rows)
    expected = torch.tensor([numpy_statistics(row.tolist()) for row in rows], dtype=torch.double)
    torch.testing.assert_close(as_rows(outcomes), expected, equal_nan=True)
    for same in ([row.tolist() for row in rows], [row.numpy() for row in rows]):
        found = as_rows(RepeatedOutcomes.from_repeats(same))
        torch.testing.assert_close(found, expected, equal_nan=True)
    for wrong in ([], [torch.rand(2, 2)]):
        with pytest.raises(BotorchTensorDimensionError, match="with the repeats of one row each"):
            RepeatedOutcomes.from_repeats(wrong)


def test_whole_numbers_and_batches_of_lists_are_repeats():
    Y = torch.tensor([[[1, 2], [3, 5]], [[0, 1], [2, 2]]])
    expected = as_rows(RepeatedOutcomes.from_repeats(Y.double()))
    for same in (Y, Y.tolist(), Y.numpy()):
        assert as_rows(RepeatedOutcomes.from_repeats(same)).equal(expected)


def test_known_noise_levels_weigh_the_readings():
    Y = torch.tensor([[1.0, 4.0, NAN], [2.0, NAN, NAN]], dtype=torch.double)
    Yvar = torch.tensor([[0.1, 0.4, NAN], [0.3, NAN, NAN]], dtype=torch.double)
    outcomes = RepeatedOutcomes.from_repeats(Y, Yvar)
    weights = np.array([10.0, 2.5])
    assert outcomes.means.flatten().tolist() == pytest.approx([weights @ [1, 4] / 12.5, 2.0])
    variances = outcomes.variances_of_means.flatten().tolist()
    assert variances == pytest.approx([1 / 12.5, 0.3])
    assert outcomes.informs_noise.all()
    # One reading a row, pooled, is the same as several in a row.
    long = RepeatedOutcomes.from_repeats(
        Y[Y.isfinite()].unsqueeze(-1), Yvar[Y.isfinite()].unsqueeze(-1)
    )
    pooled = long.pool(torch.tensor([0, 0, 1]), 2)
    torch.testing.assert_close(as_rows(pooled), as_rows(outcomes))


@pytest.mark.parametrize("bad", [0.0, -1.0, NAN, float("inf")])
def test_refuses_noise_levels_that_are_none(bad):
    Yvar = torch.full((3, 2), 0.1)
    Yvar[1, 1] = bad
    with pytest.raises(InputDataError, match=r"finite noise variances > 0.*in row 1"):
        RepeatedOutcomes.from_repeats(torch.rand(3, 2), Yvar)
    with pytest.raises(BotorchTensorDimensionError, match="noise variance for each repeat"):
        RepeatedOutcomes.from_repeats(torch.rand(3, 2), Yvar[:2])


@pytest.mark.parametrize("Y", [None, 3.0, "ab", {"a": 1.0}, torch.ones(2, 3, dtype=torch.cfloat)])
def test_what_is_no_table_is_refused(Y: object) -> None:
    with pytest.raises(TypeError, match=r"`Y` to (be a table|hold real numbers).*Got"):
        RepeatedOutcomes.from_repeats(Y)


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


def test_constant_outcomes_are_a_warning_alone_and_in_a_batch():
    _, Y = repeats(batch_shape=(2,))
    Y[1] = 2 + torch.tensor([0.5, -0.5, 0.25, -0.25], dtype=torch.double)
    with pytest.warns(InputDataWarning, match="constant in replicate 1"):
        validate_outcomes(RepeatedOutcomes.from_repeats(Y), needs_spread=True)
    with pytest.warns(InputDataWarning, match="outcomes are constant: a model"):
        validate_outcomes(RepeatedOutcomes.from_repeats(Y[1]), needs_spread=True)


def test_small_scales_are_reported():
    X, Y = repeats(k=1)
    noise, counts, positive = torch.ones_like(Y), torch.zeros_like(Y), torch.tensor([True, False])
    notes = NotesOnNoise(SingleTaskGP(X, Y), noise, counts, positive)
    assert notes.warnings == []
    said: list[str] = []
    notes.require_positive(lambda: said.append("not positive"))
    notes = NotesOnNoise(SingleTaskGP(X, 1e-6 * Y), noise, counts, positive[:1])
    notes.require_positive(lambda: said.append("not positive either"))
    assert said == ["not positive"]
    (message,) = notes.warnings
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

    message = r"fitted model, or inputs in the unit cube.*Got no fit, and inputs in \["
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
