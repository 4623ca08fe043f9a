r"""Cards for Ax's `Client.compute_analyses`: the noise, the contexts, the risk."""

from .context_distribution import ContextDistributionPlot
from .noise_slice import NoiseSlicePlot
from .risk_frontier import RiskFrontierPlot

__all__ = ["ContextDistributionPlot", "NoiseSlicePlot", "RiskFrontierPlot"]
