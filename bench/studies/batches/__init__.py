r"""Batches: their regret against batches as they were and against one at a time."""
