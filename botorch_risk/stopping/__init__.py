r"""Decide whether an experiment can end: how far the recommendation is from the best."""

from .of_strategy import strategy_can_stop
from .regret import regret_samples
from .rule import Stopping, can_stop

__all__ = ["Stopping", "can_stop", "regret_samples", "strategy_can_stop"]
