r"""Joint samples of the outcomes of a decision at all values of w, by factors of low rank.

A smooth process over w is determined by few of its values. With the pivoted Cholesky factor `N` of
the prior correlations of the values of w, `K_w = N N'` to a variance of 1e-8 of the prior one,

    f(x, W) = mean(x, W) + sd N z,   cov(z) = I - H H' = L L',   H = N^+ K_wX diag(k_x) L_X^-T

so that a sample is `mean + sd N L e` with as many normal numbers `e` as `N` has columns, q, about
ten for a smooth outcome. A decision costs `n^2 q + S q n_w` operations; a factor of the outcomes at
all values of w alone would cost `n_w^3`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botorch_risk.engine.posterior.pair_bound import Reduction
from botorch_risk.engine.posterior.product_factors import ProductFactors
from botorch_risk.engine.posterior.stationary_moments import pull_back
from botorch_risk.matrices import jitter_of

# A value of w is a pivot if its variance given those before is at least this share of the largest:
# equal ones of a symmetric grid are told apart by their order, and not by rounding.
_PIVOT_SHARE = 0.999
# On a device: after how many columns the host looks whether there are more.
_LOOK = 16
# Added to the variance of each z, in units of the prior one: the rounding of its covariance is
# 1e-15 times n_w.
_JITTER = 1e-10


@dataclass(frozen=True)
class PairSamples:
    r"""The factors over w."""

    factors: ProductFactors  # of the model and the values of w
    root: Tensor  # batch_shape x n_w x q, the N above in units of the outcome
    columns: Tensor  # batch_shape x n x q, the transpose of `N^+ K_wX`

    @classmethod
    @torch.no_grad()
    def of(cls, factors: ProductFactors) -> PairSamples:
        W, train_W = factors.points, factors.cache.train_inputs[..., factors.train_X.shape[-1] :]
        basis = _newton_basis(W, train_W, factors.cache.kernel)
        root, columns = basis.split([W.shape[-2], train_W.shape[-2]], dim=-2)
        return cls(factors, root * factors.outcome.prior.sqrt(), columns)

    @torch.no_grad()
    def reduced(
        self, X: Tensor, numbers: Tensor, reduce: Reduction
    ) -> tuple[Tensor, Tensor | None]:
        r"""The number that `reduce` makes of each decision's samples, and its gradient.

        `X` are decisions `batch_shape x m x d_x`, as `factors.scaled` takes them; of the normal
        `numbers`, `S x n_w`, the first columns are used; `reduce` gets samples
        `batch_shape x m x S x n_w`.
        """
        factors, numbers = self.factors, numbers[:, : self.root.shape[-1]]
        Z = factors.scaled(X)
        k_x = factors.correlation(Z)
        H, root = self._conditioned(k_x)
        steps = (numbers @ root.mT) @ self.root.mT.unsqueeze(-3)
        value, slope = reduce(steps.add_(factors.mean(k_x).unsqueeze(-2)))
        if slope is None:
            return value, None
        # The derivative of a Cholesky factor, backwards [Murray2016cholesky]_: of cov(z) it is
        # L^-T P L^-1, with the symmetric part P of tril(L' dL) whose diagonal is halved.
        of_root = ((slope @ self.root.unsqueeze(-3)).mT @ numbers).tril_()
        inner = (root.mT @ of_root).tril_()
        inner.diagonal(dim1=-2, dim2=-1).mul_(0.5)
        inner = torch.linalg.solve_triangular(root.mT, inner + inner.mT, upper=True)
        of_covariance = torch.linalg.solve_triangular(root, inner, upper=False, left=False)
        # cov(z) = I - H H', and the sum of both triangles above is twice the derivative.
        pull = factors.unwhitened(H @ of_covariance).mul_(-1.0)
        sensitivity = (pull * self.columns.unsqueeze(-3)).sum(dim=-1)
        sensitivity.add_(factors.mean_pulled_back(slope.sum(dim=-2)))
        gradient = pull_back(sensitivity.mul_(k_x), Z, factors.train_X)
        return value, gradient.div_(factors.lengthscale)

    def _conditioned(self, k_x: Tensor) -> tuple[Tensor, Tensor]:
        r"""`H'`, `batch_shape x m x n x q`, and the Cholesky factor of the covariance of `z`."""
        H = self.factors.whitened(k_x, self.columns)
        covariance = (H.mT @ H).neg_()
        covariance.diagonal(dim1=-2, dim2=-1).add_(1.0 + _JITTER)
        root, _ = torch.linalg.cholesky_ex(covariance)
        return H, root


def _newton_basis(W: Tensor, others: Tensor, kernel: Any) -> Tensor:
    r"""Covariances `... x (n_w + n) x q` of outcomes at W, and at others, with each z.

    The pivoted Cholesky factor of the correlations of W, its rows continued to the others. A rank
    for the whole batch, the largest: a matrix of a lower one gets columns of zeros.
    """
    points, n_w = torch.cat([W, others], dim=-2), W.shape[-2]
    left = torch.ones_like(W[..., 0])
    basis = points[..., :0]
    look = 1 if W.device.type == "cpu" else _LOOK
    for step in range(n_w):
        largest, _ = left.max(dim=-1, keepdim=True)
        is_left = largest > jitter_of(W)
        if step % look == 0 and not is_left.any():
            break
        pivot = (
            (left >= _PIVOT_SHARE * largest)
            .to(torch.uint8)
            .argmax(dim=-1, keepdim=True)
            .unsqueeze(-1)
        )
        at, of_pivot = (
            x.gather(-2, pivot.expand(*pivot.shape[:-1], x.shape[-1])) for x in (points, basis)
        )
        column = kernel.correlation(kernel.squared_distance(points, at)) - basis @ of_pivot.mT
        column = (column / largest.unsqueeze(-1).sqrt()).where(is_left.unsqueeze(-1), 0.0)
        basis = torch.cat([basis, column], dim=-1)
        left = (left - column[..., :n_w, 0].square()).scatter(-1, pivot.squeeze(-1), 0.0)
    return basis
