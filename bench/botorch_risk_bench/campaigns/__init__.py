r"""Campaigns: experiments x settings x strategies x seeds, on one machine or on many.

An experiment on its own is a campaign with one block for each strategy: `run_experiment`.
"""

from botorch_risk_bench.campaigns.database import StoreError
from botorch_risk_bench.campaigns.description import Block, Campaign, Series, best_block_size
from botorch_risk_bench.campaigns.engines import Dask, Processes, Serial, Submitit
from botorch_risk_bench.campaigns.journal import Journal
from botorch_risk_bench.campaigns.loop import play_rounds
from botorch_risk_bench.campaigns.records import ExperimentRecords, records_by_series
from botorch_risk_bench.campaigns.runner import Options, run_campaign, run_experiment
from botorch_risk_bench.campaigns.store import CampaignStore

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
