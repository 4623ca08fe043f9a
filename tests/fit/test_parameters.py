from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from gpytorch.constraints import GreaterThan, Interval, LessThan, Positive
from gpytorch.kernels import RBFKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.means import ConstantMean

from botorch_risk.fit.parameters import (
    ExactGPParts,
    Hyperparameter,
    NotInClosedFormError,
    read_exact_gp,
)

CONSTRAINTS = {
    "interval": Interval(0.5, 2.0),
    "positive": Positive(),
    "greater": GreaterThan(0.1),
    "closed": GreaterThan(0.1, transform=None),
    "less": LessThan(3.0),
}


def parts(**options: object) -> ExactGPParts:
    X = torch.rand(2, 6, 3, dtype=torch.float64)
    model = SingleTaskGP(X, X.sum(-1, keepdim=True).sin(), **options)
    return read_exact_gp(model.train())


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_written_is_read_again_at_the_bounds_too(name: str, dtype: torch.dtype) -> None:
    constraint = CONSTRAINTS[name].to(dtype)
    raw = torch.nn.Parameter(torch.ones(2, 1, 3, dtype=dtype))
    parameter = Hyperparameter("lengthscale", raw, constraint, torch.Size([2]))
    lower, upper = parameter.bounds()
    assert (lower >= constraint.lower_bound.item()).all()
    assert (upper <= constraint.upper_bound.item()).all()
    middle = np.minimum(np.sqrt(lower * upper), 1.7)
    for values in (lower, np.minimum(upper, 1e4), middle):
        parameter.write(values, keep=np.zeros(2, dtype=bool))
        again = parameter.rows(parameter.natural)
        assert raw.isfinite().all()
        eps = torch.finfo(dtype).eps
        np.testing.assert_allclose(again, values, rtol=max(1e-9, 30 * eps), atol=4 * eps)


def test_kept_replicates_are_not_written_bit_for_bit() -> None:
    raw = torch.nn.Parameter(torch.randn(2, 1, 3))
    before = raw.detach().clone()
    parameter = Hyperparameter("lengthscale", raw, Positive(), torch.Size([2]))
    parameter.write(np.ones((2, 3)), keep=np.array([True, False]))
    assert torch.equal(raw[0], before[0]) and not torch.equal(raw[1], before[1])


def test_parameters_without_gradients_have_no_room() -> None:
    raw = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
    parameter = Hyperparameter("outputscale", raw, Positive(), torch.Size([2]))
    lower, upper = parameter.bounds()
    np.testing.assert_array_equal(lower, upper)
    np.testing.assert_allclose(lower, np.log(2.0))


def test_priors_are_found() -> None:
    found = {one.name: len(one.priors) for one in parts().hyperparameters}
    assert found == {"lengthscale": 1, "noise": 1, "constant": 0}


def test_shapes_of_the_data() -> None:
    read = parts(covar_module=RBFKernel(batch_shape=torch.Size([2]), active_dims=(0, 2)))
    assert read.X.shape == (2, 6, 2) and read.Y.shape == (2, 6)
    assert read.fixed_noise is None and read.batch_shape == (2,)


def test_hyperparameters_that_replicates_share_are_not_known() -> None:
    with pytest.raises(NotInClosedFormError, match="a lengthscale that is shared by replicates"):
        parts(covar_module=RBFKernel())
    with pytest.raises(NotInClosedFormError, match="a constant that is shared by replicates"):
        parts(mean_module=ConstantMean())


def test_a_constraint_without_an_inverse_is_not_known() -> None:
    constraint = GreaterThan(0.1)
    constraint._inv_transform = None
    kernel = RBFKernel(batch_shape=torch.Size([2]))
    kernel.register_constraint("raw_lengthscale", constraint)
    with pytest.raises(NotInClosedFormError, match="a constraint on the lengthscale"):
        parts(covar_module=kernel)


def test_additional_noise_is_not_known() -> None:
    likelihood = FixedNoiseGaussianLikelihood(
        torch.full((2, 6), 0.1).double(), learn_additional_noise=True, batch_shape=torch.Size([2])
    )
    with pytest.raises(NotInClosedFormError, match="additional noise"):
        parts(likelihood=likelihood)
