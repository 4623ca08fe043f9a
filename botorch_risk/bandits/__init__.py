r"""Bandits that decide, round by round, which of several ways of choosing a point to follow."""

from .exp3 import Exp3, RewardScale, exploration_rate, scale_reward

__all__ = ["Exp3", "RewardScale", "exploration_rate", "scale_reward"]
