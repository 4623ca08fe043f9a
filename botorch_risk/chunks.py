r"""How much of a computation to hold at once, which no result depends on.

A batch of replicates, points and environmental values multiplies to tensors that do not fit in
memory, and that are slow long before: on a CPU a block that leaves the core's cache costs up to
three times as much per entry. On a GPU a small block leaves most of it idle, and only its memory
is a limit. Each computation that works in blocks therefore has two sizes, which were measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class ChunkSize:
    r"""How many entries to work on at a time; each use says entries of what.

    Args:
        cpu: On a CPU, where the block should stay in a core's cache.
        gpu: On any other device, where it should fill the device but not its memory.

    Example:
        >>> covariances = ChunkSize(cpu=2**10)
        >>> covariances.rows(torch.device("cpu"), entries_per_row=100)
        10
    """

    cpu: int
    gpu: int = 2**26

    def entries(self, device: torch.device) -> int:
        r"""How many entries a block has on a device."""
        return self.cpu if device.type == "cpu" else self.gpu

    def rows(self, device: torch.device, entries_per_row: int) -> int:
        r"""How many rows a block has, at least one."""
        return max(1, self.entries(device) // max(1, entries_per_row))
