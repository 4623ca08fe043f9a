r"""Keep a new point away from the points under evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_risk.points import coefficients_kept, original_inputs

# How many times as large as the range of the scores the penalty at a pending point is.
_HEIGHT = 3.0
# How many times as high it is for BoTorch's acquisition functions: logarithms fall ever faster.
_STEEPER = 10.0
# Training points at which the range is computed: the last ones.
_NUM_REFERENCES = 64


@dataclass(frozen=True, eq=False)
class Spacing:
    r"""A penalty on points that are close to points under evaluation.

        height * max_p max(0, 1 - |z(x) - z(x_p)| / radius_p),   p the points under evaluation

    The height is three times the range of the scores at the training and the pending points. A
    point that keeps the distance `radius_p` from every `x_p` is not penalised.

    Args:
        score: Values `batch_shape x m` of points `batch_shape x m x d`.
        scaled: Maps points `... x m x d` to the unit cube, one column for each label.
        pending: Pending points in the unit cube, `batch_shape x p x d'`.
        references: Points whose range of scores sets the height, `batch_shape x n x d`.
        radius: The minimum distance from each pending point in the unit cube, `p`.
    """

    score: Callable[[Tensor], Tensor]
    scaled: Callable[[Tensor], Tensor]
    pending: Tensor
    references: Tensor
    radius: Tensor

    @classmethod
    def of(
        cls, model: Model, score: Callable[[Tensor], Tensor], apart: Sequence[tuple[Tensor, float]]
    ) -> Spacing | None:
        r"""The spacing of an acquisition function; None if its model has no training inputs.

        Args:
            model: A model of the points, or of the points with values of W in additional columns.
            score: The acquisition function.
            apart: Points `batch_shape x p x d`, one tensor or more, each with its minimum distance
                in diagonals of the unit cube.
        """
        first, d = apart[0][0], apart[0][0].shape[-1]
        scaled = UnitCube.of(model, d)
        if scaled is None:
            return None
        known = scaled.known[..., -_NUM_REFERENCES:, :d].to(first)
        parts = known, *(points.to(first) for points, _ in apart)
        shape = torch.broadcast_shapes(*(each.shape[:-2] for each in parts))
        known, *points = (each.expand(*shape, *each.shape[-2:]) for each in parts)
        X_pending = torch.cat(points, dim=-2).detach()
        references = torch.cat([known, X_pending], dim=-2).detach()
        radii = [first.new_full((each.shape[-2],), distance * d**0.5) for each, distance in apart]
        return cls(score, scaled, scaled(X_pending).detach(), references, torch.cat(radii))

    def height(self) -> Tensor:
        r"""The penalty at a pending point, `batch_shape`."""
        with torch.no_grad():
            scores = self.score(self.references)
        is_known = scores.isfinite()
        most = scores.masked_fill(~is_known, -torch.inf).amax(dim=-1)
        least = scores.masked_fill(~is_known, torch.inf).amin(dim=-1)
        spread = (most - least).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        return _HEIGHT * spread.where(spread > 0, torch.ones_like(spread))

    def penalty(self, X: Tensor, height: Tensor) -> Tensor:
        r"""The penalty `batch_shape x m` of points `batch_shape x m x d`, given the height."""
        away = self.scaled(X).unsqueeze(-2) - self.pending.unsqueeze(-3)
        nearest = (away.square().sum(dim=-1) / self.radius.square()).amin(dim=-1)
        share = nearest.clamp_min(torch.finfo(nearest.dtype).tiny).sqrt()
        return height.unsqueeze(-1) * (1 - share).clamp_min(0.0)


class KeptApart(AcquisitionFunction):
    r"""An acquisition function of one point, minus a penalty next to points under evaluation.

    BoTorch's acquisition functions condition on pending points, but keep no distance from them.

    Args:
        acqf: An acquisition function for q = 1 that accepts pending points, possibly with some set.
        X: The points to keep apart from, `p x d`, or None. Pending points set later are added.
        scaled: Maps points `... x d` to the unit cube.
        references: Points whose range of values sets the height of the penalty, `n x d`.
        radius: The minimum distance in the unit cube.
    """

    def __init__(
        self,
        acqf: Any,
        X: Tensor | None,
        scaled: Callable[[Tensor], Tensor],
        references: Tensor,
        radius: float,
    ) -> None:
        super().__init__(model=acqf.model)
        self.acqf, self.scaled, self.references, self.radius = acqf, scaled, references, radius
        self._before = getattr(acqf, "X_pending", None), X
        self._spacing: Spacing | None = None
        self._height: Tensor | None = None
        self.X_pending = None  # type: ignore[assignment]
        self._find_spacing(X)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Set the points under evaluation, `p x d`, in addition to those given at the start."""
        self.X_pending = X_pending  # type: ignore[assignment]
        inner, apart = (_joined(before, X_pending) for before in self._before)
        self.acqf.set_X_pending(inner)
        self._find_spacing(apart)

    def forward(self, X: Tensor) -> Tensor:
        values: Tensor = self.acqf(X)
        if self._spacing is None:
            return values
        if self._height is None:
            self._height = _STEEPER * self._spacing.height()
        return values - self._spacing.penalty(X, self._height).squeeze(-1)

    def _find_spacing(self, apart: Tensor | None) -> None:
        self._spacing = self._height = None
        if apart is not None:
            pending, radii = self.scaled(apart), apart.new_full(apart.shape[:1], self.radius)
            self._spacing = Spacing(self._score, self.scaled, pending, self.references, radii)

    def _score(self, X: Tensor) -> Tensor:
        values: Tensor = self.acqf(X.unsqueeze(-2))
        return values


