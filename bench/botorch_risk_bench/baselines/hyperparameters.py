r"""Baselines of UHE-BO: ways to estimate hyperparameters and to sample at random.

All are GP-UCB with the same model and the same constant width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from gpytorch.constraints import Positive
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from botorch_risk.acquisition.widths import Beta, beta_of_round, check_beta
from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.fit.estimators import Estimator, FullyBayesian, MaximumAPosteriori, PseudoData
from botorch_risk.strategies.acquire import Acquire
from botorch_risk.strategies.method import Method, View, best_observed
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk.strategies.uhe_bo import PAPER_BETA, RandomOrAcquire, acquire_gp_ucb
from botorch_risk_bench.baselines.documented import documented


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
    options="Further arguments of `gp_ucb`; `reward_scale` and `exploration` of `RandomOrAcquire`.",
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


@documented(
    "num_initial=4",
    1,
    regret_exponent="Of the reference regret, which sets g, in [0.5, 1).",
    widen="Whether the bound grows with the norm.",
    options="Further arguments of `gp_ucb`.",
)
def a_gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    regret_exponent: float = 0.9,
    widen: bool = False,
    beta: Beta = PAPER_BETA,
    estimator: Estimator | None = None,
    **options: Any,
) -> Strategy:
    r"""A-GP-UCB: the function class grows with every round [Berkenkamp2019agpucb]_.

    Lengthscales are the estimate over g(t), `expansion_factor`. In
    theory the bound on the norm, of which sqrt(beta) is a multiple, grows with them, as
    `g(t)^(d / 2)`; UHE-BO's comparison keeps the width constant, as does the default.
    """
    check_arguments(a_gp_ucb, locals())
    dimension = decision_box(bounds).num_columns
    expansion_factor(1, dimension, regret_exponent)  # raises
    shorter = ShorterLengthscales(regret_exponent, estimator or MaximumAPosteriori())
    if widen:
        beta = partial(_widened, beta=beta, dimension=dimension, regret_exponent=regret_exponent)
    return gp_ucb(bounds, seeds, beta=beta, estimator=shorter, **options)


@dataclass(frozen=True)
class ShorterLengthscales:
    r"""An estimator whose lengthscales shrink as A-GP-UCB prescribes."""

    regret_exponent: float
    estimator: Estimator

    def __call__(
        self, model: SingleTaskGP, seeds: Sequence[int], t: int, observed: Tensor | None = None
    ) -> Model:
        r"""The fitted model with its lengthscales divided."""
        fitted: Any = self.estimator(model, seeds, t, observed)
        dimension = model.train_inputs[0].shape[-1]
        return divide_lengthscales(fitted, expansion_factor(t, dimension, self.regret_exponent))


@documented(
    "num_initial=4",
    1,
    threshold="The least standard deviation at the next point, kappa.",
    max_halvings="The most halvings in one round.",
    options="Further arguments of `Acquire`.",
)
def wang_de_freitas_gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    threshold: float = 0.1,
    max_halvings: int = 8,
    num_initial: int = 10,
    batch_size: int = 1,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""Halves lengthscales until the next point is uncertain enough, after [Wang2014unknown]_.

    In the form of UHE-BO's comparison: in each round, from the estimate on, while the posterior
    standard deviation at the maximiser is below `threshold` in units of the standardised outcome.
    """
    check_arguments(wang_de_freitas_gp_ucb, locals())
    method = HalveLengthscales(acquire_gp_ucb(beta, **options), threshold, max_halvings)
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )


@dataclass(frozen=True)
class HalveLengthscales(Method):
    r"""Halves the lengthscales and maximises again while the model is too certain."""

    inner: Acquire
    threshold: float = 0.1
    max_halvings: int = 8

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise ValueError(f"Expected `threshold` >= 0. Got {self.threshold}.")
        check_counts(0, max_halvings=self.max_halvings)

    def believe(self, view: View) -> list[Any]:
        r"""The fitted models, with the lengthscales of the estimate."""
        return self.inner.believe(view)

    def propose(self, view: View) -> Tensor:
        r"""The maximiser at the first lengthscales that leave it uncertain enough."""
        parts = zip(self.inner.parts(view), view.belief, strict=True)
        return torch.cat([self._maximize(part, model) for part, model in parts])

    def recommend(self, view: View) -> Tensor:
        return best_observed(view)

    def _maximize(self, view: View, model: Any) -> Tensor:
        X = self.inner.maximize(view, model)
        for _ in range(self.max_halvings):
            unit = view.space.unit(X)
            with torch.no_grad():
                deviation = model(unit if model.batch_shape else unit.squeeze(0)).variance.sqrt()
            small = deviation.reshape(len(X), -1).amin(dim=-1) < self.threshold
            if not small.any():
                break
            halves = torch.where(small, 2.0, 1.0).view(model.batch_shape)
            again = self.inner.maximize(view, divide_lengthscales(model, halves))
            X = torch.where(small[:, None, None], again, X)
        return X


def _widened(t: int, beta: Beta, dimension: int, regret_exponent: float) -> Any:
    growth = expansion_factor(t, dimension, regret_exponent) ** dimension
    return beta_of_round(beta, t) * growth


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
    **options: Any,
) -> Strategy:
    inner = acquire_gp_ucb(beta, **options)
    method = RandomOrAcquire(inner, arms, steps, reward_scale, exploration)
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


@torch.no_grad()
def divide_lengthscales(model: SingleTaskGP, factor: float | Tensor) -> SingleTaskGP:
    r"""Divides a fitted model's lengthscales, in place.

    What constraint they had is replaced: they may leave the range in which they were fitted.
    """
    kernel = model.covar_module
    correlation = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    lengthscale = correlation.lengthscale.clone()
    factor = torch.as_tensor(factor).to(lengthscale)
    if not (factor > 0).all():
        raise ValueError(f"Expected `factor` > 0. Got {factor}.")
    correlation.register_constraint("raw_lengthscale", Positive())
    correlation.lengthscale = lengthscale / (factor[..., None, None] if factor.dim() else factor)
    model.train()  # caches of the posterior go
    return model.eval()


def expansion_factor(t: int, d: int, regret_exponent: float = 0.9) -> float:
    r"""The factor that divides the lengthscales in round t, after [Berkenkamp2019agpucb]_.

        g(t) = t ** ((2 regret_exponent - 1) / (2 d))

    With lengthscales divided by g the squared norm of a function grows at most by `g^d`, Lemma 4 of
    [Bull2011rates]_, and the information gain as `g^d`. The bound on the regret, `sqrt(t gain)
    (norm + sqrt(gain))`, then grows as `sqrt(t) g^d`, and g is such that this is the reference
    `t^regret_exponent`, leaving out logarithms. [Berkenkamp2019agpucb]_ matches the two
    by a one-step prediction from the data instead, its Eq. (16), whose solution UHE-BO looks for on
    a grid; this is the simplest form of the idea, a function of t alone.
    """
    if not (t >= 1 and d >= 1 and 0.5 <= regret_exponent < 1):
        raise ValueError(
            "Expected `t` and `d` of at least 1 and `regret_exponent` in [0.5, 1). "
            f"Got {t=}, {d=}, {regret_exponent=}."
        )
    return t ** ((2 * regret_exponent - 1) / (2 * d))
