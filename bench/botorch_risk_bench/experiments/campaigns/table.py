r"""The results of a campaign as a file of comma-separated values and as a page."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from botorch_risk_bench.experiments.campaigns.experiment_records import ExperimentRecords
from botorch_risk_bench.experiments.campaigns.results import CampaignStore
from botorch_risk_bench.experiments.serialization import NoResultsError
from botorch_risk_bench.experiments.summary import summary_markdown
from botorch_risk_bench.experiments.whole_files import replacing

COLUMNS = ("experiment", "setting", "strategy", "seed", "round", "objective", "regret")


def write_table(store: CampaignStore, path: str | Path) -> int:
    r"""Writes a line for each round of each seed, in the order of their keys.

    The columns are `COLUMNS`; `objective` is the true risk objective of the recommendation, empty
    if it is unknown, and `regret` what the known optimum is above it, empty if there is none.
    The file depends on nothing but the results: workers and interruptions leave no trace in it.

    Args:
        store: The store of the campaign.
        path: The file to write.

    Returns:
        The number of lines below the header.

    Raises:
        StoreError: If a row is missing, or is not the one that was recorded. A file that is there
            already stays as it is then.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from botorch_risk_bench.experiments.campaigns import (
        ...     Campaign,
        ...     CampaignStore,
        ...     Options,
        ...     Serial,
        ...     Series,
        ...     run_campaign,
        ... )
        >>> campaign = Campaign("tiny", [Series("sine", "GP-UCB", num_seeds=1, num_rounds=1)])
        >>> with TemporaryDirectory() as folder:
        ...     path = f"{folder}/a.sqlite"
        ...     _ = run_campaign(campaign, path, Serial(), Options(progress=False))
        ...     with CampaignStore(path) as store:
        ...         write_table(store, f"{folder}/a.csv")
        2
    """
    optima = {
        (name, setting): identity.get("optimal_value")
        for name, settings in store.identity["experiments"].items()
        for setting, identity in settings.items()
    }
    number = 0
    with replacing(path) as written, written.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in store.rows():
            experiment, strategy, setting, seed, index = row[:5]
            values = _objective_and_regret(row[9], optima[experiment, setting])
            writer.writerow((experiment, setting, strategy, seed, index, *values))
            number += 1
    return number


def campaign_markdown(store: CampaignStore) -> str:
    r"""A page with the regret of each experiment in each setting.

    Args:
        store: The store of the campaign.

    Returns:
        Markdown; of what has not been played yet, or has no known risk objective, the reason.

    Raises:
        StoreError: If a row is missing, or is not the one that was recorded.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from botorch_risk_bench.experiments.campaigns import Campaign, CampaignStore, Series
        >>> campaign = Campaign("tiny", [Series("sine", "GP-UCB", num_seeds=1, num_rounds=1)])
        >>> with TemporaryDirectory() as folder:
        ...     with CampaignStore(f"{folder}/a.sqlite", campaign) as store:
        ...         print(campaign_markdown(store)[:7])
        # sine
    """
    parts = []
    for name, settings in store.identity["experiments"].items():
        for setting in settings:
            try:
                page = summary_markdown(ExperimentRecords(store, name, setting))
            except NoResultsError as error:
                page = f"# {name}\n\nNo table: {error}\n"
            if len(settings) > 1:
                page = page.replace("\n", f"\n\nSetting: {setting}.\n", 1)
            parts.append(page)
    return "\n".join(parts)


def _objective_and_regret(value: str | None, optimum: float | None) -> tuple[Any, Any]:
    if value is None:
        return "", ""
    objective = float(json.loads(value))
    return objective, "" if optimum is None else optimum - objective
