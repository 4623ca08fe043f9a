r"""Builds sdist and wheel, and tests both from the outside: `python -m tests.release_check`.

The quick tests of the sdist run where it was unpacked, without the other files of the repository.
Each set of dependencies gets an empty environment, into which the wheel is installed without the
repository being in reach. `--oldest` and `--newest` take other sets than the default ones: an older
torch brings gigabytes of GPU libraries from some indexes.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = ("torch", "gpytorch", "botorch", "linear_operator", "numpy", "scipy")


def lower_bounds() -> str:
    r"""The oldest versions that the package asks for, as requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return " ".join(each.replace(">=", "==") for each in project["dependencies"])


def call(*command: str | Path, cwd: Path) -> str:
    r"""The output of a command that must not fail, without this repository on its path."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)),
        check=False,
        cwd=cwd,
        env=environment,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        sys.exit(f"{command} failed.\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def build(folder: Path) -> Path:
    r"""Builds both, checks what they hold, runs the tests of the sdist, and returns the wheel."""
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as held:
        names = held.namelist()
    top = {name.partition("/")[0] for name in names}
    assert {each for each in top if not each.endswith(".dist-info")} == {"botorch_risk"}, top
    assert "botorch_risk/py.typed" in names
    with tarfile.open(sdist) as held_sdist:
        sources = {name.partition("/")[2] for name in held_sdist.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "docs/index.md"} <= sources
    assert not [name for name in sources if name.startswith(("docs/_build", "docs/api/"))]
    print(f"{wheel.name}: {len(names)} files; {sdist.name}: {len(sources)} files", flush=True)
    print(f"{sdist.name}: {tests_of(sdist, folder / 'unpacked')}", flush=True)
    return wheel


def tests_of(sdist: Path, folder: Path) -> str:
    r"""How the quick tests of a source distribution end."""
    with tarfile.open(sdist) as held:
        held.extractall(folder, filter="data")
    (sources,) = folder.iterdir()
    options = ("-q", "-p", "no:cacheprovider", "-m", "not slow", "-n", "2", "--dist", "worksteal")
    said = call(sys.executable, "-m", "pytest", *options, cwd=sources)
    return said.rstrip().rpartition("\n")[2]


def try_out(wheel: Path, requirements: str, folder: Path) -> None:
    r"""Installs the wheel with some versions, and runs a user's first minutes."""
    call(sys.executable, "-m", "venv", folder, cwd=wheel.parent)
    python = folder / "bin" / "python"
    pip = (python, "-m", "pip")
    call(*pip, "install", "--quiet", wheel, *requirements.split(), cwd=folder)
    call(*pip, "check", cwd=folder)
    script = (ROOT / "tests" / "release_outside.py").read_text(encoding="utf-8")
    (folder / "outside.py").write_text(script, encoding="utf-8")
    said = call(python, "-W", "ignore", "outside.py", cwd=folder)
    frozen = call(*pip, "list", "--format=freeze", cwd=folder).splitlines()
    versions = [each for each in frozen if each.partition("==")[0] in NAMES]
    print(f"{said.strip()}: {', '.join(versions)}", flush=True)


def main() -> None:
    r"""Builds, then tries both sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oldest", default=lower_bounds(), help="requirements, in one string")
    parser.add_argument("--newest", default="", help="the newest that pip finds, by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wheel = build(folder)
        for name in ("oldest", "newest"):
            print(f"{name}: {getattr(arguments, name) or 'as pip finds'}", flush=True)
            try_out(wheel, getattr(arguments, name), folder / name)


if __name__ == "__main__":
    main()
