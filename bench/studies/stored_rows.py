r"""The rows that a study has stored next to its page."""

import gzip
import json
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, Any]]:
    r"""The rows of compressed JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
