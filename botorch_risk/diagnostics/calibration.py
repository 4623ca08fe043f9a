r"""The coverage of a model's bands for a known function."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.arguments import as_floating, check_bounds, check_counts, check_probability
from botorch_risk.engine import Belief
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.seeding import Draws, as_seeds


class Calibration(NamedTuple):
    r"""Predictions of held-out values compared with the truth.

    Args:
        levels: Probabilities of central intervals, `L`.
        coverage: The share of held-out values of f within each interval, `batch_shape x L`.
        root_mean_square: Root mean square of `(f - mean) / standard deviation`, `batch_shape`:
            above 1 if the model is too confident.
        error: Root mean square error of the mean, `batch_shape`.
        noise_coverage: The share of true noise variances within their intervals,
            `batch_shape x L`; `None` unless the noise is given and the model has learnt it.
        reading_coverage: The probability that a new reading lies within its interval,
            `batch_shape x L`; `None` unless the noise is given.
    """

    levels: Tensor
    coverage: Tensor
    root_mean_square: Tensor
    error: Tensor
    noise_coverage: Tensor | None = None
    reading_coverage: Tensor | None = None


def calibration(
    model: Model,
    function: Callable[[Tensor], Tensor],
    bounds: Tensor,
    *,
    seeds: int | Sequence[int],
    noise_variance: Callable[[Tensor], Tensor] | None = None,
    num_points: int = 1000,
    levels: Sequence[float] = (0.5, 0.8, 0.95),
) -> Calibration:
    r"""Compare a model's predictions with the truth at uniform points of the domain.

    Args:
        model: A fitted model with one output, with batch shape `[R]` or `[]`.
        function: The function without noise, which maps points `... x d` to values `...` or
            `... x 1`.
        bounds: The bounds of the domain, `2 x d`, in the units of the model's inputs.
        seeds: One seed per replicate; each has its own points.
        noise_variance: The true variance of a reading, likewise a function of the points, for
            Gaussian noise.
        num_points: Held-out points for each replicate.
        levels: Probabilities of central intervals.

    Raises:
        UnsupportedError: If the model has several outputs, or is an ensemble.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> X = torch.rand(12, 1, dtype=torch.double)
        >>> model = SingleTaskGP(X, (6 * X).sin())
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> calibration(model, lambda X: (6 * X[..., 0]).sin(), bounds, seeds=0).coverage.shape
        torch.Size([3])
    """
    check_counts(num_points=num_points)
    check_probability(**{f"levels[{i}]": level for i, level in enumerate(levels)})
    bounds = as_floating(bounds, "bounds")
    check_bounds(bounds)
    X = _points(model, bounds, seeds, num_points)
    with torch.no_grad():
        mean, variance = Belief(model)(X)
        truth = _values("function", function, X)
        z = (truth - mean) / variance.sqrt()
        probabilities = torch.as_tensor(levels, dtype=z.dtype, device=z.device)
        width = torch.special.ndtri((1 + probabilities) / 2)
        of_noise = of_readings = None
        if noise_variance is not None:
            rho2 = _values("noise_variance", noise_variance, X)
            spread = (variance + _predicted_noise(model, X)).sqrt()
            of_readings = _within((mean - truth) / rho2.sqrt(), spread / rho2.sqrt(), width)
            if isinstance(model, MeanVarianceGP):
                of_noise = _noise_coverage(model, X, rho2, width)
    return Calibration(
        levels=probabilities,
        coverage=(z.abs().unsqueeze(-1) <= width).to(z).mean(dim=-2),
        root_mean_square=z.square().mean(dim=-1).sqrt(),
        error=(truth - mean).square().mean(dim=-1).sqrt(),
        noise_coverage=of_noise,
        reading_coverage=of_readings,
    )


def _points(model: Model, bounds: Tensor, seeds: int | Sequence[int], num_points: int) -> Tensor:
    listed = as_seeds(seeds, max(1, model.batch_shape.numel()))
    unit = Draws(listed, "calibration").uniforms(num_points, bounds.shape[-1])
    X = bounds[0] + (bounds[1] - bounds[0]) * torch.as_tensor(unit).to(bounds)
    return X if model.batch_shape else X.squeeze(0)


def _values(name: str, function: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    r"""The values of a function at points `... x d`, `...`."""
    values = as_floating(function(X), name).to(X)
    if values.shape == (*X.shape[:-1], 1):
        return values.squeeze(-1)
    if values.shape != X.shape[:-1]:
        raise BotorchTensorDimensionError(
            f"Expected `{name}` to map points {tuple(X.shape)} to values {tuple(X.shape[:-1])} or "
            f"{(*X.shape[:-1], 1)}. Got {tuple(values.shape)}."
        )
    return values


def _predicted_noise(model: Model, X: Tensor) -> Tensor:
    if isinstance(model, MeanVarianceGP):
        return model.predicted_noise(X).squeeze(-1)
    noisy: Any = model.posterior(X, observation_noise=True)
    latent: Any = model.posterior(X)
    return (noisy.variance - latent.variance).squeeze(-1)


def _within(offset: Tensor, spread: Tensor, width: Tensor) -> Tensor:
    r"""The average probability, `batch_shape x L`, that a standard normal value lies within a band.

    The bands are `offset +- width * spread`, with `batch_shape x m` offsets and spreads.
    """
    half = spread.unsqueeze(-1) * width
    centre = offset.unsqueeze(-1)
    probability = torch.special.ndtr(centre + half) - torch.special.ndtr(centre - half)
    return probability.mean(dim=-2)


def _noise_coverage(model: MeanVarianceGP, X: Tensor, rho2: Tensor, width: Tensor) -> Tensor:
    r"""The share of noise variances within their intervals, `batch_shape x L`."""
    shares = []
    for beta in width.square():
        lower, upper = model.noise_confidence_bounds(X, float(beta))
        shares.append(((lower <= rho2) & (rho2 <= upper)).to(rho2).mean(dim=-1))
    return torch.stack(shares, dim=-1)
