r"""The fast view of a model against the model itself."""

import copy
import itertools
import pickle
import warnings
from collections.abc import Callable

import pytest
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    LogExpectedImprovement,
    PosteriorMean,
    UpperConfidenceBound,
    qLogExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.acquisition.analytic import (
    LogConstrainedExpectedImprovement,
    LogProbabilityOfImprovement,
    PosteriorStandardDeviation,
)
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import BotorchWarning
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.map_saas import EnsembleMapSaasSingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import MaternKernel
from torch import Tensor

from botorch_risk.engine import FastMarginals, fit_exact_gp, optimize_acqf_replicates
from botorch_risk.engine.posterior.fast_marginals import bound_on_host, with_fast_marginals
from tests.engine.posterior.examples import KERNELS, SHAPES, log_outcomes, make_model

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
MINIMISED = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))

Make = Callable[[Model], AcquisitionFunction]
OF_BOTORCH: dict[str, Make] = {
    "LogEI": lambda model: LogExpectedImprovement(model, best_f=6.0),
    "LogPI": lambda model: LogProbabilityOfImprovement(model, best_f=6.0),
    "UCB": lambda model: UpperConfidenceBound(model, beta=4.0),
    "mean": PosteriorMean,
    "standard deviation": PosteriorStandardDeviation,
    "minimised LogEI": lambda model: LogExpectedImprovement(
        model, best_f=-6.0, posterior_transform=MINIMISED, maximize=True
    ),
    "qLogEI": lambda model: qLogExpectedImprovement(
        model, best_f=6.0, sampler=SobolQMCNormalSampler(torch.Size([16]), seed=0)
    ),
    "qUCB": lambda model: qUpperConfidenceBound(
        model, beta=4.0, sampler=SobolQMCNormalSampler(torch.Size([16]), seed=0)
    ),
}
acquisitions = pytest.mark.parametrize("make", OF_BOTORCH.values(), ids=OF_BOTORCH)


def value_and_gradient(acqf: AcquisitionFunction, X: Tensor) -> tuple[Tensor, Tensor]:
    X = X.clone().requires_grad_()
    values = acqf(X)
    (gradient,) = torch.autograd.grad(values.sum(), X)
    return values.detach(), gradient


