r"""Weekly closes of 20 stocks, from the daily ones that come with skfolio.

    python -m pip install --no-deps skfolio==1.12.2  # holds the prices; nothing is downloaded later
    python -m bench.studies.frontier.weekly_closes

Writes `results/frontier/weekly_closes.csv`, or into the folder of `--to`; `PortfolioPolicy` reads
the copy in `bench/botorch_risk_bench/problems`. It has the last close of each calendar week, as
skfolio has it. `weekly_closes.md` next to the table has its source and its terms.
"""

import csv
import gzip
import importlib.util
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from botorch_risk_bench.campaigns.whole_files import write_text

from bench.reproduction.results import writing_parser


def daily_closes() -> list[list[str]]:
    r"""skfolio's table: a heading, then a row for each trading day."""
    package = importlib.util.find_spec("skfolio")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("Expected skfolio, which holds the prices. Got none.")
    folder = Path(package.submodule_search_locations[0]) / "datasets" / "data"
    with gzip.open(folder / "sp500_dataset.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def last_of_each_week(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    r"""The last row of each week from Monday to Sunday, of rows in order that begin with a date."""
    weeks = {date.fromisoformat(row[0]).isocalendar()[:2]: row for row in rows}
    return list(weeks.values())


def main() -> None:
    r"""Writes the table."""
    to: Path = writing_parser(__doc__, "results/frontier").parse_args().to
    heading, *days = daily_closes()
    lines = [",".join(row) for row in (heading, *last_of_each_week(days))]
    write_text(to / "weekly_closes.csv", "\n".join(lines) + "\n")
    print(f"{to}/weekly_closes.csv: {len(lines) - 1} weeks of {len(heading) - 1} stocks")


if __name__ == "__main__":
    main()
