r"""Models and environments that the tests of risks share."""

from typing import Any

import torch
from botorch.models import ModelListGP, SingleTaskGP
from botorch.posteriors.fully_bayesian import GaussianMixturePosterior
from gpytorch.kernels import MaternKernel
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment, Environment, InputPerturbation
from tests.devices import home

W = torch.tensor([[0.0], [0.2], [0.5], [0.9]], dtype=torch.float64)
DISTRIBUTION = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
ENVIRONMENT = DiscreteEnvironment(W, DISTRIBUTION)


class DecisionDependent(Environment):
    r"""Weights and values of w that move with the decision."""

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        w = W.to(X) * (1 + X[..., :1].unsqueeze(-2))
        weights = torch.softmax(W.to(X).squeeze(-1) * X[..., :1], dim=-1)
        pairs = X.unsqueeze(-2).expand(*X.shape[:-1], len(W), X.shape[-1])
        return torch.cat([pairs, w], dim=-1), weights


def gp(seed: int = 0, n: int = 10, d: int = 3, scale: float = 0.4, **options: Any) -> SingleTaskGP:
    r"""A well-conditioned model of two decision variables and w."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, d, generator=generator, dtype=torch.float64)
    Y = (5 * X).sin().sum(dim=-1, keepdim=True)
    kernel = MaternKernel(nu=2.5, ard_num_dims=d)
    model = SingleTaskGP(X, Y, covar_module=kernel, **options)
    lengthscale = scale * (0.7 + 0.6 * torch.rand(1, d, generator=generator, dtype=torch.float64))
    model.covar_module.lengthscale = lengthscale
    model.likelihood.noise = 1e-2
    return model.eval().to(home())


def two_outcomes() -> ModelListGP:
    return ModelListGP(gp(0), gp(1)).eval()


def two_outputs() -> SingleTaskGP:
    X = torch.rand(10, 3, dtype=torch.float64).to(home())
    Y = torch.stack([(5 * X).sin().sum(dim=-1), X.sum(dim=-1)], dim=-1)
    return SingleTaskGP(X, Y).eval()


def batched() -> SingleTaskGP:
    X = torch.rand(3, 10, 3, dtype=torch.float64).to(home())
    return SingleTaskGP(X, (5 * X).sin().sum(dim=-1, keepdim=True)).eval()


class EnsembleGP(SingleTaskGP):
    r"""Stands in for a fully Bayesian model, whose classes need JAX: four models in one."""

    _is_ensemble = True
    _is_fully_bayesian = True

    def __init__(self) -> None:
        X = torch.rand(10, 3, dtype=torch.float64).to(home())
        Y = (5 * X).sin().sum(dim=-1, keepdim=True)
        super().__init__(X.expand(4, 10, 3), Y.expand(4, 10, 1))
        scales = torch.linspace(0.3, 1, 4, dtype=torch.float64)
        self.to(X)
        self.covar_module.lengthscale = scales.to(X)[:, None, None].expand(4, 1, 3)
        self.eval()

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size([4])

    def posterior(self, X: Tensor, *args: Any, **kwargs: Any) -> GaussianMixturePosterior:
        return GaussianMixturePosterior(
            super().posterior(X.unsqueeze(-3), *args, **kwargs).distribution
        )


def shifts(d: int = 3) -> InputPerturbation:
    generator = torch.Generator().manual_seed(3)
    return InputPerturbation(0.1 * torch.randn(5, d, generator=generator, dtype=torch.float64))


def decisions(*shape: int, d: int = 2, seed: int = 7) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, d, generator=generator, dtype=torch.float64).to(home())
