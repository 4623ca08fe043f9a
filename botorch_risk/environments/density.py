r"""The kernel density estimate of W as a distribution."""

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor
from torch.distributions import Distribution, constraints

from botorch_risk.arguments import as_floating, as_tensor, check_kind

AtBounds = Literal["truncate", "reflect", "clip"]

LOG_SQRT_2_PI = 0.5 * math.log(2 * math.pi)
REACH = 9.0  # bandwidths beyond which a normal kernel is nothing in float64


class KernelDensity(Distribution):
    r"""A mixture of normal kernels in equal shares, one around each observed value.

        p(w) = sum_i prod_j N((w(j) - observed_i(j)) / bandwidth(j)) / (t prod_j bandwidth(j))

    Eq. (2) of [Huang2024kde]_, with `N(z) = exp(-z^2 / 2) / sqrt(2 pi)`;
    the paper prints `exp(-z^2)`, which does not integrate to 1.

    At the bounds of a box, each coordinate of each kernel is treated in one of these ways:

        "truncate"  cut off and divided by its mass inside: a value near a bound keeps its share
        "reflect"   folded back: the density is flat at the bounds
        "clip"      moved to the bounds, which then carry probability, so that `log_prob` raises

    Args:
        observed: Values of W, `batch_shape x t x d_w`.
        bandwidth: The kernels' common standard deviations, `batch_shape x d_w`.
        bounds: The box, `2 x d_w`; None if the kernels extend without bound.
        at_bounds: The treatment of mass outside the bounds.
        validate_args: As in torch.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "observed": constraints.independent(constraints.real, 2),
        "bandwidth": constraints.independent(constraints.positive, 1),
    }

    def __init__(
        self,
        observed: Tensor,
        bandwidth: Tensor,
        bounds: Tensor | None = None,
        at_bounds: AtBounds = "truncate",
        validate_args: bool | None = None,
    ) -> None:
        check_kind(AtBounds, at_bounds=at_bounds)
        observed, bandwidth = as_floating(observed, "observed"), as_floating(bandwidth, "bandwidth")
        bounds = as_tensor("bounds", bounds)
        self.observed, self.bandwidth = observed.clone(), bandwidth.clone()
        self.bounds, self.at_bounds = None if bounds is None else bounds.clone(), at_bounds
        batch_shape, event_shape = observed.shape[:-2], observed.shape[-1:]
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        if self.bounds is None:
            return constraints.independent(constraints.real, 1)
        return constraints.independent(constraints.interval(*self.bounds), 1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = (*sample_shape, *self.batch_shape, 1, 1 + self.event_shape[0])
        uniforms = torch.rand(shape, dtype=self.observed.dtype, device=self.observed.device)
        tiny = torch.finfo(uniforms.dtype).eps / 4  # rand draws [0, 1)
        return self.from_uniforms(uniforms.clamp_min(tiny)).squeeze(-2)

    def from_uniforms(self, uniforms: Tensor) -> Tensor:
        r"""Map uniform numbers, `... x batch_shape x n x (1 + d_w)`, to W.

        The first of each row chooses the kernel. Kernels are ordered by the first coordinate of
        their values, so that W varies little with it. The others are levels within the kernel.
        """
        observed = self.observed
        order = observed[..., 0].argsort(dim=-1, stable=True).unsqueeze(-1)
        observed = observed.gather(-2, order.expand_as(observed))
        num_kernels = observed.shape[-2]
        kernel = (uniforms[..., :1] * num_kernels).long().clamp_max(num_kernels - 1)
        observed = observed.expand(*kernel.shape[:-2], *observed.shape[-2:])
        centers = observed.gather(-2, kernel.expand(*kernel.shape[:-1], observed.shape[-1]))
        return self._kernel_quantiles(centers, uniforms[..., 1:])

    def _kernel_quantiles(self, centers: Tensor, levels: Tensor) -> Tensor:
        r"""Quantiles of the kernels around the centers, `... x n x d_w`."""
        bandwidth = self.bandwidth.unsqueeze(-2)
        if self.bounds is None:
            return centers + bandwidth * torch.special.ndtri(levels)
        lower, upper = self.bounds
        if self.at_bounds == "truncate":
            below, above = self._kernel_cdf(centers, lower), self._kernel_cdf(centers, upper)
            levels = below + levels * (above - below)
        values = centers + bandwidth * torch.special.ndtri(levels)
        if self.at_bounds == "reflect":
            width = upper - lower
            values = lower + width - ((values - lower).remainder(2 * width) - width).abs()
        return torch.minimum(torch.maximum(values, lower), upper)

    def _kernel_cdf(self, centers: Tensor, value: Tensor) -> Tensor:
        return torch.special.ndtr((value - centers) / self.bandwidth.unsqueeze(-2))

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Log density at `... x batch_shape x d_w`, -inf outside the bounds.

        Raises:
            UnsupportedError: If the estimate is clipped at bounds.
        """
        kernels = self.kernel_log_prob(value)
        return kernels.logsumexp(dim=-1) - math.log(kernels.shape[-1])

    def kernel_log_prob(self, value: Tensor) -> Tensor:
        r"""Log density of each kernel, `... x batch_shape x t`, at `... x batch_shape x d_w`."""
        if self.bounds is None:
            return self._normal_log_prob(value).sum(dim=-1)
        if self.at_bounds == "clip":
            raise UnsupportedError(
                "Expected a distribution with a density. Got a clipped estimate, which has "
                "positive probability at the bounds; use at_bounds='truncate' or 'reflect'."
            )
        if self.at_bounds == "truncate":
            below, above = (self._kernel_cdf(self.observed, bound) for bound in self.bounds)
            logs = self._normal_log_prob(value) - (above - below).log()
        else:
            logs = torch.stack([self._normal_log_prob(image) for image in self._images(value)])
            logs = logs.logsumexp(dim=0)
        inside = ((value >= self.bounds[0]) & (value <= self.bounds[1])).all(dim=-1, keepdim=True)
        return torch.where(inside, logs.sum(dim=-1), -torch.inf)

    def _images(self, value: Tensor) -> list[Tensor]:
        r"""All points that folding at the bounds brings to `value`, as far as kernels reach."""
        assert self.bounds is not None
        lower, upper = self.bounds
        width = upper - lower
        periods = max(0, math.ceil((REACH * (self.bandwidth / width).max().item() - 1) / 2))
        shifted = [value + 2 * k * width for k in range(-periods, periods + 1)]
        folded = [2 * lower - value + 2 * k * width for k in range(-periods, periods + 2)]
        return shifted + folded

    def _normal_log_prob(self, value: Tensor) -> Tensor:
        r"""Log density of each coordinate of each unbounded kernel, `... x t x d_w`."""
        bandwidth = self.bandwidth.unsqueeze(-2)
        z = (value.unsqueeze(-2) - self.observed) / bandwidth
        return -0.5 * z.square() - bandwidth.log() - LOG_SQRT_2_PI
