import shutil
from pathlib import Path

import pytest

from bench.tests.campaigns.small import run_here, small

# The devices and the default dtype of the plugin's tests.
from tests.conftest import default_dtype as default_dtype
from tests.conftest import device as device
from tests.conftest import pytest_collection_modifyitems as pytest_collection_modifyitems
from tests.conftest import pytest_generate_tests as pytest_generate_tests
from tests.conftest import the_default_dtype_stays as the_default_dtype_stays


@pytest.fixture(scope="session")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("campaign") / "a.sqlite"
    run_here(small(), path)
    return path


@pytest.fixture
def path(run_once: Path, tmp_path: Path) -> Path:
    r"""The store of a small campaign that has run."""
    return Path(shutil.copy(run_once, tmp_path / "a.sqlite"))
