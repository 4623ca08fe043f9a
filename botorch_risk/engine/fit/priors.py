r"""Log densities of GPyTorch's priors with their derivatives, for the rows of a batched fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from gpytorch.priors import GammaPrior, LogNormalPrior, NormalPrior, Prior
from numpy import ndarray
from scipy.special import gammaincinv
from torch import Tensor

from botorch_risk.seeding import Draws

# An ndarray or a Tensor: the formulas of both are the same.
Array = Any
# From values and their rows to the summed log density of each row and its derivatives.
LogDensity = Callable[[ndarray, ndarray], tuple[ndarray, ndarray]]


def log_density(prior: Prior, shape: torch.Size, batch_shape: torch.Size) -> LogDensity:
    r"""The log density of a parameter under its prior, summed over the entries of a row.

    LogNormal, Gamma and Normal priors have analytic derivatives, all others autograd. `shape` is
    the parameter's and starts with the model's `batch_shape`, `R` replicates when flattened.

    Returns:
        A function of values `rows x k` and rows. Row `i` belongs to replicate `i % R`.
    """
    if prior._transform is not None or type(prior) not in DENSITIES:
        return _by_autograd(prior, shape, batch_shape)
    own = [each for part in prior.modules() for each in part._buffers.values() if each is not None]
    now = shape, batch_shape, [(id(each), each._version) for each in own]
    known = _KNOWN.get(prior)
    if known is not None and known[0] == now:
        return known[1]
    parameters = _parameters(prior, shape, batch_shape)
    assert parameters is not None  # for the type checker
    density = AnalyticDensity(type(prior), np.stack(parameters))
    _KNOWN[prior] = now, density, own
    return density


# The densities of priors whose parameters have not changed since: a loop fits in every round. The
# parameters are kept, so that no other tensor has their address.
_KNOWN: WeakKeyDictionary[Prior, tuple[Any, AnalyticDensity, list[Tensor]]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class AnalyticDensity:
    r"""A log density with derivatives in closed form."""

    kind: type[Prior]
    parameters: ndarray  # its two parameters and its normaliser, 3 x R x k

    def __call__(self, x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        mine = self.parameters[:, rows % self.parameters.shape[1]]
        value, gradient = DENSITIES[self.kind](x, *mine)
        return value.sum(axis=1), gradient


def draw(prior: Prior, shape: torch.Size, batch_shape: torch.Size, draws: Draws) -> ndarray | None:
    r"""Draw values `R x k` from a LogNormal, Gamma or Normal prior, or None."""
    parameters = _parameters(prior, shape, batch_shape)
    if parameters is None:
        return None
    first, second, _ = parameters
    if isinstance(prior, GammaPrior):
        uniforms = draws.uniforms(first.shape[1])
        drawn: ndarray = gammaincinv(first, uniforms) / second  # by its quantiles
        return drawn
    normal = first + np.sqrt(second) * draws.normals(first.shape[1])  # second is a variance
    return np.exp(normal) if isinstance(prior, LogNormalPrior) else normal


def normal_precision(
    priors: Sequence[Prior], shape: torch.Size, batch_shape: torch.Size
) -> tuple[ndarray, ndarray]:
    r"""The location and precision, `R x k` each, of the product of normal priors on one parameter.

    The precision is 0 without a prior.
    """
    size = shape.numel() // batch_shape.numel()
    weighted, precision = np.zeros((2, batch_shape.numel(), size))
    for prior in priors:
        parameters = _parameters(prior, shape, batch_shape)
        if parameters is None:
            raise ValueError(f"Expected normal `priors`. Got {type(prior).__name__}.")
        location, variance, _ = parameters
        weighted, precision = weighted + location / variance, precision + 1.0 / variance
    # Without a prior 0 / 0 stays 0: a precision of 0 makes any location harmless.
    return np.divide(
        weighted, precision, out=np.zeros_like(weighted), where=precision > 0
    ), precision


def _normal(x: Array, loc: Array, variance: Array, normaliser: Array) -> tuple[Array, Array]:
    z = (x - loc) / variance
    return normaliser - 0.5 * z * (x - loc), -z


def _log_normal(x: Array, loc: Array, variance: Array, normaliser: Array) -> tuple[Array, Array]:
    # The density of x, not of its logarithm: log(x) is the Jacobian.
    log = _log(x)
    value, gradient = _normal(log, loc, variance, normaliser)
    return value - log, (gradient - 1.0) / x


def _gamma(x: Array, concentration: Array, rate: Array, normaliser: Array) -> tuple[Array, Array]:
    value = normaliser + (concentration - 1.0) * _log(x) - rate * x
    return value, (concentration - 1.0) / x - rate


def _log(x: Array) -> Array:
    return x.log() if isinstance(x, Tensor) else np.log(x)


# From values and three parameters to each log density and its derivative, in either library.
DENSITIES: dict[type, Callable[..., tuple[Array, Array]]] = {
    LogNormalPrior: _log_normal,
    GammaPrior: _gamma,
    NormalPrior: _normal,
}


def _parameters(
    prior: Prior, shape: torch.Size, batch_shape: torch.Size
) -> tuple[ndarray, ndarray, ndarray] | None:
    r"""The two parameters of a known prior and its normaliser, `R x k` each."""
    if type(prior) not in DENSITIES or prior._transform is not None:
        return None
    if isinstance(prior, GammaPrior):
        first, second = prior.concentration, prior.rate
        normaliser = torch.xlogy(first, second).double() - first.lgamma().double()
    else:
        normal = prior.base_dist if isinstance(prior, LogNormalPrior) else prior
        first, second = normal.loc, normal.scale.square()
        normaliser = -normal.scale.log().double() - math.log(math.sqrt(2.0 * math.pi))

    each = [parameter.detach().double().expand(shape) for parameter in (first, second, normaliser)]
    rows = torch.stack(each).reshape(3, batch_shape.numel(), -1).cpu().numpy()
    return rows[0], rows[1], rows[2]


def _by_autograd(prior: Prior, shape: torch.Size, batch_shape: torch.Size) -> LogDensity:
    buffer = next(iter(prior.buffers()), torch.empty(0))
    num_replicates, event = batch_shape.numel(), shape[len(batch_shape) :]

    def evaluate(x: ndarray, rows: ndarray) -> tuple[ndarray, ndarray]:
        starts = int(rows.max()) // num_replicates + 1
        # The other rows get a value in the support too: outside, `log_prob` may raise.
        whole = np.broadcast_to(x[:1], (starts * num_replicates, x.shape[1])).copy()
        whole[rows] = x
        values = torch.tensor(whole, device=buffer.device).requires_grad_()
        with torch.enable_grad():
            terms = prior.log_prob(values.view(starts, *batch_shape, *event))
            totals = terms.reshape(starts * num_replicates, -1).sum(-1)
            (gradient,) = torch.autograd.grad(totals.sum(), values)
        return totals.detach().cpu().numpy()[rows], gradient.cpu().numpy()[rows]

    return evaluate
