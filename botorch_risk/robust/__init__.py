r"""Risk in BoTorch's Monte-Carlo acquisition functions: models and objectives of joint samples."""

from botorch_risk.robust.model import RobustModel, RobustPath
from botorch_risk.robust.risk_objective import RiskObjective
from botorch_risk.robust.risk_posterior import Reduction
from botorch_risk.robust.robust import Robust, robust

__all__ = ["Reduction", "RiskObjective", "Robust", "RobustModel", "RobustPath", "robust"]
