r"""The straddle of a risk, largest where the risk is uncertain and close to a level."""

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.joint_risk_ucb import JointRiskUpperConfidenceBound
from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    as_finite,
    per_point,
    register_buffers,
)
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.arguments import check_flags
from botorch_risk.environments import Environment
from botorch_risk.risk import RiskMeasure


@construct_from_own_arguments
class RiskStraddle(PointwiseAcquisitionFunction):
    r"""The distance from a level to the nearer end of the interval of a risk.

        score(x) = min(upper(x) - h, h - lower(x))

    This is the straddle [Bryan2008straddle]_ with bounds of any risk. With joint bounds it is
    `sqrt(beta) sd[risk] - |E[risk] - h|`. It does not look ahead to a reading: `select_value`
    chooses w for the decision. Single-outcome, q = 1: use `sequential=True` for a batch.

    Args:
        model: A fitted model of (x, w) with one output, or of x for an environment that perturbs x.
        environment: The distribution of W.
        risk_measure: Any measure.
        threshold: The level h, a number or `batch_shape`.
        beta: Squared width of the interval, >= 0, a number or `batch_shape`; 3.84 is 95 %.
        joint: Whether to bound the risk under the joint posterior over W
            (`JointRiskUpperConfidenceBound`); otherwise pointwise bounds are used, which are wider.
        posterior_transform: Reduces the outputs of the model to one, or flips its sign.
        X_pending: `batch_shape x n' x d_x` decisions under evaluation.

    Example:
        >>> import torch
        >>> from botorch_risk.examples import environment, model
        >>> from botorch_risk.risk import Expectation
        >>> acqf = RiskStraddle(model, environment, Expectation(), threshold=1.0)
        >>> acqf(torch.rand(3, 1, 1, dtype=torch.double)).shape
        torch.Size([3])
    """

    threshold: Tensor

    def __init__(
        self,
        model: Model,
        environment: Environment,
        risk_measure: RiskMeasure,
        threshold: float | Tensor,
        beta: float | Tensor = 1.96**2,
        joint: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        check_flags(joint=joint)
        super().__init__(model=model)
        bound = JointRiskUpperConfidenceBound if joint else RiskUpperConfidenceBound
        self.bound = bound(model, environment, risk_measure, beta, posterior_transform)
        level = as_finite("threshold", threshold)
        register_buffers(self, model, threshold=level.to(self.bound.beta).clone())
        self.set_X_pending(X_pending)

    def check_points(self, X: Tensor) -> None:
        r"""Raises BotorchTensorDimensionError unless `X` are decisions, `batch_shape x m x d_x`."""
        self.bound.check_points(X)

    def score(self, X: Tensor) -> Tensor:
        r"""Scores of decisions, `batch_shape x m`, from `batch_shape x m x d_x`."""
        level = per_point(self.threshold, X)
        return (self.bound.upper(X) - level).minimum(level - self.bound.lower(X))

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        self.bound.set_X_pending(X_pending)
        self.X_pending = self.bound.X_pending
        self._find_spacing()
