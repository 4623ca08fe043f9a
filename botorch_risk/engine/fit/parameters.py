r"""Read the parameters of a GPyTorch model for the closed-form fit, and write them back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from gpytorch.constraints import GreaterThan, Interval, LessThan, Positive
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.module import Module
from gpytorch.priors import NormalPrior, Prior, UniformPrior
from gpytorch.utils.transforms import inv_sigmoid, inv_softplus
from numpy import ndarray
from torch import Tensor
from torch.nn import Parameter, Softplus
from torch.nn.functional import softplus

from botorch_risk.points import coefficients_kept
from botorch_risk.steady import fetched

# Keeps logarithms finite where a constraint is open at 0 or at infinity. Units of the data that are
# larger or smaller than 1 widen it.
POSITIVE_RANGE = (1e-10, 1e10)


class NotInClosedFormError(UnsupportedError):
    r"""The model has a part that the closed-form fit does not support."""


@dataclass(frozen=True)
class Hyperparameter:
    r"""One parameter of a model, seen as `R x k` values in natural units."""

    name: str  # its name among `Hyperparameters`
    raw: Parameter  # the unconstrained parameter that the model holds
    constraint: Interval | None  # maps raw to natural values; None if they are the same
    batch_shape: torch.Size
    priors: tuple[Prior, ...] = ()  # the priors on its natural values
    # The bounds of the constraint, if they are on the host already.
    ends: tuple[ndarray, ndarray] | None = None

    @property
    def natural(self) -> Tensor:
        return self.raw if self.constraint is None else self.constraint.transform(self.raw)

    @property
    def size(self) -> int:
        r"""The number of values per replicate."""
        return self.raw.numel() // self.batch_shape.numel()

    @property
    def is_positive(self) -> bool:
        return self.name != "constant"

    def rows(self, value: ndarray) -> ndarray:
        r"""A value that broadcasts to the shape of the parameter, as `R x k`."""
        return np.broadcast_to(value, self.raw.shape).reshape(self.batch_shape.numel(), -1)

    @property
    def is_profiled(self) -> bool:
        r"""Whether its best value, given the others, has a closed form."""
        normal = all(
            type(prior) is NormalPrior and prior._transform is None for prior in self.priors
        )
        return self.name == "constant" and self.raw.requires_grad and normal

    def bounds(self, unit: ndarray | float = 1.0) -> tuple[ndarray, ndarray]:
        r"""The closed interval of natural values that the raw parameter can express, `R x k`.

        `unit` is the typical size of a value, which sets the margin at open ends of the interval.
        """
        shape = 2, self.batch_shape.numel(), self.size
        lower, upper = np.full(shape, [[[-np.inf]], [[np.inf]]])
        if self.constraint is not None:
            both = self.constraint.lower_bound, self.constraint.upper_bound
            lower, upper = map(self.rows, self.ends or fetched(*both))
            if self.constraint.enforced:  # open at its bounds: softplus never reaches 0
                lower = lower + _margin(lower, self.raw.dtype, unit)
                upper = upper - _margin(upper, self.raw.dtype, unit)
        if self.is_positive:
            lower = np.maximum(lower, POSITIVE_RANGE[0] * np.minimum(unit, 1.0))
            upper = np.minimum(upper, POSITIVE_RANGE[1] * np.maximum(unit, 1.0))
        if not self.raw.requires_grad:  # a point, so that it keeps its place in a row
            lower = upper = np.clip(self.rows(fetched(self.natural)[0]), lower, upper)
        return lower, upper

    @torch.no_grad()
    def write(self, values: ndarray | Tensor, keep: ndarray | Tensor) -> None:
        r"""Set the parameter to `R x k` natural values, except for the replicates in `keep`."""
        if not self.raw.requires_grad:
            return
        natural = torch.as_tensor(values).to(self.raw).view(self.raw.shape)
        raw = natural
        if self.constraint is not None:
            # Rounded to the dtype a value may lie outside, where the inverse is NaN.
            natural = natural.clamp(self.constraint.lower_bound, self.constraint.upper_bound)
            raw = self.constraint.inverse_transform(natural)
        event_dims = raw.dim() - len(self.batch_shape)
        kept = torch.as_tensor(keep, device=raw.device).view((*self.batch_shape, *[1] * event_dims))
        self.raw.copy_(torch.where(kept, self.raw, raw))


@dataclass(frozen=True)
class ExactGPParts:
    r"""The parts of an exact Gaussian process that its marginal likelihood depends on.

    Args:
        batch_shape: The batch shape, `R` replicates when flattened.
        X: Transformed inputs in the kernel's active dimensions, `R x n x d`.
        Y: Transformed targets, `R x n`.
        fixed_noise: Noise variances that are data, `R x n`, or None if the noise is inferred.
        nu: The smoothness of the Matern kernel; infinite for the squared exponential.
        hyperparameters: Those that the model has, in the order of `Hyperparameters`.
    """

    batch_shape: torch.Size
    X: Tensor
    Y: Tensor
    fixed_noise: Tensor | None
    nu: float
    hyperparameters: tuple[Hyperparameter, ...]

    @classmethod
    @torch.enable_grad()  # for `_equals`
    def read(cls, model: SingleTaskGP) -> ExactGPParts:
        r"""Read the parts of a model in training mode.

        Raises:
            NotInClosedFormError: If a part is not supported; the message names it.
        """
        parameters = _known_hyperparameters(model)
        if parameters is None:
            _check_model(model)
        batch_shape = model.train_targets.shape[:-1]
        kernel = model.covar_module
        correlation = kernel.base_kernel if type(kernel) is ScaleKernel else kernel
        if parameters is None:
            parameters = _with_priors(model, _hyperparameters(model, correlation, batch_shape))
            _KNOWN[model] = _modules(model), parameters
        X = _kernel_inputs(model, model.train_inputs[0])
        fixed = None
        if isinstance(model.likelihood, FixedNoiseGaussianLikelihood):
            fixed = model.likelihood.noise_covar.noise.expand(model.train_targets.shape)
        return cls(
            batch_shape=batch_shape,
            X=X,
            Y=model.train_targets.reshape(-1, X.shape[-2]),
            fixed_noise=None if fixed is None else fixed.reshape(-1, X.shape[-2]),
            nu=math.inf if type(correlation) is RBFKernel else correlation.nu,
            hyperparameters=parameters,
        )

    @property
    def profiled(self) -> Hyperparameter | None:
        r"""The constant, if it has its best value given the others."""
        return next((one for one in self.hyperparameters if one.is_profiled), None)

    def of_first_sample(self) -> ExactGPParts:
        r"""The parts of the first sample in the first batch dimension; all share their data."""
        batch_shape = self.batch_shape[1:]
        R = batch_shape.numel()

        def first(one: Hyperparameter) -> Hyperparameter:
            raw = Parameter(one.raw.detach()[0], one.raw.requires_grad)
            return replace(one, raw=raw, batch_shape=batch_shape)

        return replace(
            self,
            batch_shape=batch_shape,
            X=self.X[:R],
            Y=self.Y[:R],
            fixed_noise=None if self.fixed_noise is None else self.fixed_noise[:R],
            hyperparameters=tuple(first(one) for one in self.hyperparameters),
        )

    def of_data(
        self, model: SingleTaskGP, X: Tensor, targets: Tensor, noise: Tensor | None
    ) -> ExactGPParts:
        r"""The same hyperparameters of a model in training mode, with other data.

        `X` are inputs before the model's input transform, `batch_shape x M x d`; the targets and
        their noise variances are in the model's units, `batch_shape x M`. `noise` has no effect if
        the model infers its noise.
        """
        with coefficients_kept(model):
            inputs = _kernel_inputs(model, X)
        shape = inputs.shape[:-1]
        if noise is not None:
            noise = noise.reshape(shape) if self.fixed_noise is not None else None
        return replace(self, X=inputs, Y=targets.reshape(shape), fixed_noise=noise)


# The hyperparameters of models whose modules have not changed since they were read.
_KNOWN: WeakKeyDictionary[Any, tuple[list[Module], tuple[Hyperparameter, ...]]] = (
    WeakKeyDictionary()
)


def _known_hyperparameters(model: SingleTaskGP) -> tuple[Hyperparameter, ...] | None:
    modules, parameters = _KNOWN.get(model, ([], ()))
    if not modules:
        return None
    present, batch_shape = _modules(model), model.train_targets.shape[:-1]
    is_same = len(modules) == len(present) and all(
        one is other for one, other in zip(modules, present, strict=True)
    )
    if not is_same or any(one.batch_shape != batch_shape for one in parameters):
        return None
    # It is not among `_modules`; that it can be learnt now is for `_check_model` to refuse.
    transform = model._modules.get("input_transform")
    is_learnt = transform is not None and any(p.requires_grad for p in transform.parameters())
    return None if is_learnt else parameters


def _modules(model: SingleTaskGP) -> list[Any]:
    r"""The modules that have hyperparameters, all within them, and their parameters."""
    parts = (model.covar_module, model.mean_module, model.likelihood)
    modules = [module for part in parts for module in part.modules()]
    return modules + [each for module in modules for each in module._parameters.values()]


def _kernel_inputs(model: SingleTaskGP, X: Tensor) -> Tensor:
    r"""Inputs as the model's kernel sees them, `R x m x d`: transformed, active dimensions only."""
    active, batch_shape = model.covar_module.active_dims, model.train_targets.shape[:-1]
    X = model.transform_inputs(X).detach()
    X = X if active is None else X[..., active]
    return X.expand(*batch_shape, *X.shape[-2:]).reshape(-1, *X.shape[-2:])


