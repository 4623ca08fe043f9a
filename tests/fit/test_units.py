from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.means import ZeroMean

from botorch_risk.fit.parameters import read_exact_gp
from botorch_risk.fit.units import Units, units_of

# Models here see raw outcomes on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")

X = torch.tensor([[[0.0, 5.0], [2.0, 5.0], [1.0, 5.0], [math.nan, 90.0]]]).double()
Y = torch.tensor([[[3.0], [7.0], [5.0], [math.nan]]]).double()
COUNTED = torch.tensor([[True, True, True, False]])


def units(scale: float = 1.0, **options: object) -> Units:
    model = SingleTaskGP(X.nan_to_num(), scale * Y.nan_to_num(), outcome_transform=None, **options)
    model.train_inputs[0][0, 3, 0] = math.nan
    model.train_targets[0, 3] = math.nan
    return units_of(read_exact_gp(model.train()), COUNTED)


def test_units_are_those_of_the_data_that_count() -> None:
    found = units()
    assert found.centre.tolist() == [5.0]
    np.testing.assert_allclose(found.scale, math.sqrt(8 / 3))
    assert found.extent.tolist() == [[2.0, 1.0]]  # an input that does not vary has no range
    assert found.of("lengthscale", 2).tolist() == [[2.0, 1.0]]
    assert found.of("lengthscale", 1).tolist() == [[2.0]]
    np.testing.assert_allclose(found.of("noise", 1), 8 / 3)
    np.testing.assert_allclose(found.of("constant", 1), math.sqrt(8 / 3))


def test_a_mean_of_zero_is_the_centre() -> None:
    found = units(mean_module=ZeroMean())
    assert found.centre.tolist() == [0.0]
    np.testing.assert_allclose(found.scale, math.sqrt((9 + 49 + 25) / 3))


def test_targets_that_do_not_vary_have_no_scale() -> None:
    model = SingleTaskGP(
        X[:, :3], torch.full((1, 3, 1), 0.1).double() * 1e8, outcome_transform=None
    )
    found = units_of(read_exact_gp(model.train()), COUNTED[:, :3])
    assert found.scale.tolist() == [1.0] and found.is_standard.all()


@pytest.mark.parametrize(("scale", "standard"), [(1.0, True), (0.1, False), (10.0, False)])
def test_what_is_standard(scale: float, standard: bool) -> None:
    assert units(scale).is_standard.tolist() == [standard]
