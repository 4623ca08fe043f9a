r"""Decide whether an experiment can end: how far the recommendation is from the best."""

from .regret import regret_samples
from .rule import Stopping, can_stop

__all__ = ["Stopping", "can_stop", "regret_samples"]
