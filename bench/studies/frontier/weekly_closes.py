r"""Weekly closes of 20 stocks, from the daily ones that come with skfolio.

    python -m pip install --no-deps skfolio==1.12.2  # holds the prices; nothing is downloaded later
    python -m bench.studies.frontier.weekly_closes

Writes `weekly_closes.csv` of `botorch_risk_bench.problems`, the table of `PortfolioPolicy`: the
last close of each calendar week, as skfolio has it. `weekly_closes.md` beside the table has its
source and its terms.
"""

import csv
import gzip
import importlib.util
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from botorch_risk_bench import problems

TARGET = Path(problems.__file__).parent / "weekly_closes.csv"


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
    heading, *days = daily_closes()
    lines = [",".join(row) for row in (heading, *last_of_each_week(days))]
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{TARGET}: {len(lines) - 1} weeks of {len(heading) - 1} stocks")


if __name__ == "__main__":
    main()
