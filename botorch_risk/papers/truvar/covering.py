r"""Greedy covering of a finite domain by truncated variance reduction."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor
from torch.nn.functional import pad

from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.arguments import as_floating, as_tensor, check_integers, in_short
from botorch_risk.engine import DomainPosterior
from botorch_risk.papers.truvar.gain import (
    anticipated_gain,
    anticipated_set,
    inverse_variance,
    targets_of,
)
from botorch_risk.papers.truvar.sampling import SamplingTerms
from botorch_risk.papers.truvar.state import TruncatedVarianceState

# Values that differ by less than this fraction are ties. At the end of an epoch many candidates
# bring all variances to the target, and their sums differ by rounding alone.
_TIE = 1e-9


class Selection(NamedTuple):
    r"""Points of the domain to sample next.

    Attributes:
        X: `batch_shape x q x d`, with the noise level in the last column if there is a choice.
            NaN where a batch has ended.
        row: `batch_shape x q` rows of the domain; -1 where a batch has ended.
        level: `batch_shape x q` noise levels, from 0.
        value: `batch_shape x q` gains per cost; 0 where a batch has ended.
    """

    X: Tensor
    row: Tensor
    level: Tensor
    value: Tensor


@dataclass(frozen=True)
class GreedyCovering:
    r"""Truncated variance reduction on the points of the domain.

    Attributes:
        state: The set M, `beta` and `eta`, which do not change during a batch.
        terms: Noise and cost of candidates.
        candidates: `batch_shape x |D|`, which points may be sampled.
        weights: `|D|` weights of the points in the sum, or `None`.
        anticipate: Whether to sum over the set M expected after the sample.
    """

    state: TruncatedVarianceState
    terms: SamplingTerms
    candidates: Tensor
    weights: Tensor | None
    anticipate: bool

    def values(self, posterior: DomainPosterior, previous: Tensor | None) -> Tensor:
        r"""Gains per cost, `B x |D| x K`; minus infinity where there is no candidate."""
        return self._values(posterior, self._mask, previous)

    def targets(self, posterior: DomainPosterior) -> DomainPosterior.Targets:
        if not self.anticipate:
            return targets_of(posterior, self.state, self.weights)
        within = anticipated_set(posterior, self.state)
        return targets_of(posterior, self.state, self.weights, truncate=False, within=within)

    def select(self, posterior: DomainPosterior, previous: Tensor | None, q: int) -> Selection:
        r"""The next `q` points, each chosen given the ones before it; the batch may be shorter.

        A replicate that is finished gets none.
        """
        batch, count = posterior.batch_shape.numel(), self.terms.num_levels
        picks = []
        going = ~self.state.finished.reshape(batch)
        for pick in range(q):
            values = self._values(posterior, self._mask, previous).flatten(1)  # B x (|D| K)
            best, choice = self._best(values, posterior, previous)
            going = going & (best > 0)  # what gains nothing is not worth its cost
            picks.append((choice, best.where(going, 0.0), going))
            if pick + 1 == q or not bool(going.any()):
                break
            # Hallucinations go into a copy, made once and only for a batch of several points.
            posterior = posterior.copy() if pick == 0 else posterior
            row = choice // count
            noise = self.terms.domain_noise(posterior).flatten(1).gather(-1, choice[:, None])
            previous = domain_points(posterior, row.unsqueeze(-1)).reshape(
                *posterior.batch_shape, -1
            )
            # A replicate whose batch has ended keeps its variances.
            posterior.hallucinate(previous, noise, index=row, within=going)
        return self._selection(picks, q, posterior)

    def _selection(
        self, picks: list[tuple[Tensor, Tensor, Tensor]], q: int, posterior: DomainPosterior
    ) -> Selection:
        choice, value, chosen = (torch.stack(part, dim=-1) for part in zip(*picks, strict=True))
        short = q - choice.shape[-1]
        # Picks after the last one that any replicate made: `chosen` is padded with False.
        choice, value, chosen = (pad(part, (0, short)) for part in (choice, value, chosen))
        batch, count = posterior.batch_shape, self.terms.num_levels
        X = domain_points(posterior, choice // count)
        if self.terms.levels is not None:
            X = torch.cat([X, (choice % count).to(X).unsqueeze(-1)], dim=-1)
        return Selection(
            X=X.where(chosen.unsqueeze(-1), torch.nan).reshape(*batch, q, -1),
            row=(choice // count).where(chosen, -1).reshape(*batch, q),
            level=(choice % count).reshape(*batch, q),
            value=value.reshape(*batch, q),
        )

    def _values(
        self,
        posterior: DomainPosterior,
        mask: Tensor,
        previous: Tensor | None,
        truncate: bool = True,
    ) -> Tensor:
        r"""Values on the domain, `B x |D| x K`; minus infinity outside a `B x |D|` mask."""
        anticipate = self.anticipate and truncate
        if truncate:
            targets = self.targets(posterior)
        else:
            targets = targets_of(posterior, self.state, self.weights, truncate=False)
        candidates = DomainPosterior.Candidates.of(mask, targets, posterior.dense or anticipate)
        index, noise = candidates.row, self.terms.domain_noise(posterior)  # B x |D| x K
        variance = posterior.variance.reshape(noise.shape[:-1])
        inverse = inverse_variance(variance.unsqueeze(-1) + noise, posterior)
        spread = index.unsqueeze(-1).expand(*index.shape, noise.shape[-1])
        inverse = inverse.gather(-2, spread)
        if anticipate:
            gains = self._anticipated(posterior, candidates, inverse, targets)
        else:
            gains = posterior.reductions(candidates, inverse, targets)
        cost = self.terms.cost_at(
            domain_points(posterior, index), previous_row(previous, len(index))
        )
        scored = (gains / cost).where(candidates.valid.unsqueeze(-1), -torch.inf)  # Eq. (3)
        values = torch.full_like(noise, -torch.inf)
        # Padding repeats rows with the lowest value: the maximum keeps the value of a candidate.
        return values.scatter_reduce(-2, spread, scored, "amax")

    def _anticipated(
        self,
        posterior: DomainPosterior,
        candidates: DomainPosterior.Candidates,
        inverse: Tensor,
        targets: DomainPosterior.Targets,
    ) -> Tensor:
        r"""Gains `B x m x K` with the M that is expected after the sample."""

        def of_block(block: Tensor, inverse: Tensor) -> Tensor:
            levels = inverse.unbind(dim=-1)
            gains = [anticipated_gain(block, i, targets, posterior, self.state) for i in levels]
            return torch.stack(gains, dim=-1)

        return posterior.map_rows(of_block, candidates, inverse, targets)

    def _best(
        self, values: Tensor, posterior: DomainPosterior, previous: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        r"""The best value and its candidate of each replicate, ties broken."""
        best = values.amax(dim=-1)
        tied = values >= (best - _TIE * best.abs()).unsqueeze(-1)
        if bool((tied.sum(dim=-1) > 1).any()):
            # Without truncation the sums differ again; only tied points are valued.
            rows = tied.unflatten(-1, (-1, self.terms.num_levels)).any(dim=-1)
            whole = self._values(posterior, rows, previous, truncate=False).flatten(1)
            whole = whole.where(tied, -torch.inf)
            most = whole.amax(dim=-1, keepdim=True)
            tied = whole >= most - _TIE * most.abs()
        # Booleans have no `argmax`; among equal values it returns the first, the lower index.
        return best, tied.to(torch.uint8).argmax(dim=-1)

    @property
    def _mask(self) -> Tensor:
        r"""Which points may be sampled, `B x |D|`."""
        return self.candidates.reshape(-1, self.candidates.shape[-1])


def domain_points(posterior: DomainPosterior, index: Tensor) -> Tensor:
    r"""Points of the domain, `B x m x d`, from `B x m` rows."""
    domain = posterior.domain.expand(len(index), *posterior.domain.shape[-2:])
    return domain.gather(-2, index.unsqueeze(-1).expand(*index.shape, domain.shape[-1]))


def previous_row(previous: Tensor | None, batch: int) -> Tensor | None:
    r"""The last point sampled, `B x 1 x d`, from `d` or `batch_shape x d`."""
    if previous is None:
        return None
    return previous.reshape(-1, 1, previous.shape[-1]).expand(batch, 1, -1)


def candidate_mask(
    candidates: Literal["domain", "unclassified"] | Tensor, state: TruncatedVarianceState
) -> Tensor:
    r"""Which points may be sampled, `batch_shape x |D|`."""
    every = state.unclassified
    if not isinstance(candidates, str | None):
        mask = as_tensor("candidates", candidates)
        if mask.dtype != torch.bool or mask.shape[-1] != every.shape[-1]:
            raise BotorchTensorDimensionError(
                "Expected `candidates` to be a boolean mask, `batch_shape x |D|`, of "
                f"{every.shape[-1]} points. Got {mask.dtype}, {tuple(mask.shape)}."
            )
        mask = mask.expand(every.shape)
    elif candidates in ("domain", "unclassified"):
        mask = every if candidates == "unclassified" else torch.ones_like(every)
        mask = mask | ~mask.any(dim=-1, keepdim=True)  # nothing left: all points, of no gain
    else:
        raise ValueError(
            f"Expected `candidates` to be 'domain', 'unclassified' or a mask. Got {candidates!r}."
        )
    if not bool(mask.any(dim=-1).all()):
        raise InputDataError("Expected at least one candidate in each replicate. Got none.")
    return mask


def checked_weights(weights: Tensor | None, domain: Tensor) -> Tensor | None:
    r"""Check that `weights` has one positive value per point of the domain."""
    if weights is None:
        return None
    weights = as_floating(weights, "weights").to(domain)
    if weights.shape != domain.shape[-2:-1]:
        raise BotorchTensorDimensionError(
            f"Expected `weights` of {domain.shape[-2]} points. Got {weights.shape=}."
        )
    if not bool((weights.isfinite() & (weights > 0)).all()):
        raise ValueError(f"Expected finite `weights` > 0. Got {weights.min()=}, {weights.max()=}.")
    return weights


def top_candidates(
    posterior: DomainPosterior,
    num_candidates: int,
    score: Literal["upper_confidence_bound", "expected_improvement"] = "upper_confidence_bound",
    beta: float | Tensor = 4.0,
    within: Tensor | None = None,
) -> Tensor:
    r"""The points of a domain with the best scores ([Bogunovic2016truvar]_, Appendix A).

        upper_confidence_bound: mean + sqrt(beta) sigma
        expected_improvement:   sigma (z Phi(z) + phi(z)),   z = (mean - best) / sigma

    where `best` is the largest outcome so far.

    Args:
        posterior: The posterior over the domain.
        num_candidates: The number of points.
        score: The score that ranks the points.
        beta: Squared width of the bound, one for all or `batch_shape`.
        within: A mask `batch_shape x |D|` of the points to choose from; all by default.

    Returns:
        A mask `batch_shape x |D|`; ties go to the lower index, and there are fewer points if the
        mask has fewer.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> posterior = DomainPosterior(SingleTaskGP(domain[:9:2], domain[:9:2].sin()), domain)
        >>> top_candidates(posterior, 8).sum()
        tensor(8)
    """
    check_integers(num_candidates=num_candidates)
    mean, deviation = posterior.mean, posterior.variance.sqrt()
    if not 1 <= num_candidates <= mean.shape[-1]:
        raise ValueError(
            f"Expected `num_candidates` from 1 to {mean.shape[-1]}. Got {num_candidates}."
        )
    if score == "upper_confidence_bound":
        values = mean + as_nonnegative("beta", beta).to(mean).sqrt().unsqueeze(-1) * deviation
    elif score == "expected_improvement":
        _, best = posterior.outcome_range
        improvement = mean - best.unsqueeze(-1)
        # Without variance z is infinite, or 0 at the best outcome, and the value is max(0,
        # improvement), where a division by 0 would give NaN.
        z = improvement / deviation.clamp_min(torch.finfo(mean.dtype).tiny)
        normal = torch.distributions.Normal(torch.zeros_like(z), 1.0)
        values = improvement * normal.cdf(z) + deviation * normal.log_prob(z).exp()
    else:
        raise ValueError(
            "Expected `score` to be 'upper_confidence_bound' or 'expected_improvement'. "
            f"Got {in_short(score)}."
        )
    allowed = torch.ones_like(values, dtype=torch.bool)
    if within is not None:
        if within.shape != values.shape or within.dtype != torch.bool:
            raise BotorchTensorDimensionError(
                f"Expected `within` to be booleans of shape {tuple(values.shape)}. "
                f"Got {within.dtype} of shape {tuple(within.shape)}."
            )
        allowed = within
    values = values.masked_fill(~allowed, -torch.inf)
    # A stable sort, as `topk` promises no order among ties: the lower index goes first.
    order = values.argsort(dim=-1, descending=True, stable=True)[..., :num_candidates]
    # With fewer allowed points than asked for, the order goes on to others, at -inf.
    return torch.zeros_like(allowed).scatter(-1, order, True) & allowed
