r"""Baselines of UHE-BO: ways to estimate hyperparameters and to sample at random.

All are GP-UCB with the same model and the same constant width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound
from torch import Tensor

from botorch_risk.acquisition.widths import Beta, beta_of_round, check_beta
from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.fit.estimators import Estimator, FullyBayesian, PseudoData
from botorch_risk.papers.uhe_bo import PAPER_BETA, RandomOrAcquire, acquire_gp_ucb
from botorch_risk.strategies.acquire import Acquire
from botorch_risk.strategies.method import Method, View, best_observed
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.documented import documented
from botorch_risk_bench.baselines.gains import Gain, RewardGains


@documented(
    "num_initial=4", 1, options="Further arguments of `Acquire`, such as `model` and `estimator`."
)
def gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    beta: Beta = PAPER_BETA,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""GP-UCB with hyperparameters at their maximum a posteriori.

    Algorithm 1 of [Srinivas2010gpucb]_; the MAP baseline of [Ha2023uhe]_, Appendix C.
    """
    check_arguments(gp_ucb, locals())
    method = acquire_gp_ucb(beta, **options)
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )


@documented("num_initial=4", 1, options="Further arguments of `gp_ucb`.")
def pseudo_data_gp_ucb(
    bounds: Tensor | Box, seeds: int | Sequence[int], **options: Any
) -> Strategy:
    r"""Pseudo-data without random points: an ablation of UHE-BO, [Ha2023uhe]_, Sec. 5.2."""
    return gp_ucb(bounds, seeds, **{"estimator": PseudoData(), **options})


@documented(
    "num_initial=4",
    1,
    options="Further arguments of `gp_ucb`; `reward_scale` and `exploration` of `RandomOrAcquire`; "
    "`gain` of `RewardGains`.",
)
def random_exp3(bounds: Tensor | Box, seeds: int | Sequence[int], **options: Any) -> Strategy:
    r"""Random points by EXP3 without pseudo-data: the ablation of Fig. 4 of [Ha2023uhe]_."""
    return _with_random_points(bounds, seeds, **options)


@documented("num_initial=4", 1, options="Further arguments of `gp_ucb`.")
def ra_bo(bounds: Tensor | Box, seeds: int | Sequence[int], **options: Any) -> Strategy:
    r"""RA-BO: a random point and the acquisition's in turn, Sec. 6 of [Ha2023uhe]_.

    With pseudo-data, as in its Theorem 6.4.
    """
    options = {"estimator": PseudoData(), **options}
    return _with_random_points(bounds, seeds, arms="alternate", **options)


@documented("num_initial=4", 1, options="Further arguments of `random_exp3`.")
def portfolio_exp3(bounds: Tensor | Box, seeds: int | Sequence[int], **options: Any) -> Strategy:
    r"""EXP3 over random sampling and GP-UCB, one evaluation per arm [Hoffman2011portfolio]_.

    As in Appendix C of [Ha2023uhe]_, with the reward that it does not state: the scaled outcome
    itself.
    """
    return _with_random_points(bounds, seeds, steps=1, **options)


def _with_random_points(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    beta: Beta = PAPER_BETA,
    num_initial: int = 10,
    batch_size: int = 1,
    reward_scale: Any = "min_max",
    exploration: float | None = None,
    arms: Any = "exp3",
    steps: int = 2,
    gain: Gain | None = None,
    **options: Any,
) -> Strategy:
    inner = acquire_gp_ucb(beta, **options)
    bandit = RandomOrAcquire(inner, arms, steps, reward_scale, exploration)
    method = bandit if gain is None else RewardGains(bandit, gain)
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )


@documented(
    "num_initial=4",
    1,
    sample_every="Rounds between samplings; in between each process is conditioned on new data.",
    estimator="Samples the hyperparameters; `FullyBayesian()` if omitted.",
    options="Further arguments of `Acquire`.",
)
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
    r"""Models with sampled hyperparameters, and the same models with all data."""

    sampled_in: int
    sampled: list[Any]
    models: list[Any]


@dataclass(frozen=True)
class SampleSometimes(Method):
    r"""Samples hyperparameters in some rounds, and conditions on new data in between."""

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
