r"""What measures `botorch_risk`: problems of data, baselines, campaigns and their metrics."""

__version__ = "0.1.0"
