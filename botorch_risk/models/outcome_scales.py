r"""Outcome transforms with statistics of the observed entries alone.

A batch of replicates is one tensor, in which rows that a replicate did not observe hold fillers.
The transforms here take their statistics from the observed entries, so that a replicate gets the
same model in a batch as by itself.
"""

from abc import abstractmethod

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models.transforms.outcome import OutcomeTransform, Standardize
from botorch.utils.types import DEFAULT, _DefaultType
from torch import Tensor

# Prior variance of the logarithm of the noise variance before any sample variance is seen, and
# the least that an estimate of it may come down to: chosen by the calibration study.
TYPICAL_LOG_VARIANCE = 0.75
LEAST_LOG_VARIANCE = 0.25


class ObservedScale(Standardize):
    r"""Centre and scale by statistics of the observed entries, for outcomes of any scale.

    `observed` is `batch_shape x n x 1`, as in `VarianceLink.outcome_transform`.
    """

    observed: Tensor

    def __init__(self, observed: Tensor) -> None:
        super().__init__(m=1, batch_shape=observed.shape[:-2])
        # Not part of the state: a model with other rows could not load it.
        self.register_buffer("observed", observed, persistent=False)

    def forward(
        self, Y: Tensor, Yvar: Tensor | None = None, X: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        if self.training:
            self._validate_training_inputs(Y=Y, Yvar=Yvar)
            if Y.shape != self.observed.shape:
                raise BotorchTensorDimensionError(
                    f"Expected outcomes of shape {self.observed.shape}. Got {Y.shape=}."
                )
            self.means, self.stdvs = self._statistics(Y)
            self._stdvs_sq = self.stdvs.square()
            self._is_trained = torch.ones((), dtype=torch.bool, device=Y.device)
        return (Y - self.means) / self.stdvs, None if Yvar is None else Yvar / self._stdvs_sq

    @abstractmethod
    def _statistics(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        r"""Centre and scale, `batch_shape x 1 x 1` each."""

    def _moments(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Number, mean and unbiased variance (0 for fewer than two) of the observed entries."""
        count = self.observed.sum(dim=-2, keepdim=True)
        mean = self._average(Y)
        squares = (Y - mean).square().where(self.observed, torch.zeros_like(Y))
        return count, mean, squares.sum(dim=-2, keepdim=True) / (count - 1).clamp_min(1)

    def _average(self, values: Tensor) -> Tensor:
        total = values.where(self.observed, torch.zeros_like(values)).sum(dim=-2, keepdim=True)
        return total / self.observed.sum(dim=-2, keepdim=True).clamp_min(1)


class StandardDeviationScale(ObservedScale):
    r"""Zero mean and unit standard deviation, as BoTorch's `Standardize`, at any scale.

    Constant outcomes, or fewer than two, are only centred.
    """

    def _statistics(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        _, mean, variance = self._moments(Y)
        # Constant up to rounding, whatever the units are: BoTorch compares with 1e-8 instead.
        resolution = 4 * torch.finfo(Y.dtype).eps * mean.abs()
        scale = variance.sqrt()
        return mean, scale.where(scale > resolution, torch.ones_like(scale))


class MeanScale(ObservedScale):
    r"""Centre sample variances and divide them by their mean, not their standard deviation.

    They are heavy-tailed for two or three repeats, so their standard deviation says little.
    `default` has the scales for sample variances that are all 0.
    """

    default: Tensor

    def __init__(self, observed: Tensor, default: Tensor) -> None:
        super().__init__(observed)
        self.register_buffer("default", default, persistent=False)

    def _statistics(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        mean = self._average(Y)
        return mean, mean.where(mean > 0, self.default)


class SignalScale(ObservedScale):
    r"""Centre logarithms of sample variances and divide by the spread of the noise itself.

    The spread `S` of the observations is the spread of the noise plus their own, which is known:
    `t = trigamma((k - 1) / 2)`, 4.9 for two repeats. A process with unit prior variance on
    observations divided by sqrt(S) would take all of S for prior variance. The estimate
    `s = max(S - t, 0)` has a standard error e. It is averaged, by precision, with a typical
    `v = TYPICAL_LOG_VARIANCE`, whose error p is taken to be the larger of s and v. The average is
    kept above `LEAST_LOG_VARIANCE`:

        (v e^2 + s p^2) / (e^2 + p^2),   e^2 = 2 max(S, t)^2 / (n - 1),   p = max(s, v)

    `noise` is `None` if the observations are noise levels, not estimates of them.
    """

    noise: Tensor | None

    def __init__(self, observed: Tensor, noise: Tensor | None) -> None:
        super().__init__(observed)
        self.register_buffer("noise", noise, persistent=False)

    def _statistics(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        count, mean, spread = self._moments(Y)
        own = torch.zeros_like(spread) if self.noise is None else self._average(self.noise)
        signal = (spread - own).clamp_min(0.0)
        error = 2 * (signal + own).square() / (count - 1).clamp_min(1)
        # One observation has no spread: the typical variance alone is left.
        error = error.where(count > 1, torch.full_like(error, torch.inf))
        doubt = signal.clamp_min(TYPICAL_LOG_VARIANCE).square()
        trust = doubt / (error + doubt)
        variance = TYPICAL_LOG_VARIANCE + trust * (signal - TYPICAL_LOG_VARIANCE)
        return mean, variance.clamp_min(LEAST_LOG_VARIANCE).sqrt()


# Without repeats that tell, the logarithm of the noise variance in units of the outcomes' variance.
TYPICAL_LOG_LEVEL = -2.5
# The number of rows with repeats above which they tell.
FEW_REPEATED = 5


class LevelScale(ObservedScale):
    r"""Centre logarithms of sample variances at their level, without scaling.

    The level is their mean with weights `1 / (1 + trigamma)`: an observation's variance is trigamma
    and a typical one of the noise is 1. It is `default` if at most `FEW_REPEATED` are observed.
    """

    noise: Tensor
    default: Tensor

    def __init__(self, observed: Tensor, noise: Tensor, default: Tensor) -> None:
        super().__init__(observed)
        self.register_buffer("noise", noise, persistent=False)
        self.register_buffer("default", default, persistent=False)

    @property
    def is_known(self) -> Tensor:
        r"""Whether repeats determine the level, `batch_shape x 1 x 1`."""
        return self.observed.sum(dim=-2, keepdim=True) > FEW_REPEATED

    def _statistics(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        weight = (1 / (1 + self.noise)).where(self.observed, torch.zeros_like(Y))
        total = weight.sum(dim=-2, keepdim=True)
        level = (weight * Y).sum(dim=-2, keepdim=True) / total.where(total > 0, 1.0)
        return level.where(self.is_known, self.default), torch.ones_like(level)


def scale_of_observed(
    transform: OutcomeTransform | _DefaultType | None, observed: Tensor
) -> OutcomeTransform | None:
    r"""An outcome transform with statistics of the observed rows alone; `Standardize` by default.

    Raises:
        UnsupportedError: If the transform is not linear, or learns from fillers.
    """
    if transform == DEFAULT:
        return StandardDeviationScale(observed)
    if transform is None:
        return None
    assert isinstance(transform, OutcomeTransform)  # for the type checker
    if not transform._is_linear:
        raise UnsupportedError(
            "Expected a linear `outcome_transform`: the mean of transformed repeats is not "
            f"the transformed mean. Got {type(transform).__name__}."
        )
    if bool(observed.all()):
        return transform
    # An exact type: a subclass may do more than standardise.
    if type(transform) is Standardize:
        return StandardDeviationScale(observed)
    raise UnsupportedError(
        "Expected `Standardize` or no `outcome_transform` if a replicate misses rows, since "
        f"fillers would enter its statistics. Got {type(transform).__name__}."
    )
