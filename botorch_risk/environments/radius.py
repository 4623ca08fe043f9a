r"""Estimate the radius of a ball of distributions from the observed contexts."""

import math
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from botorch_risk.arguments import (
    as_floating,
    as_tensor,
    check_counts,
    check_integers,
    check_probability,
    check_rows,
)
from botorch_risk.environments.observed_contexts import ObservedContexts
from botorch_risk.risk import Ball
from botorch_risk.seeding import generators


def bootstrap_radius(
    ball: Ball,
    observed: Tensor,
    contexts: ObservedContexts,
    coverage: float = 0.9,
    num_resamples: int = 200,
    seed: int = 0,
) -> float:
    r"""The radius that covers the sampling error at this sample size, by the bootstrap.

    The distribution is learnt again from resamples, drawn with replacement. The radius is the
    smallest for which a share `coverage` of the balls around the results contain the distribution
    that is learnt from all values. Source: [Efron1979bootstrap]_. It covers the scatter of
    independent values, but neither a bias of the estimate nor a shift.

    Args:
        ball: A ball of any radius; only its `distance` is used, bound to the points here.
        observed: Values of W, `t x d_w`.
        contexts: Learns the distribution, always on the same points, such as an `EmpiricalGrid`,
            `LabelFrequencies` or a `KernelDensityEnvironment` with `rule="quadrature"`.
        coverage: Probability, in (0, 1).
        num_resamples: The number of resamples.
        seed: Seed of the resamples.

    Raises:
        InputDataError: If the points of the distributions differ, or a distance is infinite, as a
            divergence is outside the support.

    Example:
        >>> from functools import partial
        >>> from botorch_risk.environments import KernelDensityEnvironment
        >>> from botorch_risk.risk import WassersteinBall
        >>> density = partial(KernelDensityEnvironment, n_w=64, rule="quadrature")
        >>> contexts = ObservedContexts(torch.tensor([[0.0], [40.0]]), density)
        >>> degrees = torch.tensor([18.0, 21.0, 19.5, 24.0, 17.0, 22.5, 20.0, 23.0])[:, None]
        >>> radius = bootstrap_radius(WassersteinBall(0.0), degrees, contexts)
        >>> 1.0 < radius < 2.0  # degrees
        True
    """
    observed = _checked(observed, coverage)
    check_counts(num_resamples=num_resamples)
    check_integers(seed=seed)
    (generator,) = generators(seed, "bootstrap radius")
    t = len(observed)
    drawn = torch.randint(t, (num_resamples, t), generator=generator).to(observed.device)
    resampled, bound = _learnt(ball, contexts, observed[drawn])
    learnt, _ = _learnt(ball, contexts, observed.unsqueeze(0))
    return _covering(bound.distance(resampled, learnt.expand_as(resampled)), coverage)


def cross_validated_radius(
    ball: Ball,
    observed: Tensor,
    contexts: ObservedContexts,
    coverage: float = 0.9,
    groups: Tensor | None = None,
    num_splits: int = 200,
    seed: int = 0,
) -> float:
    r"""The radius at which a ball covers the distribution of values that were left out.

    The smallest radius for which a share `coverage` of the balls around the kept data include the
    distribution of the left-out data: random halves of the values, or each group in turn. A half
    holds less information than all values: for independent values this radius exceeds
    `bootstrap_radius`, about twice for a distance and four times for a divergence. Groups, such as
    years, show how much they differ, so that the ball holds another group like them, but no shift
    that no group shows.

    Args:
        ball: As in `bootstrap_radius`, and so are `contexts` and `coverage`.
        observed: Values of W, `t x d_w`.
        groups: The group of each value: `t` whole numbers, at least two of them different.
        num_splits: The number of random halves.
        seed: Seed of the random halves.

    Raises:
        InputDataError: As in `bootstrap_radius`, or if there are fewer than two values or groups.

    Example:
        >>> from functools import partial
        >>> from botorch_risk.environments import EmpiricalGrid, regular_grid
        >>> from botorch_risk.risk import TotalVariationBall
        >>> def count(observed, bounds, seeds):
        ...     return EmpiricalGrid(observed, regular_grid(bounds, 2))
        >>> contexts = ObservedContexts(torch.tensor([[0.0], [1.0]]), count)
        >>> observed = torch.tensor([0.1, 0.0, 0.9, 1.0, 0.2, 0.8, 0.1, 0.2])[:, None]
        >>> years = torch.tensor([1, 1, 1, 1, 2, 2, 2, 2])
        >>> cross_validated_radius(TotalVariationBall(0.0), observed, contexts, groups=years)
        0.5
    """
    observed = _checked(observed, coverage)
    check_counts(num_splits=num_splits)
    check_integers(seed=seed)
    (generator,) = generators(seed, "cross-validated radius")
    t = len(observed)
    if groups is None:
        if t < 2:
            raise InputDataError(f"Expected at least two values to split. Got {observed.shape=}.")
        order = torch.rand(num_splits, t, generator=generator).argsort(dim=-1)
        order = order.to(observed.device)
        kept, bound = _learnt(ball, contexts, observed[order[:, : t // 2]])
        left, _ = _learnt(ball, contexts, observed[order[:, t // 2 :]])
        return _covering(bound.distance(kept, left), coverage)
    groups = as_tensor("groups", groups).to(observed.device)
    if groups.shape != observed.shape[:1]:
        raise BotorchTensorDimensionError(f"Expected one group per value. Got {groups.shape=}.")
    labels = groups.unique()
    if len(labels) < 2:
        raise InputDataError(f"Expected two groups or more. Got {labels=}.")
    distances = []
    for label in labels:
        kept, bound = _learnt(ball, contexts, observed[groups != label].unsqueeze(0))
        left, _ = _learnt(ball, contexts, observed[groups == label].unsqueeze(0))
        distances.append(bound.distance(kept, left))
    return _covering(torch.cat(distances), coverage)


def _checked(observed: Tensor, coverage: float) -> Tensor:
    check_probability(coverage=coverage)
    observed = as_floating(observed, "observed").detach()
    if observed.dim() != 2:
        raise BotorchTensorDimensionError(
            f"Expected `observed` to have shape `t x d_w`. Got {observed.shape=}."
        )
    check_rows("observed", observed)
    return observed


def _learnt(ball: Ball, contexts: ObservedContexts, samples: Tensor) -> tuple[Tensor, Any]:
    r"""The weights learnt from each sample, `k x n_w`, and the ball over their points."""
    environment: Any = contexts.learnt(samples, range(len(samples)))
    points = environment.points[:1]
    if not torch.equal(environment.points, points.expand_as(environment.points)):
        raise InputDataError(
            "Expected distributions on the same points, such as an `EmpiricalGrid` makes or "
            '`KernelDensityEnvironment(rule="quadrature")`. Got points that depend on the sample.'
        )
    return environment.weights, ball.bind(_Points(points[0], environment.categories))


class _Points:
    def __init__(self, points: Tensor, categories: tuple[int, ...]) -> None:
        self.points, self.categories = points, categories


def _covering(distances: Tensor, coverage: float) -> float:
    r"""The smallest radius that a share of the distances does not exceed."""
    place = math.ceil(coverage * len(distances) - 1e-9)
    radius = distances.double().sort().values[place - 1].item()
    if not radius < math.inf:
        raise InputDataError(
            "Expected distributions with a common support. Got an infinite distance: use a ball "
            "that moves probability to other points, or learn a density."
        )
    return radius
