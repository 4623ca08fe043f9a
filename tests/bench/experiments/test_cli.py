from __future__ import annotations

import subprocess
import sys

import pytest


def test_runs_as_a_module() -> None:
    command = [
        sys.executable,
        "-W",
        "error::RuntimeWarning",
        "-m",
        "botorch_risk_bench.experiments.cli",
    ]
    result = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "stopped at any moment" in result.stdout


def in_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["plot", "--help"]], ids=str)
def test_help_does_not_load_torch(arguments: list[str]) -> None:
    code = "import sys, atexit\n"
    code += "atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"
    code += "from botorch_risk_bench.experiments.cli import main\nmain()"
    result = in_python(code, *arguments)
    assert "Usage:" in result.stdout
    assert (result.returncode, result.stderr) == (0, "False\n")
