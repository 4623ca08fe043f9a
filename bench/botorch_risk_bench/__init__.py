r"""Measure `botorch_risk`: problems from data, baselines, campaigns and metrics."""

__version__ = "0.1.0"
