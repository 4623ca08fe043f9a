r"""Fast marginals against `model.posterior`, point by point."""

import copy
import itertools
import warnings

import pytest
import torch
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.exceptions.warnings import BotorchWarning, InputDataWarning
from botorch.models import MixedSingleTaskGP, ModelListGP, SingleTaskGP, SingleTaskMultiFidelityGP
from botorch.models.additive_gp import OrthogonalAdditiveGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.map_saas import EnsembleMapSaasSingleTaskGP
from botorch.models.transforms.input import AppendFeatures, InputPerturbation
from botorch.sampling import SobolQMCNormalSampler

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.engine import Belief, DomainPosterior, FastMarginals
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models import MeanVarianceGP
from botorch_risk.risk import Expectation
from tests.engine.posterior.examples import (
    KERNELS,
    KINDS_OF_THEIR_OWN,
    SHAPES,
    assert_agrees,
    log_outcomes,
    make_model,
    of_kind,
    stratified,
)


@pytest.mark.parametrize("batch_shape", SHAPES, ids=str)
@pytest.mark.parametrize("noise", ["inferred", "fixed"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_agrees_with_the_posterior(kernel, noise, batch_shape):
    for scaled, ard in itertools.product((False, True), repeat=2):
        model = make_model(kernel, scaled, ard, batch_shape, noise)
        X = torch.rand(*batch_shape, 7, 2, dtype=torch.double)
        X[..., 0, :] = model.train_inputs[0][..., 0, :]  # a training point
        assert_agrees(Belief(model), X)


@pytest.mark.parametrize("batch_shape", SHAPES, ids=str)
@pytest.mark.parametrize("outcomes", ["standardize", None])
@pytest.mark.parametrize("inputs", ["normalize", "warp"])
@pytest.mark.parametrize("kernel", ["rbf", "rq"])
def test_agrees_through_transforms(kernel, inputs, outcomes, batch_shape):
    model = make_model(kernel, batch_shape=batch_shape, inputs=inputs, outcomes=outcomes)
    assert_agrees(Belief(model), torch.rand(*batch_shape, 5, 2, dtype=torch.double))


@pytest.mark.parametrize(
    ("model_batch", "X_batch"), [((), (3,)), ((), (2, 3)), ((2,), ()), ((2,), (4, 2)), ((2, 3), ())]
)
@pytest.mark.parametrize("kernel", ["matern1.5", "rq"])
def test_batches_of_points_broadcast(kernel, model_batch, X_batch):
    model = make_model(kernel, batch_shape=model_batch)
    X = torch.rand(*X_batch, 4, 2, dtype=torch.double)
    assert_agrees(Belief(model), X)
    moments = Belief(model)(X)
    assert moments.mean.shape == (*torch.broadcast_shapes(model_batch, X_batch), 4)


@pytest.mark.parametrize("noise", ["inferred", "fixed"])
@pytest.mark.parametrize("batch_shape", [(), (2,)], ids=str)
def test_agrees_on_conditioned_models(batch_shape, noise):
    model = make_model(batch_shape=batch_shape, noise=noise)
    X = torch.rand(*batch_shape, 3, 2, dtype=torch.double)
    fantasies = model.fantasize(X, SobolQMCNormalSampler(torch.Size([4]), seed=0))
    test_X = torch.rand(4, *batch_shape, 6, 2, dtype=torch.double)
    with torch.no_grad():
        posterior = fantasies.posterior(test_X)
    mean, variance = Belief(fantasies)(test_X)
    torch.testing.assert_close(mean, posterior.mean.squeeze(-1), rtol=0, atol=1e-7)
    torch.testing.assert_close(variance, posterior.variance.squeeze(-1), rtol=0, atol=1e-7)


@pytest.mark.parametrize("kernel", ["matern2.5", "rq"])
def test_scalarizations_keep_the_closed_form(kernel):
    predictor = Belief(
        make_model(kernel),
        ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double), offset=0.5),
    )
    X = torch.rand(5, 2, dtype=torch.double)
    assert_agrees(predictor, X)
    assert predictor._cache is not None
    plain = Belief(predictor.model)(X)
    torch.testing.assert_close(predictor(X).mean, 0.5 - plain.mean)
    torch.testing.assert_close(predictor(X).variance, plain.variance)


