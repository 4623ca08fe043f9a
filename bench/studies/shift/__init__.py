r"""When a ball of distributions pays: what is deployed moves, by how much and which way."""
