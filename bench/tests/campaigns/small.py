r"""Campaigns that take no time, and what can be seen of their results without the package."""

from pathlib import Path
from typing import Any

from botorch_risk_bench.campaigns import Campaign, Options, Serial, Series, run_campaign
from botorch_risk_bench.campaigns.worker import Task, versions

MODULE = "bench.tests.experiments.noisy_quadratic"
QUIET = Options(progress=False)


def small(**changes: Any) -> Campaign:
    r"""Two strategies in two settings on five seeds: twelve blocks of at most two seeds."""
    settings = {"default": {}, "more": {"num_repeats": 5}}
    options = {"strategies": ("averse", "neutral"), "num_seeds": 5, "first_seed": 3}
    given = {**options, "num_rounds": 3, "settings": settings, **changes}
    series = Series("quadratic", **given)
    return Campaign("small", [series], block_size=2, modules=(MODULE,))


def task(campaign: Campaign, number: int = 0, **changes: Any) -> Task:
    r"""The first task of a block."""
    block = campaign.blocks()[number]
    setting = campaign.settings()[block.experiment][block.setting]
    given = {"report_seconds": 100.0, "versions": versions(), **changes}
    modules = tuple(campaign.modules)
    return Task(block, setting, modules, -1, None, campaign.name, **given)


def run_here(campaign: Campaign, path: Path, **changes: Any) -> int:
    return run_campaign(campaign, path, Serial(), Options(**{"progress": False, **changes}))
