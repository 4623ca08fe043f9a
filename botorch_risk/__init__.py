r"""Decisions under risk with BoTorch.

The package adds three exchangeable parts to a BoTorch loop: models that learn the
noise as well as the mean (`models`), measures of risk (`risk`) over a distribution of the
environment (`environments`), and acquisition functions that optimise the risk measure
of the outcome instead of its mean (`acquisition`). Fast predictions of any exact GP are in
`posterior`, its closed-form fit in `fit`. Whole loops are in `strategies`, the methods that they
are compared with in `baselines`.

Shapes are written in one vocabulary everywhere:

    n            number of observed points
    q            number of candidate points considered jointly
    m            number of points evaluated independently of each other
    d, d_x, d_w  number of inputs: all, decision variables, environmental variables
    k            number of repeats of one experiment
    n_w          number of values of the environmental variable
    batch_shape  leading dimensions; R replicates of one experiment are a batch_shape [R]

The environmental variable always takes the LAST `d_w` columns. Everything is maximised.
`beta` always means `mean + sqrt(beta) * standard deviation`, as in BoTorch.

Where a function takes a tensor it takes a NumPy array or nested lists as well. Lists become
float64, and whole numbers count as float64. What is no table of numbers raises `TypeError`.
"""

__version__ = "0.1.0"