@pytest.mark.parametrize("batch_shape", SHAPES, ids=str)
@pytest.mark.parametrize("outcomes", ["standardize", None])
@pytest.mark.parametrize("inputs", [None, "normalize", "warp"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.handful
def test_moments_are_those_of_the_model(
    kernel: str, inputs: str | None, outcomes: str | None, batch_shape: tuple[int, ...]
) -> None:
    model = make_model(kernel, batch_shape=batch_shape, inputs=inputs, outcomes=outcomes)
    view = FastMarginals(model)
    X = torch.rand(5, *batch_shape, 1, 2, dtype=torch.double)
    for transform in (None, MINIMISED, ExpectationPosteriorTransform(n_w=1)):
        fast = view.posterior(X, posterior_transform=transform)
        own = model.posterior(X, posterior_transform=transform)
        assert fast.mean.shape == fast.variance.shape == own.mean.shape
        torch.testing.assert_close(fast.mean, own.mean, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(fast.variance, own.variance, rtol=1e-6, atol=1e-8)


@acquisitions
def test_acquisition_functions_of_botorch_do_not_notice(make: Make) -> None:
    model = make_model(inputs="normalize")
    X = torch.rand(7, 1, 2, dtype=torch.double)
    expected = value_and_gradient(make(model), X)
    for one, two in zip(value_and_gradient(make(FastMarginals(model)), X), expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


@acquisitions
@pytest.mark.slow
def test_the_optimum_stays(make: Make) -> None:
    model = make_model()
    fit_exact_gp(model)
    options = {"q": 1, "num_restarts": 4, "raw_samples": 32}
    values = []
    for each in (model, FastMarginals(model)):
        torch.manual_seed(0)
        values.append(optimize_acqf(make(each), BOUNDS, **options)[1])
    torch.testing.assert_close(*values, rtol=1e-6, atol=1e-6)


def test_several_models_side_by_side() -> None:
    model = ModelListGP(make_model(), make_model("rbf", inputs="normalize"))
    view = FastMarginals(model)
    X = torch.rand(6, 1, 2, dtype=torch.double)
    fast, own = view.posterior(X), model.posterior(X)
    torch.testing.assert_close(fast.mean, own.mean)
    torch.testing.assert_close(fast.variance, own.variance)
    assert view.num_outputs == 2
    assert view.subset_output([1]).num_outputs == 1
    values = [
        value_and_gradient(LogConstrainedExpectedImprovement(each, 6.0, 0, {1: (None, 5.0)}), X)
        for each in (view, model)
    ]
    for one, two in zip(*values, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2])
def test_samples_are_those_of_the_model(count: int) -> None:
    models = [make_model() for _ in range(count)]
    model = models[0] if count == 1 else ModelListGP(*models)
    X = torch.rand(3, 1, 2, dtype=torch.double)
    samplers = [SobolQMCNormalSampler(torch.Size([8]), seed=1) for _ in range(2)]
    one, two = samplers[0](FastMarginals(model).posterior(X)), samplers[1](model.posterior(X))
    assert one.shape == (8, 3, 1, count)
    torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-6)


def test_the_view_follows_the_model() -> None:
    model = make_model()
    view = FastMarginals(model)
    X = torch.rand(4, 1, 2, dtype=torch.double)

    def check() -> Tensor:
        fresh = copy.deepcopy(model)
        fresh.train()
        torch.testing.assert_close(view.posterior(X).mean, fresh.posterior(X).mean)
        mean: Tensor = view.posterior(X).mean.detach()
        return mean

    means = [check()]
    fit_exact_gp(model)
    means.append(check())
    model.set_train_data(model.train_inputs[0], model.train_targets + 1.0)
    means.append(check())
    model.outcome_transform.means += 2.0
    means.append(check())
    view.load_state_dict(FastMarginals(make_model()).state_dict())
    means.append(check())
    for before, after in itertools.pairwise(means):
        assert not torch.allclose(before, after)


def test_moves_to_another_dtype() -> None:
    model = make_model()
    acqf = UpperConfidenceBound(FastMarginals(model), beta=4.0)
    X = torch.rand(3, 1, 2, dtype=torch.double)
    before = acqf(X)
    assert acqf.to(torch.float32)(X.float()).dtype == torch.float32
    assert model.train_targets.dtype == torch.float32
    torch.testing.assert_close(acqf(X.float()).double(), before, rtol=1e-3, atol=1e-3)
    assert model.covar_module.base_kernel.raw_lengthscale.dtype == torch.float32


def test_shared_memory_is_shared() -> None:
    model = make_model()
    view = FastMarginals(model)
    view.posterior(torch.rand(1, 2, dtype=torch.double))
    view.share_memory()
    assert all(parameter.is_shared() for parameter in model.parameters())


def test_conditioning_and_fantasies_are_views_again() -> None:
    model = make_model(outcomes=None)
    view = FastMarginals(model)
    X, Y = torch.rand(2, 2, dtype=torch.double), torch.rand(2, 1, dtype=torch.double)
    at = torch.rand(3, 1, 2, dtype=torch.double)
    at_many = torch.rand(3, 1, 1, 2, dtype=torch.double)
    view.posterior(at), model.posterior(at)
    for make, points in (
        (lambda each: each.condition_on_observations(X, Y), at),
        (lambda each: each.fantasize(X, SobolQMCNormalSampler(torch.Size([4]), seed=0)), at_many),
    ):
        fast, own = make(view), make(model)
        assert isinstance(fast, FastMarginals)
        torch.testing.assert_close(fast.posterior(points).mean, own.posterior(points).mean)


def test_what_is_of_the_model_is_found_on_the_view() -> None:
    model = make_model(batch_shape=(2,))
    view = FastMarginals(FastMarginals(model))
    assert view.model is model
    assert view.train_inputs is model.train_inputs
    assert view.likelihood is model.likelihood
    assert view.batch_shape == (2,)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = view.nothing
    X = torch.rand(3, 2, 1, 2, dtype=torch.double)
    for twin in (pickle.loads(pickle.dumps(view)), copy.deepcopy(view)):
        assert twin.model is not model
        assert torch.equal(twin.posterior(X).mean, view.posterior(X).mean)


class Shared(SingleTaskGP):
    r"""A model that its copies share."""

    def __deepcopy__(self, memo: dict[int, object]) -> "Shared":
        return self


def test_a_copy_is_a_view_even_of_a_model_that_copies_itself() -> None:
    X = torch.rand(4, 2, dtype=torch.double)
    view = FastMarginals(Shared(X, X.sum(dim=-1, keepdim=True)))
    twin = copy.deepcopy(view)
    assert isinstance(twin, FastMarginals) and twin is not view
    assert twin.model is view.model


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"X": torch.rand(3, 2, dtype=torch.double)}, r"jointly \(q > 1\)"),
        ({"X": torch.rand(1, 2, dtype=torch.double), "observation_noise": True}, "noise"),
    ],
)
def test_the_model_answers_the_rest_and_that_is_said_once(
    arguments: dict[str, Tensor | bool], reason: str
) -> None:
    model = make_model()
    view = FastMarginals(model)
    with pytest.warns(BotorchWarning, match=f"own `posterior` is used.*{reason}"):
        first = view.posterior(**arguments)
    second, own = view.posterior(**arguments), model.posterior(**arguments)
    assert torch.equal(first.variance, second.variance)
    torch.testing.assert_close(first.variance, own.variance)


def test_some_outputs_come_from_the_model() -> None:
    model = ModelListGP(make_model(), make_model("rbf"))
    view, X = FastMarginals(model), torch.rand(2, 1, 2, dtype=torch.double)
    assert view.posterior(X, output_indices=[0, 1]).mean.shape == (2, 1, 2)
    with pytest.warns(BotorchWarning, match="some of its outputs"):
        assert view.posterior(X, output_indices=[1]).mean.shape == (2, 1, 1)


