r"""Benchmarks of the engine itself, which may import from its files."""
