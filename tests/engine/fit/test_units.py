r"""Units of a fit from its data, and fits of outcomes in any unit and with any offset."""

import math
import operator

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.means import ZeroMean
from gpytorch.priors import GammaPrior, NormalPrior

from botorch_risk.engine import fit_exact_gp
from botorch_risk.engine.fit.parameters import ExactGPParts, Units, units_of
from botorch_risk.engine.fit.results import FitStatus
from tests.engine.fit.examples import (
    RAW,
    constant_mean,
    data,
    fit_by_botorch,
    objective,
    without_priors,
)

# Models here see raw outcomes on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")

X = torch.tensor([[[0.0, 5.0], [2.0, 5.0], [1.0, 5.0], [math.nan, 90.0]]]).double()
Y = torch.tensor([[[3.0], [7.0], [5.0], [math.nan]]]).double()
COUNTED = torch.tensor([[True, True, True, False]])


def units(scale: float = 1.0, **options: object) -> Units:
    model = SingleTaskGP(X.nan_to_num(), scale * Y.nan_to_num(), outcome_transform=None, **options)
    model.train_inputs[0][0, 3, 0] = math.nan
    model.train_targets[0, 3] = math.nan
    return Units.of(units_of(ExactGPParts.read(model.train()), COUNTED).numpy())


def test_units_are_those_of_the_data_that_count() -> None:
    found = units()
    assert found.centre.tolist() == [5.0]
    np.testing.assert_allclose(found.scale, math.sqrt(8 / 3))
    assert found.extent.tolist() == [[2.0, 1.0]]  # an input that does not vary has no range
    assert found.unit_of("lengthscale", 2).tolist() == [[2.0, 1.0]]
    assert found.unit_of("lengthscale", 1).tolist() == [[2.0]]
    np.testing.assert_allclose(found.unit_of("noise", 1), 8 / 3)
    np.testing.assert_allclose(found.unit_of("constant", 1), math.sqrt(8 / 3))


def test_a_mean_of_zero_is_the_centre() -> None:
    found = units(mean_module=ZeroMean())
    assert found.centre.tolist() == [0.0]
    np.testing.assert_allclose(found.scale, math.sqrt((9 + 49 + 25) / 3))


def test_targets_that_do_not_vary_have_no_scale() -> None:
    model = SingleTaskGP(
        X[:, :3], torch.full((1, 3, 1), 0.1).double() * 1e8, outcome_transform=None
    )
    found = Units.of(units_of(ExactGPParts.read(model.train()), COUNTED[:, :3]).numpy())
    assert found.scale.tolist() == [1.0] and found.is_standard.all()


@pytest.mark.parametrize(("scale", "standard"), [(1.0, True), (0.1, False), (10.0, False)])
def test_what_is_standard(scale: float, standard: bool) -> None:
    assert units(scale).is_standard.tolist() == [standard]


# Fits of outcomes in any unit and with any offset.

UNITS = [(1.0, 1e3), (1.0, 1e6), (1e8, 0.0), (1e-8, 0.0), (1e3, 1e6), (1e-3, 5.0), (5.0, 5.0)]


