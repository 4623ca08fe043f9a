r"""UHE-BO: random points by EXP3, hyperparameters by pseudo-data [Ha2023uhe]_.

Symbols of the paper, and names here:

    theta           the hyperparameters of the model
    D_t, D_hat      the data, and pseudo-data at points of another design, `fit.pseudo_points`
    a_t             the arm of `Exp3`: 0 draws a random point, 1 maximises GP-UCB
    eta             the rate of `Exp3`, `exploration_rate`
    beta_t          beta: its square root multiplies the standard deviation

Equations and results, by what computes them:

    fit.PseudoDataMarginalLogLikelihood
        Eq. (2)         hyperparameters by the loss of pseudo-data
        Eq. (9)         log marginal likelihood
        Eq. (10)        log posterior of the hyperparameters
    fit.fit_pseudo_data
        Eq. (3)         predictions from the data themselves
    papers.information_gain
        Eq. (11)        the largest information gain
    bandits.exploration_rate
        Eq. (12)        regret of EXP3 at its rate
    papers.random_exploration_beta
        Theorem 6.5     the width beta_t (the regret is a rate)
    papers.RandomOrAcquire
        Algorithm 1     UHE-BO
    bandits.Exp3
        Algorithm 2     EXP3

In your own loop, with a `model` of all data so far:

    fit_pseudo_data(model, bounds, seeds=t)
    acqf = gp_ucb(model, t, beta=4.0)  # or a random point, as `Exp3.draw` says
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from botorch_risk.acquisition.risk_bound import gp_ucb
from botorch_risk.acquisition.widths import Beta, check_beta
from botorch_risk.arguments import (
    check_arguments,
    check_counts,
    check_fields,
    check_positive,
    check_probability,
)
from botorch_risk.bandits import Exp3, RewardScale, exploration_rate, scale_reward
from botorch_risk.bandits.exp3 import draw_arms
from botorch_risk.fit.estimators import Estimator, PseudoData
from botorch_risk.strategies.acquire import Acquire
from botorch_risk.strategies.history import History
from botorch_risk.strategies.method import FIT, Classification, Method, State, View
from botorch_risk.strategies.prediction import Interval, Prediction
from botorch_risk.strategies.running import random_rows
from botorch_risk.strategies.space import Box, Space, check_space, decision_box
from botorch_risk.strategies.strategy import Strategy

Arms = Literal["exp3", "alternate"]
RANDOM = 0  # the paper's arm 1


class InnerBelief(NamedTuple):
    r"""The belief of a method that lets an inner method choose in some turns.

    Args:
        replicates: The replicates in which the inner method chooses.
        inner: The inner method's view of them; None if it chooses in none.
        before: The inner method's latest earlier belief, whose models it may overwrite.
    """

    replicates: list[int]
    inner: View | None
    before: Any

    @property
    def newest(self) -> Any:
        return self.before if self.inner is None else self.inner.known_belief


@dataclass(frozen=True)
class RandomOrAcquire(Method):
    r"""Random points mixed into a method's own, Algorithm 1 of [Ha2023uhe]_.

    Arms last two evaluations. At odd t EXP3 draws one of two arms for each replicate: a random
    point followed by the method's, or the method's twice. At even t the arm earns the larger of its
    two outcomes, on the scale of the initial design. With batches, an evaluation is a batch of q
    points. A final odd evaluation earns nothing, nor does an arm whose outcomes are all missing.

    The arms are functions of the weights, t and the seeds, so the state consists of the weights
    (`log_weights`, `R x 2`), the number of rewards (`num_rewards`, `R`) and of those outside the
    range of the initial design (`num_saturated`, `R`), and the state of the inner method. The rate
    of Algorithm 1 exceeds 1 at t = 1 and is clipped there; the update uses the rate at even t and
    the probability at odd t.

    Args:
        inner: The method that chooses the points that are not random, records, recommends and
            predicts.
        arms: The rule for arms: EXP3, or `"alternate"`, a random point first in every arm (RA-BO).
        steps: The number of evaluations of an arm; in the random arm, the first is random.
        reward_scale: The scale of rewards; see `botorch_risk.bandits.scale_reward`.
        exploration: A constant gamma; Algorithm 1's schedule if omitted.

    Example:
        >>> from botorch.acquisition import UpperConfidenceBound
        >>> from botorch_risk.strategies import Acquire, Box, Strategy
        >>> inner = Acquire(lambda model, t: UpperConfidenceBound(model, beta=4.0))
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = Strategy(Box(bounds), RandomOrAcquire(inner), seeds=0, num_initial=5)
        >>> for _ in range(3):
        ...     X = strategy.ask()
        ...     strategy.tell(X, (3 * X).sin())
        >>> strategy.state["log_weights"].shape, strategy.state["num_rewards"].tolist()
        (torch.Size([1, 2]), [1])
    """

    inner: Method
    arms: Arms = "exp3"
    steps: int = 2
    reward_scale: RewardScale = "min_max"
    exploration: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(steps=self.steps)
        if self.exploration is not None:
            check_positive(exploration=self.exploration)

    @property
    def num_outcomes(self) -> int:
        return self.inner.num_outcomes

    @property
    def keeps_fits(self) -> bool:
        return self.inner.keeps_fits

    def start(self, space: Space, num_replicates: int) -> State:
        check_space(space, self, "random_points")
        none = torch.zeros(num_replicates, dtype=torch.long)
        weights = Exp3.start(num_replicates, num_arms=2).log_weights
        counts = {"log_weights": weights, "num_rewards": none, "num_saturated": none.clone()}
        return counts | _of_inner(self.inner.start(space, num_replicates))

    def check(self, history: History) -> None:
        self.inner.check(history)

    def group_by(self, history: History) -> Tensor:
        return self.inner.group_by(history)

    def believe(self, view: View) -> InnerBelief:
        r"""The replicates without a random point in this turn, and the inner method's view."""
        before = None if view.previous is None else view.previous.newest
        chosen = self.chosen(view, view.round) != RANDOM
        if view.round != self._start(view.round):
            chosen = torch.ones_like(chosen)  # Alg. 1, line 11
        replicates = chosen.nonzero().flatten().tolist()
        if not replicates:
            return InnerBelief(replicates, None, before)
        inner = view.continued(replicates, self.inner, _inner_state(view), before)
        return InnerBelief(replicates, inner, before)

    def propose(self, view: View) -> Tensor:
        r"""Random points, and the inner method's points for the other replicates."""
        X = random_rows(view, view.batch_size, "random point")
        replicates, inner, _ = view.belief
        if inner is not None:
            X[replicates] = self.inner.propose(inner.of_batch_size(view.batch_size))
        return X

    def record(self, view: View, rows: Tensor) -> Tensor | None:
        return self.inner.record(self._for_all(view), rows)

    def learn(self, view: View) -> State:
        r"""Reward the arm that ends with the last rows, and let the inner method learn."""
        everyone = list(range(len(view.seeds)))
        # Not from this view's belief, whose arms were drawn with the old weights.
        inner = self.inner.learn(view.of(everyone, self.inner, _inner_state(view)))
        return self._rewarded(view) | _of_inner(inner)

    def _rewarded(self, view: View) -> dict[str, Tensor]:
        t = view.round - 1
        if self.arms != "exp3" or t < 1 or t % self.steps:
            return dict(view.state)
        outcomes = view.history.mean.cpu().double()  # R x n
        last = outcomes[:, view.history.rounds > t - self.steps]
        reward = last.nan_to_num(nan=-torch.inf).amax(dim=-1)  # Alg. 1, line 19
        reward = reward.masked_fill(reward == -torch.inf, torch.nan)
        initial = outcomes[:, view.history.rounds == 0]
        value, saturated = scale_reward(reward, initial, outcomes, self.reward_scale)
        rewarded = value.isfinite()
        bandit = Exp3(view.state["log_weights"]).update(  # Alg. 1, line 20
            self.chosen(view, t), value, self._probabilities(view, t), self._gamma(t), rewarded
        )
        return {
            "log_weights": bandit.log_weights,
            "num_rewards": view.state["num_rewards"] + rewarded,
            "num_saturated": view.state["num_saturated"] + (saturated & rewarded),
        }

    def recommend(self, view: View) -> Tensor:
        return self.inner.recommend(self._for_all(view))

    def classify(self, view: View) -> Classification:
        return self.inner.classify(self._for_all(view))

    def predict(self, view: View, X: Tensor) -> Prediction:
        return self.inner.predict(self._for_all(view), X)

    def predict_risk(self, view: View, X: Tensor) -> Interval:
        return self.inner.predict_risk(self._for_all(view), X)

    def predict_feasible(self, view: View, X: Tensor) -> Tensor | None:
        return self.inner.predict_feasible(self._for_all(view), X)

    def _for_all(self, view: View) -> View:
        r"""The inner method's view of all replicates, fitted if a random point is due."""
        everyone = list(range(len(view.seeds)))
        replicates, inner, _ = view.belief
        if inner is None or replicates != everyone:
            inner = view.of(everyone, self.inner, _inner_state(view))
        known: View = inner
        return known

    def chosen(self, view: View, t: int) -> Tensor:
        r"""The arm of each replicate at evaluation t, `R`: 0 for random, 1 for the inner method.

        Args:
            view: The view, with the weights of evaluation t.
            t: The number of the evaluation, from 1.
        """
        if self.arms != "exp3":
            return torch.full((len(view.seeds),), RANDOM)
        return draw_arms(self._probabilities(view, t), view.seeds, "arm", self._start(t))

    def _start(self, t: int) -> int:
        r"""The evaluation at which the arm of evaluation t was drawn."""
        return t - (t - 1) % self.steps

    def _gamma(self, t: int) -> float:
        return self.exploration or exploration_rate(t / self.steps, num_arms=2)  # Alg. 1, line 5

    def _probabilities(self, view: View, t: int) -> Tensor:
        bandit = Exp3(view.state["log_weights"])
        return bandit.probabilities(self._gamma(self._start(t)))  # Alg. 1, line 7


