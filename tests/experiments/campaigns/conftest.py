from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.campaigns.small import run_here, small


@pytest.fixture
def path(tmp_path: Path) -> Path:
    r"""The store of a small campaign that has run."""
    run_here(small(), tmp_path / "a.sqlite")
    return tmp_path / "a.sqlite"