@pytest.mark.filterwarnings("ignore:`scipy_minimize` terminated")
@pytest.mark.filterwarnings("ignore::gpytorch.utils.warnings.NumericalWarning")
@pytest.mark.parametrize("name", RAW)
@pytest.mark.parametrize("scale_and_shift", UNITS)
@pytest.mark.slow
def test_raw_outcomes_have_converged_only_where_botorch_finds_nothing_better(
    name: str, scale_and_shift: tuple[float, float]
) -> None:
    scale, shift = scale_and_shift
    X, Y = data(n=20)
    Y = (Y - Y.mean()) / Y.std() * scale + shift
    model = RAW[name](X, Y)
    result = fit_exact_gp(model)
    theirs = fit_by_botorch(RAW[name](X, Y))
    assert result.method == "closed form"
    assert result.status == (FitStatus.CONVERGED,)
    assert result.objective >= theirs - 1e-6
    torch.testing.assert_close(result.objective, objective(model), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale_and_shift", UNITS, ids=str)
@pytest.mark.slow
def test_the_unit_of_the_outcomes_does_not_matter_where_there_are_no_priors(
    scale_and_shift: tuple[float, float],
) -> None:
    scale, shift = scale_and_shift
    X, Y = data(n=20)
    Y = (Y - Y.mean()) / Y.std()
    standard, other = without_priors(X, Y), without_priors(X, Y * scale + shift)
    expected, result = fit_exact_gp(standard), fit_exact_gp(other)
    found = result.objective + math.log(scale)
    torch.testing.assert_close(found, expected.objective, rtol=0, atol=1e-6)
    for name, unit in (
        ("likelihood.noise", scale**2),
        ("covar_module.outputscale", scale**2),
        ("covar_module.base_kernel.lengthscale", 1.0),
    ):
        one, two = (operator.attrgetter(name)(model) for model in (standard, other))
        torch.testing.assert_close(two / unit, one, rtol=2e-2, atol=1e-6)
    mean = (other.mean_module.constant - shift) / scale
    torch.testing.assert_close(mean, standard.mean_module.constant, rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", RAW)
@pytest.mark.slow
def test_raw_outcomes_in_a_batch_are_fitted_as_alone(name: str) -> None:
    X, Y = data(3)
    Y = (
        Y * torch.tensor([1.0, 1e4, 2e-2]).view(3, 1, 1)
        + torch.tensor([0.0, 7e5, 3.0])[:, None, None]
    )
    result = fit_exact_gp(RAW[name](X, Y))
    for replicate in range(3):
        alone = fit_exact_gp(RAW[name](X[replicate], Y[replicate]))
        torch.testing.assert_close(
            alone.objective, result.objective[replicate], rtol=1e-9, atol=1e-9
        )
        assert alone.num_evaluations == result.num_evaluations[replicate]


def test_masked_raw_outcomes_do_not_count() -> None:
    X, Y = data(2)
    Y = 1e4 * Y + 1e6
    observed = torch.ones(2, 15, dtype=torch.bool)
    observed[0, 10:] = False
    together = RAW["default"](X, torch.where(observed.unsqueeze(-1), Y, -1e9))
    result = fit_exact_gp(together, observed=observed)
    alone = RAW["default"](X[0, :10], Y[0, :10])
    single = fit_exact_gp(alone)
    torch.testing.assert_close(result.objective[0], single.objective, rtol=0, atol=1e-8)
    torch.testing.assert_close(
        together.mean_module.constant[0], alone.mean_module.constant, rtol=1e-6, atol=0
    )


def test_the_prior_of_a_constant_is_of_raw_outcomes() -> None:
    X, Y = data()
    model = constant_mean(constant_prior=NormalPrior(790.0, 20.0))(X, 100 * Y + 800.0)
    result = fit_exact_gp(model)
    torch.testing.assert_close(result.objective, objective(model), rtol=0, atol=1e-6)


def test_a_mean_that_is_kept_stays_on_raw_outcomes() -> None:
    X, Y = data()
    model = SingleTaskGP(X, 1e3 * Y + 1e3, outcome_transform=None)
    model.mean_module.constant = 990.0
    model.mean_module.raw_constant.requires_grad_(False)
    result = fit_exact_gp(model)
    assert model.mean_module.constant.item() == 990.0
    torch.testing.assert_close(result.objective, objective(model), rtol=0, atol=1e-8)


def test_a_mean_with_a_prior_that_is_not_normal_is_moved_in_units_of_the_targets() -> None:
    X, Y = data()

    def build() -> SingleTaskGP:
        return constant_mean(constant_prior=GammaPrior(4.0, 0.005))(X, 100 * Y + 800.0)

    model = build()
    model.mean_module.constant = 1.0
    result = fit_exact_gp(model)
    assert result.status == (FitStatus.CONVERGED,)
    torch.testing.assert_close(result.objective, objective(model), rtol=0, atol=1e-6)
    theirs = build()
    theirs.mean_module.constant = 800.0
    assert result.objective >= fit_by_botorch(theirs) - 1e-6
    assert 600 < model.mean_module.constant < 1000
