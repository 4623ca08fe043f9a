r"""Standardised processes, their default kernels and one-hot columns."""

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import AppendFeatures, Normalize
from gpytorch.kernels import MaternKernel, RBFKernel
from torch import Tensor

from botorch_risk.engine import Belief, MarginalLikelihoodObjective, fit_exact_gp
from botorch_risk.models import MeanVarianceGP, one_hot_inputs
from botorch_risk.models.fixed_noise import mean_kernel, noise_kernel
from botorch_risk.models.standardized_gp import standardized_gp
from tests.contracts import correlation_of, repeated_data
from tests.models.examples import points, repeats

DATA = repeats(k=1)


def test_is_the_default_model_at_ordinary_scales():
    X, test_X = DATA[0], points(4)
    model, plain = standardized_gp(*DATA), SingleTaskGP(*DATA)
    torch.testing.assert_close(model.posterior(test_X).mean, plain.posterior(test_X).mean)
    assert not model.train_inputs[0].requires_grad and model.train_inputs[0].shape == X.shape


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_predictions_follow_the_scale_of_the_outcome(scale):
    X, Y = DATA
    test_X = points(4)
    mean = standardized_gp(X, scale * Y).posterior(test_X).mean / scale
    torch.testing.assert_close(mean, standardized_gp(X, Y).posterior(test_X).mean)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ((DATA[0][0], DATA[1]), BotorchTensorDimensionError, "`train_X` of shape"),
        ((DATA[0], DATA[1][:3]), BotorchTensorDimensionError, "`train_Y` of shape"),
        ((DATA[0].float(), DATA[1]), InputDataError, "one floating-point dtype"),
        ((DATA[0], DATA[1] / 0), InputDataError, "finite `train_Y`"),
    ],
)
def test_refuses_data(data, error, message):
    with pytest.raises(error, match=message):
        standardized_gp(*data)


def test_is_the_default_of_the_model_and_known_to_the_fast_paths():
    data = repeated_data(batch_shape=(3,))
    kernel = MeanVarianceGP(data.X, data.Y).covar_module
    assert type(kernel.base_kernel) is MaternKernel and kernel.base_kernel.nu == 2.5
    torch.testing.assert_close(kernel.outputscale, torch.ones(3, dtype=torch.double))
    model = MeanVarianceGP(data.X, data.Y)
    parts = MarginalLikelihoodObjective.of(model.mean_model).parts
    names = [one.name for one in parts.hyperparameters]
    assert names == ["lengthscale", "outputscale", "constant"]
    assert model.mean_marginals.current_cache().kernel is not None


def test_has_botorchs_priors():
    kernel = mean_kernel(torch.rand(9, 4))
    lengthscale, scale = kernel.base_kernel.lengthscale_prior, kernel.outputscale_prior
    assert math.isclose(lengthscale.loc.item(), math.sqrt(2) + math.log(4) / 2, rel_tol=1e-6)
    assert (scale.concentration.item(), round(scale.rate.item(), 6)) == (2.0, 0.15)


def test_counts_the_columns_that_a_transform_makes():
    features = AppendFeatures(torch.rand(1, 2), transform_on_train=True)
    assert mean_kernel(torch.rand(9, 3), features).base_kernel.ard_num_dims == 5
    assert noise_kernel(torch.rand(9, 3), features).base_kernel.ard_num_dims == 5


def test_one_hot_categories_have_a_lengthscale_each_in_both_processes():
    bounds = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.double)
    X = torch.tensor([[0.1, 0], [0.4, 1], [0.8, 2], [0.9, 1]], dtype=torch.double)
    Y = X[:, :1] + torch.randn(4, 3, dtype=torch.double)
    for link in ("log", "identity"):
        transform = one_hot_inputs(bounds, [1])
        model = MeanVarianceGP(X, Y, variance_link=link, input_transform=transform)
        assert model.covar_module.base_kernel.lengthscale.shape == (1, 4)
        assert correlation_of(model.noise_model).lengthscale.shape == (1, 4)
        assert model.posterior(X).mean.shape == model.predicted_noise(X).shape == (4, 1)


def test_a_kernel_of_the_user_is_kept():
    data, own = repeated_data(), RBFKernel()
    assert MeanVarianceGP(data.X, data.Y, covar_module=own).covar_module is own


def test_a_slope_is_given_more_variance_than_its_means_have():
    X = torch.linspace(0, 1, 12, dtype=torch.double).unsqueeze(-1)
    Y = 5 * X + 0.01 * torch.randn(12, 4, generator=torch.Generator().manual_seed(0)).double()
    model = MeanVarianceGP(X, Y)
    model.fit_processes()
    assert model.covar_module.outputscale.item() > 1.5


# A price, a kind from -1 to 1, a grade from 2 to 3, and w.
BOUNDS = torch.tensor([[0.0, -1.0, 2.0, 5.0], [4.0, 1.0, 3.0, 7.0]], dtype=torch.double)
W = torch.linspace(5, 7, 6, dtype=torch.double).unsqueeze(-1)


