r"""Cards for Ax's `Client.compute_analyses`: the noise, the contexts, the risk, the calibration."""

from botorch_risk.ax.analyses.calibration import CalibrationPlot
from botorch_risk.ax.analyses.context_distribution import ContextDistributionPlot
from botorch_risk.ax.analyses.noise_slice import NoiseSlicePlot
from botorch_risk.ax.analyses.risk_frontier import RiskFrontierPlot

__all__ = ["CalibrationPlot", "ContextDistributionPlot", "NoiseSlicePlot", "RiskFrontierPlot"]
