r"""Rules for the next pairs of a table to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Generator, Tensor

from botorch_risk.acquisition.expected_gain import largest_log_gains
from botorch_risk.acquisition.expected_risk import ExpectedRisk, expected_risk
from botorch_risk.acquisition.lacing import COHERENT, covering_mask, lacing_mask
from botorch_risk.chunks import ChunkSize
from botorch_risk.risk import Expectation, RiskMeasure, ShareAbove, ValueAtRisk, WorstCase
from botorch_risk.seeding import argmax_at_random, is_largest
from botorch_risk.tables.posterior import TablePosterior

TableRule = Literal[
    "knowledge_gradient",
    "risk_variance",
    "lacing",
    "outcome_variance",
    "random_context",
    "random_pair",
]

# Of the bounds: mean plus or minus two standard deviations.
_WIDTH = 2.0
# The most conditions that the knowledge gradient compares, and of which it reads one.
_NUM_COMPARED = 48
# What the readings of the earlier pairs of a plate may show.
_NUM_FANTASIES = 8
# Entries of the covariances over the contexts.
_COVARIANCES = ChunkSize(cpu=2**19)


@dataclass(frozen=True)
class TableBelief:
    r"""The belief about the risks of the conditions.

    Args:
        posterior: The posterior of the outcomes.
        risk_measure: A measure that is bound to the contexts.
        weights: The probabilities of the contexts, `n_w`.
        free: The pairs that may be read, `R x n_x x n_w`.
        moved: The change of the expected risks under each fantasy of the pairs chosen so far,
            `R x F x n_x`; None before the first.
        num_samples: The number of samples for measures whose expectation has no closed form.
    """

    posterior: TablePosterior
    risk_measure: RiskMeasure
    weights: Tensor
    free: Tensor
    moved: Tensor | None = field(default=None, compare=False)
    num_samples: int = 16

    @cached_property
    def risk(self) -> ExpectedRisk:
        r"""`risk_at` all conditions, `R x n_x`."""
        mean = self.posterior.mean
        return self.risk_at(torch.arange(mean.shape[1], device=mean.device).expand(len(mean), -1))

    def risk_at(self, conditions: Tensor) -> ExpectedRisk:
        r"""The expected risks of conditions `R x p`, and the weights of Stein's identity.

        Samples need covariances over the contexts, and are drawn for blocks of conditions.
        """
        mean = self.posterior.mean
        each = mean.shape[-1] ** (2 if self.risk_measure.needs_samples else 1)
        size = _COVARIANCES.rows(mean.device, len(mean) * each)
        parts = [self._risk_of_block(part) for part in conditions.split(size, dim=-1)]
        return ExpectedRisk(*(torch.cat(each, dim=1) for each in zip(*parts, strict=True)))

    def _risk_of_block(self, conditions: Tensor) -> ExpectedRisk:
        posterior = self.posterior
        each = torch.arange(len(conditions), device=conditions.device).unsqueeze(-1)
        return expected_risk(
            self.risk_measure,
            posterior.mean[each, conditions],
            posterior.variance[each, conditions],
            self.weights,
            partial(posterior.covariance_over_contexts, conditions),
            self.num_samples,
        )

    def promising(self, among: Tensor | None = None) -> Tensor:
        r"""Up to 48 conditions that may have the largest risk, `R x p`.

        Half have the largest expected risk, half the largest upper bound of it.

        Args:
            among: The conditions to choose from first, `R x n_x` booleans. Default: all.
        """
        if among is None:
            among = torch.ones_like(self.has_free)
        ceiling = self._ceiling
        if ceiling is None or ceiling.shape[-1] <= _NUM_COMPARED:
            return _largest(*self._estimated(None, among))
        ceiling, order = ceiling.masked_fill(~among, -torch.inf).sort(dim=-1, descending=True)
        value, upper = self._estimated(order[:, :_NUM_COMPARED], among)
        # 24 values and, whichever these are, 24 bounds of others are at least this large.
        least = torch.minimum(value.topk(_NUM_COMPARED // 2).values[:, -1], upper.amin(dim=-1))
        number = (ceiling >= least.unsqueeze(-1)).sum(dim=-1).amax().clamp_min(_NUM_COMPARED)
        chances = order[:, : int(number)]
        return chances.gather(-1, _largest(*self._estimated(chances, among)))

    @cached_property
    def _ceiling(self) -> Tensor | None:
        r"""What no upper bound of a risk exceeds, `R x n_x`; None if marginals say nothing of it.

        It rules out nine in ten conditions of a large table before their covariances are computed.
        A coherent measure is concave, so the mean over antithetic samples is at most the risk of
        the mean; and its gradient is a distribution, so that no variance exceeds the largest.
        """
        measure, posterior = self.risk_measure, self.posterior
        if not (isinstance(measure, COHERENT) and measure.needs_samples):
            return None
        deviation = posterior.variance.amax(dim=-1).sqrt()
        return measure(posterior.mean, self.weights) + _WIDTH * deviation

    def _estimated(self, conditions: Tensor | None, among: Tensor) -> tuple[Tensor, Tensor]:
        r"""Expected risks and upper bounds of conditions `R x p`; -inf if they are not `among`."""
        risk = self.risk if conditions is None else self.risk_at(conditions)
        variance = self.posterior.variance_of_combined(risk.gradient, conditions)
        if conditions is not None:
            among = among.gather(-1, conditions)
        value = risk.value.masked_fill(~among, -torch.inf)
        return value, value + _WIDTH * variance.sqrt()

    @cached_property
    def bounds(self) -> tuple[Tensor, Tensor]:
        r"""Bounds of the outcome at each pair."""
        width = _WIDTH * self.posterior.variance.sqrt()
        return self.posterior.mean - width, self.posterior.mean + width

    @cached_property
    def has_free(self) -> Tensor:
        r"""The conditions with a free pair, `R x n_x`."""
        return self.free.any(dim=-1)

    def after(self, pair: Tensor, fantasies: Tensor | None = None) -> TableBelief:
        r"""The belief after choosing a pair, `R`, with its reading still unknown.

        Args:
            fantasies: `F` standard normal numbers for its possible readings.
        """
        moved = self.moved
        if fantasies is not None:
            row = self.posterior.row_of(pair)
            move = (row * self.risk.gradient).sum(dim=-1).unsqueeze(-2) * fantasies.unsqueeze(-1)
            moved = move if moved is None else moved + move
        free = self.free.flatten(1).scatter(1, pair.unsqueeze(-1), False)
        return replace(
            self,
            posterior=self.posterior.with_reading(pair),
            free=free.reshape(self.free.shape),
            moved=moved,
        )


Chooser = Callable[[TableBelief, Sequence[Generator]], Tensor]


def choose_plate(
    belief: TableBelief,
    rule: TableRule,
    q: int,
    generators: Sequence[Generator],
    pending: Tensor | None = None,
) -> Tensor:
    r"""Choose the pairs of a batch in sequence, each as if the previous ones had been measured.

    Args:
        belief: The belief of `R` replicates, each with at least `q` free pairs.
        rule: How to choose.
        q: The number of pairs.
        generators: One for each replicate.
        pending: Pairs `R x p` that are already being read.

    Returns:
        `R x q` pairs, `condition * n_w + context`.
    """
    chosen = [] if pending is None else list(pending.unbind(dim=-1))
    first, choose = len(chosen), TABLE_RULES[rule]
    for number in range(first + q):
        if number >= first:
            chosen.append(choose(belief, generators))
        if number < first + q - 1:
            fantasies = None
            if rule == "knowledge_gradient":
                fantasies = _fantasies(number).to(belief.weights)
            belief = belief.after(chosen[number], fantasies)
    return torch.stack(chosen[first:], dim=-1)


def _fantasies(number: int) -> Tensor:
    r"""Antithetic normal numbers for the reading of one pair, the same in every call."""
    generator = torch.Generator().manual_seed(number)
    half = torch.randn(_NUM_FANTASIES // 2, generator=generator, dtype=torch.double)
    order = torch.randperm(_NUM_FANTASIES, generator=generator)
    return torch.cat([half, -half])[order]


def knowledge_gradient(belief: TableBelief, generators: Sequence[Generator]) -> Tensor:
    r"""The pair whose reading is expected to increase the largest expected risk most.

        gain(x, w) = E[max_x' (a(x') + sigma(x'; x, w) Z)] - max_x' a(x')
        sigma(x'; x, w) = q(x')' k_n((x', .), (x, w)) / sqrt(k_n((x, w), (x, w)) + noise)

    It is exact for measures that are linear in the outcomes. With more than 48 conditions, only
    those with the largest expected risks and the largest upper bounds are compared, and only those
    with free pairs are read.
    """
    risk, posterior = belief.risk, belief.posterior
    compared, read = belief.promising(), belief.promising(belief.has_free)
    rows = torch.arange(len(compared), device=compared.device).unsqueeze(-1)
    moves = posterior.moves(risk.gradient[rows, compared], compared, read)  # R x p x c x n_w
    moves = moves.flatten(2).mT  # R x (c n_w) x p
    values = risk.value[rows, compared].unsqueeze(1)  # R x F x p
    if belief.moved is not None:
        values = values + belief.moved.gather(
            -1, compared.unsqueeze(1).expand(-1, belief.moved.shape[1], -1)
        )
    taken = ~belief.free[rows, read].flatten(1)
    gain = largest_log_gains(values, moves, taken)
    # Where no reading can change the choice, as with one condition: the one that tells most.
    tells = moves.square().mean(dim=-1).masked_fill(taken, -torch.inf)
    hopeless = (gain == -torch.inf).all(dim=-1, keepdim=True)
    best = _largest_at_random(tells.where(hopeless, gain), generators)
    n_w = belief.free.shape[-1]
    return read.gather(-1, (best // n_w).unsqueeze(-1)).squeeze(-1) * n_w + best % n_w


def _largest(value: Tensor, upper: Tensor) -> Tensor:
    r"""Rows with the largest values, then other rows with the largest upper bounds, `R x p`."""
    number = min(_NUM_COMPARED, value.shape[-1])
    best = value.topk((number + 1) // 2, dim=-1).indices
    others = upper.scatter(-1, best, -torch.inf).topk(number // 2, dim=-1).indices
    return torch.cat([best, others], dim=-1)


def largest_bound(belief: TableBelief, generators: Sequence[Generator]) -> Tensor:
    r"""The condition with the largest upper bound of the risk, `R`.

    Ties are broken by the largest mean bound, then at random: untried conditions often tie, and the
    order of a table may reveal which are good.
    """
    lower, upper = belief.bounds
    bound = belief.risk_measure.bounds(lower, upper, belief.weights)[1]
    bound = bound.masked_fill(~belief.has_free, -torch.inf)
    mean_bound = (upper @ belief.weights).masked_fill(~is_largest(bound), -torch.inf)
    return _largest_at_random(mean_bound, generators)


def risk_variance(belief: TableBelief, generators: Sequence[Generator]) -> Tensor:
    r"""At the largest bound, the context whose reading most reduces the variance of the risk."""
    x = largest_bound(belief, generators)
    one = x.unsqueeze(-1)
    moves = belief.posterior.moves(belief.risk_at(one).gradient, one, one)[:, 0, 0]
    return _with_best_context(belief, x, moves.square(), generators)


def lacing(belief: TableBelief, generators: Sequence[Generator]) -> Tensor:
    r"""At the largest bound, the least certain of the lacing contexts, or of all free ones.

    For the share above a threshold, contexts are lacing if their bounds enclose the threshold. If
    contexts have the same bounds, as untried ones often do, all or none of them are lacing.
    """
    check_rule("lacing", belief.risk_measure)
    x = largest_bound(belief, generators)
    lower, upper = (_up_to_rounding(_of_each(bound, x)) for bound in belief.bounds)
    measure, weights = belief.risk_measure, belief.weights
    if isinstance(measure, ShareAbove):
        laces = (lower <= measure.threshold) & (measure.threshold < upper)
    elif isinstance(measure, ValueAtRisk):
        laces = lacing_mask(lower, upper, weights, measure.risk_level, measure.strict)
    else:
        laces = covering_mask(measure, lower, upper, weights)
    same = (lower.unsqueeze(-1) == lower.unsqueeze(-2)) & (
        upper.unsqueeze(-1) == upper.unsqueeze(-2)
    )
    laces = (same & laces.unsqueeze(-2)).any(dim=-1)
    width = upper - lower
    first = width + laces * (1 + width.amax(dim=-1, keepdim=True))
    return _with_best_context(belief, x, first, generators)


def outcome_variance(belief: TableBelief, generators: Sequence[Generator]) -> Tensor:
    r"""At the largest bound, the context with the least certain outcome."""
    x = largest_bound(belief, generators)
    variance = _of_each(belief.posterior.variance, x)
    return _with_best_context(belief, x, variance, generators)


def random_context(belief: TableBelief, generators: Sequence[Generator]) -> Tensor:
    r"""At the largest bound, a random context."""
    x = largest_bound(belief, generators)
    equal = torch.zeros_like(_of_each(belief.posterior.variance, x))
    return _with_best_context(belief, x, equal, generators)


def random_pair(belief: TableBelief, generators: Sequence[Generator]) -> Tensor:
    r"""A random free pair."""
    free = belief.free.flatten(1)
    equal = torch.zeros_like(free, dtype=torch.double).masked_fill(~free, -torch.inf)
    return _largest_at_random(equal, generators)


def _largest_at_random(score: Tensor, generators: Sequence[Generator]) -> Tensor:
    r"""The index of a largest score `R x n`; ties are broken at random on the CPU."""
    number = score.shape[-1]
    draws = [torch.rand(number, generator=each, dtype=torch.double) for each in generators]
    return argmax_at_random(score, torch.stack(draws).to(score))


def _up_to_rounding(values: Tensor) -> Tensor:
    r"""Round values to steps within which `is_largest` calls them equal."""
    high, low = values.amax(dim=-1, keepdim=True), values.amin(dim=-1, keepdim=True)
    magnitude = torch.maximum(high.abs(), low.abs())
    step = 1e-9 * (high - low) + 64 * torch.finfo(values.dtype).eps * magnitude
    return (values / step.where(step > 0, 1.0)).round() * step


def _of_each(values: Tensor, x: Tensor) -> Tensor:
    r"""The row of one condition in each replicate: `R x n_x x n_w` and `R` to `R x n_w`."""
    return values[torch.arange(len(x), device=x.device), x]


def _with_best_context(
    belief: TableBelief, x: Tensor, score: Tensor, generators: Sequence[Generator]
) -> Tensor:
    r"""The pair of a condition, `R`, and its free context with the largest score, `R x n_w`."""
    free = _of_each(belief.free, x)
    score = score.masked_fill(~free, -torch.inf)
    return x * free.shape[-1] + _largest_at_random(score, generators)


TABLE_RULES: dict[TableRule, Chooser] = {
    "knowledge_gradient": knowledge_gradient,
    "risk_variance": risk_variance,
    "lacing": lacing,
    "outcome_variance": outcome_variance,
    "random_context": random_context,
    "random_pair": random_pair,
}


def check_rule(rule: TableRule, risk_measure: RiskMeasure) -> None:
    r"""Raise UnsupportedError unless a rule supports a measure."""
    if rule == "lacing" and not isinstance(risk_measure, (ShareAbove, ValueAtRisk, *COHERENT)):
        raise UnsupportedError(
            "Expected value-at-risk, a coherent measure or `ShareAbove` for the rule 'lacing'. "
            f"Got {type(risk_measure).__name__}."
        )


def rule_for(risk_measure: RiskMeasure) -> TableRule:
    r"""The default rule of a risk.

    On four tables of reactions it was better than the least certain outcome under each of four
    risks (bench/studies/reaction_tables); the rules were chosen on the same tables with other
    seeds.
    """
    if isinstance(risk_measure, Expectation):
        return "knowledge_gradient"
    return "lacing" if isinstance(risk_measure, WorstCase) else "risk_variance"