def rows(*batch_shape: int, n: int = 12) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    unit = torch.rand(*batch_shape, n, 4, generator=generator, dtype=torch.double)
    X = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * unit
    X[..., 1:3] = X[..., 1:3].round()
    return X


def mixed_model(*batch_shape: int) -> SingleTaskGP:
    X = rows(*batch_shape)
    Y = (X[..., :1] + X[..., 1:2].square() * X[..., 3:]).sin()
    gp = SingleTaskGP(X, Y, input_transform=one_hot_inputs(BOUNDS, [1, 2]))
    fit_exact_gp(gp)
    return gp.eval()


@pytest.mark.parametrize("categories", [[1, 2], [2, -3]])
def test_one_column_for_each_value(categories: list[int]) -> None:
    transform = one_hot_inputs(BOUNDS, categories)
    X = torch.tensor([[1.0, -1.0, 3.0, 6.0], [2.0, 1.0, 2.0, 5.0]], dtype=torch.double)
    assert transform(X).tolist() == [
        [0.25, 1.0, 0.0, 0.0, 0.0, 1.0, 0.5],
        [0.5, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0],
    ]


def test_without_categories_it_is_botorchs_normalize() -> None:
    transform = one_hot_inputs(BOUNDS)
    assert type(transform) is Normalize
    assert torch.equal(transform(rows()), Normalize(4, bounds=BOUNDS)(rows()))


def test_every_two_categories_are_as_far_from_each_other() -> None:
    X = torch.tensor([[0.0, kind, 2.0, 5.0] for kind in (-1, 0, 1)], dtype=torch.double)
    encoded = one_hot_inputs(BOUNDS, [1])(X)
    distances = torch.cdist(encoded, encoded)[*torch.triu_indices(3, 3, offset=1)]
    torch.testing.assert_close(distances, torch.full((3,), 2.0).double().sqrt())


@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_predictions_in_product_form_are_exact(batch_shape: tuple[int, ...]) -> None:
    gp = mixed_model(*batch_shape)
    assert gp.train_inputs[0].shape[-1] == 7
    X = rows(*batch_shape, n=5)[..., :3].requires_grad_()
    marginals = Belief(gp).pairs(W)
    assert marginals._is_product(X) and marginals._current_factors() is not None
    mean, variance = marginals(X)
    pairs = torch.cat(
        [X.unsqueeze(-2).expand(*X.shape[:-1], 6, 3), W.expand(*X.shape[:-1], 6, 1)], dim=-1
    )
    exact: Any = gp.posterior(pairs.flatten(-3, -2))
    torch.testing.assert_close(mean, exact.mean.reshape(mean.shape))
    torch.testing.assert_close(variance, exact.variance.reshape(mean.shape), rtol=1e-6, atol=1e-9)
    (slope,) = torch.autograd.grad(mean.sum(), X, retain_graph=True)
    (expected,) = torch.autograd.grad(exact.mean.sum(), X)
    torch.testing.assert_close(slope[..., 0], expected[..., 0])


def test_a_category_of_w_is_evaluated_at_every_pair() -> None:
    transform = one_hot_inputs(BOUNDS.flip(-1)[:, [0, 1, 3, 2]], [3])
    X = rows().flip(-1)[:, [0, 1, 3, 2]]
    gp = SingleTaskGP(X, X.sum(dim=-1, keepdim=True), input_transform=transform).eval()
    kinds = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.double)
    marginals = Belief(gp).pairs(kinds)
    assert not marginals._is_product(X[:, :3])
    mean, _ = marginals(X[:, :3])
    exact = gp.posterior(torch.cat([X[:, :3], kinds[:1].expand(12, 1)], dim=-1)).mean
    torch.testing.assert_close(mean[:, :1], exact)


def test_it_is_copied_and_stored() -> None:
    transform = one_hot_inputs(BOUNDS, [1])
    for again in (copy.deepcopy(transform), pickle.loads(pickle.dumps(transform))):
        assert torch.equal(again(rows()), transform(rows()))
    missing = rows()
    missing[0, 1] = torch.nan
    assert (transform(missing)[0, 1:4] == 0).all()  # no value, and no error


@pytest.mark.parametrize("bounds", [[0.0, 1.5], [1.0, 1.0]])
def test_bounds_that_are_no_categories(bounds: list[float]) -> None:
    box = torch.stack([BOUNDS[:, 0], torch.tensor(bounds).double()], dim=-1)
    with pytest.raises(InputDataError, match="Expected whole bounds of the category in column 1"):
        one_hot_inputs(box, [1])


@pytest.mark.parametrize(
    ("bounds", "categories", "match"),
    [
        ([[0.0, 5.0], [5.0, 1.0]], [], "bounds"),
        ([[0.0], [1.0], [2.0]], [], "bounds"),
        ([[0.0, 0.0], [1.0, 2.0]], [2], "categories among 2 columns"),
    ],
)
def test_boxes_and_columns_are_checked(
    bounds: list[list[float]], categories: list[int], match: str
) -> None:
    with pytest.raises((ValueError, BotorchTensorDimensionError, InputDataError), match=match):
        one_hot_inputs(torch.tensor(bounds), categories)
