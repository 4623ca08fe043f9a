r"""Advice on repeats: where they are worth their cost, and how many."""

from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.acquisition.mean_variance import require_mean_variance_gp
from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.arguments import as_tensor, check_counts
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.points import as_points


class RepeatAdvice(NamedTuple):
    r"""The value of repeats at some points.

    Attributes:
        num_repeats: `batch_shape x m`, the number of repeats with the best rate.
        rate: `batch_shape x m`, the amount per evaluation by which that number narrows the interval
            of mean minus variance, in units of the outcome. Spend the next evaluations at the point
            with the largest rate.
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
    r"""Advise whether to repeat at a point or to try a new one, and how often to repeat.

    Evaluations reduce the uncertainty about mean minus variance at their point, whose width

        w(x) = ucb_f(x) - lcb_f(x) + risk_aversion (ucb_var(x) - lcb_var(x))

    bounds the regret of evaluating or reporting x. k repeats shrink both parts, the first because
    the mean of k repeats has the variance `rho^2 / k`, the second because their sample variance has
    a relative variance of about `2 / (k - 1)`; the closed form is exact if the outcomes are as
    expected. The advice is the k with the largest

        (w(x) - w_k(x)) / (setup_cost + k).

    Evaluate it at the point that you would report now and at your acquisition function's candidate.
    If noise dominates, the reported point wins and k is large; if the model is uncertain, the
    candidate wins and few repeats are enough. If starting a new point costs extra, give that as
    `setup_cost`, in evaluations.

    Args:
        model: A fitted mean-variance model.
        X: `batch_shape x m x d` points, each considered alone.
        risk_aversion: Weight of the variance, >= 0 (the paper's alpha).
        beta: Squared width of the bound of f.
        noise_beta: Squared width of the bound of the noise.
        setup_cost: Cost of starting at a point, in evaluations; one for all, or `batch_shape x m`.
        max_repeats: The largest number considered, at least 2.

    Raises:
        UnsupportedError: If the model is not a mean-variance model.

    Example:
        >>> from botorch_risk.examples import noisy_model
        >>> advice = repeat_advice(noisy_model, torch.tensor([[0.2], [0.9]], dtype=torch.double))
        >>> advice.num_repeats.shape
        torch.Size([2])
    """
    require_mean_variance_gp(model)
    check_counts(2, max_repeats=max_repeats)
    X = as_points(X, model)
    alpha, cost = (
        _of_points(name, value, X)
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


def _of_points(name: str, value: Any, X: Tensor) -> Tensor:
    r"""A number >= 0 for all points `batch_shape x m x d`, or one for each."""
    numbers = as_nonnegative(name, as_tensor(name, value)).to(X)
    shape = X.shape[:-1]
    if numbers.dim() > len(shape) or any(
        size not in (1, wanted)
        for size, wanted in zip(reversed(numbers.shape), reversed(shape), strict=False)
    ):
        raise BotorchTensorDimensionError(
            f"Expected `{name}` to be a number, or to have the shape {tuple(shape)} of the points. "
            f"Got {tuple(numbers.shape)}."
        )
    return numbers