def test_models_without_a_closed_form_answer_themselves() -> None:
    model = log_outcomes()
    with pytest.warns(BotorchWarning, match="a SingleTaskGP of this kind has no closed form"):
        view = FastMarginals(model)
    X = torch.rand(3, 1, 2, dtype=torch.double)
    torch.testing.assert_close(view.posterior(X).mean, model.posterior(X).mean)


def test_ensembles_are_refused() -> None:
    X = torch.rand(6, 2, dtype=torch.double)
    model = EnsembleMapSaasSingleTaskGP(X, X.sum(dim=-1, keepdim=True), num_taus=2)
    with pytest.raises(UnsupportedError, match=r"one Gaussian.*EnsembleMapSaas"):
        FastMarginals(model)


def test_our_optimiser_takes_the_view_by_itself() -> None:
    model = make_model("rbf", batch_shape=(3,))
    acqf = UpperConfidenceBound(model, beta=4.0)
    fast = with_fast_marginals(acqf)
    assert acqf.model is model
    assert isinstance(fast.model, FastMarginals)
    X, values = optimize_acqf_replicates(acqf, BOUNDS, seeds=[0, 1, 2], raw_samples=64)
    torch.testing.assert_close(acqf(X.unsqueeze(0)).squeeze(0), values)
    best = acqf(torch.rand(512, 3, 1, 2, dtype=torch.double)).amax(dim=0)
    assert (values >= best).all()


def test_our_optimiser_leaves_others_as_they_are() -> None:
    joint = qUpperConfidenceBound(make_model(), beta=4.0)
    assert with_fast_marginals(joint) is joint
    unknown = UpperConfidenceBound(log_outcomes(), beta=4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert with_fast_marginals(unknown) is unknown


def test_another_smoothness_of_the_kernel_is_seen() -> None:
    X = torch.rand(8, 2, dtype=torch.double)
    Y = X.sin().sum(dim=-1, keepdim=True)
    model = SingleTaskGP(X, Y, covar_module=MaternKernel(nu=2.5, ard_num_dims=2)).eval()
    view, at = FastMarginals(model), torch.rand(3, 1, 2, dtype=torch.double)
    before = view.posterior(at).mean
    model.covar_module.nu = 0.5
    model.prediction_strategy = None  # GPyTorch's own cache does not see it
    torch.testing.assert_close(view.posterior(at).mean, model.posterior(at).mean)
    assert (view.posterior(at).mean - before).abs().max() > 1e-4


def test_writing_in_place_is_seen_and_writing_through_data_is_not() -> None:
    model = make_model(outcomes=None)
    view, at = FastMarginals(model), torch.rand(3, 1, 2, dtype=torch.double)
    before = view.posterior(at).mean
    model.train_targets.data += 1.0
    assert torch.equal(view.posterior(at).mean, before)  # a limit that the docstring names
    with torch.no_grad():
        model.train_targets += 1.0
    assert (view.posterior(at).mean - before).abs().max() > 1.0


@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
@pytest.mark.parametrize("is_minimised", [False, True])
def test_the_bound_of_botorch_has_a_form_in_numpy(
    batch: tuple[int, ...], is_minimised: bool
) -> None:
    X = 2 * torch.rand(*batch, 9, 2, dtype=torch.double)
    transform = Normalize(2, batch_shape=torch.Size(batch))
    model = SingleTaskGP(X, X.sin().sum(-1, keepdim=True), input_transform=transform)
    weights = ScalarizedPosteriorTransform(torch.tensor([-1.0]).double()) if is_minimised else None
    acqf = UpperConfidenceBound(FastMarginals(model), beta=2.0, posterior_transform=weights)
    points = 2 * torch.rand(*batch, 5, 2, dtype=torch.double)
    inputs = points.clone().requires_grad_()
    expected = acqf(inputs.movedim(-2, 0).unsqueeze(-2)).movedim(0, -1)
    (gradient,) = torch.autograd.grad(expected.sum(), inputs)
    on_host = bound_on_host(acqf, 5)
    assert on_host is not None
    found = [torch.as_tensor(each) for each in on_host(points.numpy())]
    torch.testing.assert_close(found[0], expected.detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found[1], gradient, rtol=1e-9, atol=1e-9)


def test_other_functions_of_botorch_have_no_form_in_numpy() -> None:
    X = torch.rand(9, 2, dtype=torch.double)
    model = SingleTaskGP(X, X.sum(-1, keepdim=True).sin())
    view = FastMarginals(model)
    assert bound_on_host(UpperConfidenceBound(model, beta=2.0), 5) is None
    assert bound_on_host(UpperConfidenceBound(view, beta=2.0, maximize=False), 5) is None
    assert bound_on_host(LogExpectedImprovement(view, best_f=0.0), 5) is None
    assert bound_on_host(UpperConfidenceBound(view, beta=2.0), 10**5) is None
