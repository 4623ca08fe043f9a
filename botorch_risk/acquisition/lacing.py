r"""Select the value of the environment to query with a decision."""

from collections.abc import Sequence
from typing import Literal

import torch
from botorch.exceptions.errors import InputDataError, UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.pointwise import per_point
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import as_floating, as_tensor, check_kind, first_index, in_short
from botorch_risk.engine import Belief
from botorch_risk.environments.environment import inputs_at
from botorch_risk.points import as_points
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    RiskMeasure,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.seeding import Draws, argmax_at_random, as_seeds
from botorch_risk.steady import expect, sent

LacingRule = Literal["probability", "uniform", "variance"]

# Measures that are the smallest expectation over a set of distributions.
COHERENT = (Expectation, ConditionalValueAtRisk, WorstCase, TotalVariationBall)


def lacing_mask(
    lower: Tensor, upper: Tensor, weights: Tensor, risk_level: float, strict: bool = False
) -> Tensor:
    r"""The lacing values, whose bounds of the outcome enclose the bounds of its value-at-risk.

        l(w) <= VaR(l(W)) <= VaR(u(W)) <= u(w),  w in the support

    Source: [Nguyen2021vucb]_, Definition 1 and Corollary 1.1. They exist for every distribution
    (Theorem 1). Both values-at-risk are computed here from the numbers that they are compared with,
    so that rounding cannot empty the set. Points of weight 0 are not in the support. Remark 1 of
    the paper bounds the probability of the set by the risk level; if W has atoms, that is not true,
    since `P(l(W) <= VaR(l(W)))` is at least the level.

    Args:
        lower: Lower bounds of the outcome, `... x n_w`, finite.
        upper: Upper bounds, `... x n_w`, nowhere below the lower ones.
        weights: Probabilities, broadcastable to `... x n_w`.
        risk_level: Lower-tail probability in (0, 1), the paper's alpha.
        strict: As in `ValueAtRisk`; lacing values exist under either rule.

    Returns:
        `... x n_w` booleans, at least one of each row true.

    Raises:
        InputDataError: If no value in a row is lacing, because the level is within rounding error
            of a partial sum of the weights.

    Example:
        >>> lower = torch.tensor([0.0, 1.0, 2.0])  # Example 1 of the paper, level 0.4
        >>> upper = torch.tensor([4.0, 1.0, 2.0])
        >>> lacing_mask(lower, upper, torch.full((3,), 1 / 3), risk_level=0.4)
        tensor([ True, False, False])
    """
    measure = ValueAtRisk(risk_level, strict)
    lower, upper = as_floating(lower, "lower"), as_floating(upper, "upper")
    weights = as_tensor("weights", weights)
    low, high = _checked_risks(measure, lower, upper, weights)
    # A value of weight 0 may enclose both risks, but it does not occur.
    support = weights.to(lower) > 0
    mask = (lower <= low.unsqueeze(-1)) & (upper >= high.unsqueeze(-1)) & support  # Cor. 1.1
    empty = ~mask.any(dim=-1)

    def refuse() -> None:
        index = first_index(empty)
        raise InputDataError(
            "Expected a lacing value, as every distribution has one. Got none at "
            f"{index}, where the values-at-risk are {low[index]} of {in_short(lower[index])} and "
            f"{high[index]} of {in_short(upper[index])}: partial sums of the weights "
            f"{in_short(weights.expand_as(lower)[index])} are within rounding of {risk_level=}."
        )

    expect(~empty.any(), refuse)
    return mask


