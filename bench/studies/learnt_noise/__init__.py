r"""How well a model learns mean and noise from repeats, beside hetGPy and plain models."""
