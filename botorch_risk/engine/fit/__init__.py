r"""Closed-form fits of exact Gaussian processes, all replicates at once."""
