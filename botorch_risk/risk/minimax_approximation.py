r"""The minimax approximation of the worst case over a maximum-mean-discrepancy ball."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from botorch_risk.arguments import check_kind, check_nonnegative
from botorch_risk.risk import mmd
from botorch_risk.risk.measure import Optimism, RiskMeasure
from botorch_risk.steady import may_look

_FIRST_ROWS = 16  # of the root of the sensitivity, which belong to the smallest eigenvalues

Sensitivity = Literal["kernel", "identity"]


@dataclass(frozen=True)
class MinimaxApproximation(RiskMeasure):
    r"""Midway between two bounds of the worst expectation over an MMD ball [Tay2022sensitivity]_.

        V(radius) = min_q {q'v : (q - p)' K (q - p) <= radius^2}, convex in the radius
        upper     = E + (min v - E) radius / radius*     the chord to V(radius*) = min v
        lower     = max(E - radius S, min v)             S^2 = max_d {(d'v)^2 : 1'd = 0, d'Kd <= 1}
        risk      = (lower + upper) / 2,   or min v from radius* on

    where `E = p'v`, `radius*` is the discrepancy between the weights p and all mass at the smallest
    value, and `S^2 = v'K^-1 v - (1'K^-1 v)^2 / (1'K^-1 1)` is the sensitivity: the lower bound
    drops the constraint q >= 0. It needs only matrix products and solves no program. We re-derived
    it from the convexity of V; the midpoint is off by at most half of `upper - lower`.

    Not monotone in the values, and it jumps when the smallest value moves to another point;
    `bounds` gives valid bounds if each value lies in an interval.

    Args:
        radius: The largest discrepancy.
        kernel: A GPyTorch kernel, or a function of two `n_w x d_w` tensors that returns their
            `n_w x n_w` kernel matrix.
        sensitivity: `"kernel"` makes `lower` a true bound. For smooth kernels it is very low, so
            `lower` is mostly `min v`; eigenvalues below rounding error are raised to its size.
            `"identity"` uses K = I in S alone, and `lower` may then lie above the worst case.

    Raises:
        RuntimeError: If called before `bind`.

    Example:
        >>> from types import SimpleNamespace
        >>> environment = SimpleNamespace(points=torch.tensor([[0.0], [0.5], [1.0]]))
        >>> kernel = lambda v, w: torch.exp(-torch.cdist(v, w).square())
        >>> measure = MinimaxApproximation(radius=0.1, kernel=kernel).bind(environment)
        >>> measure(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25]))
        tensor(1.7332)
    """

    monotone: ClassVar[bool] = False
    optimism: ClassVar[Optimism] = "of_values"
    radius: float
    kernel: mmd.Kernel
    sensitivity: Sensitivity = "kernel"
    _kernel_matrix: Tensor | None = field(default=None, repr=False, compare=False)
    _root: Tensor | None = field(default=None, repr=False, compare=False)
    _points: Tensor | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_nonnegative(radius=self.radius)
        check_kind(Callable, kernel=self.kernel)
        check_kind(Sensitivity, sensitivity=self.sensitivity)

    def bind(self, environment: Any) -> MinimaxApproximation:
        r"""The measure over the points of an environment, whose kernel matrix is factored once.

        A measure already bound to these points is returned unchanged, even with another radius
        (`dataclasses.replace`), so a loop over one grid factors the matrix once.
        """
        points = environment.points
        if mmd.same_points(self._points, points):
            return self
        matrix = mmd.without_copies(mmd.kernel_matrix_of(self.kernel, environment))
        mmd.eigen(matrix)  # checks it
        metric = matrix if self.sensitivity == "kernel" else torch.eye(matrix.shape[-1]).to(matrix)
        root = _sensitivity_root(metric)
        return replace(self, _kernel_matrix=matrix, _root=root, _points=points.clone())

    def following(self, previous: RiskMeasure) -> RiskMeasure:
        r"""The measure with the factors of `previous`, if it has the same kernel."""
        if not isinstance(previous, MinimaxApproximation):
            return self
        factored = replace(previous, radius=self.radius)
        return factored if factored == self else self

    def _bounds(self, lower: Tensor, upper: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""Bounds of the risk of any values between `lower` and `upper`.

        The risk lies between `(min v + chord) / 2` and `(E + chord) / 2`; the chords that fall
        fastest and slowest, whichever point has the smallest value, make these monotone in v.
        """
        part = self._part_of_the_chord(weights, lower)
        slowest, fastest = part.amin(dim=-1), part.amax(dim=-1)
        mean, least = (weights * lower).sum(dim=-1), lower.min(dim=-1).values
        pessimistic = torch.lerp(mean, least, (1 + fastest) / 2)
        mean, least = (weights * upper).sum(dim=-1), upper.min(dim=-1).values
        return pessimistic, torch.lerp(mean, least, slowest / 2)

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        part = self._part_of_the_chord(weights, values)
        mean = (weights * values).sum(dim=-1)
        least, index = values.min(dim=-1)
        part = part.expand_as(values).gather(-1, index.unsqueeze(-1)).squeeze(-1)
        upper = torch.lerp(mean, least, part)
        lower = self._lower_bound(values, mean, least)
        return torch.where(part >= 1, least, (lower + upper) / 2)

    def _lower_bound(self, values: Tensor, mean: Tensor, least: Tensor) -> Tensor:
        r"""`max(E - radius S, min v)`, with S only if it decides.

        For smooth kernels S is so large that `min v` is the maximum almost everywhere. A few rows
        of the root of S, a sum of squares, bound it from below and usually prove that.
        """
        root = mmd.require_bound(self._root, self)
        centred = torch.atleast_2d(values - values.mean(dim=-1, keepdim=True)).double()

        def below_mean(root: Tensor, rows: Tensor, mean: Tensor) -> Tensor:
            return mean - self.radius * _matvec(root, rows).norm(dim=-1).to(values)

        if not may_look(values):
            return torch.maximum(below_mean(root, centred, mean).reshape(least.shape), least)
        with torch.no_grad():
            decides = below_mean(root[..., :_FIRST_ROWS, :], centred, mean) > least
        if not decides.any():
            return least
        if root.dim() > 2:  # replicates with matrices of their own
            return torch.maximum(below_mean(root, centred, mean), least)
        shape, deciding = least.shape, decides.reshape(-1).nonzero().squeeze(-1)
        centred, mean, least = centred.flatten(0, -2), mean.reshape(-1), least.reshape(-1)
        with torch.no_grad():
            above = below_mean(root, centred[deciding], mean[deciding]) > least[deciding]
        deciding = deciding[above]  # a graph for these alone
        bound = below_mean(root, centred[deciding], mean[deciding])
        return least.index_put((deciding,), bound).reshape(shape)

    def _part_of_the_chord(self, weights: Tensor, values: Tensor) -> Tensor:
        r"""`min(radius / radius*, 1)` if the smallest value is at this point.

        It has the size of the weights, `batch_shape x ... x n_w`, not of the values: rows with the
        same weights share one product with the kernel matrix.
        """
        matrix = mmd.require_bound(self._kernel_matrix, self)
        mmd.check_size(matrix.shape, values)
        centre = weights.double().reshape(*[1] * (values.dim() - weights.dim()), *weights.shape)
        centre = centre.expand(*matrix.shape[:-2], *centre.shape[matrix.dim() - 2 :])
        image = _matvec(matrix, centre)
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        diagonal = diagonal.view(*matrix.shape[:-2], *[1] * (centre.dim() + 1 - matrix.dim()), -1)
        square = diagonal - 2 * image + (centre * image).sum(dim=-1, keepdim=True)
        farthest = square.clamp_min(1e-300).sqrt()  # radius*
        return (self.radius / farthest).clamp_max(1.0).to(weights)


def _sensitivity_root(metric: Tensor) -> Tensor:
    r"""The R with `|R v|^2 = max_d {(d'v)^2 : 1'd = 0, d' metric d <= 1}`."""
    n_w = metric.shape[-1]
    basis = torch.eye(n_w).to(metric)
    basis[:, 0] = 1.0
    basis = torch.linalg.qr(basis).Q[:, 1:]  # of the vectors with sum 0
    if n_w == 1:
        return basis.T
    values, vectors = mmd.eigen(basis.T @ metric @ basis)
    floor = n_w * torch.finfo(metric.dtype).eps * values[..., -1:]
    return (vectors / values.clamp_min(floor).sqrt().unsqueeze(-2)).mT @ basis.T


def _matvec(matrix: Tensor, rows: Tensor) -> Tensor:
    r"""`matrix @ row` for `rows: batch_shape x ... x n_w` and `matrix: batch_shape x k x n_w`."""
    lead = matrix.dim() - 2
    flat = rows.reshape(*rows.shape[:lead], -1, rows.shape[-1])
    return (flat @ matrix.mT).view(*rows.shape[:-1], matrix.shape[-2])
