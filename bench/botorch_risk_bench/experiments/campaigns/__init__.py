r"""Campaigns: experiments x settings x strategies x seeds, on one machine or on many.

Names are imported when they are first used, so that the command line can show its help without
loading PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botorch_risk_bench.experiments.campaigns.block import Block, best_block_size
    from botorch_risk_bench.experiments.campaigns.board import Board, BoardEntry, read_board
    from botorch_risk_bench.experiments.campaigns.board_page import board_markdown, plot_board
    from botorch_risk_bench.experiments.campaigns.description import Campaign, Series
    from botorch_risk_bench.experiments.campaigns.engines import Dask, Processes, Serial, Submitit
    from botorch_risk_bench.experiments.campaigns.experiment_records import (
        ExperimentRecords,
        records_by_series,
    )
    from botorch_risk_bench.experiments.campaigns.regrets import ExperimentRegrets, Regrets
    from botorch_risk_bench.experiments.campaigns.results import CampaignStore
    from botorch_risk_bench.experiments.campaigns.runner import Options, run_campaign
    from botorch_risk_bench.experiments.campaigns.table import campaign_markdown, write_table

__all__ = [
    "Block",
    "Board",
    "BoardEntry",
    "Campaign",
    "CampaignStore",
    "Dask",
    "ExperimentRecords",
    "ExperimentRegrets",
    "Options",
    "Processes",
    "Regrets",
    "Serial",
    "Series",
    "Submitit",
    "best_block_size",
    "board_markdown",
    "campaign_markdown",
    "plot_board",
    "read_board",
    "records_by_series",
    "run_campaign",
    "write_table",
]

_MODULES = {
    "Block": "block",
    "Board": "board",
    "BoardEntry": "board",
    "Campaign": "description",
    "CampaignStore": "results",
    "Dask": "engines",
    "ExperimentRecords": "experiment_records",
    "ExperimentRegrets": "regrets",
    "Options": "runner",
    "Processes": "engines",
    "Regrets": "regrets",
    "Serial": "engines",
    "Series": "description",
    "Submitit": "engines",
    "best_block_size": "block",
    "board_markdown": "board_page",
    "campaign_markdown": "table",
    "plot_board": "board_page",
    "read_board": "board",
    "records_by_series": "experiment_records",
    "run_campaign": "runner",
    "write_table": "table",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
