r"""A small domain with known noise, and the GP of its samples in plain numpy."""

import numpy as np
import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel
from torch import Tensor

from botorch_risk.engine import DomainPosterior

LENGTHSCALE = 0.25
NOISE = 1e-3


def grid(side: int = 6) -> Tensor:
    line = torch.linspace(0, 1, side, dtype=torch.float64)
    return torch.cartesian_prod(line, line)


def truth(X: Tensor) -> Tensor:
    return (5 * X[..., :1]).sin() + (3 * X[..., 1:]).cos()


def build_model(X: Tensor, Y: Tensor | None = None, noise: float | Tensor = NOISE) -> SingleTaskGP:
    r"""A GP with known hyperparameters, of batch shape `[R]` for `R x n x d` points."""
    Y = truth(X) if Y is None else Y
    variance = torch.as_tensor(noise, dtype=X.dtype)
    variance = variance.reshape(Y.shape) if variance.dim() else variance.expand(Y.shape)
    kernel = RBFKernel(batch_shape=X.shape[:-2])
    model = SingleTaskGP(X, Y, variance, covar_module=kernel, outcome_transform=None).to(X)
    kernel.lengthscale = torch.as_tensor(LENGTHSCALE, dtype=X.dtype)
    return model.requires_grad_(False)


def build_posterior(
    rows: Tensor, domain: Tensor | None = None, noise: float = NOISE, dense: bool = True
) -> DomainPosterior:
    r"""The posterior of samples at `n` or `R x n` rows of a domain."""
    domain = grid() if domain is None else domain
    return DomainPosterior(build_model(domain[rows], noise=noise), domain, dense=dense)


def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squares = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=-1)
    return np.exp(-0.5 * squares / LENGTHSCALE**2)


def refit(
    X: np.ndarray, y: np.ndarray, noise: np.ndarray, domain: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Posterior mean and covariance over the domain by Eqs. (1) and (2), from scratch."""
    inverse = np.linalg.inv(kernel(X, X) + np.diag(noise))
    cross = kernel(X, domain)
    return cross.T @ inverse @ y, kernel(domain, domain) - cross.T @ inverse @ cross


def printed_gain(
    X: np.ndarray,
    noise: np.ndarray,
    candidate: np.ndarray,
    candidate_noise: float,
    within: np.ndarray,
    beta: float,
    eta: float,
) -> float:
    r"""The numerator of Eq. (3) as printed, by refitting with the candidate added."""
    y = np.zeros(len(X))
    before = np.diag(refit(X, y, noise, within)[1])
    more = (
        np.append(X, candidate[None], axis=0),
        np.append(y, 0.0),
        np.append(noise, candidate_noise),
    )
    after = np.diag(refit(*more, within)[1])
    return float(np.maximum(beta * before, eta**2).sum() - np.maximum(beta * after, eta**2).sum())
