r"""How far a recommendation is from the best: by the model, or by check points without a model."""

from .checks import ShareBetter, num_check_points, share_better
from .gap import Gap, regret_gap
from .of_strategy import strategy_gap, strategy_regret_samples
from .regret import regret_samples

__all__ = [
    "Gap",
    "ShareBetter",
    "num_check_points",
    "regret_gap",
    "regret_samples",
    "share_better",
    "strategy_gap",
    "strategy_regret_samples",
]
