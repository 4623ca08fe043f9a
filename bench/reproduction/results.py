r"""What the campaigns of a folder have stored, as its reports read it."""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from botorch_risk_bench.campaigns import CampaignStore, ExperimentRecords, records_by_series


def report_parser(description: str | None, results: str, to: Path) -> argparse.ArgumentParser:
    r"""The arguments that every report takes: where the rounds are, and where pages go."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument(
        "--results", type=Path, default=Path(results), help="the folder of the campaigns' stores"
    )
    arguments.add_argument("--to", type=Path, default=to, help="the folder of tables and pictures")
    return arguments


@contextmanager
def records_of(
    results: Path, experiment: str, setting: str = "default"
) -> Iterator[list[ExperimentRecords]]:
    r"""The rounds of an experiment in all stores of a folder, one by one for each series.

    Args:
        results: The folder. Its campaigns may have reached any round.
        experiment: The experiment.
        setting: Of the series.
    """
    with ExitStack() as stack:
        paths = sorted(results.glob("*.sqlite"))
        stores = [stack.enter_context(CampaignStore(path)) for path in paths]
        yield [each for store in stores for each in records_by_series(store, experiment, setting)]


def is_stored(results: Path, experiment: str) -> bool:
    r"""Whether a store of a folder holds an experiment."""
    with records_of(results, experiment) as records:
        return bool(records)