def model_list():
    return ModelListGP(make_model(n=6), make_model("rbf", n=8))


def deterministic():
    return GenericDeterministicModel(lambda X: X.sum(dim=-1, keepdim=True))


@pytest.mark.parametrize("make", [model_list, deterministic, log_outcomes])
def test_other_models_go_through_their_posterior(make):
    model, transform = make(), None
    if model.num_outputs == 2:
        weights = torch.tensor([0.3, -2.0], dtype=torch.double)
        transform = ScalarizedPosteriorTransform(weights)
    predictor = Belief(model, transform)
    X = torch.rand(2, 5, 2, dtype=torch.double, requires_grad=True)
    mean, variance = predictor(X)
    posterior = model.posterior(X.unsqueeze(-2), posterior_transform=transform)
    torch.testing.assert_close(mean, posterior.mean[..., 0, 0])
    torch.testing.assert_close(variance, posterior.variance[..., 0, 0])
    assert predictor._cache is None
    assert torch.autograd.grad(mean.sum(), X)[0].abs().sum() > 0


@pytest.mark.parametrize("kind", KINDS_OF_THEIR_OWN)
def test_classes_that_predict_in_their_own_way_go_through_their_posterior(kind):
    X, at = torch.rand(9, 2, dtype=torch.double), torch.rand(4, 2, dtype=torch.double)
    model = of_kind(kind, X, (6 * X).sin().sum(dim=-1, keepdim=True))
    own = model.posterior(at)
    moments = Belief(model)(at)
    torch.testing.assert_close(moments.mean, own.mean.squeeze(-1))
    torch.testing.assert_close(moments.variance, own.variance.squeeze(-1))
    with pytest.warns(BotorchWarning, match=f"a {kind.__name__} of this kind has no closed form"):
        view = FastMarginals(model).posterior(at.unsqueeze(-2))
    torch.testing.assert_close(view.mean.squeeze(-1), own.mean)
    environment = DiscreteEnvironment(at[:1, 1:])  # one w, so that each risk is one bound
    bound = RiskUpperConfidenceBound(model, environment, Expectation(), beta=4.0)
    pairs = torch.cat([at[:, :1], at[:1, 1:].expand(4, 1)], dim=-1)
    upper = model.posterior(pairs).mean + 2 * model.posterior(pairs).variance.sqrt()
    torch.testing.assert_close(bound(at[:, None, :1]), upper.squeeze(-1))
    with pytest.raises(UnsupportedError, match=f"Expected a `SingleTaskGP`.*Got {kind.__name__}"):
        DomainPosterior(model, at)


def test_models_of_botorch_and_ours_keep_their_closed_form():
    X = torch.rand(9, 2, dtype=torch.double)
    Y = X.sum(dim=-1, keepdim=True).sin()
    for model in (
        SingleTaskGP(X, Y),
        MixedSingleTaskGP(X.round(), Y, cat_dims=[1]),
        SingleTaskMultiFidelityGP(X, Y, data_fidelities=[1]),
        OrthogonalAdditiveGP(X, Y),
        MeanVarianceGP(X, Y + 0.1 * torch.randn(9, 4)).mean_model,
    ):
        assert Belief.serves(model)


@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
@pytest.mark.parametrize("column", [0, 1, -1])
def test_the_stratum_of_an_outcome_is_that_of_the_transformed_point(column):
    model = stratified(column)
    at = torch.rand(6, 2, dtype=torch.double)
    at[:, column] = 2 + (torch.arange(6) % 2)
    own = model.posterior(at)
    domain = DomainPosterior(model, at)
    for moments in (Belief(model)(at), domain):
        torch.testing.assert_close(moments.mean, own.mean.squeeze(-1))
        torch.testing.assert_close(moments.variance, own.variance.squeeze(-1))
    noisy = model.posterior(at, observation_noise=True).variance - own.variance
    torch.testing.assert_close(domain.inferred_noise(), noisy.mT)
    values, decisions = torch.tensor([[2.0], [3.0]]).double(), torch.rand(3, 1).double()
    if column == 0:
        values, decisions = decisions, values
    for chosen in (decisions, decisions[:1]):
        every = Belief(model).pairs(values)(chosen)
        pairs = torch.cartesian_prod(chosen.flatten(), values.flatten())
        own = model.posterior(pairs)
        torch.testing.assert_close(every.mean.flatten(), own.mean.flatten())
        torch.testing.assert_close(every.variance.flatten(), own.variance.flatten())


