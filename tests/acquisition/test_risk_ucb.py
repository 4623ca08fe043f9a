r"""One acquisition function for every risk of the environment."""

import math
from typing import Any

import pytest
import torch
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models import MultiTaskGP, SingleTaskGP
from botorch.models.transforms.input import InputPerturbation as Perturbed
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import MaternKernel, RBFKernel
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound, outcomes_over_w
from botorch_risk.chunks import ChunkSize
from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.gradients import differentiated
from botorch_risk.level_sets import Straddle
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MaximumMeanDiscrepancyBall,
    MeanVariance,
    MinimaxApproximation,
    RiskMeasure,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from tests.environments.cases import ENVIRONMENTS, PERTURBATIONS, EnvironmentCase

BETA = 2.25
KERNEL = RBFKernel()
KERNEL.lengthscale = 0.3
MEASURES: list[RiskMeasure] = [
    Expectation(),
    ValueAtRisk(0.1),
    ConditionalValueAtRisk(0.1),
    WorstCase(),
    MeanVariance(0.5),
    TotalVariationBall(0.3),
    MinimaxApproximation(0.1, KERNEL),
    MaximumMeanDiscrepancyBall(0.1, KERNEL),
]
MONOTONE = [measure for measure in MEASURES if measure.monotone]
every_measure = pytest.mark.parametrize("measure", MEASURES, ids=lambda m: type(m).__name__)


def build_model(batch: tuple[int, ...] = (), d: int = 3, matern: bool = False) -> SingleTaskGP:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(*batch, 12, d, generator=generator, dtype=torch.float64)
    kernel = MaternKernel(ard_num_dims=d, batch_shape=torch.Size(batch)) if matern else None
    model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True), covar_module=kernel)
    model.likelihood.noise = 1e-3
    return model


