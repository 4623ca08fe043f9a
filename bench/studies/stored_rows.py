r"""The rows that a study has stored next to its page."""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

from botorch_risk_bench.campaigns.whole_files import replacing


def read(path: Path) -> list[dict[str, Any]]:
    r"""The rows of compressed JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def rows_of_arguments(description: str | None, path: Path) -> list[dict[str, Any]]:
    r"""The stored rows of a report, after `--pack FOLDER` has collected them if it was given."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--pack", type=Path)
    folder = parser.parse_args().pack
    if folder:
        pack(folder, path)
    return read(path)


def pack(folder: Path, path: Path, digits: int = 5) -> None:
    r"""Collect the rows of all `.json` files of a folder; the same bytes for the same rows.

    Args:
        folder: Each file has a row, or a list of rows.
        path: Of the compressed JSON lines.
        digits: Of each number.
    """
    lines = []
    for each in sorted(folder.glob("*.json")):
        found = json.loads(each.read_text("utf-8"))
        rows = found if isinstance(found, list) else [found]
        lines += [json.dumps(rounded(row, digits)) for row in rows]
    with replacing(path) as written, gzip.GzipFile(written, "wb", mtime=0) as file:
        file.write("\n".join(lines).encode())


def rounded(value: Any, digits: int = 5) -> Any:
    r"""The numbers of lists and of dicts to some digits."""
    if isinstance(value, dict):
        return {name: rounded(each, digits) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each, digits) for each in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
