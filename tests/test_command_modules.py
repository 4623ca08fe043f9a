r"""Every module that a README tells to run can be imported, with the package's extras alone."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

from tests.bench.campaign_files import ROOT

NEEDS_A_TABLE = ("bench.reproduction.kde.portfolio", "bench.reproduction.vucb.portfolio")
NEEDS_JAX = ("bench.speed.jax_loop", "bench.speed.peers")
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in ("reproduction", "studies", "speed")
    for path in (ROOT / "bench" / folder).rglob("*.py")
    if not path.name.startswith("__")
)


@pytest.mark.parametrize("name", [name for name in MODULES if name not in NEEDS_A_TABLE])
def test_modules_can_be_imported(name: str) -> None:
    if name in NEEDS_JAX and importlib.util.find_spec("jax") is None:
        pytest.skip("needs JAX, the extra `bayesian`")
    assert importlib.import_module(name).__doc__
