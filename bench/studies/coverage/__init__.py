r"""Whether intervals contain what they say, by the fitted and by sampled hyperparameters."""
