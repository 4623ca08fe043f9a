r"""Campaign files of reproductions and studies, run with few seeds and rounds."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from botorch_risk_bench.campaigns import Campaign, Options, Serial, run_campaign

ROOT = Path(__file__).parents[2]


def run_trial(
    path: Path,
    out: Path,
    experiments: Sequence[str] = (),
    num_rounds: int | None = None,
    strategies: Sequence[str] = (),
) -> None:
    r"""Runs two seeds of a campaign file, perhaps of some strategies alone."""
    campaign = Campaign.read(path).part(experiments, num_seeds=2, num_rounds=num_rounds)
    if strategies:
        kept = [
            replace(series, strategies=labels)
            for series in campaign.series
            if (labels := [label for label in series.strategies if label in strategies])
        ]
        campaign = replace(campaign, series=kept)
    failed = run_campaign(campaign, out, Serial(), Options(progress=False))
    assert failed == 0
