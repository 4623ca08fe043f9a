r"""Cached factors of the training data, and the check that they are up to date."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import InputDataError
from botorch.models.transforms.outcome import Standardize
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.means import ConstantMean
from linear_operator.utils.cholesky import psd_safe_cholesky
from linear_operator.utils.errors import NanError
from torch import Tensor
from torch.nn import Parameter

from botorch_risk.chunks import ChunkSize
from botorch_risk.engine.posterior.bound_on_host import BoundOnHost
from botorch_risk.engine.posterior.kernels import StackedKernel, StationaryKernel, squared_norms
from botorch_risk.points import joint_shape, put_in_mode
from botorch_risk.steady import is_known, remember

# Entries of the covariances of several models that are factorised at a time, 128 MB on a CPU.
_COVARIANCES = ChunkSize(cpu=2**24, gpu=2**27)


@dataclass(frozen=True)
class ModelState:
    r"""The parts that a model's predictions depend on, kept to detect changes.

    Modules, parameters, buffers and data are compared by identity, and references to them are kept,
    so that no new object can reuse the address of an old one. Another view of the same memory
    counts as the same, since BoTorch's `Normalize` detaches its buffers in every call. Writing in
    place changes the version of a tensor. Parameters are also compared by value, since GPyTorch's
    setters write through `.data`, which does not change the version. So are tensors from PyTorch's
    inference mode, which have no version. A write through `.data` into a buffer or the training
    data is not detected: comparing values would make a GPU wait once per tensor in every call.
    Plain numbers of a kernel, such as the `nu` of a Matern kernel, are compared.

    Attributes:
        slots: The location of each part: a dictionary of a module, a key, the part.
        data: The training data of the model, and its fixed noise if it has one.
        versions: The versions of the tensors among the parts.
        parameters: The parameters, and tensors without a version, with copies of their values.
        name: The key under which a `steady` block remembers it without keeping the state alive.
    """

    model: Any
    slots: tuple[tuple[dict[str, Any], str, Any], ...]
    data: tuple[Tensor, ...]
    versions: tuple[tuple[Tensor, int], ...]
    parameters: tuple[tuple[Tensor, Tensor], ...]
    name: object = field(default_factory=object)

    @property
    def tensors(self) -> Iterator[Tensor]:
        r"""The tensors among the parts, some of them twice."""
        yield from (tensor for tensor, _ in self.versions)
        yield from (tensor for tensor, _ in self.parameters)

    @classmethod
    def of(cls, model: Any) -> ModelState:
        modules, data = list(model.modules()), _data(model)
        slots = [
            (kept, key, part)
            for module in modules
            for kept in (module._modules, module._parameters, module._buffers)
            for key, part in kept.items()
        ]
        tensors = [*(part for *_, part in slots if isinstance(part, Tensor)), *data]
        unversioned = [tensor for tensor in tensors if tensor.is_inference()]
        compared = [each for each in tensors if isinstance(each, Parameter)]
        # Not flags: `training` changes with the mode, and the kernel's predictions do not.
        slots += [
            (vars(module), key, part)
            for module in modules
            if isinstance(module, Kernel)
            for key, part in vars(module).items()
            if isinstance(part, float | int) and not isinstance(part, bool)
        ]
        state = cls(
            model=model,
            slots=tuple(slots),
            data=data,
            versions=tuple((t, t._version) for t in tensors if not t.is_inference()),
            parameters=tuple((p, p.detach().clone()) for p in (*compared, *unversioned)),
        )
        remember(state.name, None)
        return state

    def is_current(self) -> bool:
        r"""Whether nothing was written to or replaced since; true while `torch.compile` traces."""
        if torch.compiler.is_compiling():
            return True
        if is_known(self.name):
            return True
        current = self._is_current()
        if current:
            remember(self.name, None)
        return current

    def _is_current(self) -> bool:
        data = _data(self.model)
        return (
            len(data) == len(self.data)
            and all(one is two for one, two in zip(data, self.data, strict=True))
            and all(
                kept.get(key) is part or is_same_tensor(kept.get(key), part)
                for kept, key, part in self.slots
            )
            and all(tensor._version == version for tensor, version in self.versions)
            and _are_equal(self.parameters)
        )


def _are_equal(pairs: Sequence[tuple[Tensor, Tensor]]) -> bool:
    r"""Whether the tensors of each pair are equal, with a single wait for the device."""
    if not all(
        one.dtype == two.dtype and one.device == two.device and one.shape == two.shape
        for one, two in pairs
    ):
        return False
    if all(one.device.type == "cpu" for one, _ in pairs):
        return all(torch.equal(one, two) for one, two in pairs)
    with torch.no_grad():
        first, second = (
            torch.cat([each.reshape(-1) for each in side]) for side in zip(*pairs, strict=True)
        )
    return torch.equal(first, second)


class OutcomeUnits(NamedTuple):
    r"""An affine map, the same for all points, from latent moments to moments of the outcome.

        mean = scale * latent + offset
        variance = scale^2 * max(prior * (1 - explained), floor)

    `latent` is `k (K + S)^-1 (y - m)`, `prior` the prior variance; fields are `batch_shape x 1`.
    """

    scale: Tensor
    offset: Tensor
    prior: Tensor

    @classmethod
    def of(
        cls, model: Any, constant: Tensor | None, outputscale: Tensor, is_trained: bool
    ) -> OutcomeUnits | None:
        r"""The map of a model, or `None` if the mean or the transform depends on the point."""
        transform = model._modules.get("outcome_transform")
        prior = outputscale.squeeze(-1)
        if constant is None:
            return None
        if transform is None:
            return cls(torch.ones_like(constant), constant, prior)
        # One that has seen no data goes the way through `untransform`, which raises.
        if not _is_standardize(transform) or not is_trained:
            return None
        scale, shift = transform.stdvs.squeeze(-1), transform.means.squeeze(-1)  # one output
        return cls(scale, scale * constant + shift, prior)


@dataclass(frozen=True)
class PosteriorCache:
    r"""Factors of the training data of an exact GP, without gradients.

    Attributes:
        state: The state of the model that they were computed from.
        kernel: The kernel if there are direct formulas for it, else `None`.
        centre: `batch_shape x 1 x d`, near which the inputs lie.
        train_inputs: `batch_shape x n x d`, centred and scaled if `kernel` is known.
        norms: Their squared norms, `batch_shape x 1 x n`.
        factor: `batch_shape x n x n`, the inverse Cholesky factor of `K + S`; times the root
            of the outputscale if `kernel` is known.
        weights: `batch_shape x 1 x n`, `(K + S)^-1 (y - m)`; times the outputscale if so.
        constant: `batch_shape x 1`, the prior mean if it is a constant, else `None`.
        units: The map from latent moments to the units of the outcome, if it is affine and the same
            for all points, else `None`.
    """

    state: ModelState
    kernel: StationaryKernel | None
    centre: Tensor
    train_inputs: Tensor
    norms: Tensor
    factor: Tensor
    weights: Tensor
    constant: Tensor | None
    units: OutcomeUnits | None

    @classmethod
    @torch.no_grad()
    def build(cls, model: Any) -> PosteriorCache:
        put_in_mode(model, training=False)  # GPyTorch then transforms the training inputs
        transform_again(model)
        state = ModelState.of(model)
        (X,) = model.train_inputs
        centre = X.mean(dim=-2, keepdim=True)
        kernel = StationaryKernel.of(model.covar_module)
        covariances: Iterable[Tensor]
        if kernel is None:
            scale, whole = X.new_ones(()), model.covar_module(X).to_dense()
            covariances = [whole.flatten(0, -3) if whole.dim() > 2 else whole.unsqueeze(0)]
        else:
            X, scale = (X - centre) / kernel.lengthscale, kernel.outputscale
            X = X.expand(*joint_shape(X.shape[:-2], scale.shape[:-2]), *X.shape[-2:])
            covariances = _correlations_in_blocks(X, kernel)
        noise = model.likelihood.noise.expand(X.shape[:-1]).reshape(-1, X.shape[-2])
        factors, is_trained, begin = noise.new_empty(*noise.shape, X.shape[-2]), False, 0
        for covariance in covariances:
            rows = slice(begin, begin := begin + len(covariance))
            covariance.diagonal(dim1=-2, dim2=-1).add_(noise[rows])
            root, is_trained = _factored(covariance, model)
            # The inverse costs one solve here, and makes each prediction a plain product.
            identity = torch.eye(X.shape[-2], dtype=X.dtype, device=X.device)
            torch.linalg.solve_triangular(root, identity, upper=False, out=factors[rows])
            del covariance, root  # before the next block is made
        factor = factors.reshape(*X.shape[:-1], X.shape[-2])
        # Two products with the factor, not one with its square, which would square its condition.
        residual = (model.train_targets - model.mean_module(model.train_inputs[0])).unsqueeze(-1)
        weights = factor.mT @ (factor @ residual)  # batch_shape x n x 1
        is_constant = type(model.mean_module) is ConstantMean
        constant = model.mean_module.constant.clone().unsqueeze(-1) if is_constant else None
        return cls(
            state=state,
            kernel=kernel,
            centre=centre,
            train_inputs=X,
            norms=squared_norms(X),
            factor=factor.mul_(scale.sqrt()),
            weights=(scale * weights).mT,
            constant=constant,
            units=None
            if kernel is None
            else OutcomeUnits.of(model, constant, kernel.outputscale, is_trained),
        )

    @cached_property
    def on_host(self) -> BoundOnHost | None:
        r"""The factors in NumPy; None unless there are direct formulas, in float64 on a CPU."""
        # An exponential kernel needs exact differences of points, which NumPy's formulas lack.
        if self.kernel is None or self.units is None or self.kernel.nu == 0.5:
            return None
        factor = self.factor
        is_here = factor.device.type == "cpu" and factor.dtype == torch.float64
        return BoundOnHost.of(self) if is_here else None

    @staticmethod
    def stack(caches: Sequence[PosteriorCache]) -> PosteriorCache | None:
        r"""Stack the factors of models that share their inputs, `models x batch_shape`.

        They have the state of the first model. `None` if a model has no direct formulas, has units
        that depend on the point, or has data of another size.
        """
        first = caches[0]
        kernels = [each.kernel for each in caches if each.kernel is not None]
        units = [each.units for each in caches if each.units is not None]
        kinds = {(each.train_inputs.shape, each.factor.dtype) for each in caches}
        if not len(kernels) == len(units) == len(caches) or len(kinds) > 1:
            return None
        names = ("centre", "train_inputs", "norms", "factor", "weights", "constant")
        stacked: dict[str, Any] = {
            name: _stacked([getattr(each, name) for each in caches]) for name in names
        }
        return replace(
            first,
            kernel=StackedKernel.of_each(kernels),
            units=OutcomeUnits(*(_stacked(parts) for parts in zip(*units, strict=True))),
            **stacked,
        )


@torch.no_grad()
def transform_again(model: Any) -> None:
    r"""Transform the training inputs of a model in evaluation mode with its present parameters.

    `eval` does so once. A state that is loaded later changes the transform of new points, by the
    exponents of `Warp` for example, but BoTorch leaves the training inputs as they were.
    """
    transform, original = model._modules.get("input_transform"), model._original_train_inputs
    if transform is None or original is None or not model._has_transformed_inputs:
        return
    inputs = transform.preprocess_transform(original)
    if inputs.shape == model.train_inputs[0].shape and not inputs.equal(model.train_inputs[0]):
        model.set_train_data(inputs, strict=False)


def _correlations_in_blocks(X: Tensor, kernel: StationaryKernel) -> Iterator[Tensor]:
    r"""The covariances of scaled inputs `batch_shape x n x d`, a part of the batch at a time."""
    n = X.shape[-2]
    scale = kernel.outputscale.expand(*X.shape[:-2], 1, 1).reshape(-1, 1, 1)
    size = _COVARIANCES.rows(X.device, n**2)
    for inputs, own in zip(
        X.reshape(-1, *X.shape[-2:]).split(size), scale.split(size), strict=True
    ):
        covariance = kernel.correlation(kernel.squared_distance(inputs, inputs)).mul_(own)
        # The distance of a point to itself is rounding, not 0: its variance is exact.
        covariance.diagonal(dim1=-2, dim2=-1).copy_(own.squeeze(-1).expand(-1, n))
        yield covariance


def _factored(covariance: Tensor, model: Any) -> tuple[Tensor, bool]:
    r"""The Cholesky factor, and whether the outcome transform has seen data, with a single wait."""
    is_trained = getattr(model._modules.get("outcome_transform"), "_is_trained", None)
    factor, info = torch.linalg.cholesky_ex(covariance)
    looks = [(info == 0).all(), *([is_trained] if isinstance(is_trained, Tensor) else [])]
    is_factor, *rest = torch.stack(looks).tolist()
    if not is_factor:
        try:  # with jitter, as GPyTorch adds it for its own predictions
            factor = psd_safe_cholesky(covariance)
        except NanError as error:
            raise InputDataError(
                "Expected data whose covariance and noise are numbers. Got NaN: are the outcomes "
                f"within the range of {covariance.dtype}?"
            ) from error
    return factor, any(rest)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(torch.broadcast_tensors(*parts))


def is_same_tensor(now: Any, then: Any) -> bool:
    r"""Whether a part is the same object, or a view of all of the same memory."""
    if now is then:
        return True
    if not (isinstance(now, Tensor) and isinstance(then, Tensor)):
        return False
    return (
        (now.data_ptr(), now.shape, now.stride()) == (then.data_ptr(), then.shape, then.stride())
        and (now.dtype, now.device) == (then.dtype, then.device)
        and now.numel() > 0  # empty tensors share the address 0
    )


def _data(model: Any) -> tuple[Tensor, ...]:
    r"""The tensors of a model that are neither parameters nor buffers."""
    data = (*model.train_inputs, model.train_targets)
    if isinstance(model.likelihood, FixedNoiseGaussianLikelihood):
        return (*data, model.likelihood.noise_covar.noise)
    return data


def _is_standardize(transform: Any) -> bool:
    r"""Whether a transform is inverted like `Standardize`, with one scale for all points."""
    kind = type(transform)
    return isinstance(transform, Standardize) and all(
        getattr(kind, name) is getattr(Standardize, name)
        for name in ("untransform", "_get_per_input_means_stdvs")
    )
