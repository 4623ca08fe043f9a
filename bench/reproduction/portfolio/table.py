r"""Where the table of the papers' back-tests is."""

import os
from pathlib import Path

VARIABLE = "BOTORCH_RISK_PORTFOLIO_TABLE"


def table_path() -> Path:
    r"""The path in the environment variable `BOTORCH_RISK_PORTFOLIO_TABLE`.

    Raises:
        ValueError: If it is not set, or there is no such file.
    """
    path = os.environ.get(VARIABLE)
    if path is None or not Path(path).is_file():
        raise ValueError(
            f"Expected {VARIABLE} to be the path of the papers' back-tests, see "
            f"`PortfolioOptimization`. Got {path!r}."
        )
    return Path(path).resolve()
