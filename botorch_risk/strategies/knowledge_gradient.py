r"""Choose the reading that is expected to improve the recommendation most."""

from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.knowledge_gradient import (
    LogRiskKnowledgeGradient,
    decisions_to_compare,
)
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import check_counts, check_even, check_fields
from botorch_risk.strategies.environment_risk import Turn


@dataclass(frozen=True)
class LargestKnowledgeGradient:
    r"""The decision (with its w, if w is chosen) of the largest `LogRiskKnowledgeGradient`.

    The compared decisions are the evaluated and random ones that are likely to be recommended.

    Args:
        num_compared: The number of compared decisions, even.
        num_candidates: The number of random decisions among which they are chosen.
        num_samples: Number of antithetic samples for the expected risks, even.
    """

    num_compared: int = 28
    num_candidates: int = 256
    num_samples: int = 16

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(num_candidates=self.num_candidates)
        check_even(num_compared=self.num_compared, num_samples=self.num_samples)

    def __call__(self, turn: Turn) -> Tensor:
        bound: Any = turn.bound
        if not isinstance(bound, RiskUpperConfidenceBound):
            raise UnsupportedError(
                "Expected one objective without constraints. Got a belief of the kind "
                f"{type(bound).__name__}."
            )
        random = turn.space.box.random_points(turn.streams("compared"), self.num_candidates)
        candidates = torch.cat([turn.view.decisions, random], dim=-2)
        compared = decisions_to_compare(bound, candidates, self.num_compared)
        gain = LogRiskKnowledgeGradient(
            bound.model,
            bound.environment,
            bound.risk_measure,
            compared,
            w_is_chosen=turn.space.w_is_chosen,
            num_samples=self.num_samples,
            X_pending=bound.X_pending,
        )
        turn.keep_apart(gain)
        X = torch.cat([turn.maximize(gain), compared], dim=-2)
        with torch.no_grad():
            best = gain.evaluate(X).argmax(dim=-1)
        X = X.gather(-2, best[:, None, None].expand(-1, 1, X.shape[-1]))
        if turn.space.box.limits is not None:
            X = turn.space.box.spared(gain, X, turn.pending_decisions)
        return turn.space.row(X, gain.best_value(X)) if turn.space.w_is_chosen else X
