r"""Conditions x substrates on tables of real reactions."""
