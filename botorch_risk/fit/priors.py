r"""Log densities of GPyTorch's priors with their derivatives, for the rows of a batched fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from gpytorch.priors import GammaPrior, LogNormalPrior, NormalPrior, Prior
from numpy import ndarray
from numpy.random import Generator
from torch import Tensor

# From values and their rows to the summed log density of each row and its derivatives.
LogDensity = Callable[[ndarray, ndarray], tuple[ndarray, ndarray]]


def log_density(prior: Prior, shape: torch.Size, batch_shape: torch.Size) -> LogDensity:
    r"""The log density of a parameter under its prior, summed over the entries of a row.

    LogNormal, Gamma and Normal priors have analytic derivatives; autograd serves any other.

    Args:
        prior: The prior; its own parameters broadcast to `shape`.
        shape: The shape of the parameter, which starts with `batch_shape`.
        batch_shape: The batch shape of the model, `R` replicates when flattened.

    Returns:
        A function of values `rows x k` and rows. Row `i` belongs to replicate `i % R`.

    Example:
        >>> import numpy as np, torch
        >>> from gpytorch.priors import NormalPrior
        >>> density = log_density(NormalPrior(0.0, 1.0), torch.Size([1]), torch.Size([]))
        >>> value, gradient = density(np.array([[2.0]]), np.array([0]))
        >>> value.round(3), gradient
        (array([-2.919]), array([[-2.]]))
    """
    parameters = _parameters(prior, shape, batch_shape)
    if parameters is None:
        return _by_autograd(prior, shape, batch_shape)
    analytic = _ANALYTIC[type(prior)]

    def evaluate(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        mine = rows % len(parameters[0])
        value, gradient = analytic(x, *(parameter[mine] for parameter in parameters))
        return value.sum(axis=1), gradient

    return evaluate


def draw(
    prior: Prior,
    shape: torch.Size,
    batch_shape: torch.Size,
    generator: Generator,
    replicate: int,
) -> ndarray | None:
    r"""Draws the values of one replicate from a LogNormal, Gamma or Normal prior.

    Args:
        prior: The prior.
        shape: The shape of the parameter, which starts with `batch_shape`.
        batch_shape: The batch shape of the model.
        generator: Where the draw comes from.
        replicate: Which replicate.

    Returns:
        The `k` values; None if the prior is of another kind.
    """
    parameters = _parameters(prior, shape, batch_shape)
    if parameters is None:
        return None
    first, second = parameters[0][replicate], parameters[1][replicate]
    if isinstance(prior, GammaPrior):
        return generator.gamma(first, 1.0 / second)
    normal = generator.normal(first, np.sqrt(second))
    return np.exp(normal) if isinstance(prior, LogNormalPrior) else normal


def normal_precision(
    priors: Sequence[Prior], shape: torch.Size, batch_shape: torch.Size
) -> tuple[ndarray, ndarray]:
    r"""The normal density that a product of normal priors is proportional to.

    Args:
        priors: Normal priors on one parameter; none for a precision of 0.
        shape: The shape of the parameter, which starts with `batch_shape`.
        batch_shape: The batch shape of the model.

    Returns:
        Its location and its precision, `R x k` each.
    """
    size = shape.numel() // batch_shape.numel()
    weighted, precision = np.zeros((2, batch_shape.numel(), size))
    for prior in priors:
        parameters = _parameters(prior, shape, batch_shape)
        if parameters is None:
            raise ValueError(f"Expected normal `priors`. Got {type(prior).__name__}.")
        location, variance, _ = parameters
        weighted, precision = weighted + location / variance, precision + 1.0 / variance
    return np.divide(
        weighted, precision, out=np.zeros_like(weighted), where=precision > 0
    ), precision


def _normal(
    x: ndarray, loc: ndarray, variance: ndarray, normaliser: ndarray
) -> tuple[ndarray, ndarray]:
    z = (x - loc) / variance
    return normaliser - 0.5 * z * (x - loc), -z


def _log_normal(
    x: ndarray, loc: ndarray, variance: ndarray, normaliser: ndarray
) -> tuple[ndarray, ndarray]:
    value, gradient = _normal(np.log(x), loc, variance, normaliser)
    return value - np.log(x), (gradient - 1.0) / x


def _gamma(
    x: ndarray, concentration: ndarray, rate: ndarray, normaliser: ndarray
) -> tuple[ndarray, ndarray]:
    value = normaliser + (concentration - 1.0) * np.log(x) - rate * x
    return value, (concentration - 1.0) / x - rate


_ANALYTIC = {LogNormalPrior: _log_normal, GammaPrior: _gamma, NormalPrior: _normal}


def _parameters(
    prior: Prior, shape: torch.Size, batch_shape: torch.Size
) -> tuple[ndarray, ndarray, ndarray] | None:
    r"""The two parameters of a known prior and its normaliser, `R x k` each.

    A prior may hold its parameters in float32 beside a model in float64; what GPyTorch rounds by
    computing with them is rounded alike here, or objectives would differ in the eighth digit.
    """
    if type(prior) not in _ANALYTIC or prior._transform is not None:
        return None
    if isinstance(prior, GammaPrior):
        first, second = prior.concentration, prior.rate
        normaliser = torch.xlogy(first, second).double() - first.lgamma().double()
    else:
        normal = prior.base_dist if isinstance(prior, LogNormalPrior) else prior
        first, second = normal.loc, normal.scale.square()
        normaliser = -normal.scale.log().double() - math.log(math.sqrt(2.0 * math.pi))

    def per_replicate(parameter: Tensor) -> ndarray:
        expanded = parameter.detach().cpu().double().expand(shape)
        return expanded.reshape(batch_shape.numel(), -1).numpy()

    return per_replicate(first), per_replicate(second), per_replicate(normaliser)


def _by_autograd(prior: Prior, shape: torch.Size, batch_shape: torch.Size) -> LogDensity:
    r"""Evaluates whole batches, since a prior may have parameters for each replicate."""
    buffer = next(iter(prior.buffers()), torch.empty(0))
    num_replicates, event = batch_shape.numel(), shape[len(batch_shape) :]

    def evaluate(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        starts = int(rows.max()) // num_replicates + 1
        whole = np.broadcast_to(x[:1], (starts * num_replicates, x.shape[1])).copy()
        whole[rows] = x
        values = torch.tensor(whole, device=buffer.device).requires_grad_()
        with torch.enable_grad():
            terms = prior.log_prob(values.view(starts, *batch_shape, *event))
            totals = terms.reshape(starts * num_replicates, -1).sum(-1)
            (gradient,) = torch.autograd.grad(totals.sum(), values)
        return totals.detach().cpu().numpy()[rows], gradient.cpu().numpy()[rows]

    return evaluate
