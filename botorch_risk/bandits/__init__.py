r"""Bandits that select, round by round, one of several rules for choosing a point."""

from .exp3 import Exp3, RewardScale, exploration_rate, scale_reward

__all__ = ["Exp3", "RewardScale", "exploration_rate", "scale_reward"]
