r"""Arithmetic in the second-order cone `{v : v_0 >= |v_1..r|}` for interior-point methods.

Vectors are `b x (1 + r)` tensors with the head `v_0` first. With `J = diag(1, -1, ..., -1)` and
`det v = v' J v`, the Jordan product is `u o v = (u'v, u_0 v_1 + v_0 u_1)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def reflect(v: Tensor) -> Tensor:
    r"""`J v`: the tail changes sign."""
    return torch.cat([v[:, :1], -v[:, 1:]], dim=-1)


def determinant(v: Tensor) -> Tensor:
    r"""`v' J v` as a product, which loses no digits near the boundary; `b x 1`."""
    head, length = v[:, :1], v[:, 1:].norm(dim=-1, keepdim=True)
    return (head - length) * (head + length)


def product(u: Tensor, v: Tensor) -> Tensor:
    r"""The Jordan product `u o v`."""
    head = (u * v).sum(dim=-1, keepdim=True)
    return torch.cat([head, u[:, :1] * v[:, 1:] + v[:, :1] * u[:, 1:]], dim=-1)


def quotient(u: Tensor, v: Tensor) -> Tensor:
    r"""The `y` with `u o y = v`, for `u` inside the cone."""
    head = (u * reflect(v)).sum(dim=-1, keepdim=True) / determinant(u)
    return torch.cat([head, (v[:, 1:] - head * u[:, 1:]) / u[:, :1]], dim=-1)


def inverse_step(v: Tensor, direction: Tensor) -> Tensor:
    r"""One over the largest `a` with `v + a direction` in the cone, `b`; <= 0 if all `a` are.

    The largest root y of `det(y v + direction) = 0`.
    """
    square = determinant(v).squeeze(-1)
    half = (v * reflect(direction)).sum(dim=-1)
    # Negative by rounding only: v is inside the cone, so that the roots are real.
    discriminant = half.square() - square * determinant(direction).squeeze(-1)
    return (discriminant.clamp_min(0.0).sqrt() - half) / square


@dataclass
class NesterovToddScaling:
    r"""The symmetric `W` with `W s = W^-1 z`, for `z` and `s` inside the cone.

    `W = scale (2 a a' - J)` with `det a = 1`, so `W^2 = scale^2 (2 w w' - J)` where `w = a o a`.
    Source: [Vandenberghe2010cvxopt]_.

    Args:
        scale: `b x 1`.
        root: The vector a, `b x (1 + r)`.
        point: The vector w, `b x (1 + r)`.
    """

    scale: Tensor
    root: Tensor
    point: Tensor

    @classmethod
    def of(cls, z: Tensor, s: Tensor) -> NesterovToddScaling:
        r"""The scaling of a pair of points inside the cone."""
        det_z, det_s = determinant(z), determinant(s)
        # Both of determinant 1, so that w is too.
        z, s = z / det_z.sqrt(), s / det_s.sqrt()
        point = z + reflect(s)
        point = point / (2 * (1 + (z * s).sum(dim=-1, keepdim=True))).sqrt()
        # The root of w in the Jordan algebra, (w + e) / sqrt(2 (w_0 + 1)).
        root = torch.cat([point[:, :1] + 1, point[:, 1:]], dim=-1)
        root = root / (2 * root[:, :1]).sqrt()
        return cls((det_z / det_s) ** 0.25, root, point)

    def apply(self, v: Tensor) -> Tensor:
        r"""`W v`."""
        along = 2 * (self.root * v).sum(dim=-1, keepdim=True)
        return self.scale * (along * self.root - reflect(v))

    def apply_inverse(self, v: Tensor) -> Tensor:
        r"""`W^-1 v`."""
        root = reflect(self.root)
        along = 2 * (root * v).sum(dim=-1, keepdim=True)
        return (along * root - reflect(v)) / self.scale

    def apply_twice(self, v: Tensor) -> Tensor:
        r"""`W W v`."""
        along = 2 * (self.point * v).sum(dim=-1, keepdim=True)
        return self.scale.square() * (along * self.point - reflect(v))