def contexts(*batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(*batch, 7, 2, generator=generator, dtype=torch.float64)


def small(num_points: int = 9, d_w: int = 2) -> DiscreteEnvironment:
    r"""A few unequal atoms, and two points that only a ball sees."""
    generator = torch.Generator().manual_seed(2)
    points = torch.rand(num_points + 2, d_w, generator=generator, dtype=torch.float64)
    weights = torch.rand(num_points + 2, generator=generator, dtype=torch.float64)
    weights[-2:] = 0.0
    return DiscreteEnvironment(points, weights / weights.sum())


def brute_force(
    model: Any, environment: Any, measure: RiskMeasure, X: Tensor, side: float
) -> Tensor:
    r"""The risk of `mean + side * sqrt(beta) sigma`, through the posterior, x by x."""
    risks = []
    for x in X.unbind(dim=-2):
        inputs, weights = environment.expand(x.unsqueeze(-2))
        inputs, weights = inputs.squeeze(-3), weights.squeeze(-2)
        posterior = model.posterior(inputs.movedim(-2, 0).unsqueeze(-2))
        mean, variance = (
            value[..., 0, 0].movedim(0, -1) for value in (posterior.mean, posterior.variance)
        )
        risks.append(measure(mean + side * math.sqrt(BETA) * variance.sqrt(), weights))
    return torch.stack(risks, dim=-1).detach()


@pytest.mark.parametrize(
    "measure",
    [Expectation(), ValueAtRisk(0.2), TotalVariationBall(0.4)],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.parametrize("case", ENVIRONMENTS, ids=lambda case: case.name)
@pytest.mark.slow
def test_every_environment_in_full_size(case: EnvironmentCase, measure: RiskMeasure) -> None:
    model, environment = build_model((2,)), case.of(contexts(2))
    acqf = RiskUpperConfidenceBound(model, environment, measure, beta=BETA)
    X = torch.rand(2, 3, 1, dtype=torch.float64)
    for ours, side in ((acqf.lower(X), -1.0), (acqf.mean(X), 0.0), (acqf.evaluate(X), 1.0)):
        expected = brute_force(model, environment, measure, X, side)
        torch.testing.assert_close(ours, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("measure", MONOTONE, ids=lambda m: type(m).__name__)
@pytest.mark.slow
def test_a_kernel_that_is_no_product(measure: RiskMeasure) -> None:
    model, environment = build_model(matern=True), small()
    acqf = RiskUpperConfidenceBound(model, environment, measure, beta=BETA)
    X, bound = torch.rand(4, 1, dtype=torch.float64), measure.bind(environment)
    for ours, side in ((acqf.lower(X), -1.0), (acqf.mean(X), 0.0), (acqf.upper(X), 1.0)):
        expected = brute_force(model, environment, bound, X, side)
        torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-6)


@every_measure
def test_optimism_of_the_values_is_the_risk_of_their_upper_bounds(measure: RiskMeasure) -> None:
    model, environment = build_model(), small()
    X, bound = torch.rand(4, 1, dtype=torch.float64), measure.bind(environment)
    expected = brute_force(model, environment, bound, X, 1.0)
    plain, bold = (
        RiskUpperConfidenceBound(model, environment, measure, beta=BETA, optimism=optimism)
        for optimism in ("of_risk", "of_values")
    )
    torch.testing.assert_close(bold.evaluate(X), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(bold(X.unsqueeze(-2)), bold.evaluate(X))
    for side in ("lower", "mean", "upper"):  # the bounds stay bounds
        assert torch.equal(getattr(bold, side)(X), getattr(plain, side)(X))
    if measure.monotone:
        assert torch.equal(bold.evaluate(X), plain.evaluate(X))
    else:
        assert (bold.evaluate(X) <= plain.evaluate(X) + 1e-12).all()
        assert (bold.evaluate(X) < plain.evaluate(X) - 1e-4).any()
    with pytest.raises(ValueError, match=r"Expected `optimism` to be one of .* Got 'none'"):
        RiskUpperConfidenceBound(model, environment, measure, beta=BETA, optimism="none")  # type: ignore[arg-type]


def test_gradient_without_width() -> None:
    r"""At beta = 0 the square root of the width must not turn the gradient into NaN."""
    acqf = RiskUpperConfidenceBound(build_model(), small(), Expectation(), beta=0.0)
    X = torch.rand(3, 1, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(acqf, X)


@every_measure
def test_chunks_change_nothing(measure: RiskMeasure, monkeypatch: pytest.MonkeyPatch) -> None:
    acqf = RiskUpperConfidenceBound(build_model((2,)), small(), measure, beta=BETA)
    X = torch.rand(2, 7, 1, dtype=torch.float64, requires_grad=True)
    whole = acqf.evaluate(X)
    (gradient,) = torch.autograd.grad(whole.sum(), X)
    monkeypatch.setattr(outcomes_over_w, "_CHUNK_VALUES", ChunkSize(cpu=50))
    pieces = acqf.evaluate(X)
    torch.testing.assert_close(pieces, whole, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(
        torch.autograd.grad(pieces.sum(), X)[0], gradient, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@pytest.mark.parametrize("case", [*ENVIRONMENTS, PERTURBATIONS], ids=lambda case: case.name)
@pytest.mark.slow
def test_botorch_and_our_optimiser_see_the_same_values(
    case: EnvironmentCase, batch: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    r"""`b x batch_shape x 1 x d_x` of the one, `batch_shape x b x d_x` of the other, in chunks."""
    d, d_x = (2, 2) if case is PERTURBATIONS else (3, 1)
    model, environment = build_model(batch, d=d), case.of(contexts(*batch), n_w=case.few)
    acqf = RiskUpperConfidenceBound(model, environment, Expectation(), beta=BETA)
    X = torch.rand(*batch, 5, d_x, dtype=torch.float64)
    t_batch = X.movedim(-2, 0).unsqueeze(-2).requires_grad_()
    expected = acqf.evaluate(X)
    for limit in (2**18, 50):
        monkeypatch.setattr(outcomes_over_w, "_CHUNK_VALUES", ChunkSize(cpu=limit))
        torch.testing.assert_close(acqf(t_batch).movedim(0, -1), expected)
        first = X[(0,) * len(batch)]  # points that all replicates share
        each = acqf.evaluate(first.expand(*batch, *first.shape))
        torch.testing.assert_close(acqf.evaluate(first), each)
    assert torch.autograd.gradcheck(acqf, t_batch)


@pytest.mark.parametrize("distributions", [(), (3,)], ids=str)
def test_one_model_meets_the_distributions_of_many_replicates(
    distributions: tuple[int, ...],
) -> None:
    generator = torch.Generator().manual_seed(3)
    points = torch.rand(*distributions, 8, 2, generator=generator, dtype=torch.float64)
    model, X = build_model(), torch.rand(5, 1, dtype=torch.float64)
    acqf = RiskUpperConfidenceBound(model, DiscreteEnvironment(points), Expectation(), beta=BETA)
    each = [
        RiskUpperConfidenceBound(model, DiscreteEnvironment(distribution), Expectation(), beta=BETA)
        for distribution in points.reshape(-1, 8, 2)
    ]
    expected = torch.stack([alone.evaluate(X) for alone in each]).reshape(*distributions, 5)
    torch.testing.assert_close(acqf.evaluate(X), expected)
    t_batch = X.reshape(5, *[1 for _ in distributions], 1, 1).expand(5, *distributions, 1, 1)
    torch.testing.assert_close(acqf(t_batch), expected.movedim(-1, 0))


def test_minimisation_flips_the_outcome() -> None:
    r"""The worst case of a minimised outcome is its largest value."""
    model, X = build_model(), torch.rand(4, 1, dtype=torch.float64)
    minimise = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))
    acqf = RiskUpperConfidenceBound(
        model, small(), WorstCase(), beta=0.0, posterior_transform=minimise
    )
    inputs, weights = small().expand(X)
    support = model.posterior(inputs[:, weights[0] > 0]).mean.squeeze(-1)
    torch.testing.assert_close(acqf.evaluate(X), -support.amax(dim=-1))


def test_replicates_with_distributions_of_their_own() -> None:
    generator = torch.Generator().manual_seed(3)
    points = torch.rand(3, 8, 2, generator=generator, dtype=torch.float64)
    model = build_model((3,))
    together = RiskUpperConfidenceBound(
        model, DiscreteEnvironment(points), Expectation(), beta=BETA
    )
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    X, values = optimize_acqf_replicates(together, bounds, seeds=[0, 1, 2], num_restarts=4)
    grid = torch.linspace(0, 1, 501, dtype=torch.float64).unsqueeze(-1).expand(3, 501, 1)
    assert X.shape == (3, 1, 1)
    assert (values >= together.evaluate(grid).amax(dim=-1) - 1e-6).all()


def test_bad_input() -> None:
    model, environment = build_model(), small()
    with pytest.raises(ValueError, match=r"`beta` to be finite and >= 0\. Got -1"):
        RiskUpperConfidenceBound(model, environment, Expectation(), beta=-1.0)


@pytest.mark.parametrize("matern", [False, True], ids=["product", "pairs"])
def test_refuses_what_does_not_make_the_inputs_of_the_model(matern: bool) -> None:
    model = build_model(matern=matern)
    delta = torch.zeros(2, 2, dtype=torch.float64)
    for environment, d_x, made in (
        (small(d_w=1), 1, 2),
        (small(d_w=3), 1, 4),
        (small(d_w=2), 2, 4),
        (InputPerturbation(delta), 2, 2),
    ):
        X = torch.rand(4, d_x, dtype=torch.float64)
        acqf = RiskUpperConfidenceBound(model, environment, Expectation(), beta=BETA)
        for bound in (acqf.upper, acqf.mean, acqf.lower, acqf.set_X_pending):
            with pytest.raises(
                BotorchTensorDimensionError, match=rf"make the 3 inputs of the model. Got {made}"
            ):
                bound(X)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of linear_operator's interpolation
def test_one_task_of_a_multi_task_model() -> None:
    generator = torch.Generator().manual_seed(4)
    X = torch.rand(12, 3, generator=generator, dtype=torch.float64)
    tasks = torch.arange(12).remainder(2).unsqueeze(-1)
    model = MultiTaskGP(
        torch.cat([X, tasks], dim=-1),
        X.sum(dim=-1, keepdim=True).sin(),
        task_feature=-1,
        output_tasks=[0],
    )
    acqf = RiskUpperConfidenceBound(model, small(), Expectation(), beta=BETA)
    decisions = torch.rand(4, 1, dtype=torch.float64)
    expected = brute_force(model, small(), Expectation(), decisions, 1.0)
    torch.testing.assert_close(acqf.evaluate(decisions), expected)
    torch.testing.assert_close(acqf(decisions.unsqueeze(-2)), expected)
    with pytest.raises(BotorchTensorDimensionError, match=r"the 3 or 4 inputs of the model. Got 5"):
        acqf.evaluate(torch.rand(4, 3, dtype=torch.float64))


def test_transforms_to_several_points_are_refused_or_averaged() -> None:
    r"""BoTorch's `InputPerturbation` on the model: the first of its points says nothing."""
    X = torch.rand(12, 3, dtype=torch.float64)
    shifts = 0.2 * torch.randn(4, 3, dtype=torch.float64)
    model = SingleTaskGP(X, X.sum(dim=-1, keepdim=True).sin(), input_transform=Perturbed(shifts))
    decisions = torch.rand(4, 1, dtype=torch.float64)
    acqf = RiskUpperConfidenceBound(model, small(), Expectation(), beta=BETA)
    with pytest.raises(UnsupportedError, match=r"one value for each point. Got \(4, 1\)"):
        acqf.evaluate(decisions)
    average = ExpectationPosteriorTransform(n_w=4)
    averaged = RiskUpperConfidenceBound(
        model, small(), Expectation(), beta=0.0, posterior_transform=average
    )
    inputs, weights = small().expand(decisions)
    means = model.posterior(inputs.unsqueeze(-2), posterior_transform=average).mean[..., 0, 0]
    torch.testing.assert_close(averaged.evaluate(decisions), (weights * means).sum(dim=-1))


def test_pending_decisions_need_the_columns_of_the_model() -> None:
    acqf = Straddle(build_model(), threshold=0.5)
    with pytest.raises(BotorchTensorDimensionError, match="`X_pending` to have the 3 columns"):
        acqf.set_X_pending(torch.rand(2, 1, dtype=torch.float64))


@pytest.mark.parametrize("measure", [ValueAtRisk(0.3), WorstCase()])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_the_gradient_for_a_model_that_normalises(measure: Any, batch: tuple[int, ...]) -> None:
    X = torch.tensor([4.0, -20.0]) + 10 * torch.rand(*batch, 12, 2, dtype=torch.double)
    Y = X.sin().sum(dim=-1, keepdim=True)
    shape = torch.Size(batch)
    model = SingleTaskGP(X, Y, input_transform=Normalize(2, batch_shape=shape))
    values = DiscreteEnvironment(torch.linspace(-20, -10, 6, dtype=torch.double)[:, None])
    acqf = RiskUpperConfidenceBound(model, values, measure, beta=4.0)
    x = 4 + 10 * torch.rand(*batch, 5, 1, dtype=torch.double)
    found = acqf.value_and_gradient(x)
    expected = differentiated(lambda x: measure(*acqf.pointwise_bounds(x)[1:]), x)
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two)
