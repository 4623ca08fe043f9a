r"""How far the recommendations of a strategy may be from the best."""

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.stopping.gap import Gap, regret_gap
from botorch_risk.stopping.regret import regret_samples
from botorch_risk.strategies.environment_risk import EnvironmentRisk
from botorch_risk.strategies.method import Method, ReportedMethod, View
from botorch_risk.strategies.prediction import pooled
from botorch_risk.strategies.strategy import Strategy

# Random decisions, the best of which are compared, and as many of any kind, since the best ones lie
# together; twice as many without samples of hyperparameters.
_NUM_CANDIDATES, _NUM_COMPARED = 2048, 64
_NUM_REGRETS = 4096  # joint samples of the risks, of all hyperparameters together


def strategy_gap(strategy: Strategy, epsilon: float, delta: float = 0.05) -> Gap:
    r"""How far the recommendations may be from the best, by the strategy's model; see `regret_gap`.

    Args:
        strategy: A strategy of a risk over W, such as `risk_search` or a paper's.
        epsilon: How far from the best a recommendation may be, in the unit of the risk.
        delta: The probability of a regret above the gap.

    Raises:
        UnsupportedError: If the method has no model of the risk, or there are constraints.
    """
    return regret_gap(strategy_regret_samples(strategy), epsilon, delta)


def strategy_regret_samples(strategy: Strategy) -> Tensor:
    r"""Samples of the regret of each recommendation, `R x S`; see `regret_samples`.

    The recommendation is compared with decisions of large upper bounds and with random ones, by the
    model of the intervals. The regret is infinite for a replicate without an outcome.

    Args:
        strategy: A strategy of a risk over W, such as `risk_search` or a paper's.

    Raises:
        UnsupportedError: If the method has no model of the risk, or there are constraints.
    """
    found = [(replicates, _regret(view)) for replicates, view in strategy.observed_views()]
    regret = found[0][1].new_full((len(strategy.seeds), found[0][1].shape[-1]), torch.inf)
    for replicates, samples in found:
        regret[replicates] = samples
    return regret


def _regret(view: View) -> Tensor:
    r"""Compare the recommendation with others, `R x S`."""
    method: Method = view.method
    while isinstance(method, ReportedMethod):
        method = method.report
    if not isinstance(method, EnvironmentRisk):
        raise UnsupportedError(
            f"Expected a strategy that seeks a risk, such as `risk_search(...)`. Got {method!r}."
        )
    bound = view.belief
    if not isinstance(bound, RiskUpperConfidenceBound):
        raise UnsupportedError(
            "Expected one objective without constraints. Got a strategy whose bound is a "
            f"{type(bound).__name__}."
        )
    random = view.space.box.random_points(view.history.streams("regret"), _NUM_CANDIDATES)
    num_compared = _NUM_COMPARED if method.num_samples else 2 * _NUM_COMPARED
    X = torch.cat([view.decisions, random], dim=-2)
    with torch.no_grad():
        best = bound.upper(X).topk(min(num_compared, X.shape[-2]), dim=-1).indices
    best = X.gather(-2, best.unsqueeze(-1).expand(*best.shape, X.shape[-1]))
    compared = torch.cat([best, X[..., -num_compared:, :]], dim=-2)
    model = view.interval_belief.model
    samples = regret_samples(
        model,
        bound.environment,
        bound.risk_measure,
        method.recommend(view),
        compared,
        num_samples=_NUM_REGRETS // max(1, method.num_samples),
    )
    return pooled(model, samples)
