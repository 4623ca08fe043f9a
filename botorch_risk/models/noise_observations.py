r"""Training data of the noise process: linked sample variances and their weights."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

from botorch_risk.models.outcome_scales import SignalScale
from botorch_risk.models.repeats import WORTHLESS, RepeatedOutcomes, describe
from botorch_risk.models.variance_links import LINKS, LogLink, VarianceLink
from botorch_risk.steady import expect

_NUM_REVISIONS = 30  # of the population's mean, each of which adds the censored rows to it


@dataclass(frozen=True)
class NoiseObservations:
    r"""Linked sample variances of the rows in which at least one replicate has repeats.

    If a replicate of a batch has no repeats in such a row, its entry is a filler: it has the first
    repeated input of the replicate, so that input transforms are not affected, and so much noise
    that it has no weight.

    Attributes:
        X: `batch_shape x n x d` inputs.
        counts: `batch_shape x n x 1` numbers of repeats.
        informs: `batch_shape x n x 1`, False for a filler.
        variances: `batch_shape x n x 1` sample variances, fillers included; 0 if censored.
        resolution: `batch_shape x 1 x 1`, the smallest sample variance that the data resolve.
    """

    X: Tensor
    counts: Tensor
    informs: Tensor
    variances: Tensor
    resolution: Tensor

    @classmethod
    def of(
        cls,
        train_X: Tensor,
        outcomes: RepeatedOutcomes,
        floor: float | None,
        every_row: bool = False,
    ) -> NoiseObservations:
        r"""Select the rows.

        `floor` is the resolution of a replicate whose sample variances are all 0; by default the
        machine's, with a warning. `every_row` keeps rows with a single reading, as fillers at their
        own inputs.
        """
        has_input = outcomes.counts > 0 if every_row else outcomes.informs_noise
        chosen = has_input.squeeze(-1).reshape(-1, train_X.shape[-2]).any(dim=0) | every_row
        rows = chosen.nonzero().squeeze(-1)  # a mask would make the host wait again and again
        X, kept = train_X[..., rows, :], outcomes.select(rows)
        informs = kept.informs_noise
        positive = informs & (kept.variances > 0)
        resolution = _resolution(outcomes, kept.variances, positive, informs, floor)
        zeros = torch.zeros_like(kept.variances)
        typical = kept.variances.where(positive, zeros).sum(dim=-2, keepdim=True)
        typical = typical / positive.sum(dim=-2, keepdim=True).clamp_min(1)
        typical = typical.where(typical > 0, resolution)
        return cls(
            X=stand_in_first(X, has_input[..., rows, :]),
            counts=kept.counts,
            informs=informs,
            variances=kept.variances.where(informs, typical),
            resolution=resolution,
        )

    @property
    def typical(self) -> Tensor:
        r"""The average sample variance, `batch_shape x 1 x 1`; 1 for a replicate without any."""
        zeros = torch.zeros_like(self.variances)
        total = self.variances.where(self.informs, zeros).sum(dim=-2, keepdim=True)
        count = self.informs.sum(dim=-2, keepdim=True)
        return (total / count.clamp_min(1)).where(count > 0, torch.ones_like(total))

    def on(self, link: VarianceLink, noise: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor]:
        r"""Observations of the linked noise variance; `noise` has their variances, if known.

        Returns:
            Observations, their variances (`None` if inferred), and which of them set the scale of
            the process, each `batch_shape x n x 1`.
        """
        counts = self.counts.clamp_min(2)
        censored = self.informs & (self.variances <= 0)
        if not isinstance(link, LogLink) or not censored.any():
            return link.observations(self.variances, counts), noise, self.informs
        assert noise is not None  # known on the logarithmic scale
        measured = self.informs & ~censored
        resolved = self.variances.where(~censored, self.resolution)
        targets = link.observations(resolved, counts)
        scale = SignalScale(measured, noise)
        # In training mode a call learns the centre and the scale.
        scale(targets)
        has_measured = measured.any(dim=-2, keepdim=True)
        mean = scale.means.where(has_measured, self.resolution.log())
        variance = scale.stdvs.square()
        for _ in range(_NUM_REVISIONS):
            sites, site_noise = link.censored_observations(
                self.resolution, counts, mean.expand_as(counts), variance.expand_as(counts)
            )
            believed = (mean * site_noise + sites * variance) / (variance + site_noise)
            # Censored rows belong to the population: left out, its mean would be too high.
            revised = SignalScale(self.informs, noise)
            revised(targets.where(measured, believed))
            mean = revised.means.where(has_measured, mean)
        sets_scale = measured | (censored & ~has_measured)
        return targets.where(~censored, sites), noise.where(~censored, site_noise), sets_scale


def _resolution(
    outcomes: RepeatedOutcomes,
    variances: Tensor,
    positive: Tensor,
    informs: Tensor,
    floor: float | None,
) -> Tensor:
    r"""The smallest sample variance that the data resolve, `batch_shape x 1 x 1`."""
    infinite = torch.full_like(variances, torch.inf)
    resolution = variances.where(positive, infinite).amin(dim=-2, keepdim=True)
    observed = outcomes.counts > 0
    means = outcomes.means.where(observed, outcomes.means[..., :1, :])
    scale = (means.amax(dim=-2, keepdim=True) - means.amin(dim=-2, keepdim=True)).square()
    machine = torch.finfo(scale.dtype).eps * scale.where(scale > 0, torch.ones_like(scale))
    default = machine if floor is None else torch.full_like(machine, floor)
    unresolved = informs.any(dim=-2) & ~positive.any(dim=-2)

    def tell() -> None:
        warnings.warn(
            f"Expected repeats that differ. Got equal repeats in every row{describe(unresolved)}: "
            "the noise is taken to be below the resolution of the machine. Set "
            "`min_noise_variance` if the noise is larger.",
            InputDataWarning,
            stacklevel=7,
        )

    if floor is None:
        expect(~unresolved.any(), tell)
    return resolution.where(resolution.isfinite(), default)


def worthless(like: Tensor) -> Tensor:
    r"""A noise variance so large that an observation of the given size has no weight."""
    return WORTHLESS * (1 + like.square())


def stand_in_first(X: Tensor, observed: Tensor) -> Tensor:
    r"""Replace the inputs of rows that a replicate did not observe by its first observed row.

    A replicate without any row keeps its inputs.
    """
    # On a device to look would take longer than to do it in vain.
    if X.device.type == "cpu" and bool(observed.all()):
        return X
    first = observed.to(torch.uint8).argmax(dim=-2, keepdim=True)  # batch_shape x 1 x 1
    stand_in = X.gather(-2, first.expand(*first.shape[:-1], X.shape[-1]))
    return X.where(observed | ~observed.any(dim=-2, keepdim=True), stand_in)


_CHOICES = ("inferred", "bound", "pointwise")


@dataclass(frozen=True)
class SampleVariances:
    r"""The link and the noise of linked sample variances.

    Attributes:
        link: The scale of the process.
        noise_kind: One of `"inferred"`, `"bound"` and `"pointwise"` with the identity link; `None`
            with the log link, for which the noise is known; `"given"` if noise levels replace the
            sample variances.
        ceiling: The upper limit of the noise variance, or `None`.
    """

    link: Any
    noise_kind: str | None
    ceiling: float | None = None

    @classmethod
    def choose(cls, link: str, noise_kind: str | None, ceiling: float | None) -> SampleVariances:
        if link not in LINKS:
            raise ValueError(f"Expected `variance_link` in {sorted(LINKS)}. Got {link!r}.")
        if link == "log":
            if noise_kind is not None:
                raise ValueError(
                    "Expected no `sample_variance_noise` with the log link, where it is known. "
                    f"Got {noise_kind!r}."
                )
            return cls(LINKS[link], None, ceiling)
        noise_kind = noise_kind or "inferred"
        if noise_kind not in _CHOICES:
            raise ValueError(f"Expected `sample_variance_noise` in {_CHOICES}. Got {noise_kind!r}.")
        if noise_kind == "bound" and ceiling is None:
            raise ValueError(
                "Expected `max_noise_variance` with `sample_variance_noise='bound'`. Got None."
            )
        return cls(LINKS[link], noise_kind, ceiling)

    def of_given_levels(self) -> SampleVariances:
        return replace(self, noise_kind="given")

    @property
    def is_pointwise(self) -> bool:
        return self.noise_kind == "pointwise"

    @property
    def censors(self) -> bool:
        return isinstance(self.link, LogLink)

    def noise(self, variances: Tensor, counts: Tensor) -> Tensor | None:
        r"""The variance of linked sample variances, for true variances; `None` if inferred."""
        if self.noise_kind in ("inferred", "given"):
            return None
        if self.noise_kind == "bound":
            variances = torch.full_like(variances, float(self.ceiling or 0.0))
        # At least two repeats here: an infinite entry would turn the gradients of all into NaN.
        noise = self.link.observation_noise(variances, counts.clamp_min(2))
        return noise.where(counts > 1, worthless(variances))

    def require_observable(self, repeated: Tensor, counts: Tensor) -> None:
        r"""Raise UnsupportedError for sample variances that the process cannot use."""
        if self.noise_kind == "given":
            raise UnsupportedError(
                "Expected no `variances` if noise levels came with the readings: build the "
                "model again from all readings. Got variances."
            )
        if self.noise_kind == "inferred" and not bool(repeated.all()):
            raise UnsupportedError(
                "Expected at least two repeats in every row if one noise level of the sample "
                f"variances is inferred. Got {counts.min().item():.0f}."
            )
