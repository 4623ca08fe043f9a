r"""Where a report reads rounds, and where its page and pictures go."""

import argparse
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from botorch_risk_bench.campaigns import CampaignStore, ExperimentRecords, records_by_series

from bench.reproduction.pages import write_sections


def writing_parser(description: str | None, to: str) -> argparse.ArgumentParser:
    r"""A parser with `--to`, so that a program replaces a committed file only if it is told to."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--to", type=Path, default=Path(to), help=f"a folder; default: {to}")
    return parser


@dataclass(frozen=True)
class Report:
    r"""A report, the folder of the stores that it reads, and the folder that it writes to."""

    home: Path
    results: Path
    to: Path

    @classmethod
    def of_arguments(cls, description: str | None, home: Path) -> "Report":
        r"""Read `--results` and `--to`, by default `results/NAME` for a report in the folder NAME.

        A committed page is therefore replaced only if `--to` names its folder.
        """
        arguments = argparse.ArgumentParser(description=description)
        default = Path("results", home.name)
        arguments.add_argument("--results", type=Path, help=f"of the stores; default: {default}")
        arguments.add_argument("--to", type=Path, help="of the page and pictures; default: results")
        found = arguments.parse_args()
        results = found.results or default
        return cls(home, results, found.to or results)

    def write(self, page: Iterable[str], name: str = "tables.md") -> None:
        r"""Write the sections of a page; a page without a section ends the program."""
        parts = list(page)
        if not parts:
            raise SystemExit(self.missing())
        write_sections(self.to / name, parts)

    def missing(self, experiment: str = "") -> str:
        r"""The message of a report that finds no rounds, at all or of one experiment."""
        folder = "/".join(self.home.parts[-3:])
        has_curves = not experiment and (self.home / "curves").is_dir()
        kept = f" `--to {folder}` reads the curves kept there." if has_curves else ""
        return (
            f"Expected rounds of {experiment or 'this report'} in {self.results}/*.sqlite. Got "
            f"none. The campaigns of {folder}/README.md store them.{kept}"
        )


@contextmanager
def records_of(
    results: Path, experiment: str, setting: str = "default"
) -> Iterator[list[ExperimentRecords]]:
    r"""The rounds of an experiment in all stores of a folder, one by one for each series.

    A series without a round after the initial design is left out.

    Args:
        results: The folder. Its campaigns may have reached any round.
        experiment: The experiment.
        setting: Of the series.
    """
    with ExitStack() as stack:
        paths = sorted(results.glob("*.sqlite"))
        stores = [stack.enter_context(CampaignStore(path)) for path in paths]
        series = [
            each for store in stores for each in records_by_series(store, experiment, setting)
        ]
        yield [each for each in series if any(len(each.rounds(k)) > 1 for k in each.labels())]


def is_stored(results: Path, experiment: str) -> bool:
    r"""Whether a store of a folder holds an experiment."""
    with records_of(results, experiment) as records:
        return bool(records)
