r"""Reports from stores: tables, pictures and boards."""

from .board import Board, BoardEntry, ExperimentRegrets, Regrets, read_board
from .board_page import board_markdown, plot_board
from .summary import campaign_markdown, write_table

__all__ = [
    "Board",
    "BoardEntry",
    "ExperimentRegrets",
    "Regrets",
    "board_markdown",
    "campaign_markdown",
    "plot_board",
    "read_board",
    "write_table",
]
