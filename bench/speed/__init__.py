r"""Speed, side by side with what a user would otherwise run: `make bench`."""
