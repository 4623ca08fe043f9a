r"""The algorithm of each paper as ask / tell, over one experiment or many replicates at once."""

from botorch_risk.strategies.protocol import Strategy

__all__ = ["Strategy"]
