from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def test_runs_as_a_module() -> None:
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "botorch_risk.experiments.cli"]
    result = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "stopped at any moment" in result.stdout


def in_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["plot", "--help"]], ids=str)
def test_help_does_not_load_torch(arguments: list[str]) -> None:
    code = "import sys, atexit\n"
    code += "atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"
    code += "from botorch_risk.experiments.cli import main\nmain()"
    result = in_python(code, *arguments)
    assert "Usage:" in result.stdout
    assert (result.returncode, result.stderr) == (0, "False\n")


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [
        ("typer", ["--help"]),
        ("joblib", ["run", "sine", "--replicates", "1", "--rounds", "1"]),
        ("tqdm", ["run", "sine", "--replicates", "1", "--rounds", "1"]),
        ("matplotlib", ["plot", "results.sqlite", "--to", "pictures"]),
    ],
)
def test_a_missing_extra_is_one_line_and_changes_nothing(
    missing: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = f"import sys; sys.modules[{missing!r}] = None\n"
    code += "from botorch_risk.experiments.cli import main\nmain()"
    result = in_python(code, *arguments)
    assert result.returncode == 2
    assert result.stderr.startswith(f"Error: Expected `{missing}` to be installed with the extra")
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
