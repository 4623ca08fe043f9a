r"""Acquisition functions for decisions under risk."""
