r"""Optimisation of acquisition functions, all replicates at once."""
