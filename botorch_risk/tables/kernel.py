r"""The Gaussian process of a table, and its fit by the marginal likelihood.

    f(x, w) = constant + condition(x) + context(w) + both(x, w) + own(x, w)

four independent processes over the rows with the kernels

    v_1 K_x(x, x'),  v_2 K_w(w, w'),  v_3 K_x(x, x') K_w(w, w'),  v_4 [x = x'][w = w']
    K(x, x') = exp(-sum_c rate_c distance_c(x, x'))

K is BoTorch's `CategoricalKernel` in columns of categories, and GPyTorch's `RBFKernel` in columns
of numbers. The last process is specific to a pair: no other pair is informative about it. A second
reading of the pair repeats it, except for the share `noise_share` of its variance that is noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor, check_numbers
from botorch_risk.engine import minimize_rows
from botorch_risk.matrices import inverse_of_factored
from botorch_risk.tables.factors import Factors
from botorch_risk.tables.memory import check_memory

# Normal priors of the logarithms, for standardised outcomes, and their bounds.
_LOCATION = {"rates": -0.5, "variances": math.log(1 / 3), "own": math.log(0.1)}
_SCALE = 1.0
# The least variance of a reading: readings of one pair agree.
_JITTER = 1e-6
_BOUNDS = {"rates": (-5.0, 4.0), "variances": (-8.0, 4.0), "own": (-8.0, 2.0)}


@dataclass(frozen=True)
class TableReadings:
    r"""The observations of `R` replicates of equal size.

    Args:
        conditions: The rows of the pairs; they are moved to the device of `Y`.
        contexts: The values of W, moved in the same way.
        pairs: `R x n` pairs, `condition * n_w + context`.
        Y: `R x n` outcomes.
        noise_share: The share, in [0, 1], of a pair's own variance that is noise.
        counts: `R x n`, the number of readings of which each outcome is the mean. Default: 1.
        scatter: `R`, the sum of the squared deviations of readings from these means.
    """

    conditions: Factors
    contexts: Factors
    pairs: Tensor
    Y: Tensor
    noise_share: float = 0.1
    counts: Any = None
    scatter: Any = None

    def __post_init__(self) -> None:
        Y = as_floating(self.Y, "Y").double()
        pairs = as_tensor("pairs", self.pairs).to(Y.device)
        if pairs.dim() != 2 or pairs.shape != Y.shape:
            raise BotorchTensorDimensionError(
                "Expected `pairs` and `Y` to have one shape `R x n`. "
                f"Got {tuple(pairs.shape)} and {tuple(Y.shape)}."
            )
        check_memory(conditions=len(self.conditions), contexts=len(self.contexts))
        number = len(self.conditions) * len(self.contexts)
        exist = (pairs >= 0) & (pairs < number)
        if pairs.is_floating_point() or not bool((exist & Y.isfinite()).all()):
            raise InputDataError(
                f"Expected `pairs` to be whole numbers from 0 to {number - 1}, and `Y` to be "
                "finite. Got other values."
            )
        check_numbers(noise_share=self.noise_share)
        if not 0 <= self.noise_share <= 1:
            raise ValueError(f"Expected `noise_share` in [0, 1]. Got {self.noise_share}.")
        counts = torch.ones_like(Y) if self.counts is None else self.counts.to(Y)
        scatter = torch.zeros_like(Y[:, 0]) if self.scatter is None else self.scatter.to(Y)
        values = {"Y": Y, "pairs": pairs, "counts": counts, "scatter": scatter}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        for name in ("conditions", "contexts"):
            object.__setattr__(self, name, getattr(self, name).to(self.Y.device))

    @property
    def rows(self) -> tuple[Tensor, Tensor]:
        r"""The condition and the context of each pair, `R x n`."""
        return self.pairs // len(self.contexts), self.pairs % len(self.contexts)

    @property
    def units(self) -> tuple[Tensor, Tensor]:
        r"""The mean and the standard deviation of the outcomes, `R`; 1 if they do not vary."""
        number = self.counts.sum(dim=-1)
        mean = (self.counts * self.Y).sum(dim=-1) / number
        between = (self.counts * (self.Y - mean.unsqueeze(-1)).square()).sum(dim=-1)
        spread = ((between + self.scatter) / number).sqrt()
        resolution = 64 * torch.finfo(self.Y.dtype).eps * self.Y.abs().amax(dim=-1)
        return mean, spread.where(spread > resolution, 1.0)

    def averaged(self) -> TableReadings:
        r"""The readings of one replicate, reduced to one mean for each pair.

        Nothing is lost: for equal and independent noise, means, counts and scatter tell as much as
        the readings. Fits take as long as with one reading per pair.
        """
        pairs, group, counts = self.pairs[0].unique(return_inverse=True, return_counts=True)
        means = self.Y.new_zeros(len(pairs)).index_add(0, group, self.Y[0]) / counts
        scatter = (self.Y[0] - means[group]).square().sum()
        return replace(
            self,
            pairs=pairs.unsqueeze(0),
            Y=means.unsqueeze(0),
            counts=counts.unsqueeze(0),
            scatter=scatter.unsqueeze(0),
        )

    def of_conditions(self, conditions: Tensor) -> tuple[TableReadings, Tensor]:
        r"""The table of given conditions and all that were read, and the places of the former."""
        x, w = self.rows
        kept, place = torch.cat([conditions, x.flatten()]).unique(return_inverse=True)
        at, read = place.split([len(conditions), x.numel()])
        pairs = read.reshape(x.shape) * len(self.contexts) + w
        return replace(self, conditions=self.conditions.of_rows(kept), pairs=pairs), at

    @property
    def num_rates(self) -> int:
        return len(self.conditions.distances) + len(self.contexts.distances)


class TableHyperparameters(NamedTuple):
    r"""The hyperparameters, in units of standardised outcomes.

    Attributes:
        rates: `R x c`, first for the columns of the conditions, then of the contexts.
        variances: `R x 3`: of conditions, of contexts and of both.
        own: `R`, the variance specific to a pair.
    """

    rates: Tensor
    variances: Tensor
    own: Tensor

    @classmethod
    def of(cls, theta: Tensor) -> TableHyperparameters:
        r"""Hyperparameters from their logarithms, `R x (c + 4)`."""
        values = theta.exp()
        return cls(values[:, :-4], values[:, -4:-1], values[:, -1])


class FittedTable(NamedTuple):
    r"""The hyperparameters with the largest posterior density.

    Attributes:
        theta: `R x p` logarithms.
        metric: `R x p x p`, an approximate inverse Hessian of the loss there.
    """

    theta: Tensor
    metric: Tensor

    @property
    def hyperparameters(self) -> TableHyperparameters:
        return TableHyperparameters.of(self.theta)


def fit_table(readings: TableReadings, previous: FittedTable | None = None) -> FittedTable:
    r"""Maximise the marginal likelihood times the priors, for each replicate separately.

    Args:
        previous: Hyperparameters of almost the same readings, to start from.

    Example:
        >>> conditions, contexts = Factors.of(["a", "b", "c"]), Factors.of(["u", "v"])
        >>> pairs, Y = torch.tensor([[0, 1, 2, 4]]), torch.tensor([[0.1, 0.2, 0.8, 0.9]]).double()
        >>> readings = TableReadings(conditions, contexts, pairs, Y)  # a with u and v, b with u, ..
        >>> fit_table(readings).hyperparameters.rates.shape
        torch.Size([1, 2])
    """
    loss = TableLoss(readings)
    num_rows = len(readings.Y)
    start, metric = loss.location.cpu().expand(num_rows, -1).numpy(), None
    if previous is not None:
        start, metric = (each.cpu().numpy() for each in previous)
    lower, upper = loss.bounds
    found = minimize_rows(
        loss, start, lower, upper, gradient_tolerance=1e-4, max_step=2.0, metric=metric
    )
    return FittedTable(*(torch.tensor(each).to(readings.Y) for each in (found.x, found.metric)))


class TableLoss:
    r"""`-(log marginal likelihood + log prior)` and its gradient in the logarithms.

    Several rows of hyperparameters may belong to one replicate: row `i` belongs to `i % R`.
    """

    def __init__(self, readings: TableReadings) -> None:
        x, w = readings.rows
        between = [_between(readings.conditions, x), _between(readings.contexts, w)]
        self._num_x = between[0].shape[1]
        self._distances = torch.cat(between, dim=1)  # R x c x n x n
        centre, spread = readings.units
        self._y = (readings.Y - centre.unsqueeze(-1)) / spread.unsqueeze(-1)
        same = (readings.pairs.unsqueeze(-1) == readings.pairs.unsqueeze(-2)).to(self._y)
        self._eye, noise = torch.eye(same.shape[-1]).to(same), readings.noise_share
        of_reading = self._eye / readings.counts.unsqueeze(-1)
        self._own = (1 - noise) * same + noise * of_reading
        self._jitter = _JITTER * of_reading
        self._noise_share = noise
        self._scatter = readings.scatter / spread.square()
        self._further = (readings.counts - 1).sum(dim=-1)
        names = ["rates"] * readings.num_rates + ["variances"] * 3 + ["own"]
        self.location = self._y.new_tensor([_LOCATION[name] for name in names])
        ends = np.array([_BOUNDS[name] for name in names])
        self.bounds = ends[:, 0], ends[:, 1]

    def __call__(self, theta: ndarray, index: ndarray) -> tuple[ndarray, ndarray]:
        replicate = torch.as_tensor(index % len(self._y), device=self._y.device)
        value, gradient = self.evaluate(torch.tensor(theta).to(self._y), replicate)
        return value.cpu().numpy(), gradient.cpu().numpy()

    def evaluate(self, theta: Tensor, replicate: Tensor) -> tuple[Tensor, Tensor]:
        r"""Losses, `rows`, and their gradients, `rows x p`, at `rows x p` logarithms."""
        rates, variances, own = TableHyperparameters.of(theta)
        distances, y = self._distances[replicate], self._y[replicate]
        K_x, K_w = correlations(rates, distances, self._num_x)
        parts = [K_x, K_w, K_x * K_w]
        terms = [v[:, None, None] * K for v, K in zip(variances.unbind(-1), parts, strict=True)]
        alone = own[:, None, None] * self._own[replicate]
        A = sum(terms) + alone + self._jitter[replicate]
        factor, failed = torch.linalg.cholesky_ex(A)
        factor = factor.where((failed == 0)[:, None, None], self._eye)
        inverse = inverse_of_factored(factor)
        pull = inverse.sum(dim=-1)
        constant = (pull * y).sum(dim=-1) / pull.sum(dim=-1)  # generalised least squares
        residual = y - constant.unsqueeze(-1)
        alpha = (inverse @ residual.unsqueeze(-1)).squeeze(-1)
        log_root = factor.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        value = 0.5 * (residual * alpha).sum(dim=-1) + log_root
        # Readings of one pair differ by their noise alone.
        noise = self._noise_share * own + _JITTER
        scatter, further = self._scatter[replicate] / noise, self._further[replicate]
        value = value + 0.5 * (further * noise.log() + scatter)
        by_noise = self._noise_share * own / noise * (further - scatter)
        S = inverse - alpha.unsqueeze(-1) * alpha.unsqueeze(-2)  # 2 d value / d A
        slopes = [(S * term).sum(dim=(-2, -1)) for term in terms]
        slopes.append((S * alone).sum(dim=(-2, -1)) + by_noise)
        of_x, of_w = S * (terms[0] + terms[2]), S * (terms[1] + terms[2])
        far = distances.flatten(-2)
        by_x = -(far[:, : self._num_x] @ of_x.flatten(-2).unsqueeze(-1)).squeeze(-1)
        by_w = -(far[:, self._num_x :] @ of_w.flatten(-2).unsqueeze(-1)).squeeze(-1)
        by_rate = torch.cat([by_x, by_w], dim=-1) * rates
        gradient = 0.5 * torch.cat([by_rate, torch.stack(slopes, dim=-1)], dim=-1)
        from_prior = (theta - self.location) / _SCALE**2
        value = value + 0.5 * (from_prior * (theta - self.location)).sum(dim=-1)
        return value.where(failed == 0, torch.inf), gradient + from_prior


def correlations(rates: Tensor, distances: Tensor, num_x: int) -> tuple[Tensor, Tensor]:
    r"""`K_x` and `K_w` from `rows x c` rates and `rows x c x n x n` distances."""
    scaled = rates[..., None, None] * distances
    return (-scaled[:, :num_x].sum(dim=1)).exp(), (-scaled[:, num_x:].sum(dim=1)).exp()


def whole_correlation(rates: Tensor, factors: Factors) -> Tensor:
    r"""The correlations of all rows, `R x n x n`, from their `R x c` rates."""
    return torch.einsum("rc,cij->rij", rates, factors.distances).neg().exp()


def _between(factors: Factors, rows: Tensor) -> Tensor:
    r"""Distances between the rows of pairs, `R x c x n x n`."""
    return factors.distances[:, rows.unsqueeze(-1), rows.unsqueeze(-2)].movedim(0, 1)
