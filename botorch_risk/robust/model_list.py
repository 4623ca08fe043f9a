r"""Models of risks of several outcomes as one model."""

from collections.abc import Sequence
from typing import Any

import torch
from botorch.models.model import ModelList
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from botorch.posteriors.posterior_list import PosteriorList
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import NormalMCSampler
from torch import Tensor

from botorch_risk.arguments import as_floating
from botorch_risk.models.joint_posterior import JointPosterior, collapsed, normal_sampler
from botorch_risk.models.risk_posterior import RiskPosterior


class RobustModelList(ModelList):
    r"""A `ModelList` whose posterior works with the samplers of a single Gaussian one.

    BoTorch's `ModelList` needs a list of samplers, one per model, whereas `ModelListGP` needs one
    sampler for all. Pass a list of `RobustModel` wherever a `ModelListGP` was passed.
    """

    def posterior(self, X: Tensor, *args: Any, **kwargs: Any) -> Posterior:
        X = as_floating(X, "X")
        posterior = super().posterior(X, *args, **kwargs)
        if type(posterior) is PosteriorList and all(map(_is_gaussian, posterior.posteriors)):
            return JoinedPosterior(posterior.posteriors, X.shape[-2])
        return posterior


def _is_gaussian(posterior: Posterior) -> bool:
    r"""Whether samples are built from standard normal numbers, without an ensemble dimension."""
    inner = posterior._posterior if isinstance(posterior, RiskPosterior) else posterior
    return type(inner) in (JointPosterior, GPyTorchPosterior)


class JoinedPosterior(Posterior):
    r"""Independent posteriors that share one list of standard normal numbers, decision by decision.

    All numbers of a decision are adjacent, beginning with the first posterior. So the leading
    decisions use the first numbers, whatever follows them. BoTorch's noisy acquisition functions
    rely on that: they draw for the evaluated decisions, and reuse these draws in front when
    candidates are appended.

    The posteriors have the same t-batch and the same number of normals for each of the `q`
    decisions.
    """

    def __init__(self, posteriors: Sequence[Posterior], q: int) -> None:
        self.posteriors: list[Any] = list(posteriors)
        self._q = q
        self._events = [each.base_sample_shape[each.batch_range[1] :] for each in self.posteriors]

    @property
    def device(self) -> torch.device:
        return self.posteriors[0].device

    @property
    def dtype(self) -> torch.dtype:
        return self.posteriors[0].dtype

    @property
    def batch_shape(self) -> torch.Size:
        first = self.posteriors[0]
        return first.base_sample_shape[: first.batch_range[1]]

    @property
    def base_sample_shape(self) -> torch.Size:
        return self.batch_shape + torch.Size([sum(event.numel() for event in self._events)])

    @property
    def batch_range(self) -> tuple[int, int]:
        return 0, -1

    def _extended_shape(self, sample_shape: torch.Size = torch.Size()) -> torch.Size:  # noqa: B008
        shapes = [each._extended_shape(sample_shape) for each in self.posteriors]
        return shapes[0][:-1] + torch.Size([sum(shape[-1] for shape in shapes)])

    def rsample(self, sample_shape: torch.Size | None = None) -> Tensor:
        r"""Random samples, `sample_shape x batch_shape x q x m`."""
        return torch.cat([each.rsample(sample_shape) for each in self.posteriors], dim=-1)

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Tensor:
        r"""Samples `sample_shape x batch_shape x q x m` from standard normal numbers."""
        # What a t-batch shares is reordered once, and stays shared.
        numbers = collapsed(base_samples, len(sample_shape))
        by_decision = numbers.unflatten(-1, (self._q, -1))
        sizes = [event.numel() // self._q for event in self._events]
        samples = []
        parts = zip(self.posteriors, self._events, by_decision.split(sizes, dim=-1), strict=True)
        for each, event, part in parts:
            own = part.flatten(-2).expand(*base_samples.shape[:-1], -1).unflatten(-1, event)
            samples.append(each.rsample_from_base_samples(sample_shape, own))
        return torch.cat(samples, dim=-1)

    @property
    def mean(self) -> Tensor:
        return torch.cat([each.mean for each in self.posteriors], dim=-1)

    @property
    def variance(self) -> Tensor:
        return torch.cat([each.variance for each in self.posteriors], dim=-1)


@GetSampler.register(JoinedPosterior)
def _get_sampler(
    posterior: JoinedPosterior, sample_shape: torch.Size, *, seed: int | None = None
) -> NormalMCSampler:
    return normal_sampler(posterior, sample_shape, seed)
