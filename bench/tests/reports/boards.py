r"""Boards that are made by hand."""

import torch
from botorch_risk_bench.reports import Board, BoardEntry
from torch import Tensor


def constant(value: float, num_rounds: int, num_seeds: int = 3) -> Tensor:
    r"""The regret of a strategy that is at `value` from round 1 on, and at 1 before."""
    regret = torch.full((num_seeds, num_rounds + 1), value, dtype=torch.double)
    regret[:, 0] = 1.0
    return regret


def board_of(*entries: BoardEntry) -> Board:
    return Board("test", tuple(entries[0].regret), (0, 1, 2), entries)


def entry(group: str, **regret: Tensor) -> BoardEntry:
    return BoardEntry(f"of {group}", group, regret)