def _check_model(model: SingleTaskGP) -> None:
    r"""Raise unless the equations cover every module."""
    cls = type(model)
    if getattr(cls, "forward", None) is not SingleTaskGP.forward or any(
        getattr(model, hook, None) is not None for hook in ("custom_fit", "compute_custom_loss")
    ):
        raise NotInClosedFormError(f"a model of type {cls.__name__} with its own `forward` or fit")
    kernel = model.covar_module
    correlation = kernel.base_kernel if type(kernel) is ScaleKernel else kernel
    likelihood = model.likelihood
    known: list[tuple[str, Module, tuple[type, ...]]] = [
        ("kernel", correlation, (RBFKernel, MaternKernel)),
        ("mean", model.mean_module, (ConstantMean, ZeroMean)),
    ]
    if not isinstance(likelihood, FixedNoiseGaussianLikelihood):
        known.append(("likelihood", likelihood, (GaussianLikelihood,)))
    for part, module, types in known:
        if type(module) not in types:  # a subclass may compute something else
            raise NotInClosedFormError(f"a {part} of type {type(module).__name__}")
    if getattr(likelihood, "second_noise_covar", None) is not None:
        raise NotInClosedFormError("a likelihood with additional noise to be learnt")
    transform = getattr(model, "input_transform", None)
    if transform is not None and any(p.requires_grad for p in transform.parameters()):
        raise NotInClosedFormError("an input transform with learnable parameters")


