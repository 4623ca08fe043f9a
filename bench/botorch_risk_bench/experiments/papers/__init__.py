r"""The experiments of the papers, one module each: `EXPERIMENTS` is a tuple of definitions.

A table lists each strategy as its constructor with all arguments except those shared by every
experiment: the bounds, the seeds and the size of the initial design.
"""
