r"""Predictions of the mean and of the noise, their shapes, units and gradients."""

import warnings

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import InputPerturbation
from botorch.sampling.pathwise import get_matheron_path_model
from gpytorch.kernels import RBFKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_risk.engine import fit_exact_gp
from botorch_risk.models import MeanVarianceGP
from tests.models.examples import (
    IDENTITY,
    SHAPES,
    UNSCALED,
    assert_same,
    noise_in_use,
    points,
    repeats,
    small_model,
)

CHOICES = [
    {},
    IDENTITY,
    {**IDENTITY, "sample_variance_noise": "pointwise"},
    {**IDENTITY, "sample_variance_noise": "bound", "max_noise_variance": 1.0},
    {"known_noise": lambda X: 0.1 + X[..., :1]},
    {"input_transform": "warp"},
    {"outcome_transform": None},
    {"noise_evidence": "spread"},
]


@pytest.mark.parametrize("batch_shape", SHAPES, ids=str)
def test_shapes(batch_shape):
    model = small_model(batch_shape=batch_shape)
    X = points(*batch_shape, 3)
    assert model.num_outputs == 1
    assert model.posterior(X).mean.shape == (*batch_shape, 3, 1)
    assert model.noise_posterior(X).mean.shape == (*batch_shape, 3, 1)
    assert model.predicted_noise(X).shape == (*batch_shape, 3, 1)
    for bounds in (model.confidence_bounds(X, 1.0), model.noise_confidence_bounds(X, 1.0)):
        assert all(bound.shape == (*batch_shape, 3) for bound in bounds)
        assert (bounds[0] < bounds[1]).all()
    beta = torch.full((*batch_shape, 1), 1.0)
    torch.testing.assert_close(model.confidence_bounds(X, beta), model.confidence_bounds(X, 1.0))


@pytest.mark.parametrize("batch_shape", SHAPES, ids=str)
def test_bounds_have_one_beta_a_replicate_whatever_the_number_of_points(batch_shape):
    model = small_model(batch_shape=batch_shape)
    beta = torch.arange(1.0, 1 + torch.Size(batch_shape).numel()).reshape(batch_shape)
    for m in (3, 5):
        X = points(*batch_shape, m)
        for bounds in (model.confidence_bounds, model.noise_confidence_bounds):
            for value, column in zip(
                bounds(X, beta), bounds(X, beta.unsqueeze(-1).expand(*batch_shape, m)), strict=True
            ):
                torch.testing.assert_close(value, column)
                assert value.shape == (*batch_shape, m)
        with pytest.raises(BotorchTensorDimensionError, match="`beta` to be a number, or to have"):
            model.confidence_bounds(X, torch.ones(7))


@pytest.mark.parametrize("options", CHOICES[:5])
def test_observation_noise_is_the_predicted_noise(options):
    model = small_model(**options)
    X = points(2, 3)
    clean, noisy = model.posterior(X), model.posterior(X, observation_noise=True)
    torch.testing.assert_close(noisy.mean, clean.mean)
    torch.testing.assert_close(noisy.variance - clean.variance, model.predicted_noise(X))
    given = torch.full((2, 3, 1), 0.5, dtype=torch.double)
    added = model.posterior(X, observation_noise=given).variance - clean.variance
    scale = model.mean_model.outcome_transform.stdvs.square()
    torch.testing.assert_close(added, (given * scale).expand_as(added))


def test_posterior_transforms_and_outputs():
    model, X = small_model(), points(3)
    transform = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))
    negated = model.posterior(X, posterior_transform=transform)
    torch.testing.assert_close(negated.mean, -model.posterior(X, output_indices=[0]).mean)
    assert_same(model, model.subset_output([0]), X)
    with pytest.raises(UnsupportedError, match=r"`output_indices` None or \[0\]. Got \[1\]"):
        model.posterior(X, output_indices=[1])
    with pytest.raises(UnsupportedError, match=r"one output `\[0\]`"):
        model.subset_output([1])


@pytest.mark.parametrize("options", CHOICES[:5])
def test_gradients_are_those_of_finite_differences(options):
    model = small_model(n=6, **options)
    X = (0.1 + 0.8 * points(2)).requires_grad_()

    def predictions(X):
        posterior = model.posterior(X)
        bounds = (*model.confidence_bounds(X, 4.0), *model.noise_confidence_bounds(X, 4.0))
        return (posterior.mean, posterior.variance, model.predicted_noise(X), *bounds)

    assert torch.autograd.gradcheck(predictions, X)


@UNSCALED
def test_parts_of_a_single_task_gp_are_there():
    model = small_model()
    for name in ("mean_module", "covar_module", "outcome_transform", "likelihood"):
        assert getattr(model, name) is getattr(model.mean_model, name)
    assert not hasattr(small_model(outcome_transform=None), "outcome_transform")
    with pytest.raises(UnsupportedError, match=r"build a new MeanVarianceGP.*Got `set_train_data`"):
        model.set_train_data(points(3), points(3)[:, :1])


