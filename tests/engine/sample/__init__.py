r"""Samples of hyperparameters."""