def _joined(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    parts = [each for each in (first, second) if each is not None]
    return torch.cat(parts) if parts else None


@dataclass(frozen=True, eq=False)
class UnitCube:
    r"""Points as a model sees them: scaled, one column for each label.

    Without an input transform, the range of the training inputs is scaled to the cube, unless they
    lie in the unit cube as they are.

    Args:
        known: The training inputs of the model, `batch_shape x n x d'`.
        model: The model; its input transform keeps its coefficients here.
        transform: The input transform of the model.
        lower: The lower ends of the transformed training inputs, `batch_shape x 1 x d''`.
        width: The range of each column.
    """

    known: Tensor
    model: Any
    transform: Any
    lower: Tensor
    width: Tensor

    @classmethod
    def of(cls, model: Model, num_columns: int) -> UnitCube | None:
        r"""The cube of a model; None if its training inputs are absent or have fewer columns."""
        first: Any = model.models[0] if isinstance(model, ModelList) else model
        first = first._modules.get("mean_model", first)  # of a model that learns the noise too
        if not getattr(first, "train_inputs", None):
            return None
        known = original_inputs(first)
        if getattr(first, "_is_ensemble", False) or known.dim() - 2 > len(first.batch_shape):
            known = known.select(-3, 0)  # alike for all samples, or all outcomes
        if known.shape[-1] < num_columns:
            return None
        transform = first._modules.get("input_transform")
        if transform is not None and transform.is_one_to_many:
            transform = None
        with coefficients_kept(first):
            seen = known if transform is None else transform.transform(known)
        lower, upper = (getattr(seen, end)(dim=-2, keepdim=True) for end in ("amin", "amax"))
        fits = ((lower >= 0) & (upper <= 1)).all(dim=-1, keepdim=True)
        lower = lower.where(~fits, torch.zeros_like(lower))
        width = (upper - lower).where(upper > lower, torch.ones_like(upper))
        return cls(known, first, transform, lower, width.where(~fits, torch.ones_like(width)))

    def __call__(self, X: Tensor) -> Tensor:
        r"""Points `batch_shape x m x d` in the unit cube; missing columns of W are constant."""
        missing = self.known[..., :1, X.shape[-1] :].to(X)
        if missing.shape[-1]:
            shape = torch.broadcast_shapes(missing.shape[:-2], X.shape[:-2])
            parts = [X.expand(*shape, *X.shape[-2:]), missing.expand(*shape, X.shape[-2], -1)]
            X = torch.cat(parts, dim=-1)
        with coefficients_kept(self.model):
            seen = X if self.transform is None else self.transform.transform(X)
        return (seen - self.lower.to(X)) / self.width.to(X)
