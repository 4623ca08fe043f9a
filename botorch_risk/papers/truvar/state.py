r"""The state of truncated variance reduction between samples: sets of points, epoch, target."""

from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import BotorchWarning
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from botorch_risk.arguments import (
    as_floating,
    check_numbers,
    check_positive,
    check_probability,
    in_short,
)
from botorch_risk.engine import DomainPosterior
from botorch_risk.papers.truvar.goals import GOALS, Goal, Sets


@dataclass(frozen=True)
class PracticalWidth:
    r"""The squared confidence width of the experiments of [Bogunovic2016truvar]_, Sec. 4.

        beta_(i) = a log(|D| t_(i)^2)

    where the epoch i starts with sample `t_(i)`, counted from 1, initial data included.

    Attributes:
        a: 0.5 for optimisation and 1 for level sets in the paper; 2 is the factor of Eq. (14).

    Example:
        >>> first = torch.tensor(1)
        >>> PracticalWidth(0.5).beta(epoch=first, start=first, domain_size=100)
        tensor(2.3026, dtype=torch.float64)
    """

    a: float

    def __post_init__(self) -> None:
        check_positive(a=self.a)

    def beta(self, epoch: Tensor, start: Tensor, domain_size: int) -> Tensor:
        r"""The squared width in each replicate's epoch, float64."""
        # In float64, as the state keeps it for later rounds whatever the dtype of the model.
        return self.a * (math.log(domain_size) + 2 * start.double().log())


@dataclass(frozen=True)
class GuaranteedWidth:
    r"""The squared confidence width of Theorem 3.1 of [Bogunovic2016truvar]_, Eq. (14).

        beta_(i) = 2 log(|D| (C_(1) + .. + C_(i))^2 pi^2 / (6 delta c_min^2))

    The bounds hold with probability `1 - delta` as long as epoch i costs at most `C_(i)`. The paper
    does not say how to find such values, since Eq. (13) asks for the true function; here they are
    arguments, and the last one is used for all further epochs.

    Attributes:
        delta: Probability, in (0, 1), that any bound fails.
        epoch_costs: `C_(1), C_(2), ...`, each > 0.
        min_cost: The least cost of a sample, > 0.

    Example:
        >>> first = torch.tensor(1)
        >>> GuaranteedWidth(0.1, epoch_costs=(5.0,)).beta(first, first, domain_size=100)
        tensor(21.2487, dtype=torch.float64)
    """

    delta: float
    epoch_costs: tuple[float, ...]
    min_cost: float = 1.0

    def __post_init__(self) -> None:
        check_probability(delta=self.delta)
        check_numbers(min_cost=self.min_cost)
        costs = (*self.epoch_costs, self.min_cost)
        are_costs = len(costs) > 1 and all(0 < cost < math.inf for cost in costs)
        if not (are_costs and min(costs) == self.min_cost):  # an epoch has a sample at least
            raise ValueError(
                "Expected finite `epoch_costs`, at least one, each >= `min_cost` > 0. "
                f"Got epoch_costs={in_short(self.epoch_costs)}, {self.min_cost=}."
            )

    def beta(self, epoch: Tensor, start: Tensor, domain_size: int) -> Tensor:
        r"""The squared width in each replicate's epoch, float64."""
        costs = torch.tensor(self.epoch_costs, dtype=torch.float64, device=epoch.device)
        known = epoch.clamp_max(len(costs))
        # C_(1) + .. + C_(i), the last known cost standing for every epoch beyond.
        total = costs.cumsum(dim=0)[known - 1] + (epoch - known) * costs[-1]
        constant = domain_size * math.pi**2 / (6 * self.delta * self.min_cost**2)
        return 2 * (math.log(constant) + 2 * total.log())  # Eq. (14)


_WIDTHS = {kind.__name__: kind for kind in (PracticalWidth, GuaranteedWidth)}
# By domain, with the version of its tensor.
_FINGERPRINTS: Any = WeakTensorKeyDictionary()
# Below this target, in units of the prior standard deviation, there is nothing left to learn.
_SMALLEST_ETA = 1e-10


