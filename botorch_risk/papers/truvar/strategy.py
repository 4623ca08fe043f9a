r"""Truncated variance reduction on a finite domain [Bogunovic2016truvar]_."""

from collections.abc import Sequence
from typing import Any

from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.arguments import check_arguments
from botorch_risk.fit.estimators import Estimator, MaximumAPosteriori
from botorch_risk.papers.truvar.goals import Goal
from botorch_risk.papers.truvar.sample_domain import Classes, ModelFactory, SampleDomain
from botorch_risk.papers.truvar.sampling import Cost, Noise, NoiseLevels, SamplingTerms
from botorch_risk.papers.truvar.state import TruncatedVarianceState
from botorch_risk.papers.truvar.truncate_variance import TruncateVariance
from botorch_risk.strategies.finite_domain import FiniteDomain
from botorch_risk.strategies.prediction import NUM_HYPERPARAMETERS
from botorch_risk.strategies.strategy import Strategy


def truvar(
    domain: Tensor,
    seeds: int | Sequence[int],
    *,
    goal: Goal,
    noise: Noise | None = None,
    levels: NoiseLevels | None = None,
    cost: Cost | None = None,
    initial_level: int = 0,
    model: ModelFactory | None = None,
    estimator: Estimator | None = MaximumAPosteriori(),  # noqa: B008 it is immutable
    refit_every: int | None = None,
    dense: bool = True,
    num_initial: int = 1,
    batch_size: int = 1,
    anywhere: bool = False,
    num_samples: int = NUM_HYPERPARAMETERS,
    classes: Classes = "belief",
    confidence: float = 0.95,
    **options: Any,
) -> Strategy:
    r"""TRUVAR, Algorithm 1 of [Bogunovic2016truvar]_, to maximise or for a level set.

    The answer to a level set is `strategy.classify()`: the points that are confidently above and
    below the level, and their probabilities. `strategy.recommend()` is the point with the highest
    posterior mean.

    Args:
        domain: `|D| x d` points.
        seeds: One seed per replicate.
        goal: `Maximize()`, `LevelSet(threshold)` or `RelativeLevelSet(fraction)`.
        noise: The known noise variance of an outcome: a number, `|D|` values or a function of
            points; inferred by the model if `None`.
        levels: Noise levels to choose from.
        cost: The cost of a sample.
        initial_level: The noise level of the initial points.
        model: As in `SampleDomain`; BoTorch's default model on the unit cube if omitted.
        estimator: Fits the model; with `None` its hyperparameters are taken as known.
        refit_every: The number of rounds between rebuilds of the model; `None` for never, which
            suits a known model.
        dense: Whether the posterior holds the covariance of the domain, `8 |D|^2` bytes per
            replicate. From 1 GiB (11,600 points) on, a warning gives the memory that it needs; from
            4 GiB on, an error is raised. `False` computes its rows on demand.
        num_initial: The number of random points at the start; a model that is fitted needs several.
        batch_size: The maximum number of points in a later round.
        anywhere: Whether samples and recommendations may lie between the points of the domain, in
            the box round it. The sets stay on the domain, which should then be a grid or similarly
            dense points.
        num_samples: As in `SampleDomain`.
        classes: As in `SampleDomain`; `"epochs"` for the sets of the paper.
        confidence: As in `SampleDomain`.
        options: Further arguments of `TruncateVariance`.

    Raises:
        UnsupportedError: If there are noise levels and samples are taken anywhere.

    Example:
        >>> import torch
        >>> from botorch_risk.papers import Maximize
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> strategy = truvar(domain, [0, 1], goal=Maximize(), noise=1e-4, num_initial=3)
        >>> for _ in range(2):
        ...     X = strategy.ask()
        ...     strategy.tell(X, (6 * X).sin())
        >>> strategy.recommend().shape, strategy.state["cost"].tolist()
        (torch.Size([2, 1]), [4.0, 4.0])
    """
    check_arguments(truvar, locals())
    terms = SamplingTerms(noise=noise, levels=levels, cost=cost)
    space = FiniteDomain(domain, None if levels is None else len(levels), initial_level)
    sampler = TruncateVariance(goal, anywhere=anywhere, **options)
    method = SampleDomain(
        sampler,
        terms,
        model,
        estimator,
        refit_every,
        dense,
        anywhere,
        num_samples,
        classes,
        confidence,
    )
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)


def truvar_state(strategy: Strategy) -> TruncatedVarianceState:
    r"""The sets, the epoch and the cost of each replicate of a `truvar` strategy.

    These are the quantities that Algorithm 2 of [Bogunovic2016truvar]_ updates.

    Raises:
        UnsupportedError: If it is a strategy of another method.

    Example:
        >>> import torch
        >>> from botorch_risk.papers import Maximize
        >>> domain = torch.linspace(0, 1, 30, dtype=torch.double).unsqueeze(-1)
        >>> strategy = truvar(domain, [0, 1], goal=Maximize(), noise=1e-4, num_initial=3)
        >>> truvar_state(strategy).unclassified.sum(dim=-1)  # each may be the maximum
        tensor([30, 30])
        >>> X = strategy.ask()
        >>> strategy.tell(X, (6 * X).sin())
        >>> _ = strategy.ask()
        >>> truvar_state(strategy).cost
        tensor([3., 3.], dtype=torch.float64)
    """
    check_arguments(truvar_state, locals())
    method = strategy.method
    if not (isinstance(method, SampleDomain) and isinstance(method.sampler, TruncateVariance)):
        raise UnsupportedError(f"Expected a strategy of `truvar`. Got {type(method).__name__}.")
    space: Any = strategy.space
    return method.sampler.restored(space.domain, strategy.state, strategy.history.round)
