r"""How sample variances inform the process of the noise: on which scale, and with which noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.models.noise_observations import worthless
from botorch_risk.models.variance_links import LINKS, LogLink

_CHOICES = ("inferred", "bound", "pointwise")


@dataclass(frozen=True)
class SampleVariances:
    r"""The link and the noise of linked sample variances.

    Attributes:
        link: The scale of the process.
        noise_kind: One of `"inferred"`, `"bound"` and `"pointwise"` with the identity link; `None`
            with the log link, where the noise is known; `"given"` where there are noise levels in
            place of sample variances.
        ceiling: The upper limit of the noise variance, or `None`.
    """

    link: Any
    noise_kind: str | None
    ceiling: float | None = None

    @classmethod
    def choose(cls, link: str, noise_kind: str | None, ceiling: float | None) -> SampleVariances:
        r"""Checks the choices of a user.

        Raises:
            ValueError: If a choice is unknown or does not fit the others.
        """
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
                "Expected `max_noise_variance` where `sample_variance_noise='bound'`. Got None."
            )
        return cls(LINKS[link], noise_kind, ceiling)

    def of_given_levels(self) -> SampleVariances:
        r"""The same link for noise levels that came with the readings."""
        return replace(self, noise_kind="given")

    @property
    def is_pointwise(self) -> bool:
        r"""Whether the noise depends on the process itself."""
        return self.noise_kind == "pointwise"

    @property
    def censors(self) -> bool:
        r"""Whether a sample variance of 0 counts as censored."""
        return isinstance(self.link, LogLink)

    def noise(self, variances: Tensor, counts: Tensor) -> Tensor | None:
        r"""The variance of linked sample variances.

        Args:
            variances: True noise variances of one repeat.
            counts: Numbers of repeats, of the same shape.

        Returns:
            Variances of the same shape; `None` where one level is inferred.
        """
        if self.noise_kind in ("inferred", "given"):
            return None
        if self.noise_kind == "bound":
            variances = torch.full_like(variances, float(self.ceiling or 0.0))
        # At least two repeats here: an infinite entry would turn the gradients of all into NaN.
        noise = self.link.observation_noise(variances, counts.clamp_min(2))
        return noise.where(counts > 1, worthless(variances))

    def require_observable(self, repeated: Tensor, counts: Tensor) -> None:
        r"""Refuses sample variances that the process cannot take.

        Args:
            repeated: Which rows have at least two repeats.
            counts: Numbers of repeats.

        Raises:
            UnsupportedError: If the data are noise levels, or one noise level is inferred and
                some row has a single repeat.
        """
        if self.noise_kind == "given":
            raise UnsupportedError(
                "Expected no `variances` where noise levels came with the readings: build the "
                "model again from all readings. Got variances."
            )
        if self.noise_kind == "inferred" and not bool(repeated.all()):
            raise UnsupportedError(
                "Expected at least two repeats in every row where one noise level of the sample "
                f"variances is inferred. Got {counts.min().item():.0f}."
            )
