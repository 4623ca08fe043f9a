r"""GP-UCB averaged over hyperparameters that MCMC has sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound
from torch import Tensor

from botorch_risk.acquisition.widths import Beta, beta_of_round, check_beta
from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.fit.estimators import Estimator, FullyBayesian
from botorch_risk.strategies.acquire import Acquire
from botorch_risk.strategies.method import Method, View, best_observed
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk.strategies.uhe_bo import PAPER_BETA


def fully_bayesian_gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    sample_every: int = 1,
    beta: Beta = PAPER_BETA,
    estimator: Estimator | None = None,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""GP-UCB averaged over hyperparameters that MCMC has sampled, seed by seed.

    Needs NumPyro, the extra `bayesian`; see `botorch_risk.fit.FullyBayesian`. One point a round.

    The MCMC baseline of [Ha2023uhe]_, Appendix C.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        sample_every: Rounds from one sampling to the next. In between the samples stay, and the
            process of each is conditioned on what has been observed since.
        beta: Squared width of the bound: a number, or a function of the round from 1.
        estimator: Samples the hyperparameters; `FullyBayesian()` if omitted.
        num_initial: The number of points of the initial design.
        batch_size: The number of points of each later round, 1.
        options: Further arguments of `Acquire`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number is out of its range or a seed repeats.

    Example:
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> fully_bayesian_gp_ucb(bounds, seeds=[0, 1], num_initial=4).ask().shape
        torch.Size([2, 4, 1])
    """
    check_arguments(fully_bayesian_gp_ucb, locals())
    acquire = Acquire(UpperBound(beta), estimator=estimator or FullyBayesian(), **options)
    method = SampleSometimes(acquire, sample_every)
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )


@dataclass(frozen=True)
class UpperBound:
    r"""BoTorch's upper confidence bound of a round."""

    beta: Beta

    def __post_init__(self) -> None:
        check_beta(self.beta)

    def __call__(self, model: Any, t: int) -> AcquisitionFunction:
        return UpperConfidenceBound(model, beta=beta_of_round(self.beta, t))


@dataclass
class Samples:
    r"""Models whose hyperparameters were sampled in one round, and these with all data."""

    sampled_in: int
    sampled: list[Any]
    models: list[Any]


@dataclass(frozen=True)
class SampleSometimes(Method):
    r"""Estimates hyperparameters in some rounds and conditions on the data in those between."""

    inner: Acquire
    sample_every: int = 1

    def __post_init__(self) -> None:
        check_counts(sample_every=self.sample_every)

    def believe(self, view: View) -> Samples:
        r"""The sampled models, conditioned on what was observed since."""
        due = view.round - (view.round - 1) % self.sample_every
        before: Samples | None = view.previous
        if before is not None and before.sampled_in == due:
            sampled = before.sampled
        else:
            sampled = [self._sampled(part, due) for part in self.inner.parts(view)]
        parts = zip(self.inner.parts(view), sampled, strict=True)
        return Samples(due, sampled, [self._conditioned(part, m, due) for part, m in parts])

    def propose(self, view: View) -> Tensor:
        r"""Where the acquisition function is largest, replicate by replicate."""
        parts = zip(self.inner.parts(view), view.belief.models, strict=True)
        return torch.cat([self.inner.maximize(part, model) for part, model in parts])

    def recommend(self, view: View) -> Tensor:
        r"""The evaluated point with the best observed mean."""
        return best_observed(view)

    def _sampled(self, view: View, due: int) -> Any:
        X, Y = view.history.before(due).complete()
        X, Y = view.space.unit(X)[0], Y[0].nanmean(dim=-1, keepdim=True)
        return self.inner.estimator(self.inner.model(X, Y), view.seeds, due)

    def _conditioned(self, view: View, model: Any, due: int) -> Any:
        since = (view.history.rounds >= due) & view.history.has_outcome[0].cpu()
        if not since.any():
            return model
        X = view.space.unit(view.history.X[0])
        with torch.no_grad():
            model.posterior(X[since][:1])  # its caches are what is conditioned
        return model.condition_on_observations(X[since], view.history.mean[0][since].unsqueeze(-1))