def covering_mask(
    risk_measure: RiskMeasure, lower: Tensor, upper: Tensor, weights: Tensor
) -> Tensor:
    r"""The values whose own bounds are as wide as the bounds of a coherent measure of risk.

        u(w) - l(w) >= risk(u) - risk(l),  w in the support of Q

    where `Q` is the worst distribution at the lower bounds, `risk(l) = E_Q[l]`. Lacing values bound
    the regret of a decision by `u(w) - l(w)` (Lemma 3 of [Nguyen2021vucb]_), so an observation
    there reduces the bound. The idea carries over as follows:

    - A coherent measure is the smallest expectation over a set of distributions, so
      `risk(u) - risk(l) <= E_Q[u - l]`. The right side is an average, so at some w in the support
      of Q the bounds are as wide. For CVaR, w is in the lower tail; for the expectation, anywhere;
      for the worst case, it minimises the lower bound, StableOpt's choice
      [Bogunovic2018stableopt]_.
    - Value-at-risk has no such Q (Example 1 of the paper): it needs `lacing_mask`.
    - Enclosure, the property of lacing values, is impossible: bounds at one w need not enclose
      the bounds of a mean.

    Args:
        risk_measure: `Expectation`, `ConditionalValueAtRisk`, `WorstCase` or
            `TotalVariationBall`, whose Q may include points of weight 0.
        lower: Lower bounds of the outcome, `... x n_w`; all three are as in `lacing_mask`.
        upper: Upper bounds, `... x n_w`.
        weights: Probabilities, broadcastable to `... x n_w`.

    Returns:
        `... x n_w` booleans, at least one of each row true.

    Raises:
        UnsupportedError: If the measure is another one.

    Example:
        >>> lower, upper = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, 3.0, 9.0])
        >>> covering_mask(WorstCase(), lower, upper, torch.full((3,), 1 / 3))
        tensor([ True, False, False])
    """
    if not isinstance(risk_measure, COHERENT):
        raise _no_lacing_value(risk_measure)
    lower, upper = as_floating(lower, "lower"), as_floating(upper, "upper")
    weights = as_tensor("weights", weights)
    low, high = _checked_risks(risk_measure, lower, upper, weights)
    with torch.enable_grad():
        values = lower.detach().clone().requires_grad_()
        # The gradient of a smallest expectation is the distribution that attains it.
        (worst,) = torch.autograd.grad(risk_measure(values, weights).sum(), values)  # Q
    width = upper - lower
    widest = width.masked_fill(worst <= 0, -torch.inf).amax(dim=-1)
    magnitude = torch.maximum(lower.abs(), upper.abs()).amax(dim=-1)
    slack = 64 * torch.finfo(lower.dtype).eps * magnitude  # as wide but for rounding
    # At least the widest one covers, so that rounding cannot empty the set.
    needed = torch.minimum(high - low - slack, widest)
    return (worst > 0) & (width >= needed.unsqueeze(-1))


def check_has_lacing_value(risk_measure: RiskMeasure) -> None:
    r"""Raise UnsupportedError unless `select_lacing_value` supports a measure."""
    if not isinstance(risk_measure, (ValueAtRisk, *COHERENT)):
        raise _no_lacing_value(risk_measure)


def _no_lacing_value(risk_measure: RiskMeasure) -> UnsupportedError:
    names = ", ".join(kind.__name__ for kind in (ValueAtRisk, *COHERENT))
    return UnsupportedError(
        f"Expected a risk measure among {names}. Got {type(risk_measure).__name__}, for which no "
        "value of W is known to bound the regret."
    )


def select_lacing_value(
    acqf: RiskUpperConfidenceBound,
    X: Tensor,
    rule: LacingRule = "probability",
    *,
    seeds: int | Sequence[int],
) -> Tensor:
    r"""Choose a value of W to query with each decision.

    The choice is among the lacing values for value-at-risk, and within `covering_mask` for a
    coherent measure; for the worst case this is StableOpt's `argmin_w l(x, w)`, Eq. (5) of
    [Nguyen2021vucb]_. Ties are broken at random.

    - `"probability"`: the most probable one, V-UCB Prob (Sec. 3.3). For a continuous distribution,
      the one with the largest density among its points. It minimises the paper's L_LV-P (Sec. 3.5)
      over these points, which is minus the density at lacing values and at least 0 at all others.
      L_LV-P mixes units and has jumps, but neither changes this ranking.
    - `"uniform"`: one drawn with equal probabilities, V-UCB Unif (Sec. 4).
    - `"variance"`: the one with the largest posterior variance.

    Args:
        acqf: The bound that chose the decisions, its `beta` > 0 for the rule `"variance"`.
        X: Decisions that do not interact, `batch_shape x m x d_x`.
        rule: How to choose, as above.
        seeds: One for each replicate, `batch_shape.numel()` in all.

    Returns:
        What to query, `batch_shape x m x d`: the decision with w in the last d_w columns, or the
        perturbed decision for an `InputPerturbation`.

    Raises:
        InputDataError: If no value is lacing, which can only be caused by rounding.
        UnsupportedError: If the measure is neither value-at-risk nor one of `covering_mask`, or the
            rule needs a density and the distribution has none, for example if it is clipped.

    Example:
        >>> from botorch_risk.examples import environment, model
        >>> acqf = RiskUpperConfidenceBound(model, environment, ValueAtRisk(0.1), beta=4.0)
        >>> decision = torch.tensor([[0.3]], dtype=torch.double)
        >>> select_lacing_value(acqf, decision, "uniform", seeds=0).shape
        torch.Size([1, 2])
    """
    check_kind(LacingRule, rule=rule)
    X = as_tensor("X", X)
    with torch.no_grad():
        lower, upper, weights = acqf.pointwise_bounds(X)
        measure = acqf.risk_measure
        if isinstance(measure, ValueAtRisk):
            mask = lacing_mask(lower, upper, weights, measure.risk_level, measure.strict)
        else:
            # For the worst case, Q is one point: the minimiser of the lower bound.
            mask = covering_mask(measure, lower, upper, weights)  # Corollary 2.2
        if rule == "probability":
            # Within the mask Eq. (8) is 0, and the density decides.
            score = acqf.environment.log_probability(weights).expand_as(lower)
        else:
            score = torch.zeros_like(lower) if rule == "uniform" else (upper - lower).log()
        best = _best_at_random(score, mask, seeds)
        return inputs_at(acqf.environment.expand(X)[0], best)


