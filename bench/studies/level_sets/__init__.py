r"""Which decisions are reliable, and how many of those that are called so are not."""
