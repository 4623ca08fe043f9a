r"""What it is worth to set w in every k-th round."""
