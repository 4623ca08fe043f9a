r"""Writes the tables and the pictures of this folder's README from what its campaign has stored.

python -m bench.studies.when_it_pays.report [--results results/when_it_pays] [--to FOLDER]
"""

from pathlib import Path

from bench.reproduction.results import Report
from bench.studies.when_it_pays import noise_ratio, ripples, trips


def main() -> None:
    r"""Writes tables.md and a picture a sweep, of the sweeps that have begun."""
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    page = []
    for sweep, name in ((noise_ratio, "noise_ratio"), (trips, "trips"), (ripples, "ripples")):
        if found := sweep.collected(report.results):  # type: ignore[attr-defined]
            page += sweep.page(found)  # type: ignore[attr-defined]
            sweep.draw(found, report.to / name)  # type: ignore[attr-defined]
    report.write(page)


if __name__ == "__main__":
    main()