@dataclass(frozen=True)
class TruncatedVarianceState:
    r"""The memory of truncated variance reduction between samples.

    It is an immutable record of Algorithms 1 and 2 of [Bogunovic2016truvar]_: `update` returns the
    next one. The initial data pass through `update` once before the first selection. A round uses
    the old `beta` for bounds and sets; the loop over epochs then tests with the new target and the
    new `beta`, and ends when the goal is reached, or at a target of 0 or below 1e-10. Variances
    that are 0 up to rounding count as 0.

    `eta` is in units of the prior standard deviation, as the paper's kernel has variance 1.

    Attributes:
        goal: `Maximize()`, `LevelSet(threshold)` or `RelativeLevelSet(fraction)`.
        width: Maps the epoch and its first sample to `beta_(i)`.
        r: The factor, in (0, 1), from one target to the next.
        slack: How far above its target an epoch may end, as a fraction of the target; the paper's
            delta-bar.
        monotone: Whether `M_t` only shrinks. Otherwise the sets are formed from scratch: D replaces
            `M_{t-1}` in Eqs. (5) and (6), as in the paper's Appendix A, and in Eq. (7).
        domain_size: The `|D|` of `beta_(i)`.
        fingerprint: A fingerprint of the domain.
        unclassified: `batch_shape x |D|`, `M_t`: potential maximisers, or points that are not
            classified. With a relative level, also classified points that may be the maximum.
        high: `batch_shape x |D|`, `H_t`.
        low: `batch_shape x |D|`, `L_t`.
        eta: `batch_shape` targets `eta_(i)`; 0 is pure variance reduction.
        beta: `batch_shape` squared confidence widths `beta_(i)`.
        epoch: `batch_shape` epochs i, from 1.
        epoch_start: `batch_shape` first samples `t_(i)`, from 1.
        cost: `batch_shape` costs so far.
        best_excluded: `batch_shape`, whether the point with the highest mean has left `M_t`.
        num_updates: The number of rounds.
    """

    goal: Goal
    width: PracticalWidth | GuaranteedWidth
    r: float
    slack: float
    monotone: bool
    domain_size: int
    fingerprint: str
    unclassified: Tensor
    high: Tensor
    low: Tensor
    eta: Tensor
    beta: Tensor
    epoch: Tensor
    epoch_start: Tensor
    cost: Tensor
    best_excluded: Tensor
    num_updates: int = 0

    @classmethod
    def initial(
        cls,
        domain: Tensor,
        goal: Goal,
        *,
        a: float | None = None,
        eta: float = 1.0,
        r: float = 0.1,
        slack: float = 0.0,
        monotone: bool = True,
        width: GuaranteedWidth | None = None,
        domain_size: int | None = None,
        batch_shape: torch.Size | tuple[int, ...] = (),
    ) -> TruncatedVarianceState:
        r"""The state before any data, in which every point is possible.

        For `goal`, `r`, `slack` and `monotone` see the attributes of the same names.

        Args:
            domain: `|D| x d`, or `R x |D| x d`.
            a: Factor in `beta_(i) = a log(|D| t_(i)^2)`; by default the paper's 0.5 to maximise and
                1 for level sets.
            eta: The first target in units of the prior standard deviation; 0 is pure variance
                reduction.
            width: The theory's confidence width, instead of the width from `a`.
            domain_size: The `|D|` of the width; all points by default (the paper multiplies it
                by the number of noise levels in Corollary 3.2).
            batch_shape: `(R,)` for replicates.
        """
        domain = as_floating(domain, "domain")
        if domain.dim() < 2 or 0 in domain.shape:
            raise BotorchTensorDimensionError(
                f"Expected `domain` to have at least one point, `|D| x d`. Got {domain.shape=}."
            )
        if not 0 < r < 1:
            raise ValueError(f"Expected `r` in (0, 1). Got {r}.")
        if not (0 <= eta < math.inf and 0 <= slack < math.inf):
            raise ValueError(f"Expected finite `eta` and `slack` >= 0. Got {eta=}, {slack=}.")
        schedule = width or PracticalWidth(goal.paper_a if a is None else a)
        shape, device = torch.Size(batch_shape), domain.device
        one = torch.ones(shape, dtype=torch.long, device=device)
        size = domain.shape[-2] if domain_size is None else domain_size
        none = torch.zeros(*shape, domain.shape[-2], dtype=torch.bool, device=device)
        return cls(
            goal=goal,
            width=schedule,
            r=r,
            slack=slack,
            monotone=monotone,
            domain_size=size,
            fingerprint=_fingerprint(domain),
            unclassified=~none,
            high=none,
            low=none,
            eta=torch.full(shape, eta, dtype=torch.float64, device=device),
            beta=schedule.beta(one, one, size),
            epoch=one,
            epoch_start=one,
            cost=torch.zeros(shape, dtype=torch.float64, device=device),
            best_excluded=torch.zeros(shape, dtype=torch.bool, device=device),
        )

    @property
    def sets(self) -> Sets:
        r"""`M_t`, `H_t` and `L_t`."""
        return self.unclassified, self.high, self.low

    @property
    def finished(self) -> Tensor:
        r"""Whether nothing is left to do, `batch_shape`.

        The goal is reached, or the target is below 1e-10 of the prior standard deviation.
        """
        done = self.goal.is_finished(self.sets, self.monotone)
        # A target of 0 is pure variance reduction: it ends with the goal, not by its size.
        return done | ((self.eta > 0) & (self.eta < _SMALLEST_ETA))

    def target_variance(self, posterior: DomainPosterior) -> Tensor:
        r"""The variance `eta_(i)^2 / beta_(i)` below which there is no gain, `batch_shape`."""
        target = self.eta.square() * posterior.prior_variance.double()
        # Bounds without a width are exact: nothing is left to reduce, whatever the target.
        return torch.where(self.beta > 0, target / self.beta, torch.inf)

    def confidence_bounds(self, posterior: DomainPosterior) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bounds of f by Eq. (4), `batch_shape x |D|` each."""
        half_width = (self.beta.unsqueeze(-1) * posterior.variance).sqrt()
        return posterior.mean - half_width, posterior.mean + half_width

    def update(
        self, posterior: DomainPosterior, cost: float | Tensor = 0.0
    ) -> TruncatedVarianceState:
        r"""The state after new samples: Algorithm 2, then lines 5 and 6 of Algorithm 1.

        Args:
            posterior: The posterior of all samples so far.
            cost: The cost of the new samples, one for all or `batch_shape`.

        Raises:
            InputDataError: If the posterior has another domain.
        """
        self.check_domain(posterior)
        if self.num_updates == 0:
            self.goal.warn_unlikely(*posterior.outcome_range)
        bounds = self.confidence_bounds(posterior)
        sets = self.goal.classify(self.sets, *bounds, monotone=self.monotone)
        best = posterior.mean.argmax(dim=-1, keepdim=True)
        # Only the search for a maximum has to keep the best point; a level set may classify it.
        excluded = ~sets[0].gather(-1, best).squeeze(-1) & self.goal.keeps_maximizer
        # Once for each exclusion; without `monotone` the point may return.
        if self.monotone and bool((excluded & ~self.best_excluded).any()):
            _warn_excluded(excluded & ~self.best_excluded, best.squeeze(-1))
        paid = torch.as_tensor(cost, dtype=torch.float64, device=self.cost.device)
        state = replace(
            self,
            unclassified=sets[0],
            high=sets[1],
            low=sets[2],
            cost=self.cost + paid,
            best_excluded=excluded,
            num_updates=self.num_updates + 1,
        )
        return state._next_epochs(posterior)

    def state_dict(self) -> dict[str, Any]:
        r"""The record as tensors and plain Python values."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        width = {"kind": type(self.width).__name__, **asdict(self.width)}
        return {**parts, "width": width, "goal": self.goal.state_dict()}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> TruncatedVarianceState:
        r"""Inverse of `state_dict`."""
        width, goal = dict(state["width"]), dict(state["goal"])
        return cls(
            **{
                **state,
                "width": _WIDTHS[width.pop("kind")](**width),
                "goal": GOALS[goal.pop("kind")](**goal),
            }
        )

    def check_domain(self, posterior: DomainPosterior) -> None:
        r"""Raise InputDataError if the posterior has another domain than this state."""
        shape = torch.Size([*posterior.batch_shape, posterior.domain.shape[-2]])
        if shape != self.unclassified.shape or _fingerprint(posterior.domain) != self.fingerprint:
            raise InputDataError(
                "Expected the posterior of the domain that the state was built for, with sets of "
                f"shape {tuple(self.unclassified.shape)}. Got another domain, {tuple(shape)}."
            )

    def _next_epochs(self, posterior: DomainPosterior) -> TruncatedVarianceState:
        r"""Ends as many epochs as the variances in `M_t` allow (lines 5 and 6)."""
        prior = posterior.prior_variance.double()
        largest = posterior.variance.where(self.unclassified, 0.0).amax(dim=-1).double()
        # A variance that is 0 up to rounding would never reach a target of that size.
        largest = (largest - posterior.resolution.double()).clamp_min(0.0)
        # t_(i) of the epochs that begin now: the number of the next sample.
        start, state = posterior.num_samples + 1, self
        # Each turn multiplies a target by r < 1, so that it ends at the smallest one at the latest.
        while True:
            # Line 5, sqrt(beta) sigma <= (1 + slack) eta, squared; eta in prior deviations.
            target = ((1 + state.slack) * state.eta).square() * prior
            ends = (state.beta * largest <= target) & (state.eta > 0) & ~state.finished
            if not bool(ends.any()):
                return state
            epoch = state.epoch + ends
            epoch_start = start.where(ends, state.epoch_start)
            beta = state.width.beta(epoch, epoch_start, state.domain_size)
            state = replace(
                state,
                epoch=epoch,
                epoch_start=epoch_start,
                eta=(state.r * state.eta).where(ends, state.eta),
                beta=beta.where(ends, state.beta),
            )


