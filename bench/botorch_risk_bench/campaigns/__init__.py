r"""Campaigns: experiments x settings x strategies x seeds, on one machine or on many.

An experiment on its own is a campaign with one block for each strategy: `run_experiment`.
"""

from .database import StoreError
from .description import Block, Campaign, Series, best_block_size
from .engines import Dask, Processes, Serial, Submitit
from .journal import Journal
from .loop import play_rounds
from .records import ExperimentRecords, records_by_series
from .runner import Options, run_campaign, run_experiment
from .store import CampaignStore

__all__ = [
    "Block",
    "Campaign",
    "CampaignStore",
    "Dask",
    "ExperimentRecords",
    "Journal",
    "Options",
    "Processes",
    "Serial",
    "Series",
    "StoreError",
    "Submitit",
    "best_block_size",
    "play_rounds",
    "records_by_series",
    "run_campaign",
    "run_experiment",
]
