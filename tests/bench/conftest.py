import shutil
from pathlib import Path

import pytest

from tests.bench.campaigns.small import run_here, small


@pytest.fixture(scope="session")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("campaign") / "a.sqlite"
    run_here(small(), path)
    return path


@pytest.fixture
def path(run_once: Path, tmp_path: Path) -> Path:
    r"""The store of a small campaign that has run."""
    return Path(shutil.copy(run_once, tmp_path / "a.sqlite"))