def _hyperparameters(
    model: SingleTaskGP, correlation: Kernel, batch_shape: torch.Size
) -> Iterator[Hyperparameter]:
    r"""The parameters that the model has, checked for their shapes and constraints."""
    owners: list[tuple[str, Module, int]] = [("lengthscale", correlation, 2)]
    if type(model.likelihood) is GaussianLikelihood:
        owners.append(("noise", model.likelihood.noise_covar, 1))
    if correlation is not model.covar_module:
        owners.append(("outputscale", model.covar_module, 0))
    if type(model.mean_module) is ConstantMean:
        owners.append(("constant", model.mean_module, 0))
    for name, module, event_dims in owners:
        raw = getattr(module, f"raw_{name}")
        constraint = module.constraint_for_parameter_name(f"raw_{name}")
        if raw.shape[: raw.dim() - event_dims] != batch_shape:
            raise NotInClosedFormError(f"a {name} that is shared by replicates")
        hyperparameter = Hyperparameter(name, raw, constraint, batch_shape)
        if constraint is not None and not _is_invertible(constraint, raw):
            raise NotInClosedFormError(f"a constraint on the {name} without a known inverse")
        yield hyperparameter


# GPyTorch's own, whose inverses need no trial.
_CONSTRAINTS = (Interval, GreaterThan, LessThan, Positive)
_INVERSES = {softplus: inv_softplus, torch.sigmoid: inv_sigmoid}


@torch.no_grad()
def _is_invertible(constraint: Interval, raw: Tensor) -> bool:
    if constraint.enforced and constraint._inv_transform is None:
        return False
    transform = constraint._transform
    if type(transform) is Softplus and (transform.beta, transform.threshold) == (1.0, 20.0):
        transform = softplus  # as GPyTorch's `Positive` has it
    inverse = _INVERSES.get(transform)
    is_known = not constraint.enforced or inverse is constraint._inv_transform is not None
    if type(constraint) in _CONSTRAINTS and is_known:
        return True
    natural = constraint.transform(raw)
    again = constraint.transform(constraint.inverse_transform(natural))
    # A wrong inverse is off in the first digits, a right one in float32 in the sixth.
    return torch.allclose(again, natural, rtol=1e-4, equal_nan=True)


