r"""Comparisons that no paper made: our methods beside what a user would otherwise run."""
