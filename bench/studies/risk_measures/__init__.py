r"""qLogNEI on risks beside our bound, BoTorch's own risk measures and random decisions."""
