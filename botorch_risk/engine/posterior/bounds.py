r"""Confidence bounds of one or several models at the same points, in one step of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gpytorch import settings
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.posterior.bound_on_host import MOST_CORRELATIONS
from botorch_risk.engine.posterior.cache import PosteriorCache
from botorch_risk.engine.posterior.stationary_moments import (
    outcome_bound,
    outcome_bound_and_gradient,
)
from botorch_risk.points import checked_points, scales_columns

if TYPE_CHECKING:
    from botorch_risk.engine.posterior.belief import Belief


class Bounds:
    r"""`mean + width * standard deviation` of several beliefs, of f and its noise for example.

    If the models are alike (direct formulas for their kernels, the same number of data, one affine
    map back to the outcome) they are evaluated as one batch, with one node in the graph: at a few
    points a call costs as much for two models as for one, and a graph node more than its
    arithmetic. Others are evaluated one after the other.

    The models have the same inputs and batch shape.
    """

    def __init__(self, beliefs: Sequence[Belief]) -> None:
        self.beliefs = tuple(beliefs)
        self._stacked: tuple[tuple[PosteriorCache, ...], PosteriorCache | None] = (), None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_stacked": ((), None)}

    def __call__(self, X: Tensor, widths: Sequence[Tensor]) -> tuple[Tensor, ...]:
        r"""The bound of each belief, `batch_shape x m` each.

        Args:
            X: `batch_shape x m x d`, where `batch_shape` broadcasts with the models'.
            widths: For each model a number of standard deviations, below 0 for a lower bound;
                broadcastable to `batch_shape x 1`.
        """
        cache = self._current()
        if cache is None or 0 in X.shape[:-1]:
            moments = [belief(X) for belief in self.beliefs]
            pairs = zip(moments, widths, strict=True)
            return tuple(mean + width * variance.sqrt() for (mean, variance), width in pairs)
        X = checked_points(X, self.beliefs[0].model)
        floor = settings.min_variance.value(X.dtype)
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            if len(self.beliefs) == 1:  # without the dimension of models, which costs as much
                inputs = self.beliefs[0].model.transform_inputs(X)
                return (outcome_bound(inputs, cache, floor, widths[0]),)
            inputs, width, model_dim = self._stacked_inputs(X, widths, cache)
            return outcome_bound(inputs, cache, floor, width).unbind(model_dim + 1)

    def value_and_gradient(
        self, X: Tensor, widths: Sequence[Tensor]
    ) -> list[tuple[Tensor, Tensor]] | None:
        r"""The bound of each belief with its gradient in each point, without a graph.

        Returns `batch_shape x m` values and `batch_shape x m x d` gradients for each belief; None
        if the models are not alike, or an input transform does more than scale.
        """
        cache, transforms = self._current(), self._scalings
        if cache is None or len(self.beliefs) == 1 or 0 in X.shape[:-1] or transforms is None:
            return None
        X = checked_points(X, self.beliefs[0].model)
        floor = settings.min_variance.value(X.dtype)
        with torch.no_grad():
            inputs, width, model_dim = self._stacked_inputs(X, widths, cache)
            found = outcome_bound_and_gradient(inputs, cache, floor, width)
            values, gradients = found[0].unbind(model_dim + 1), found[1].unbind(model_dim)
            # The chain rule through transforms that only scale, without their graph.
            return [
                (value, gradient if each is None else gradient / each.coefficient)
                for value, gradient, each in zip(values, gradients, transforms, strict=True)
            ]

    def on_host(
        self, num_points: int, widths: Sequence[Tensor]
    ) -> Callable[[ndarray], tuple[ndarray, ndarray]] | None:
        r"""`value_and_gradient` as a NumPy function of few points, with all else computed once.

        `num_points` is the largest number of points of each entry of the batch. The function maps
        points `batch_shape x m x d` to values and gradients, with beliefs as first dimension. It is
        None where `value_and_gradient` returns None, and for many points, another precision than
        float64, or another device.
        """
        cache, transforms = self._current(), self._scalings
        if cache is None or transforms is None:
            return None
        correlations = cache.factor.shape[:-1].numel() * num_points
        if correlations > MOST_CORRELATIONS or cache.on_host is None:
            return None
        shape = cache.factor.shape[:-2] if len(transforms) == 1 else cache.factor.shape[1:-2]
        # Inputs are `unit * transformed + offset`, with 1 and 0 for a model without a transform.
        offsets, units = np.zeros((2, len(transforms), *shape, 1, cache.centre.shape[-1]))
        units += 1.0
        for place, each in enumerate(transforms):
            if each is not None:
                offsets[place] = each.offset.numpy()
                units[place] = each.coefficient.numpy()
        width = torch.stack([each.expand(*shape, 1) for each in widths]).numpy()
        centre = cache.centre.numpy() * units + offsets
        floor = settings.min_variance.value(torch.float64)
        return cache.on_host.at_inputs(centre, units, width, floor)

    @property
    def _scalings(self) -> list[Any] | None:
        r"""The input transforms, if each is None or only scales columns."""
        transforms = [each.model._modules.get("input_transform") for each in self.beliefs]
        is_scaled = all(each is None or scales_columns(each) for each in transforms)
        return transforms if is_scaled else None

    def _stacked_inputs(
        self, X: Tensor, widths: Sequence[Tensor], cache: PosteriorCache
    ) -> tuple[Tensor, Tensor, int]:
        r"""The inputs and the widths of all models, and the dimension of models in the inputs."""
        batch_shape = cache.factor.shape[1:-2]
        if X.dim() < len(batch_shape) + 2:  # or the models would stand in the batch's dimension
            X = X.expand(*batch_shape, *X.shape[-2:])
        model_dim = -3 - len(batch_shape)
        models = [belief.model for belief in self.beliefs]
        if any("input_transform" in model._modules for model in models):
            inputs = torch.stack([model.transform_inputs(X) for model in models], model_dim)
        else:
            inputs = X.unsqueeze(model_dim)
        width = torch.stack([each.expand(*batch_shape, 1) for each in widths])
        return inputs, width, model_dim

    def _current(self) -> PosteriorCache | None:
        r"""The present factors of all models; `None` if they are not alike."""
        for belief in self.beliefs:
            if not belief.closed_form:
                return None
            if belief.model.training:  # its training inputs are then not transformed
                belief.model.eval()
        caches = tuple(belief.current_cache() for belief in self.beliefs)
        # A model that has changed has a new cache, so identity tells, without a look at values.
        known, stack = self._stacked
        if len(known) != len(caches) or any(
            now is not then for now, then in zip(caches, known, strict=True)
        ):
            each = [_transformed(*pair) for pair in zip(caches, self.beliefs, strict=True)]
            stack = PosteriorCache.stack(each)
            stack = each[0] if stack is not None and len(each) == 1 else stack
            self._stacked = caches, stack
        return stack


def _transformed(cache: PosteriorCache, belief: Belief) -> PosteriorCache:
    transform, units = belief.posterior_transform, cache.units
    if transform is None or units is None:
        return cache
    # A posterior transform in closed form is affine too: one map takes the place of both.
    weight = transform.weights.to(units.scale)
    offset = transform.offset + weight * units.offset
    return replace(cache, units=units._replace(scale=weight * units.scale, offset=offset))
