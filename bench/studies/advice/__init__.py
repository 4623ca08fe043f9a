r"""What advice on the trials of other packages is worth."""
