r"""The joint posterior at constant points and at candidates, which BoTorch samples."""

from __future__ import annotations

from typing import Any

import torch
from botorch.posteriors.posterior import Posterior
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import IIDNormalSampler, NormalMCSampler, SobolQMCNormalSampler
from torch import Tensor
from torch.quasirandom import SobolEngine


class JointPosterior(Posterior):
    r"""The joint posterior at a block of constant points and at candidates `batch_shape x Q x d`.

    Samples at the candidates are differentiable in the candidates. Nothing is computed before a
    sample is drawn.
    """

    def __init__(self, block: Any, X: Tensor) -> None:
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
        shape = torch.Size([1]) if sample_shape is None else sample_shape
        base = torch.randn(*shape, *self.base_sample_shape, dtype=self.dtype, device=self.device)
        return self.rsample_from_base_samples(shape, base)

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Tensor:
        r"""Samples `sample_shape x batch_shape x (N + Q) x 1` from standard normal numbers."""
        constant, rest = self.parts(sample_shape, base_samples)
        shape = (*rest.shape[:-1], constant.shape[-1])
        return torch.cat([constant.expand(shape), rest], dim=-1).unsqueeze(-1)

    def parts(self, sample_shape: torch.Size, base_samples: Tensor) -> tuple[Tensor, Tensor]:
        r"""Samples at the constant points, drawn once for the batch if possible, and at the others.

        The first are `sample_shape x 1 ... 1 x N`, or have the batch shape if the normal numbers
        differ in the batch; the others are `sample_shape x batch_shape x Q`.
        """
        batch, points = self.X.shape[:-2], self.X.shape[-2]
        base = collapsed(base_samples, len(sample_shape))
        constant = self.block.samples(base)
        size = len(self.block.points)
        own = base[
            ...,
            torch.cat([self.block.active, torch.arange(size, base.shape[-1], device=base.device)]),
        ]
        mean, columns = self.block.given(self.X)  # b x Q, b x Q x (r + Q)
        samples = sample_shape.numel()
        if own.numel() == samples * own.shape[-1]:  # one product for all entries
            own = own.reshape(samples, own.shape[-1])
            rest = torch.addmm(mean.reshape(-1), own, columns.reshape(-1, columns.shape[-1]).mT)
        else:
            own = own.expand(*sample_shape, *batch, own.shape[-1])
            own = own.reshape(samples, -1, own.shape[-1])
            rest = mean + torch.einsum("sbk,bqk->sbq", own, columns)
        return constant, rest.reshape(*sample_shape, *batch, points)


def collapsed(base_samples: Tensor, sample_dims: int) -> Tensor:
    r"""Base samples without their copies along the batch dimensions of a t-batch."""
    for dim in range(sample_dims, base_samples.dim() - 1):
        # BoTorch expands one set of numbers over the t-batch, which leaves a stride of 0.
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
    r"""A sampler of Sobol points, as BoTorch's for Gaussians; in many dimensions, of random ones.

    The standard normal numbers are in the last base dimension of the posterior.
    """
    kind: type[NormalMCSampler] = SobolQMCNormalSampler
    if posterior.base_sample_shape[-1] > SobolEngine.MAXDIM:
        kind = IIDNormalSampler
    return kind(sample_shape=sample_shape, seed=seed)