_INNER = "inner "  # begins the names of the inner method's state


def _of_inner(state: State) -> dict[str, Tensor]:
    r"""The inner method's state as a part of the whole one, which has its fits already."""
    return {_INNER + name: value for name, value in state.items() if not name.startswith(FIT)}


def _inner_state(view: View) -> State:
    return {
        name.removeprefix(_INNER): value
        for name, value in view.state.items()
        if name.startswith(_INNER)
    }


PAPER_BETA = 1.96**2


def uhe_bo(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    beta: Beta = PAPER_BETA,
    estimator: Estimator | None = None,
    reward_scale: RewardScale = "min_max",
    exploration: float | None = None,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""UHE-BO: EXP3 decides when to sample at random, and the model is fitted to pseudo-data.

    Algorithm 1 of [Ha2023uhe]_.

    The paper's constant beta_t = 1.96 is taken to multiply sigma, so that `beta` is its square;
    with `beta=1.96`, its square root multiplies sigma. The model is BoTorch's `SingleTaskGP` with
    its priors on the unit cube and standardised outcomes; `model` takes any other, such as the
    paper's Matern 5/2 kernel with the priors of `botorch_risk.fit.set_gamma_priors`.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        beta: Squared width of the bound: a number, or a function of the round from 1.
        estimator: Estimates the hyperparameters; `PseudoData()` if omitted.
        reward_scale: The scale of the bandit's rewards.
        exploration: A constant gamma; Algorithm 1's schedule if omitted.
        num_initial: The number of points in the initial design.
        batch_size: The number `q` of points in each later round.
        options: Further arguments of `Acquire`, such as `model`.

    Example:
        >>> import torch
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = uhe_bo(bounds, seeds=[0, 1], num_initial=5)
        >>> for _ in range(2):
        ...     X = strategy.ask()
        ...     strategy.tell(X, (3 * X).sin())
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """
    check_arguments(uhe_bo, locals())
    method = RandomOrAcquire(
        acquire_gp_ucb(beta, estimator=estimator or PseudoData(), **options),
        reward_scale=reward_scale,
        exploration=exploration,
    )
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )


def acquire_gp_ucb(beta: Beta = PAPER_BETA, **options: Any) -> Acquire:
    r"""`Acquire` with GP-UCB for all replicates, and further options."""
    check_beta(beta)
    return Acquire(partial(gp_ucb, beta=beta), batched=True, **options)


def random_exploration_beta(
    t: int, d: int, side_length: float, slope_factor: float, slope_scale: float, delta: float = 0.1
) -> float:
    r"""The squared width of GP-UCB in every second round, after random exploration.

        beta_t = 2 log((t / 2)^2 2 pi^2 / (3 delta))
                 + 2 d log((t / 2)^2 d b_t r sqrt(log(4 d a_t / delta)))

    Theorem 6.5 of [Ha2023uhe]_ on `[0, r]^d`: `t / 2` rounds of GP-UCB have passed in round t.
    The grid whose points the second logarithm counts has at least one along each axis, and a width
    is at least 0; the paper mentions neither. The constants a_t and b_t belong to the estimated
    hyperparameters of round t.

    Args:
        t: The round, >= 2; the theorem is about even ones.
        d: The number of variables, >= 1.
        side_length: r, > 0.
        slope_factor: a_t, > `delta / (4 d)`: the outer constant of
            `P(sup |df / dx_i| > L) <= a_t exp(-(L / b_t)^2)`.
        slope_scale: b_t, > 0, in units of the outcome per unit of r.
        delta: Probability, in (0, 1).

    Example:
        >>> round(random_exploration_beta(10, 2, side_length=1, slope_factor=1, slope_scale=1), 3)
        33.414
    """
    check_counts(2, t=t)
    check_counts(d=d)
    check_positive(side_length=side_length, slope_factor=slope_factor, slope_scale=slope_scale)
    check_probability(delta=delta)
    if not 4 * d * slope_factor > delta:
        raise ValueError(
            f"Expected `slope_factor` > delta / (4 d) = {delta / (4 * d):g}. Got {slope_factor=}."
        )
    log_round = 2 * math.log(t / 2)
    log_slope = math.log(math.log(4 * d * slope_factor / delta)) / 2
    log_grid = log_round + math.log(d * slope_scale) + math.log(side_length) + log_slope
    beta = 2 * (log_round + math.log(2 * math.pi**2 / (3 * delta))) + 2 * d * max(log_grid, 0.0)
    return max(beta, 0.0)