def _with_priors(
    model: Module, hyperparameters: Iterator[Hyperparameter]
) -> tuple[Hyperparameter, ...]:
    listed = list(hyperparameters)
    named = []
    for name, module, prior, closure, _ in model.named_priors():
        if isinstance(prior, UniformPrior):
            raise NotInClosedFormError(f"a prior {name} of bounded support")
        named.append((name, prior, list(_equals(closure(module), listed))))
    ends = [
        end
        for one in listed
        if one.constraint is not None
        for end in (one.constraint.lower_bound, one.constraint.upper_bound)
    ]
    found = iter(fetched(*ends, *(flag for _, _, equals in named for _, flag in equals)))
    listed = [
        one if one.constraint is None else replace(one, ends=(next(found), next(found)))
        for one in listed
    ]
    for name, prior, equals in named:
        owners = [i for i, _ in equals if next(found)]
        if not owners:
            raise NotInClosedFormError(f"a prior {name} on a function of the parameters")
        owner = listed[owners[0]]
        listed[owners[0]] = replace(owner, priors=(*owner.priors, prior))
    return tuple(listed)


def _equals(value: Tensor, listed: Sequence[Hyperparameter]) -> Iterator[tuple[int, Tensor]]:
    r"""The parameters that a tensor may be: a flag tells if it is, now and to first order."""
    for i, one in enumerate(listed):
        natural, raw = one.natural, one.raw
        if value.shape != natural.shape:
            continue
        if not raw.requires_grad:
            yield i, (value == natural).all()
        elif value.requires_grad:
            (slope,) = torch.autograd.grad(value.sum(), raw, allow_unused=True, retain_graph=True)
            if slope is not None:
                (own,) = torch.autograd.grad(natural.sum(), raw)
                yield i, ((value == natural) & (slope == own)).all()


def _margin(bound: ndarray, dtype: torch.dtype, unit: ndarray | float) -> ndarray:
    r"""The distance from an open bound at which the raw parameter is finite and exact."""
    relative = max(1e-8, 8 * torch.finfo(dtype).eps)
    margin = np.where(bound == 0, POSITIVE_RANGE[0] * unit, relative * np.abs(bound))
    return np.where(np.isfinite(bound), margin, 0.0)


# Units in which a fit works, from the data of each replicate.
#
# The logarithm of a variance or of a lengthscale moves as easily in any unit. A mean does not, and
# the ranges that keep logarithms finite and a start for standardised outcomes have a unit as well.


# A start that was meant for standardised targets is not one for targets whose standard deviation
# lies outside of this range.
STANDARD_RANGE = (0.3, 3.0)


class Units(NamedTuple):
    r"""The centre, scale and extent of the data of each replicate."""

    centre: ndarray  # mean of the targets, R; 0 for a model whose mean is 0
    scale: ndarray  # root mean square of the targets about the centre, R; 1 where they do not vary
    extent: ndarray  # the range of each input, R x d; 1 where it does not vary

    @classmethod
    def of(cls, columns: ndarray) -> Units:
        r"""Build from the columns `R x (2 + d)` of `units_of`."""
        return cls(centre=columns[:, 0], scale=columns[:, 1], extent=columns[:, 2:])

    @property
    def is_standard(self) -> ndarray:
        r"""Whether starts for standardised targets suit these targets, `R`."""
        lower, upper = STANDARD_RANGE
        return (lower <= self.scale) & (self.scale <= upper)

    def unit_of(self, name: str, size: int) -> ndarray:
        r"""The unit of a hyperparameter, `R x size`."""
        if name == "lengthscale":
            widest = self.extent.max(axis=1, initial=0.0, keepdims=True)
            return self.extent if size == self.extent.shape[1] else widest
        unit = self.scale if name == "constant" else self.scale**2
        return np.broadcast_to(unit[:, None], (len(unit), size))


def units_of(parts: ExactGPParts, counted: Tensor) -> Tensor:
    r"""The units of those data of a model that count (a mask, `R x n`), for `Units.of`."""
    Y, X = parts.Y.double(), parts.X.double()
    number = counted.sum(dim=-1, keepdim=True).clamp_min(1)
    centre = torch.where(counted, Y, 0.0).sum(dim=-1, keepdim=True) / number
    if not any(one.name == "constant" for one in parts.hyperparameters):
        centre = torch.zeros_like(centre)
    variance = torch.where(counted, Y - centre, 0.0).square().sum(dim=-1, keepdim=True) / number
    scale = variance.sqrt()
    # Equal targets differ from their mean by rounding alone, which is not their scale.
    rounding = 8 * torch.finfo(parts.Y.dtype).eps * centre.abs()
    varies = scale > rounding.clamp_min(torch.finfo(parts.Y.dtype).tiny)
    missing = ~counted.unsqueeze(-1)
    highest, lowest = X.masked_fill(missing, -torch.inf).amax(-2), X.masked_fill(missing, torch.inf)
    extent = highest - lowest.amin(-2)
    columns = [centre, torch.where(varies, scale, 1.0), torch.where(extent > 0, extent, 1.0)]
    return torch.cat(columns, dim=-1)
