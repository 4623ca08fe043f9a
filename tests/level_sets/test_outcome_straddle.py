r"""Signs, levels and outputs of the scores of level-set estimation; the values are in the cases."""

import warnings

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from gpytorch.kernels import LinearKernel

from botorch_risk.level_sets import Straddle
from botorch_risk.level_sets.outcome_straddle import straddle
from tests.contracts import gaussian_process, of_decision, repeated_data

X = torch.rand(40, 1, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def test_the_straddle_is_negative_where_the_bounds_classify_a_point() -> None:
    model = of_decision(repeated_data())
    posterior = model.posterior(X.squeeze(-2))
    reach = 3 * posterior.variance.sqrt()
    lower, upper = (posterior.mean - reach).squeeze(-1), (posterior.mean + reach).squeeze(-1)
    level = posterior.mean.median().item()
    classified = (lower > level) | (upper < level)
    assert classified.any() and not classified.all()
    assert torch.equal(Straddle(model, level, beta=9.0)(X) < 0, classified)


def test_a_wider_interval_is_worth_more() -> None:
    model = of_decision(repeated_data())
    narrow, wide = (Straddle(model, 1.2, beta=beta)(X) for beta in (1.0, 4.0))
    deviation = model.posterior(X).variance.sqrt().flatten()
    torch.testing.assert_close(wide - narrow, deviation)


def test_the_straddle_heuristic_is_the_default() -> None:
    moments = torch.tensor([1.0, -2.0]), torch.tensor([4.0, 0.25])
    torch.testing.assert_close(straddle(*moments, 0.5), torch.tensor([3.92 - 0.5, 0.98 - 2.5]))


def test_replicates_may_have_levels_of_their_own() -> None:
    data = repeated_data((3,))
    model = gaussian_process(data.X, data.Y.mean(dim=-1, keepdim=True))
    levels = torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64)
    points = X.squeeze(-2).expand(3, -1, -1)
    together = Straddle(model, levels).evaluate(points)
    for row, level in enumerate(levels.tolist()):
        torch.testing.assert_close(together[row], Straddle(model, level).evaluate(points)[row])


def test_minus_the_outcome_has_minus_the_level() -> None:
    model = of_decision(repeated_data())
    minus = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))
    turned = Straddle(model, -1.2, posterior_transform=minus)
    torch.testing.assert_close(turned(X), Straddle(model, 1.2)(X))


def test_bad_arguments() -> None:
    model = of_decision(repeated_data())
    with pytest.raises(ValueError, match=r"Expected a finite `threshold`\. Got nan"):
        Straddle(model, torch.nan)
    with pytest.raises(ValueError, match=r"finite `threshold`\. Got inf at \(1,\)"):
        Straddle(model, torch.tensor([1.0, torch.inf]))
    for no_number in (None, "high"):
        with pytest.raises(TypeError, match="Expected `threshold` to be a tensor, or an array"):
            Straddle(model, no_number)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`beta`"):
        Straddle(model, 1.0, beta=-1.0)


def test_a_kernel_without_a_lengthscale_has_none_that_was_not_fitted() -> None:
    inputs = 9 * X.squeeze(-2)
    model = SingleTaskGP(inputs, inputs.sum(dim=-1, keepdim=True), covar_module=LinearKernel())
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputDataWarning)
        assert Straddle(model, 1.2)(X).isfinite().all()
