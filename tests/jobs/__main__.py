r"""`python -m tests.jobs` is a table of the answers; with the name of a job it is its script."""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
import warnings
from pathlib import Path

from tests.jobs.pages import play
from tests.jobs.test_jobs import JUDGED, WORLDS, stacked


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(names: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if not names:
        say("| job | pages | answers: mean of the worlds, least to most |\n|---|---|---|")
    for job in JUDGED:
        if names and job.__name__ not in names:
            continue
        rows = []
        for world in WORLDS if not names else WORLDS[:1]:
            with tempfile.TemporaryDirectory() as folder:
                figures, parts = play(job, world, Path(folder))
            rows.append(figures)
        if names:
            say("\n\n".join(block for part in parts for block in part.code))
            continue
        pages = ", ".join(dict.fromkeys(part.page for part in parts))
        answers = "; ".join(
            f"{name} {each.mean():.3f}, {each.min():.3f} to {each.max():.3f}"
            for name, each in stacked(rows).items()
        )
        say(f"| {job.__name__.replace('_', ' ')} | {pages} | {answers} |")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(sys.argv[1:])
