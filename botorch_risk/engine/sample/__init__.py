r"""Sample the hyperparameters of exact Gaussian processes."""
