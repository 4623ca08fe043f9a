r"""Which point do I hand over at the end, and where are more repeats worth their price?

.. [Makarova2021rahbo]
    A. Makarova, I. Usmanova, I. Bogunovic, A. Krause. Risk-averse Heteroscedastic Bayesian
    Optimization. Advances in Neural Information Processing Systems 34, 2021.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import InputDataError
from torch import Tensor

from botorch_risk.acquisition.arguments import as_nonnegative, require_mean_variance_gp
from botorch_risk.acquisition.mean_variance import RiskAverseLowerConfidenceBound
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.posterior.inputs import check_points

Rule = Literal[
    "lower_confidence_bound", "recorded_lower_confidence_bound", "posterior_mean", "best_observed"
]


class Recommendation(NamedTuple):
    r"""A point to hand over.

    Attributes:
        point: `batch_shape x d`.
        value: `batch_shape`, the score by which the rule preferred it.
        row: `batch_shape`, its row among the points that were offered.
    """

    point: Tensor
    value: Tensor
    row: Tensor


def recommend(
    model: MeanVarianceGP,
    X: Tensor,
    rule: Rule = "lower_confidence_bound",
    risk_aversion: float = 1.0,
    beta: float = 4.0,
    noise_beta: float = 4.0,
    recorded: Tensor | None = None,
    posterior_transform: PosteriorTransform | None = None,
) -> Recommendation:
    r"""The best of some points by a reporting rule for mean minus variance.

    The rule decides the simple regret as much as the method that chose the points does, so
    a comparison uses one rule for all methods and names it.

    - `"lower_confidence_bound"`: the largest `lcb_f(x) - risk_aversion * ucb_var(x)` of this
      model (the captions of the paper's figures, with the final model). The default: a
      point is reported for what is known about it, not for a lucky draw.
    - `"recorded_lower_confidence_bound"`: the same bound, but of the model of the round in
      which the point was chosen (Corollary 1.1 of [Makarova2021rahbo]_), given as `recorded`.
    - `"posterior_mean"`: the largest posterior mean of f minus `risk_aversion` times the
      predicted noise.
    - `"best_observed"`: the largest sample mean minus `risk_aversion` times the sample
      variance (the paper's Fig. 5). It needs points with at least two repeats.

    Args:
        model: The final model.
        X: `batch_shape x n x d` points to choose from, as a rule the evaluated ones.
        rule: The reporting rule.
        risk_aversion: Weight of the variance, >= 0 (the paper's alpha).
        beta: Squared width of the bound of f.
        noise_beta: Squared width of the bound of the noise.
        recorded: `batch_shape x n` lower bounds, for the rule that asks for them; NaN where none
            was recorded.
        posterior_transform: Applied to f alone: with BoTorch's weight of -1 f is minimised, and
            the noise is still penalised.

    Returns:
        The point, its score and its row.

    Raises:
        BotorchTensorDimensionError: If `X` does not have the columns of the model's inputs.
        ValueError: If the rule is not known, or `recorded` is missing.
        InputDataError: If `"best_observed"` is asked of points that were not evaluated, or
            none of which was repeated; or if a replicate has no recorded bound.

    Example:
        >>> train_X = torch.rand(10, 1, dtype=torch.double)
        >>> train_Y = (6 * train_X).sin() + train_X * torch.randn(10, 4, dtype=torch.double)
        >>> model = MeanVarianceGP(train_X, train_Y)
        >>> recommend(model, train_X, rule="posterior_mean", risk_aversion=2.0).point.shape
        torch.Size([1])
    """
    require_mean_variance_gp(model)
    check_points("X", X, model)
    bound = RiskAverseLowerConfidenceBound(
        model,
        beta=beta,
        noise_beta=noise_beta,
        risk_aversion=risk_aversion,
        posterior_transform=posterior_transform,
    )
    with torch.no_grad():
        if rule == "lower_confidence_bound":
            scores = bound.lower(X)
        elif rule == "posterior_mean":
            scores = bound.mean(X)
        elif rule == "best_observed":
            scores = _observed_mean_variance(model, X, risk_aversion, posterior_transform)
        elif rule == "recorded_lower_confidence_bound":
            scores = check_recorded(recorded, X)
        else:
            raise ValueError(f"Expected `rule` in {get_args(Rule)}. Got {rule!r}.")
    return best_of(X, scores)


class RepeatAdvice(NamedTuple):
    r"""What repeats at some points would buy.

    Attributes:
        num_repeats: `batch_shape x m`, the number of repeats with the best rate.
        rate: `batch_shape x m`, the width of the interval of mean minus variance that one
            evaluation removes at that number, in units of the outcome. Spend the next
            evaluations where it is largest.
    """

    num_repeats: Tensor
    rate: Tensor


def repeat_advice(
    model: MeanVarianceGP,
    X: Tensor,
    risk_aversion: float = 1.0,
    beta: float = 4.0,
    noise_beta: float = 4.0,
    setup_cost: float | Tensor = 0.0,
    max_repeats: int = 20,
) -> RepeatAdvice:
    r"""Repeat here or try a new point, and how many repeats?

    What an evaluation buys is certainty about mean minus variance at its point: the width

        w(x) = ucb_f(x) - lcb_f(x) + risk_aversion (ucb_var(x) - lcb_var(x))

    bounds the regret of playing or reporting x. k repeats shrink both parts, the first
    because the mean of k repeats has the variance `rho^2 / k`, the second because their
    sample variance has a relative variance of about `2 / (k - 1)`; the closed form is
    exact where the outcome comes as expected. The advice is the k with the largest

        (w(x) - w_k(x)) / (setup_cost + k).

    Ask it at the point that you would report now and at the candidate of your acquisition
    function. Where noise dominates, the reported point wins and k is large; where the model
    is uncertain, the candidate wins and few repeats are enough. If starting a new point costs
    extra, give that as `setup_cost`, in evaluations.

    Args:
        model: A fitted mean-variance model.
        X: `batch_shape x m x d` points, each considered alone.
        risk_aversion: Weight of the variance, >= 0 (the paper's alpha).
        beta: Squared width of the bound of f.
        noise_beta: Squared width of the bound of the noise.
        setup_cost: Price of starting at a point, in evaluations; one for all, or
            `batch_shape x m`.
        max_repeats: The largest number considered, at least 2.

    Raises:
        ValueError: If a weight or cost is negative, or `max_repeats` is below 2.

    Example:
        >>> train_X = torch.rand(10, 1, dtype=torch.double)
        >>> train_Y = (6 * train_X).sin() + train_X * torch.randn(10, 4, dtype=torch.double)
        >>> model = MeanVarianceGP(train_X, train_Y)
        >>> advice = repeat_advice(model, torch.tensor([[0.2], [0.9]], dtype=torch.double))
        >>> advice.num_repeats.shape
        torch.Size([2])
    """
    require_mean_variance_gp(model)
    if max_repeats < 2:
        raise ValueError(f"Expected `max_repeats` to be at least 2. Got {max_repeats}.")
    alpha, cost = (
        as_nonnegative(name, value).to(X)
        for name, value in (("risk_aversion", risk_aversion), ("setup_cost", setup_cost))
    )
    sqrt_beta = as_nonnegative("beta", beta).to(X).sqrt()
    as_nonnegative("noise_beta", noise_beta)
    with torch.no_grad():
        variance = model.mean_marginals(X).variance
        noise = model.noise_of_means(X, 1).squeeze(-1)
        rates = []
        for k in range(max_repeats + 1):
            counts = torch.full_like(variance, k)
            after = variance * noise / (k * variance + noise)
            lower, upper = model.noise.bounds_after_repeats(X, noise_beta, counts)
            width = 2 * sqrt_beta * after.sqrt() + alpha * (upper - lower)
            if k == 0:
                initial = width
            else:
                rates.append((initial - width) / (cost + k))
    rate, best = torch.stack(rates).max(dim=0)
    return RepeatAdvice(num_repeats=best + 1, rate=rate)


def _observed_mean_variance(
    model: MeanVarianceGP,
    X: Tensor,
    risk_aversion: float,
    posterior_transform: PosteriorTransform | None,
) -> Tensor:
    r"""Sample mean minus weighted sample variance; minus infinity where it is not known."""
    same = (X.unsqueeze(-2) == model.train_X.unsqueeze(-3)).all(dim=-1)  # batch_shape x n x n_train
    if not same.any(dim=-1).all():
        raise InputDataError(
            "Expected points that the model was built from, for the rule 'best_observed'. "
            f"Got {(~same.any(dim=-1)).sum()} others."
        )
    values = model.train_means.squeeze(-1)
    if posterior_transform is not None:
        values = posterior_transform.evaluate(model.train_means)
    if risk_aversion > 0:  # else points of a single repeat count too
        values = values - risk_aversion * model.train_variances.squeeze(-1)
    values = values.nan_to_num(nan=-torch.inf)
    rows = same.to(torch.uint8).argmax(dim=-1)  # the first of equal rows
    scores = values.expand(*rows.shape[:-1], -1).gather(-1, rows)
    if (scores == -torch.inf).all(dim=-1).any():
        raise InputDataError(
            "Expected a point with at least two repeats, for the rule 'best_observed'. Got none."
        )
    return scores


def best_of(X: Tensor, scores: Tensor) -> Recommendation:
    r"""The point, of `batch_shape x n x d`, with the largest score, of `batch_shape x n`.

    NaN is no score: such a point is not offered.

    Raises:
        InputDataError: If all scores of a replicate are NaN.
    """
    missing = scores.isnan()
    nothing = missing.all(dim=-1)
    if nothing.any():
        raise InputDataError(
            "Expected a score of at least one point in each replicate. Got NaN alone in "
            f"{int(nothing.sum())} of {nothing.numel()}: {nothing.nonzero().tolist()}."
        )
    value, index = scores.masked_fill(missing, -torch.inf).max(dim=-1)
    rows = index[..., None, None].expand(*index.shape, 1, X.shape[-1])
    X = X.expand(*index.shape, *X.shape[-2:])
    return Recommendation(point=X.gather(-2, rows).squeeze(-2), value=value, row=index)


def check_recorded(recorded: Tensor | None, X: Tensor) -> Tensor:
    r"""The recorded bounds of each point; raises ValueError if they are missing."""
    if recorded is None or recorded.shape[-1] != X.shape[-2]:
        shape = None if recorded is None else tuple(recorded.shape)
        raise ValueError(
            "Expected `recorded` lower bounds of shape `batch_shape x n`, one for each point. "
            f"Got {shape} for {X.shape[-2]} points."
        )
    return recorded