def _fingerprint(domain: Tensor) -> str:
    r"""A hash that distinguishes domains, computed once while a tensor is not written to."""
    # An inference tensor counts no changes, so its hash is computed every time.
    version = None if domain.is_inference() else domain._version
    known = _FINGERPRINTS.get(domain)
    if version is None or known is None or known[0] != version:
        known = _FINGERPRINTS[domain] = version, _hash(domain)
    return known[1]


def _hash(domain: Tensor) -> str:
    # In float64 on the CPU, so that a state goes on where the domain is on another device.
    data = domain.detach().cpu().double().contiguous().numpy().tobytes()
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _warn_excluded(excluded: Tensor, best: Tensor) -> None:
    warnings.warn(
        f"The point with the highest posterior mean, index {in_short(best[excluded])} in "
        f"{int(excluded.sum())} of {excluded.numel()} replicates, was ruled out before and cannot "
        "come back. Use `monotone=False`, or a larger `a`.",
        BotorchWarning,
        stacklevel=3,
    )


class Status(NamedTuple):
    r"""The progress of a TRUVAR run.

    Attributes:
        num_unclassified: `batch_shape`, the size of `M_t`.
        epoch: `batch_shape`, the epoch i, from 1.
        target: `batch_shape`, `eta_(i)` in units of the outcome.
        largest_deviation: `batch_shape`, the largest posterior standard deviation in `M_t`; the
            epoch ends when `sqrt(beta)` times it is at the target.
        cost: `batch_shape`, the cost of all samples so far.
    """

    num_unclassified: Tensor
    epoch: Tensor
    target: Tensor
    largest_deviation: Tensor
    cost: Tensor


def status(state: TruncatedVarianceState, posterior: DomainPosterior) -> Status:
    r"""Report the progress of a TRUVAR run.

    After Algorithm 1 of [Bogunovic2016truvar]_.

    Args:
        state: The state after its last update.
        posterior: The posterior that was used in that update.
    """
    state.check_domain(posterior)
    inside = posterior.variance.where(state.unclassified, 0.0)
    return Status(
        num_unclassified=state.unclassified.sum(dim=-1),
        epoch=state.epoch,
        target=state.eta * posterior.prior_variance.double().sqrt(),
        largest_deviation=inside.amax(dim=-1).sqrt(),
        cost=state.cost,
    )
