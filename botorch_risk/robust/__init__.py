r"""Risk in BoTorch's Monte-Carlo acquisition functions: models and objectives of joint samples."""

from .model import RobustModel, RobustPath
from .risk_objective import RiskObjective
from .risk_posterior import Reduction
from .robust import Robust, robust

__all__ = ["Reduction", "RiskObjective", "Robust", "RobustModel", "RobustPath", "robust"]
