r"""V-UCB, StableOpt and what they were compared with, for an environment whose law is known.

.. [Nguyen2021vucb]
    Q. P. Nguyen, Z. Dai, B. K. H. Low, P. Jaillet. Value-at-Risk Optimization with Gaussian
    Processes. International Conference on Machine Learning, 2021.

.. [Bogunovic2018stableopt]
    I. Bogunovic, J. Scarlett, S. Jegelka, V. Cevher. Adversarially Robust Optimization with
    Gaussian Processes. Advances in Neural Information Processing Systems 31, 2018.

.. [Krause2011contextual]
    A. Krause, C. S. Ong. Contextual Gaussian Process Bandit Optimization. Advances in Neural
    Information Processing Systems 24, 2011.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, get_args

import torch
from torch import Tensor

from botorch_risk.acquisition.lacing import LacingRule, select_lacing_value
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.environments import (
    DiscreteEnvironment,
    Environment,
    IndependentEnvironment,
    InputPerturbation,
)
from botorch_risk.optim.multistart import optimize_acqf_replicates
from botorch_risk.risk import Expectation, ValueAtRisk, WorstCase
from botorch_risk.seeding import generators
from botorch_risk.strategies.initial_design import uniform_points
from botorch_risk.strategies.known_law import KnownLawStrategy


class _KnownLawUCB(KnownLawStrategy, ABC):
    r"""A strategy that maximises a confidence bound over decisions."""

    def _laced(self, pick: int, pending: Tensor | None, rule: LacingRule) -> Tensor:
        r"""The maximiser of the bound, with a lacing value if w is chosen."""
        bound = self._given(pending)
        X = self._best_decision(bound, pick)
        if not self.w_is_chosen:
            return X
        return self._row(
            X, select_lacing_value(bound, X, rule, seeds=self._streams("lacing", pick))
        )

    def _best_decision(self, bound: RiskUpperConfidenceBound, pick: int) -> Tensor:
        r"""The maximiser of the bound, `R x 1 x d_x`."""
        return optimize_acqf_replicates(
            bound,
            self.bounds,
            seeds=self._streams("acquisition", pick),
            num_restarts=self.num_restarts,
            raw_samples=self.raw_samples,
        )[0]


class VUCB(_KnownLawUCB):
    r"""V-UCB: value-at-risk upper confidence bound, Algorithm 1 of [Nguyen2021vucb]_.

        x_t = argmax_x VaR(u_{t-1}(x, W)),  w_t a lacing value with respect to x_t

    Where w cannot be chosen (Remark 1), only the decision is, and w is told with the outcome.
    The law may be an `InputPerturbation` of the decision, `VaR(f(x + W))` (Sec. 3.4).

    Example:
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> law = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
        >>> strategy = VUCB(bounds, law, risk_level=0.1, seeds=[0, 1], num_initial=5)
        >>> pairs = strategy.ask()
        >>> strategy.tell(pairs, (4 * pairs).sin().sum(dim=-1, keepdim=True))
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 2]), torch.Size([2, 1]))
    """

    _laws = (IndependentEnvironment, InputPerturbation)

    def __init__(
        self,
        bounds: Tensor,
        environment: Environment,
        risk_level: float,
        seeds: int | Sequence[int],
        *,
        rule: LacingRule = "probability",
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
            environment: The known law of W, or of the perturbation of the decision.
            risk_level: Lower-tail probability in (0, 1), the paper's alpha.
            seeds: One seed per replicate.
            rule: How `select_lacing_value` chooses w: `"probability"` is V-UCB Prob and
                `"uniform"` V-UCB Unif.
            options: Further arguments of `KnownLawStrategy`.

        Raises:
            UnsupportedError: If the law depends on the decision otherwise than by a perturbation,
                or is continuous without a density and w is to be chosen by it.
            ValueError: If the level is outside (0, 1) or the rule unknown.
        """
        if rule not in get_args(LacingRule):
            raise ValueError(f"Expected `rule` to be one of {get_args(LacingRule)}. Got {rule=}.")
        super().__init__(bounds, environment, ValueAtRisk(risk_level), seeds, **options)
        self.rule: LacingRule = rule
        needs_density = rule == "probability" and self.w_is_chosen
        if needs_density:
            self.environment.log_probability(self.environment.weights)  # raises if there is none

    def _choose(self, pick: int, pending: Tensor | None) -> Tensor:
        return self._laced(pick, pending, self.rule)


class AdversarialStableOpt(_KnownLawUCB):
    r"""StableOpt as it was published: the adversary's w is chosen and queried.

        x_t = argmax_x min_w u_{t-1}(x, w),  w_t = argmin_w l_{t-1}(x_t, w)

    Eq. (5) of [Nguyen2021vucb]_, after [Bogunovic2018stableopt]_; the minima are over the support
    of the law, whose probabilities do not matter. What V-UCB becomes as its level goes to 0
    (Corollary 2.2). `StableOpt` is for contexts that are observed, with a law that is not known.
    """

    _laws = (IndependentEnvironment, InputPerturbation)

    def __init__(
        self,
        bounds: Tensor,
        environment: Environment,
        seeds: int | Sequence[int],
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
            environment: Its points of positive weight are the adversary's choices.
            seeds: One seed per replicate.
            options: Further arguments of `KnownLawStrategy`.
        """
        super().__init__(bounds, environment, WorstCase(), seeds, **options)

    def _choose(self, pick: int, pending: Tensor | None) -> Tensor:
        return self._laced(pick, pending, "uniform")


class _DrawnContexts(_KnownLawUCB, ABC):
    r"""A baseline whose w is drawn from the law, and which reports by the value-at-risk."""

    environment: IndependentEnvironment

    def __init__(
        self,
        bounds: Tensor,
        environment: Environment,
        risk_level: float,
        seeds: int | Sequence[int],
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
            environment: The known law of W.
            risk_level: Lower-tail probability in (0, 1) of the report.
            seeds: One seed per replicate.
            options: Further arguments of `KnownLawStrategy` but `w_is_chosen`.
        """
        measure = ValueAtRisk(risk_level)
        super().__init__(bounds, environment, measure, seeds, w_is_chosen=True, **options)

    def _draw(self, pick: int) -> Tensor:
        r"""A value of W for each replicate, `R x 1 x d_w`."""
        streams = generators(self._streams("context", pick), "environment")
        return self.environment.sample(1, streams).to(self.bounds)


class ContextualGPUCB(_DrawnContexts):
    r"""Contextual GP-UCB: w from its law, then the best decision for it [Krause2011contextual]_.

        w_t ~ the law of W,  x_t = argmax_x u_{t-1}(x, w_t)

    A baseline that learns about all w alike; it reports by the value-at-risk as V-UCB does.
    """

    def _choose(self, pick: int, pending: Tensor | None) -> Tensor:
        W = self._draw(pick)
        bound = self._given(pending, DiscreteEnvironment(W), Expectation())
        return torch.cat([self._best_decision(bound, pick), W], dim=-1)


class RandomPairs(_DrawnContexts):
    r"""Uniformly random decisions with w from its law, reported as V-UCB's are: a baseline."""

    def _choose(self, pick: int, pending: Tensor | None) -> Tensor:
        X = uniform_points(self.bounds, self._streams("decision", pick), 1)
        return torch.cat([X, self._draw(pick)], dim=-1)
