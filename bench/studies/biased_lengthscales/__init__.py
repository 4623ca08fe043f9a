r"""Whether lengthscales learnt from a loop's own data are biased, and what a verdict finds."""
