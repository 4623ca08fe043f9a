from __future__ import annotations

import subprocess
import sys

import pytest

from botorch_risk.extras import MissingExtraError, require_extra


def test_a_missing_module_names_the_extra() -> None:
    with pytest.raises(
        MissingExtraError, match=r"`no_such_module` .* 'botorch_risk\[experiments\]'"
    ):
        require_extra("no_such_module")


def test_importing_the_package_needs_no_extra() -> None:
    blocked = "joblib", "matplotlib", "tqdm", "typer"
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\n"
    code += "import botorch_risk.experiments.plots, botorch_risk.experiments.summary"
    subprocess.run([sys.executable, "-c", code], check=True)
