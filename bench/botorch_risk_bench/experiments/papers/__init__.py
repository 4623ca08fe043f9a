r"""The experiments of the papers, one module each: `EXPERIMENTS` is a tuple of definitions.

A strategy stands in a table as its constructor with all arguments but those that are the same for
every experiment: the bounds, the seeds and the size of the initial design.
"""
