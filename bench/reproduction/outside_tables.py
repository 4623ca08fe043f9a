r"""Where the papers' tables are that are not ours to distribute."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def table_path(variable: str, reader: Callable[..., Any]) -> Path:
    r"""The path in an environment variable, such as `BOTORCH_RISK_PORTFOLIO_TABLE`.

    Args:
        variable: Its name.
        reader: What reads the table, and tells where it is to be had.

    Raises:
        ValueError: If it is not set, or there is no such file.
    """
    path = os.environ.get(variable)
    if path is None or not Path(path).is_file():
        raise ValueError(
            f"Expected {variable} to be the path of the paper's table, see "
            f"`{reader.__name__}`. Got {path!r}."
        )
    return Path(path).resolve()