def test_points_do_not_meet_the_batch_of_other_models():
    model = log_outcomes(batch_shape=(2,))
    X = torch.rand(2, 2, dtype=torch.double)  # as many points as models
    together = Belief(model)(X)
    assert together.mean.shape == (2, 2)
    torch.testing.assert_close(together, Belief(model)(X.expand(2, 2, 2)))


def test_a_mean_has_a_gradient_only_where_one_is_asked_for():
    model = make_model()
    X = torch.rand(3, 2, dtype=torch.double)
    predictor = Belief(model)
    assert not predictor.mean(X).requires_grad
    leaf = X.clone().requires_grad_()
    assert predictor.mean(leaf).requires_grad
    with torch.no_grad():
        assert not predictor.mean(leaf).requires_grad


def test_refuses_what_it_cannot_predict():
    X = torch.rand(6, 2, dtype=torch.double)
    with pytest.raises(UnsupportedError, match=r"one output.*num_outputs=2"):
        Belief(SingleTaskGP(X, X))
    with pytest.raises(UnsupportedError, match="ensemble"):
        Belief(EnsembleMapSaasSingleTaskGP(X, X[:, :1].sin()))
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x m x d`"):
        Belief(make_model())(torch.rand(2, dtype=torch.double))


def to_several_points(kind):
    r"""A model whose transform makes three points of each, and points for it."""
    X = torch.rand(8, 2, dtype=torch.double)
    if kind is AppendFeatures:
        transform, d = AppendFeatures(torch.rand(3, 1, dtype=torch.double)), 1
    else:
        transform, d = InputPerturbation(0.1 * torch.randn(3, 2, dtype=torch.double)), 2
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True).sin(), input_transform=transform)
    return model.eval(), torch.rand(5, d, dtype=torch.double)


@pytest.mark.parametrize("kind", [AppendFeatures, InputPerturbation])
def test_transforms_to_several_points_are_not_taken_for_one(kind):
    model, X = to_several_points(kind)
    with pytest.raises(UnsupportedError, match=r"one value for each point. Got \(3, 1\), of an"):
        Belief(model)(X)


@pytest.mark.parametrize("kind", [AppendFeatures, InputPerturbation])
def test_several_points_may_be_reduced_to_one(kind):
    model, X = to_several_points(kind)
    average = ExpectationPosteriorTransform(n_w=3)
    mean, variance = Belief(model, average)(X)
    posterior = model.posterior(X.unsqueeze(-2), posterior_transform=average)
    torch.testing.assert_close(mean, posterior.mean.flatten())
    torch.testing.assert_close(variance, posterior.variance.flatten())


class FirstTwo(PosteriorTransform):
    r"""Reduces nothing."""

    scalarize = False

    def evaluate(self, Y, X=None):
        return Y

    def forward(self, posterior, X=None):
        return posterior


def test_outputs_that_are_not_reduced_are_refused():
    with pytest.raises(UnsupportedError, match=r"one value for each point. Got \(1, 2\)"):
        Belief(model_list(), FirstTwo())(torch.rand(3, 2, dtype=torch.double))


def test_single_precision_keeps_four_digits():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)  # BoTorch advises double precision
        X = torch.rand(12, 2)
        model = SingleTaskGP(X, (6 * X).sin().sum(dim=-1, keepdim=True))
    model.likelihood.noise = 0.01
    test_X = torch.rand(5, 2)
    mean, variance = Belief(model)(test_X)
    double = copy.deepcopy(model).double()
    expected = Belief(double)(test_X.double())
    torch.testing.assert_close(mean.double(), expected.mean, rtol=0, atol=1e-3)
    torch.testing.assert_close(variance.double(), expected.variance, rtol=0, atol=1e-3)
