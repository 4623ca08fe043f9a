r"""Every program of the bench can be imported, with the extras that it needs alone."""

import importlib
import importlib.util
import subprocess
import sys

import pytest

from bench.tests.campaign_files import ROOT
from bench.tests.small_tables import ON_A_TABLE

NEEDS_A_TABLE = {f"bench.reproduction.{name.replace('/', '.')}" for name in ON_A_TABLE}
NEEDS_JAX = ("bench.speed.jax_loop", "bench.speed.peers")

COMMANDS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in ("reproduction", "studies", "speed")
    for path in (ROOT / "bench" / folder).rglob("*.py")
    if not path.name.startswith("__")
)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in NEEDS_A_TABLE])
def test_modules_can_be_imported(name: str) -> None:
    if name in NEEDS_JAX and importlib.util.find_spec("jax") is None:
        pytest.skip("needs JAX, the extra `bayesian`")
    assert importlib.import_module(name).__doc__


def test_the_speed_of_a_gpu_is_measured_without_the_peers_of_a_cpu() -> None:
    code = "import sys, bench.speed.__main__; sys.exit('cvxpy' in sys.modules)"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, cwd=ROOT)
