r"""Joint posterior samples of an exact GP that samples its evaluated points once.

A noisy acquisition function samples its candidates jointly with the evaluated points, `n_b n_w`
points if each has `n_w` values of the environment. Sampled block by block,

    f(B) = mean(B) + L_B e_B,   f(P) = mean(P) + A e_B + L_P e_P,   A = cov(P, B) L_B^-T,
    L_P L_P' = cov(P, P) - A A'

the block B of the evaluated points is the same for every candidate P and every step. Conditioning
on its sample is conditioning on data without noise, so that one factor of the observations and of
B gives A. For a smooth kernel few points of B determine the others, to a variance of 1e-8 of the
prior one, and only these are sampled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import IIDNormalSampler, NormalMCSampler, SobolQMCNormalSampler
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_risk.engine.posterior.cache import is_same_tensor
from botorch_risk.engine.posterior.joint_moments import jitter_of, safe_root
from botorch_risk.engine.posterior.marginals import MarginalPredictor, has_closed_form
from botorch_risk.engine.posterior.process import ConditionedProcess, Points, PriorProcess


@dataclass(frozen=True)
class Block:
    r"""Points that are sampled before all others, with their factors.

    Attributes:
        points: `N x d`, `N` may be 0.
        process: The prior.
        inputs: `1 x (n + r) x d`, the data and the `r` points that determine the rest, in the space
            of the kernel.
        factor: `1 x (n + r) x (n + r)`, which whitens the correlations with them.
        residuals: `1 x n`, the whitened data; the values of the `r` points are samples.
        mean: `N` posterior means.
        root: `N x r`, so that `mean + root @ e` is a sample.
        active: The `r` points.
    """

    points: Tensor
    process: PriorProcess
    inputs: Tensor
    factor: Tensor
    residuals: Tensor
    mean: Tensor
    root: Tensor
    active: Tensor
    _drawn: list[tuple[Tensor, int, Tensor]] = field(default_factory=list, compare=False)

    @torch.no_grad()
    def samples(self, base: Tensor) -> Tensor:
        r"""Samples made of normal numbers; the same tensor if these are the same as before.

        Only the first `N` columns of `base: sample_shape x ... x at least N` are used.
        """
        own = base[..., : len(self.points)]
        if own.is_inference():  # such a tensor does not tell whether it was written to
            return self.mean + own[..., self.active] @ self.root.mT
        for drawn, version, values in self._drawn:
            if is_same_tensor(drawn, own) and drawn._version == version:
                return values
        values = self.mean + own[..., self.active] @ self.root.mT
        self._drawn[:] = [(own, own._version, values)]
        return values

    @classmethod
    @torch.no_grad()
    def of(cls, data: ConditionedProcess, points: Tensor) -> Block:
        r"""Condition on points, `N x d`."""
        at = data.at(points)
        mean, whitened = at.mean[0], at.whitened[0]  # N, n x N
        if not len(points):
            none = mean.new_empty(0).long()
            root = mean.new_empty(0, 0)
            parts = (data.process, data.inputs, data.factor, data.residuals)
            return cls(points, *parts, mean, root, none)
        covariance = data.covariance(at, at)[0]
        variance = at.prior.variance[0]
        active = determining_points(covariance, jitter_of(variance) * variance.mean())
        factor = safe_root(covariance[active][:, active], variance.mean())
        # The rows of the inverse factor of the data and of these points.
        scale = at.prior.scale[0, active]
        own = torch.cat([-whitened[:, active].mT @ data.factor[0], scale.diag()], dim=-1)
        rows = torch.linalg.solve_triangular(factor, own, upper=False)
        wide = torch.nn.functional.pad(data.factor[0], (0, len(active)))
        inputs = at.prior.take(active.unsqueeze(0)).inputs
        factor_of_all = torch.cat([wide, rows], dim=-2).unsqueeze(0)
        inputs = torch.cat([data.inputs, inputs], dim=-2)
        root = torch.linalg.solve_triangular(factor, covariance[active], upper=False).mT
        return cls(points, data.process, inputs, factor_of_all, data.residuals, mean, root, active)


def determining_points(covariance: Tensor, tolerance: Tensor) -> Tensor:
    r"""Indices of points that determine all others, by a pivoted Cholesky factor of `N x N`.

    `tolerance` is the largest variance that may be left of any other point. Each pivot depends on
    the one before, so the host would wait: it works on its own copy.
    """
    device, covariance, tolerance = covariance.device, covariance.cpu(), tolerance.cpu()
    left = covariance.diagonal().clone()
    factor = covariance.new_empty(len(left), 0)
    chosen: list[int] = []
    while len(chosen) < len(left):
        largest, index = left.max(dim=0)
        if not largest > tolerance:
            break
        column = covariance[:, index] - factor @ factor[index]
        column = column / largest.sqrt()
        factor = torch.cat([factor, column.unsqueeze(-1)], dim=-1)
        left = left - column.square()
        left[index] = 0.0
        chosen.append(int(index))
    return torch.tensor(sorted(chosen), device=device, dtype=torch.long)


_KEPT = 4  # lists of constant points whose factors are remembered


class JointProcess:
    r"""Joint samples of an exact GP with one output; see the module.

    `serves` must be true for the model; `posterior_transform` scales the outcome.
    """

    def __init__(self, model: Model, posterior_transform: PosteriorTransform | None = None) -> None:
        self.predictor = MarginalPredictor(model, posterior_transform)
        self._data: ConditionedProcess | None = None
        self._blocks: list[Block] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_data": None, "_blocks": []}

    @staticmethod
    def serves(model: Any, posterior_transform: PosteriorTransform | None = None) -> bool:
        r"""Whether a model is an exact GP with one output and without a batch shape."""
        return has_closed_form(model, posterior_transform) and not model.batch_shape

    def posterior(self, constant: Tensor, X: Tensor) -> JointPosterior:
        r"""The joint distribution at `N x d` constant points and `batch_shape x Q x d` others."""
        return JointPosterior(self._block(constant), X)

    def _block(self, constant: Tensor) -> Block:
        data = self._current()
        constant = constant.detach()
        for block in self._blocks:
            if block.points.shape == constant.shape and torch.equal(block.points, constant):
                return block
        self._blocks = [Block.of(data, constant.clone()), *self._blocks[: _KEPT - 1]]
        return self._blocks[0]

    def _current(self) -> ConditionedProcess:
        r"""The process given the data; all blocks are dropped if the model has changed."""
        if self.predictor.model.training:
            self.predictor.model.eval()
        cache = self.predictor.current_cache()
        if self._data is None or self._data.process.cache is not cache:
            prior = PriorProcess(self.predictor.model, self.predictor, cache)
            self._data, self._blocks = ConditionedProcess.of(prior), []
        return self._data


class JointPosterior(Posterior):
    r"""The joint posterior at a block of constant points and at candidates `batch_shape x Q x d`.

    Samples of the candidates are differentiable in them. Nothing is computed before a sample is
    drawn.
    """

    def __init__(self, block: Block, X: Tensor) -> None:
        self.block, self.X = block, X

    @property
    def device(self) -> torch.device:
        return self.X.device

    @property
    def dtype(self) -> torch.dtype:
        return self.X.dtype

    @property
    def batch_shape(self) -> torch.Size:
        return self.X.shape[:-2]

    @property
    def base_sample_shape(self) -> torch.Size:
        return self.X.shape[:-2] + torch.Size([len(self.block.points) + self.X.shape[-2]])

    @property
    def batch_range(self) -> tuple[int, int]:
        return 0, -1

    def _extended_shape(self, sample_shape: torch.Size = torch.Size()) -> torch.Size:  # noqa: B008
        return sample_shape + self.base_sample_shape + torch.Size([1])

    def rsample(self, sample_shape: torch.Size | None = None) -> Tensor:
        r"""Random samples, `sample_shape x batch_shape x (N + Q) x 1`."""
        shape = torch.Size([1]) if sample_shape is None else sample_shape
        base = torch.randn(*shape, *self.base_sample_shape, dtype=self.dtype, device=self.device)
        return self.rsample_from_base_samples(shape, base)

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Tensor:
        r"""Samples from standard normal numbers, `sample_shape x batch_shape x (N + Q)`."""
        constant, rest = self.parts(sample_shape, base_samples)
        shape = (*rest.shape[:-1], constant.shape[-1])
        return torch.cat([constant.expand(shape), rest], dim=-1).unsqueeze(-1)

    def parts(self, sample_shape: torch.Size, base_samples: Tensor) -> tuple[Tensor, Tensor]:
        r"""Samples of the constant points, once for the batch if they can be, and of the others.

        Returns:
            `sample_shape x 1 ... 1 x N`, or with the batch shape if the numbers differ in the
            batch; and `sample_shape x batch_shape x Q`.
        """
        batch, points = self.X.shape[:-2], self.X.shape[-2]
        base = collapsed(base_samples, len(sample_shape))
        constant = self.block.samples(base)
        size = len(self.block.points)
        own = base[
            ...,
            torch.cat([self.block.active, torch.arange(size, base.shape[-1], device=base.device)]),
        ]
        mean, columns = self._moments()  # b x Q, b x Q x (r + Q)
        samples = sample_shape.numel()
        if own.numel() == samples * own.shape[-1]:  # one product for all entries
            own = own.reshape(samples, own.shape[-1])
            rest = torch.addmm(mean.reshape(-1), own, columns.reshape(-1, columns.shape[-1]).mT)
        else:
            own = own.expand(*sample_shape, *batch, own.shape[-1])
            own = own.reshape(samples, -1, own.shape[-1])
            rest = mean + torch.einsum("sbk,bqk->sbq", own, columns)
        return constant, rest.reshape(*sample_shape, *batch, points)

    def _moments(self) -> tuple[Tensor, Tensor]:
        r"""Means, and the rows of the joint Cholesky factor that belong to the candidates."""
        with torch.set_grad_enabled(self.X.requires_grad and torch.is_grad_enabled()):
            given = self.block
            prior = given.process.points(self.X.reshape(-1, self.X.shape[-1]))
            correlation = given.process.correlation(prior.inputs, given.inputs)  # 1 x bQ x t
            whitened = (correlation @ given.factor.mT)[0] * prior.scale[0].unsqueeze(-1)
            n = given.residuals.shape[-1]
            mean = prior.mean[0] + whitened[:, :n] @ given.residuals[0]
            Q = self.X.shape[-2]
            whitened = whitened.reshape(-1, Q, whitened.shape[-1])
            covariance = _within(given.process, prior, Q) - whitened @ whitened.mT
            root = safe_root(covariance, prior.variance.detach().mean())
            return mean.reshape(-1, Q), torch.cat([whitened[..., n:], root], dim=-1)


def _within(process: PriorProcess, prior: Points, Q: int) -> Tensor:
    r"""Prior covariances of `b Q` points with the points of the same entry, `b x Q x Q`."""
    inputs = prior.inputs.reshape(-1, Q, prior.inputs.shape[-1])
    scale = prior.scale.reshape(-1, Q)
    kernel = process.cache.kernel
    if kernel is None:
        covariance = process.model.covar_module(inputs).to_dense()
        return covariance * scale.unsqueeze(-1) * scale.unsqueeze(-2)
    one_sided = process.correlation(inputs, inputs.detach())
    if one_sided.requires_grad:  # the gradient in the second points is that in the first
        one_sided = one_sided + one_sided.mT - one_sided.detach().mT
    covariance = one_sided * scale.unsqueeze(-1) * scale.unsqueeze(-2)
    # The distance of a point to itself is rounding, not 0: its variance is exact.
    return covariance.diagonal_scatter(scale.square(), dim1=-2, dim2=-1)


def collapsed(base_samples: Tensor, sample_dims: int) -> Tensor:
    r"""Base samples without the copies that a t-batch shares."""
    for dim in range(sample_dims, base_samples.dim() - 1):
        if base_samples.stride(dim) == 0:
            base_samples = base_samples.narrow(dim, 0, 1)
    return base_samples


@GetSampler.register(JointPosterior)
def _get_sampler(
    posterior: JointPosterior, sample_shape: torch.Size, *, seed: int | None = None
) -> NormalMCSampler:
    return normal_sampler(posterior, sample_shape, seed)


def normal_sampler(
    posterior: Posterior, sample_shape: torch.Size, seed: int | None = None
) -> NormalMCSampler:
    r"""Sobol points, as BoTorch uses for Gaussian posteriors; in too many dimensions, random ones.

    The last base dimension of the posterior holds the standard normal numbers.
    """
    kind: type[NormalMCSampler] = SobolQMCNormalSampler
    if posterior.base_sample_shape[-1] > SobolEngine.MAXDIM:
        kind = IIDNormalSampler
    return kind(sample_shape=sample_shape, seed=seed)