def test_pathwise_samples_are_those_of_f():
    # BoTorch's Fourier features of a Matern kernel miss its variance by up to a fifth.
    model = small_model(covar_module=RBFKernel(ard_num_dims=2))
    X = points(4)
    paths = get_matheron_path_model(model, sample_shape=torch.Size([4000]))
    samples = paths(X).reshape(4000, 4)
    posterior = model.posterior(X)
    error = posterior.variance.sqrt().squeeze(-1) / 4000**0.5
    assert ((samples.mean(dim=0) - posterior.mean.squeeze(-1)).abs() < 5 * error).all()
    torch.testing.assert_close(
        samples.var(dim=0), posterior.variance.squeeze(-1), rtol=0.15, atol=1e-6
    )


def test_perturbed_inputs_are_carried_through_as_in_botorch():
    X, Y = repeats()
    shifts = 0.1 * torch.randn(4, 2, dtype=torch.double)
    model = MeanVarianceGP(X, Y, input_transform=InputPerturbation(shifts)).eval()
    plain = MeanVarianceGP(X, Y).eval()
    torch.testing.assert_close(noise_in_use(model), noise_in_use(plain))  # at X itself
    test_X = points(3)
    perturbed = (test_X.unsqueeze(-2) + shifts).reshape(12, 2)
    torch.testing.assert_close(model.posterior(test_X).mean, plain.posterior(perturbed).mean)
    torch.testing.assert_close(model.predicted_noise(test_X), plain.predicted_noise(perturbed))
    for value, expected in zip(
        (
            model.posterior(test_X, observation_noise=True).variance,
            model.noise_posterior(test_X).mean,
        ),
        (
            plain.posterior(perturbed, observation_noise=True).variance,
            plain.noise_posterior(perturbed).mean,
        ),
        strict=True,
    ):
        torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("scale", [1e-20, 1e-8, 1.0, 1e20])
@pytest.mark.parametrize("options", [{}, {"variance_link": "identity"}])
@pytest.mark.handful
def test_predictions_follow_the_scale_of_the_outcome(scale, options):
    X, Y = repeats()
    test_X = points(5)
    models = [MeanVarianceGP(X, s * Y, **options) for s in (1.0, scale)]
    for model in models:
        model.fit_processes(lambda process: bool(fit_exact_gp(process)))
    plain, scaled = models
    mean, variance = scaled.mean_marginals(test_X)
    torch.testing.assert_close(
        mean / scale, plain.mean_marginals(test_X).mean, rtol=1e-4, atol=1e-6
    )
    torch.testing.assert_close(
        variance / scale**2, plain.mean_marginals(test_X).variance, rtol=1e-3, atol=1e-9
    )
    for a, b in zip(
        plain.noise_confidence_bounds(test_X, 4.0),
        scaled.noise_confidence_bounds(test_X, 4.0),
        strict=True,
    ):
        torch.testing.assert_close(b / scale**2, a, rtol=1e-3, atol=1e-9)


def test_warns_where_gpytorchs_floors_reach_the_outcome():
    X, Y = repeats()
    with pytest.warns(InputDataWarning, match=r"standard deviation above 1e-04. Got .*e-06"):
        MeanVarianceGP(X, 1e-6 * Y).posterior(X)


@pytest.mark.parametrize("standardizes", [True, False], ids=["standardized", "raw"])
@pytest.mark.parametrize(
    "ratio", [1e-2, 1e-6, *(pytest.param(each, marks=pytest.mark.slow) for each in (1e-3, 1e-4))]
)
@pytest.mark.parametrize("size", [1.0, 0.02])
@pytest.mark.handful
def test_the_noise_that_is_reported_is_the_noise_in_use(
    size: float, ratio: float, standardizes: bool
) -> None:
    r"""However small it is; where it has to be raised, the model says so."""
    X = torch.rand(15, 1, dtype=torch.double)
    Y = size * ((5 * X).sin() + ratio * torch.randn(15, 5, dtype=torch.double))
    model = MeanVarianceGP(X, Y, **({} if standardizes else {"outcome_transform": None}))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.posterior(X)
    scale = model.outcome_transform.stdvs.square().item() if standardizes else 1.0
    used = scale * model.likelihood.noise.unsqueeze(-1)
    torch.testing.assert_close(used, model.noise_of_means(X, model.train_counts))
    found = model.noise.upper(X, model.noise_beta) / model.train_counts
    short = int((found < 0.999 * used).sum())
    said = [str(each.message) for each in seen]
    assert [each.startswith(f"The noise of {short} of 15 means") for each in said] == [True] * (
        short > 0
    )
    if ratio >= 1e-3 and standardizes:
        assert short == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)
        conditioned = model.condition_on_observations(X[:1], Y[:1, :1], num_repeats=5)
    new = scale * conditioned.mean_model.likelihood.noise[-1]
    torch.testing.assert_close(new, model.noise_of_means(X[:1], 5).squeeze())


def test_a_negative_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Expected `beta` to be finite and >= 0\. Got -1\.0"):
        small_model().confidence_bounds(points(2, 3), -1.0)
