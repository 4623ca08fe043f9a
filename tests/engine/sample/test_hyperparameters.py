r"""Samples of the hyperparameters of an exact GP, against quadrature and a long chain."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import SingleTaskGP
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from gpytorch.priors import LogNormalPrior, NormalPrior
from torch import Tensor

from botorch_risk.engine import (
    Belief,
    NotInClosedFormError,
    SampledHyperparameters,
    sample_exact_gp,
)
from botorch_risk.models import SampledGP, scaled_gp


def data(n: int = 10, d: int = 1, R: int = 1) -> tuple[Tensor, Tensor]:
    r"""Inputs `R x n x d` and standardised outcomes `R x n x 1`."""
    generator = torch.Generator().manual_seed(n + d)
    X = torch.rand(R, n, d, generator=generator, dtype=torch.double)
    Y = (6 * X[..., :1]).sin() + X[..., -1:]
    Y = Y + 0.1 * torch.randn(R, n, 1, generator=generator, dtype=torch.double)
    return X, (Y - Y.mean(dim=-2, keepdim=True)) / Y.std(dim=-2, keepdim=True)


def sampled(
    X: Tensor, Y: Tensor, num_samples: int, seeds: Any, **options: Any
) -> tuple[Any, SampledHyperparameters]:
    X, Y = (each.expand(num_samples, *each.shape) for each in (X, Y))
    model = scaled_gp(X, Y)
    return model, sample_exact_gp(model, seeds=seeds, **options)


def covariance(X: Tensor, lengthscale: Any, noise: Any, outputscale: Any) -> Tensor:
    r"""The covariance of the outcomes of one data set, with a constant ~ N(0, 1), by loops."""
    n = len(X)
    K = torch.zeros(n, n, dtype=torch.double)
    for i in range(n):
        for j in range(n):
            r = ((X[i] - X[j]) / lengthscale).square().sum().sqrt() * math.sqrt(5)
            K[i, j] = outputscale * (1 + r + r * r / 3) * torch.exp(-r) + 1.0
        K[i, i] += noise
    return K


def log_normal(value: Tensor, location: float, spread: float = 1.0) -> Tensor:
    r"""The log density of the logarithm of a value with a log-normal prior."""
    return -0.5 * ((value - location) / spread).square()


def test_a_single_hyperparameter_has_the_density_of_quadrature() -> None:
    X, Y = data(8)
    num_samples = 400
    model = scaled_gp(*(each[0].expand(num_samples, *each.shape[1:]) for each in (X, Y)))
    model.likelihood.noise = 0.02
    for fixed in (model.likelihood.noise_covar.raw_noise, model.covar_module.raw_outputscale):
        fixed.requires_grad_(False)
    noise = model.likelihood.noise.detach().clone()
    result = sample_exact_gp(model, seeds=0)
    assert result.effective > 150
    grid = torch.linspace(math.log(0.026), 3.0, 400, dtype=torch.double)
    zero = torch.zeros(8, dtype=torch.double)
    values = torch.stack(
        [
            torch.distributions.MultivariateNormal(
                zero, covariance(X[0], s.exp(), 0.02, 1.0)
            ).log_prob(Y[0, :, 0] / Y[0, :, 0].std())
            for s in grid
        ]
    )
    weights = torch.softmax(values + log_normal(grid, math.log(0.5)), dim=0)
    mean = (weights * grid).sum()
    spread = (weights * (grid - mean).square()).sum().sqrt()
    found = model.covar_module.base_kernel.lengthscale.detach().flatten().log()
    assert found.mean() == pytest.approx(mean.item(), abs=0.12 * spread.item())
    assert found.std() == pytest.approx(spread.item(), rel=0.1)
    cumulated = weights.cumsum(dim=0)
    for share in (0.1, 0.5, 0.9):
        quantile = grid[int((cumulated < share).sum())]
        assert (found < quantile).double().mean() == pytest.approx(share, abs=0.05)
    assert torch.equal(model.likelihood.noise, noise)


def long_chain(log_density: Callable[[Tensor], Tensor], start: Tensor, num_steps: int) -> Tensor:
    r"""Random-walk Metropolis of many chains, the second half of all steps."""
    generator = torch.Generator().manual_seed(0)
    at, value, kept = start.clone(), log_density(start), []
    for step in range(num_steps):
        moved = at + 0.45 * torch.randn(at.shape, generator=generator, dtype=at.dtype)
        new = log_density(moved)
        accepted = torch.rand(len(at), generator=generator).log() < new - value
        at, value = at.where(~accepted.unsqueeze(-1), moved), value.where(~accepted, new)
        if step >= num_steps // 2:
            kept.append(at)
    return torch.cat(kept)


def test_samples_have_the_moments_and_quantiles_of_a_long_chain() -> None:
    X, Y = data(14, 2)

    def log_density(theta: Tensor) -> Tensor:  # two lengthscales, noise and output scale
        lengthscale, noise, outputscale = theta[:, :2], theta[:, 2], theta[:, 3]
        inside = (lengthscale > math.log(0.025)).all(dim=-1) & (noise > math.log(1e-4))
        r = (X[0].unsqueeze(-2) - X[0]) / lengthscale.exp()[:, None, None]
        r = math.sqrt(5) * r.square().sum(dim=-1).sqrt()
        K = outputscale.exp()[:, None, None] * (1 + r + r * r / 3) * torch.exp(-r) + 1.0
        K = K + noise.exp()[:, None, None] * torch.eye(14, dtype=torch.double)
        zero = torch.zeros(14, dtype=torch.double)
        value = torch.distributions.MultivariateNormal(zero, K).log_prob(Y[0, :, 0])
        priors = ((math.log(0.5), 1.0), (math.log(0.5), 1.0), (-4.0, 1.0), (0.0, 2.0))
        for column, prior in enumerate(priors):
            value = value + log_normal(theta[:, column], *prior)
        return value.masked_fill(~inside, -torch.inf)

    start = torch.tensor([-0.7, -0.7, -4.0, 0.0], dtype=torch.double).expand(64, 4)
    chain = long_chain(log_density, start, 1500)
    model, _ = sampled(X[0], Y[0], 256, 3)
    found = torch.cat(
        [
            model.covar_module.base_kernel.lengthscale.squeeze(-2),
            model.likelihood.noise,
            model.covar_module.outputscale.unsqueeze(-1),
        ],
        dim=-1,
    ).log()
    spread = chain.std(dim=0)
    assert ((found.mean(dim=0) - chain.mean(dim=0)).abs() / spread < 0.2).all()
    torch.testing.assert_close(found.std(dim=0), spread, rtol=0.15, atol=0)
    for share in (0.1, 0.5, 0.9):
        below = (found < chain.quantile(share, dim=0)).double().mean(dim=0)
        assert ((below - share).abs() < 0.08).all()


def test_constants_have_their_mean_and_variance_given_the_others() -> None:
    X, Y = data(9)
    model, _ = sampled(X[0], Y[0], 200, 0)
    whitened = []
    for s in range(0, 200, 5):
        parts = (
            model.covar_module.base_kernel.lengthscale[s, 0],
            model.likelihood.noise[s, 0],
            model.covar_module.outputscale[s],
        )
        A = covariance(X[0], *parts).detach() - 1.0  # without the constant's own variance
        of_ones = torch.linalg.solve(A, torch.ones(9, 1, dtype=torch.double))
        precision = of_ones.sum() + 1.0
        mean = (of_ones.T @ Y[0]) / precision
        whitened.append((model.mean_module.constant[s].detach() - mean) * precision.sqrt())
    z = torch.stack(whitened).flatten()
    assert abs(z.mean().item()) < 0.4 and z.std() == pytest.approx(1.0, abs=0.25)


def hyperparameters(model: Any) -> Tensor:
    each = (
        model.covar_module.base_kernel.lengthscale.squeeze(-2),
        model.likelihood.noise,
        model.covar_module.outputscale.unsqueeze(-1),
        model.mean_module.constant.unsqueeze(-1),
    )
    return torch.cat(each, dim=-1).detach()


def test_a_replicate_has_the_same_samples_alone_and_in_a_batch() -> None:
    X, Y = data(12, 2, R=3)
    together, result = sampled(X, Y, 16, [5, 6, 7])
    assert result.effective.shape == (3,)
    for r, seed in enumerate((5, 6, 7)):
        alone, _ = sampled(X[[r]], Y[[r]], 16, seed)
        torch.testing.assert_close(
            hyperparameters(together)[:, [r]], hyperparameters(alone), rtol=1e-6, atol=1e-8
        )
    other, _ = sampled(X[[0]], Y[[0]], 16, 8)
    assert not torch.allclose(hyperparameters(other), hyperparameters(together)[:, [0]])


def test_outcomes_of_the_other_sign_have_the_predictions_of_the_other_sign() -> None:
    X, Y = data(12, 2)
    first, _ = sampled(X, Y, 16, 0)
    second, _ = sampled(X, -Y, 16, 0)
    points = torch.rand(1, 5, 2, dtype=torch.double)
    mean, variance = Belief(first)(points)
    torch.testing.assert_close(Belief(second)(points).mean, -mean, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(Belief(second)(points).variance, variance, rtol=1e-6, atol=1e-8)


def test_a_warm_start_has_the_same_density() -> None:
    X, Y = data(20, 2)
    _, cold = sampled(X, Y, 16, 0)
    model, warm = sampled(X, Y, 16, 1, previous=cold)
    spread = cold.covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    assert ((warm.location - cold.location).abs() < 0.4 * spread).all() and warm.effective > 48
    assert not model.training


def test_a_replicate_that_cannot_be_sampled_keeps_its_hyperparameters() -> None:
    X, Y = data(10, 1, R=2)
    broken = Y.clone()
    model = scaled_gp(*(each.expand(16, *each.shape) for each in (X, broken)))
    model.train_targets[:, 1, 3] = torch.nan
    before = hyperparameters(model)
    result = sample_exact_gp(model, seeds=[0, 1])
    assert result.effective[1] == 0 and result.effective[0] > 48
    assert torch.equal(hyperparameters(model)[:, 1], before[:, 1])
    assert not torch.equal(hyperparameters(model)[:, 0], before[:, 0])


@pytest.mark.parametrize("kernel", ["RBF", "Matern without an output scale"])
def test_any_model_of_the_closed_form_has_its_own_priors(kernel: str) -> None:
    X, Y = (each.expand(64, *each.shape[1:]) for each in data(12))
    prior = LogNormalPrior(-1.0, 0.1)
    if kernel == "RBF":
        base = RBFKernel(batch_shape=torch.Size([64]), lengthscale_prior=prior)
        covar: Any = ScaleKernel(base, LogNormalPrior(0.0, 0.1), batch_shape=torch.Size([64]))
    else:
        covar = base = MaternKernel(1.5, batch_shape=torch.Size([64]), lengthscale_prior=prior)
    mean = ConstantMean(NormalPrior(0.0, 1.0), batch_shape=torch.Size([64]))
    model = SingleTaskGP(X, Y, covar_module=covar.double(), mean_module=mean.double())
    sample_exact_gp(model, seeds=0)
    found = base.lengthscale.detach().log()
    assert 0.03 < found.std() < 0.13 and abs(found.mean() + 1.0) < 0.3  # a narrow prior


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
def test_in_single_precision_the_samples_are_about_the_same(device: torch.device) -> None:
    X, Y = data(12, 2)
    double, _ = sampled(X, Y, 16, 0)
    there, _ = sampled(X.to(device), Y.to(device), 16, 0)
    torch.testing.assert_close(
        hyperparameters(there).cpu(), hyperparameters(double), rtol=1e-4, atol=0
    )
    single, result = sampled(X.float().to(device), Y.float().to(device), 16, 0)
    assert single.covar_module.outputscale.device.type == device.type
    assert hyperparameters(single).dtype == torch.float32 and result.effective > 48
    # Rounding moves a few of 16 draws to their neighbours: by less than the error of the mean.
    exact, found = (hyperparameters(each).cpu().double() for each in (double, single))
    moved = (found.mean(dim=0) - exact.mean(dim=0)).abs()
    assert (moved < exact.std(dim=0) / 4).all()


def test_what_cannot_be_sampled_is_refused() -> None:
    X, Y = data(8)
    with pytest.raises(BotorchTensorDimensionError, match=r"first batch dimension\. Got no"):
        sample_exact_gp(scaled_gp(X[0], Y[0]), seeds=0)
    model = scaled_gp(X.expand(4, 8, 1), Y.expand(4, 8, 1))
    with pytest.raises(ValueError, match="1 replicates"):
        sample_exact_gp(model, seeds=[0, 1])
    _, other = sampled(*data(8, 2), 16, 0)
    with pytest.raises(BotorchTensorDimensionError, match="`previous`"):
        sample_exact_gp(model, seeds=0, previous=other)
    shape = torch.Size([4])
    periodic = PeriodicKernel(batch_shape=shape)
    with pytest.raises(NotInClosedFormError, match="Periodic"):
        own = SingleTaskGP(X.expand(4, 8, 1), Y.expand(4, 8, 1), covar_module=periodic)
        sample_exact_gp(own, seeds=0)


def log_evidence_by_prior_draws(X: Tensor, y: Tensor, nu: float) -> float:
    r"""The log of the mean likelihood over 40,000 draws from the priors of `scaled_gp`."""
    stream = torch.Generator().manual_seed(1)
    normal = torch.randn(40_000, 3, generator=stream, dtype=torch.double)
    lengthscale = (math.log(0.5) + normal[:, 0]).exp()[:, None, None]
    outputscale = (2 * normal[:, 1]).exp()[:, None, None]
    noise = (-4 + normal[:, 2]).exp()[:, None, None]
    r = (X - X.mT).abs() / lengthscale
    rough = (1 + 5**0.5 * r + 5 / 3 * r.square()) * (-(5**0.5) * r).exp()
    kernel = (-0.5 * r.square()).exp() if nu == math.inf else rough
    identity = torch.eye(len(y), dtype=torch.double)
    covariance = outputscale * kernel + noise * identity + 1.0  # the constant is N(0, 1)
    inside = (lengthscale.flatten() > 2.5e-2) & (noise.flatten() > 1e-4)
    zero = torch.zeros_like(y)
    density = torch.distributions.MultivariateNormal(zero, covariance[inside] + 1e-9 * identity)
    return density.log_prob(y).logsumexp(dim=0).item() - math.log(len(normal))


def test_evidence_tells_kernels_apart() -> None:
    X = torch.linspace(0, 1, 14, dtype=torch.double).unsqueeze(-1)
    noise = torch.randn(14, 1, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    for function in (lambda X: (9 * X).sin(), lambda X: (X - 0.5).abs()):
        Y = function(X) + 0.02 * noise
        found, expected = [], []
        for nu in (2.5, math.inf):
            model = SampledGP(X, Y, nu=nu)
            found.append(sample_exact_gp(model.members, seeds=0).log_evidence.item())
            expected.append(log_evidence_by_prior_draws(X, model.train_targets[0], nu))
        assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], abs=0.25)
