from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import botorch_risk
from botorch_risk.extras import MissingExtraError, require_extra


def test_a_missing_module_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"`no_such_module` .* 'botorch_risk\[plots\]'"):
        require_extra("no_such_module")


def test_importing_the_package_needs_no_extra() -> None:
    blocked = "ax", "botorch_risk_bench", "joblib", "matplotlib", "sklearn", "tqdm", "typer"
    names = [each.name for each in pkgutil.walk_packages(botorch_risk.__path__, "botorch_risk.")]
    imported = [name for name in names if not name.startswith("botorch_risk.ax")]
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\nimport "
    code += ", ".join(imported)
    subprocess.run([sys.executable, "-c", code], check=True)