def certified_regret(acqf: RiskUpperConfidenceBound, queries: Tensor) -> Tensor:
    r"""Bound the regret of queried decisions by the width of the bounds at the query.

        VaR(f(x*, W)) - VaR(f(x, W)) <= u(x, w) - l(x, w) = 2 sqrt(beta) sigma(x, w)

    Lemma 3 of [Nguyen2021vucb]_. It is valid if the bounds are, x maximises `acqf` over all
    decisions, `select_lacing_value` chose w for x by the same `acqf`, and the outcome of the query
    is not known yet. Then `VaR(f(x*)) <= VaR(u(x*)) <= VaR(u(x)) <= u(x, w)`, and
    `VaR(f(x)) >= VaR(l(x)) >= l(x, w)`. For the coherent measures of `covering_mask` the width is
    at least as large as the width of the risk's bounds.

    The smallest bound of all rounds bounds the regret of the best decision so far. For any other
    decision, such as a recommended one, `acqf.upper(best) - acqf.lower(X)` is a bound, with `best`
    the maximiser of `acqf`. Its probability follows from `beta`: see `bayesian_beta` and
    `rkhs_beta`. Pending decisions are not among these, as nothing is yet known of them.

    Args:
        acqf: The bound by which the decisions, and values of W for them, were chosen.
        queries: `batch_shape x m x d`, as from `select_lacing_value`.

    Returns:
        `batch_shape x m` bounds, in units of the outcome.

    Example:
        >>> from botorch_risk.engine import optimize_acqf_replicates
        >>> from botorch_risk.examples import environment, model, unit
        >>> acqf = RiskUpperConfidenceBound(model, environment, ValueAtRisk(0.1), beta=4.0)
        >>> X, upper = optimize_acqf_replicates(acqf, unit, seeds=0)
        >>> queries = select_lacing_value(acqf, X.squeeze(0), seeds=0)
        >>> bool(certified_regret(acqf, queries) >= upper - acqf.lower(X.squeeze(0)))
        True
    """
    queries = as_points(as_tensor("queries", queries), acqf.model)
    with torch.no_grad():
        _, variance = Belief(acqf.model, acqf.posterior_transform)(queries)
        # At least the width of the risk's own bounds, Eq. (4).
        return 2 * per_point(acqf.beta, queries).sqrt() * variance.sqrt()


def _checked_risks(
    measure: RiskMeasure, lower: Tensor, upper: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    bounds = torch.stack(torch.broadcast_tensors(lower, upper))
    finite = bounds.isfinite()

    def refuse() -> None:
        if not finite.all():
            raise InputDataError(f"Expected finite bounds. Got {bounds[~finite][0]}.")
        raise ValueError(f"Expected `lower <= upper`. Got `lower` {(lower - upper).max()} larger.")

    expect((finite & (bounds[0] <= bounds[1])).all(), refuse)
    return measure(lower, weights), measure(upper, weights)


def _best_at_random(score: Tensor, mask: Tensor, seeds: int | Sequence[int]) -> Tensor:
    r"""Index of a largest score within the mask, `batch_shape x m`, at random among ties.

    Scores are logarithms. If all in the mask are minus infinity, such as weights outside the
    support, they are alike.
    """
    *batch, m, n_w = score.shape
    listed = as_seeds(seeds, torch.Size(batch).numel())
    draws = Draws(listed, "lacing value").uniforms(m, n_w)
    lottery = sent(draws, score.device).reshape(score.shape)
    offered = score.masked_fill(~mask, -torch.inf)
    # Minus infinity means excluded: what is in the mask must not look excluded too.
    alike = mask & (offered == -torch.inf).all(dim=-1, keepdim=True)
    return argmax_at_random(offered.masked_fill(alike, 0.0), lottery)
