r"""Decide whether an experiment can end: how far the recommendation is from the best."""

from .checks import ShareBetter, num_check_points, share_better
from .of_strategy import strategy_can_stop, strategy_regret_samples
from .regret import regret_samples
from .rule import Stopping, can_stop

__all__ = [
    "ShareBetter",
    "Stopping",
    "can_stop",
    "num_check_points",
    "regret_samples",
    "share_better",
    "strategy_can_stop",
    "strategy_regret_samples",
]
