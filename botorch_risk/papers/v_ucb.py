r"""V-UCB, value-at-risk optimisation under a known environment [Nguyen2021vucb]_.

Symbols of the paper, and names here:

    alpha           risk_level, a probability of the lower tail
    Z, z            the environmental variable W, w
    u_t, l_t        `RiskUpperConfidenceBound.pointwise_bounds`
    V_alpha(u_t)    `RiskUpperConfidenceBound.upper` with `ValueAtRisk(alpha)`
    Z^l_t           `lacing_mask`
    beta_t          beta: its square root multiplies the standard deviation; `bayesian_beta`

Equations and results, by what computes them:

    risk.ValueAtRisk
        Eq. (1)         value-at-risk
        Eq. (6)         value-at-risk minimises the pinball loss
    acquisition.RiskUpperConfidenceBound.pointwise_bounds
        Eq. (2)         posterior mean and variance at (x, w)
        Eq. (3)         lower and upper bounds at (x, w)
    acquisition.certified_regret
        Eq. (4)         regret by the band of the value-at-risk
        Lemma 3         regret by the width at the query
    acquisition.select_lacing_value
        Eq. (5)         StableOpt's choice of w
        Eq. (8)         loss of a value that does not lace
        Corollary 2.2   V-UCB's w in the limit is StableOpt's
    papers.maximize_value_at_risk
        Eq. (7)         loss of the network in a ball
        Eq. (14)        loss of the network over a batch
        Algorithm 2     local neural surrogate optimisation
    acquisition.lacing_mask
        Definition 1    lacing values
        Example 1       where the values at both bounds do not lace
        Theorem 1       a lacing value exists
        Corollary 1.1   where lacing values lie
    papers.rkhs_beta
        Lemma 1         the width beta_t of bounds at all (x, w)
    acquisition.bayesian_beta
        Lemma 2         the band of the value-at-risk
    risk.WorstCase
        Theorem 2       the limit is the smallest value
        Corollary 2.1   robust optimisation as the limit
    papers.v_ucb
        Algorithm 1     V-UCB

In your own loop, with a `model` of (x, w) that is fitted in every round:

    acqf = risk_bound(model, environment, t, risk_measure=ValueAtRisk(alpha), beta=bayesian_beta)
    x, _ = optimize_acqf(acqf, bounds, q=1, num_restarts=10, raw_samples=256)
    pair = select_lacing_value(acqf, x, rule="probability", seeds=t)
"""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from botorch_risk.acquisition.lacing import LacingRule
from botorch_risk.acquisition.widths import Beta, bayesian_beta, checked_information
from botorch_risk.arguments import check_arguments, check_nonnegative, check_probability
from botorch_risk.environments import Environment, IndependentEnvironment, ObservedContexts
from botorch_risk.risk import ValueAtRisk
from botorch_risk.strategies.decision_then_value import (
    DecisionThenValue,
    LacingValue,
    largest_bound,
)
from botorch_risk.strategies.environment_risk import Reporting
from botorch_risk.strategies.risk_search import AS_IN_PAPERS, risk_search
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy


def v_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment | ObservedContexts,
    risk_level: float,
    beta: Beta = bayesian_beta,
    rule: LacingRule = "probability",
    w_is_chosen: bool = True,
    reporting: Reporting = "posterior_mean",
    **options: Any,
) -> Strategy:
    r"""V-UCB: value-at-risk upper confidence bound, Algorithm 1 of [Nguyen2021vucb]_.

        x_t = argmax_x VaR(u_{t-1}(x, W)),  w_t a lacing value with respect to x_t

    If w cannot be chosen (Remark 1), only the decision is chosen, and w is told with the outcome.
    The environment may be an `InputPerturbation` of the decision, `VaR(f(x + W))` (Sec. 3.4). For
    the other arguments see `risk_search`.

    Args:
        environment: The distribution of W, or of the perturbation of the decision;
            `ObservedContexts` if it is learnt.
        risk_level: Lower-tail probability in (0, 1), the paper's alpha.
        rule: The rule that chooses a lacing value; see `LacingValue`.
        w_is_chosen: Whether w can be chosen; otherwise the environment draws it, as it does all
            contexts whose distribution is learnt.
        reporting: The rule of the recommendation, as in `EnvironmentRisk`.

    Raises:
        UnsupportedError: If the rule chooses w by density, and the distribution is continuous and
            has none.

    Example:
        >>> from botorch_risk.examples import environment, unit
        >>> strategy = v_ucb(unit, [0, 1], environment=environment, risk_level=0.1, num_initial=5)
        >>> pairs = strategy.ask()
        >>> strategy.tell(pairs, (4 * pairs).sin().sum(dim=-1, keepdim=True))
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 2]), torch.Size([2, 1]))
    """
    check_arguments(v_ucb, locals())
    if rule == "probability" and w_is_chosen and isinstance(environment, IndependentEnvironment):
        environment.log_density(environment.points)  # raises without a density
    return risk_search(
        bounds,
        seeds,
        environment=environment,
        risk_measure=ValueAtRisk(risk_level),
        beta=beta,
        choose=DecisionThenValue(largest_bound, LacingValue(rule)),
        reporting=reporting,
        w_is_chosen=w_is_chosen,
        **{**AS_IN_PAPERS, **options},
    )


def rkhs_beta(
    information_gain: float | Tensor, noise_variance: float, rkhs_norm: float, delta: float = 0.1
) -> Tensor:
    r"""The squared width for a function of bounded norm under the same noise at all points.

        beta_t = (rkhs_norm + sigma_n sqrt(2 (gamma_{t-1} + 1 + log(1 / delta))))^2

    Lemma 1 of [Nguyen2021vucb]_, for all (x, w) and all rounds.

    Args:
        information_gain: gamma_{t-1} in nats, the largest with t - 1 observations, or a bound of
            it; of any shape.
        noise_variance: sigma_n^2, >= 0.
        rkhs_norm: B, a bound of the function's norm in the space of the kernel, >= 0.
        delta: Probability, in (0, 1), that a bound fails at some point and some time.

    Returns:
        Values of beta in the shape of the gains.

    Example:
        >>> rkhs_beta(0.0, noise_variance=0.5, rkhs_norm=1.0, delta=0.5)
        tensor(5.2956, dtype=torch.float64)
    """
    gain = checked_information("information_gain", information_gain)
    check_probability(delta=delta)
    check_nonnegative(noise_variance=noise_variance, rkhs_norm=rkhs_norm)
    width = rkhs_norm + (2 * noise_variance * (gain + 1 - math.log(delta))).sqrt()  # Lemma 1
    return width.square()
