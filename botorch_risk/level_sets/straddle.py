r"""The straddle of a risk: uncertain, and close to the level."""

from torch import Tensor

from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import check_finite


class RiskStraddle(PointwiseAcquisitionFunction):
    r"""How far the interval of a risk reaches across a level, at its nearer end.

        score(x) = min(upper(x) - h, h - lower(x))

    The straddle [Bryan2008straddle]_ on the bounds of any risk; those of a
    `JointRiskUpperConfidenceBound` make it `sqrt(beta) sd[risk] - |E[risk] - h|`. It looks at no
    reading: `select_value` chooses w for the decision. q = 1: use `sequential=True` for a batch.

    Args:
        bound: The bounds of the risk, with what they have pending.
        threshold: The level h.

    Raises:
        ValueError: If the threshold is not finite.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.acquisition import JointRiskUpperConfidenceBound
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> from botorch_risk.risk import Expectation
        >>> X = torch.rand(12, 2, dtype=torch.double)  # one decision variable, then w
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> w = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double)[:, None])
        >>> bound = JointRiskUpperConfidenceBound(model, w, Expectation(), beta=3.84)
        >>> RiskStraddle(bound, threshold=1.0)(torch.rand(3, 1, 1, dtype=torch.double)).shape
        torch.Size([3])
    """

    def __init__(self, bound: RiskUpperConfidenceBound, threshold: float) -> None:
        check_finite(threshold=threshold)
        super().__init__(model=bound.model)
        self.bound = bound
        self.threshold = threshold

    def check_points(self, X: Tensor) -> None:
        self.bound.check_points(X)

    def evaluate(self, X: Tensor) -> Tensor:
        r"""Scores of decisions, `batch_shape x m`, from `batch_shape x m x d_x`."""
        return (self.bound.upper(X) - self.threshold).minimum(self.threshold - self.bound.lower(X))

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Set pending decisions of the bound."""
        self.bound.set_X_pending(X_pending)
        self.X_pending = self.bound.X_pending
