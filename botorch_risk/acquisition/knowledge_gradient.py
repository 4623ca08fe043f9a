r"""The knowledge gradient of a risk: how much one reading improves the recommendation."""

from typing import Any

import torch
from numpy import ndarray
from torch import Tensor

from botorch_risk.acquisition.compared_risks import ComparedRisks, SlopeReduction
from botorch_risk.acquisition.expected_gain import log_expected_gain, log_standard_improvement
from botorch_risk.acquisition.expected_gain_on_host import best_gain_over_w
from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.risk_lookahead import RiskLookahead
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import check_even
from botorch_risk.points import as_points, checked_points, come_again


@construct_from_own_arguments
class LogRiskKnowledgeGradient(RiskLookahead):
    r"""The logarithm of the expected gain in the recommendation's risk from one reading.

        score(x) = log( E_Z[ max_p ( a_p + s_p(x, w) Z ) ] - max_p a_p )

    where p runs through the compared decisions, with expected risks and slopes from
    `RiskLookahead`, which describes the arguments and errors too. `X_compared` holds decisions that
    may be recommended, see `decisions_to_compare`. The maximum over lines has a closed form
    (`log_expected_gain`), as in the knowledge gradient for correlated beliefs [Frazier2009kgcb]_.
    `log_gain` scores any reading (x, w).

    Example:
        >>> from botorch.optim import optimize_acqf
        >>> from botorch_risk.examples import environment, model, unit
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> compared = torch.linspace(0, 1, 11, dtype=torch.double)[:, None]
        >>> acqf = LogRiskKnowledgeGradient(
        ...     model, environment, ConditionalValueAtRisk(0.2), compared, w_is_chosen=True
        ... )
        >>> x, _ = optimize_acqf(acqf, unit, q=1, num_restarts=2, raw_samples=16)
        >>> acqf.best_value(x).shape  # what to query
        torch.Size([1, 2])
    """

    def log_gain(self, readings: Tensor) -> Tensor:
        r"""Log gains of readings (x, w), `batch_shape x m`, from `batch_shape x m x d`."""
        return self._at(checked_points(readings, self.model, "readings"))

    def _score(self, slopes: Tensor) -> Tensor:
        risk = self._conditioned.risk
        return log_expected_gain(risk.reshape(len(slopes), *[1] * (slopes.dim() - 2), -1), slopes)

    def _average_score(self, scores: Tensor, weights: Tensor) -> Tensor:
        # The logarithm of the average gain; a weight of 0 adds exp(-inf) = 0.
        return (scores + weights.to(scores).log()).logsumexp(dim=-1)

    def _index_of_best(self, slopes: Tensor, supported: Tensor) -> Tensor:
        r"""Use the line that gains most over the current best.

        It is a lower bound of the gain and needs no search along all lines.
        """
        compared: ComparedRisks = self._conditioned
        best = compared.risk.argmax(dim=-1)[:, None, None, None].expand(*slopes.shape[:-1], 1)
        spread = (slopes - slopes.gather(-1, best)).abs()
        # No spread, hence no gain: a w outside the support cannot be read.
        spread = spread.masked_fill(~supported.unsqueeze(-1), 0.0)
        # A line gains the more, the more its slope differs: only the largest of each is needed.
        widest, w = spread.max(dim=-2)  # B x m x P
        behind = compared.risk.amax(dim=-1, keepdim=True).sub(compared.risk).unsqueeze(-2)
        widest = widest.clamp_min(torch.finfo(widest.dtype).tiny)
        gains = log_standard_improvement(-behind / widest) + widest.log()
        # The best line gains nothing over itself; one that ties with it may, by another slope.
        line = gains.scatter(-1, best[..., 0, :], -torch.inf).argmax(dim=-1, keepdim=True)
        return w.gather(-1, line).squeeze(-1)

    def _on_host(self) -> SlopeReduction:
        compared: ComparedRisks = self._conditioned
        environment: Any = self.environment

        def best_gain(slopes: ndarray) -> tuple[ndarray, ndarray, ndarray]:
            supported = (environment.weights > 0).unsqueeze(-2)
            return best_gain_over_w(compared.risk.numpy(), slopes, supported.numpy())

        return best_gain


def decisions_to_compare(
    bound: RiskUpperConfidenceBound, X: Tensor, num_compared: int = 28
) -> Tensor:
    r"""Select the decisions that are likely to be recommended.

    Half have the largest upper bound of the risk, half the largest risk of the mean. Neither half
    repeats a decision, however often it was given, while a different one is left: if all compared
    decisions are the same one, nothing can be gained.

    Args:
        bound: The bound of the risk, whose `upper` and `mean` rank the decisions.
        X: Decisions, `batch_shape x m x d_x`, such as the evaluated ones and random ones; or
            `m x d_x` for all of the batch.
        num_compared: The number of decisions, even and at least 2.

    Returns:
        `batch_shape x num_compared x d_x`, possibly with duplicates; fewer if there are few.
    """
    check_even(num_compared=num_compared)
    X = as_points(X, bound.model)
    with torch.no_grad():
        scores = bound.upper(X), bound.mean(X)
    X = X.expand(*scores[0].shape, X.shape[-1])
    half = min(num_compared // 2, X.shape[-2])
    # `topk` chooses decisions that come again, at minus infinity, only when no other is left.
    again, chosen = come_again(X), []
    for score in scores:
        chosen.append(score.masked_fill(again, -torch.inf).topk(half, dim=-1).indices)
        # One of each half: if both were the same decision, nothing could be gained.
        if half == 1:
            again = again.scatter(-1, chosen[-1], True)
    index = torch.cat(chosen, dim=-1)
    return X.gather(-2, index.unsqueeze(-1).expand(*index.shape, X.shape[-1]))
