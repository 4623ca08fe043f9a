r"""Predictions of any exact GP: fast marginals, joint moments, a finite domain."""
