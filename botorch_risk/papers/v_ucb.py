r"""V-UCB, value-at-risk optimisation under a known environment [Nguyen2021vucb]_."""

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

    If w cannot be chosen (Remark 1), only the decision is, and w is told with the outcome. The
    environment may be an `InputPerturbation` of the decision, `VaR(f(x + W))` (Sec. 3.4). For the
    other arguments see `risk_search`.

    Args:
        environment: The distribution of W, or of the perturbation of the decision;
            `ObservedContexts` if it is learnt.
        risk_level: Lower-tail probability in (0, 1), the paper's alpha.
        rule: The rule that chooses a lacing value; see `LacingValue`.
        w_is_chosen: Whether w can be chosen; otherwise the environment draws it, as it does all
            contexts whose distribution is learnt.
        reporting: The rule of the recommendation, as in `EnvironmentRisk`.

    Raises:
        UnsupportedError: If the distribution is continuous without a density and w is chosen by
            density.
        ValueError: If the level is outside (0, 1) or the rule unknown.

    Example:
        >>> import torch
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> weather = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
        >>> strategy = v_ucb(
        ...     bounds, [0, 1], environment=weather, risk_level=0.1, num_initial=5
        ... )
        >>> pairs = strategy.ask()
        >>> strategy.tell(pairs, (4 * pairs).sin().sum(dim=-1, keepdim=True))
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 2]), torch.Size([2, 1]))
    """
    check_arguments(v_ucb, locals())
    if rule == "probability" and w_is_chosen and isinstance(environment, IndependentEnvironment):
        environment.log_density(environment.points)  # raises if there is none
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
    r"""The squared width for a function of bounded norm under equal noise.

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

    Raises:
        ValueError: If a number is out of its range.

    Example:
        >>> rkhs_beta(0.0, noise_variance=0.5, rkhs_norm=1.0, delta=0.5)
        tensor(5.2956, dtype=torch.float64)
    """
    gain = checked_information("information_gain", information_gain)
    check_probability(delta=delta)
    check_nonnegative(noise_variance=noise_variance, rkhs_norm=rkhs_norm)
    width = rkhs_norm + (2 * noise_variance * (gain + 1 - math.log(delta))).sqrt()  # Lemma 1
    return width.square()
