r"""Run every command of every page, small, in a fresh clone of this repository.

    python -m tests.documented_commands [--seconds 30] [--only WORD]

A command works if it ends well and leaves something, or still runs when its seconds are over. It
may also say in one line which file or extra it needs. Anything else is a failure: a traceback, an
empty result, or a committed file that has changed. Reports run once before their rounds are there
and once after. Whatever a command has changed is restored before the next.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "bench/**/*.md")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(
    r"`((?:[A-Z_]+=\S+ )*(?:python3? -m|botorch-risk|make|pip install|pytest)\s[^`]*)`"
)
STATE = re.compile(r"(cd \S+|[A-Z_]+=(\"[^\"]*\"|\S+)( [A-Z_]+=(\"[^\"]*\"|\S+))*)")  # of a shell
INSTALLS = re.compile(r"\bpip install\b|-m (pip|venv|build)\b|make lock\b")
NAMES = ("botorch-risk campaign", "botorch-risk run")  # of commands, in a text
LONG = ("canary", "docs-serve", "release-check", "test-all", "tutorials", "two-trees")  # make -n
SMALL = {  # what makes a command small
    "botorch-risk campaign run": "--seeds 2 --rounds 3 --engine serial --report-seconds 1",
    "botorch-risk run": "--seeds 2 --rounds 3",
    "make bench": "ARGS=--quick",
    "make demo": "ARGS=--quick",
    "make test": "ARGS='-n 0 tests/test_flags.py'",
}
OPTIONS = {  # of a program, if it has them
    "--quick": "",
    "--runs": "1",
    "--mcmc-runs": "1",
    "--functions": "2",
    "--replicates": "2",
}
STUB = """#!/bin/sh
# Nothing is installed: the environment is complete.
case "$*" in *"-m pip "*|*"-m venv "*) exit 0 ;; esac
exec {python} "$@"
"""
WORKS, RUNNING, NEEDS, INSTALLATION = "works", "still runs", "names what it needs", "installs"
EMPTY, FAILS = "silently empty", "fails"


@dataclass(frozen=True)
class Command:
    r"""A command of a page, with the lines of its block that set the shell for it."""

    page: str
    line: int
    text: str
    before: tuple[str, ...] = ()

    @property
    def program(self) -> Path | None:
        r"""The file of `python -m MODULE`, if it is of this repository."""
        module = re.search(r"python3? -m ([\w.]+)", self.text)
        path = Path(*module[1].split(".")) if module else Path("none")
        files = [path.with_suffix(".py"), path / "__main__.py"]
        return next((each for each in files if (ROOT / each).is_file()), None)

    @property
    def reads_rounds(self) -> bool:
        program = self.program
        return program is not None and "Report.of_arguments(" in (ROOT / program).read_text("utf-8")

    def small(self) -> str:
        r"""The command as it is run: with few seeds and rounds, and placeholders filled in."""
        text = self.text.replace("<commit>", "HEAD~1")
        target = re.match(r"make (\S+)", text)
        if target and (target[1] in LONG or "VENV=" in text):
            return text.replace("make ", "make -n ", 1)
        added = next((more for start, more in SMALL.items() if re.search(rf"{start}\b", text)), "")
        if self.program is not None:
            source = (ROOT / self.program).read_text("utf-8")
            added = " ".join(f"{k} {v}" for k, v in OPTIONS.items() if f'"{k}"' in source)
        return "\n".join([*self.before, f"{text} {added}"])


@dataclass(frozen=True)
class Result:
    r"""How a command has ended, what it last said, and the committed files that it has changed."""

    command: Command
    kind: str
    said: str = ""
    changed: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        return self.kind not in (EMPTY, FAILS) and not self.changed


def commands() -> list[Command]:
    r"""The commands of all pages except this program, each once per page; `...` is no command."""
    paths = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    found = [each for path in paths for each in commands_of(path)]
    left_out = re.compile(r"\.\.\.|tests\.documented_commands")
    return [each for each in dict.fromkeys(found) if not left_out.search(each.text)]


def commands_of(path: Path) -> Iterator[Command]:
    r"""The commands of shell blocks, then those in a text."""
    page, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    seen = set()
    for fence in FENCE.finditer(text):
        if fence[1] not in ("sh", "bash", "console"):
            continue
        line, before = text[: fence.start()].count("\n") + 2, []
        for part in re.sub(r"\\\n\s*", "", fence[2]).splitlines():
            command = re.sub(r"(^|\s+)#.*", "", part).strip().removeprefix("$ ")
            if STATE.fullmatch(command):
                before.append(command)
            elif command:
                seen.add(command)
                yield Command(page, line, command, tuple(before))
    rest = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    for match in INLINE.finditer(rest):
        command = " ".join(match[1].split())
        if command not in seen and command not in NAMES:
            seen.add(command)
            yield Command(page, rest[: match.start()].count("\n") + 1, command)


def files_of(page: Path) -> Iterator[tuple[str, str]]:
    r"""The files that a page asks its reader to write: blocks that begin with a name."""
    for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
        if name := re.match(r"# (\w+\.(?:yaml|py))\n", fence[2]):
            yield name[1], fence[2]


def unknown_of(command: Command) -> str:
    r"""What an installation names that is not in this repository."""
    names = re.findall(r"(?:-e|-c) [\"']?(\.[\w/]*|[\w./]+\.txt)(?:\[([\w,]+)\])?", command.text)
    for path, extras in names:
        project = ROOT / path / "pyproject.toml"
        if not (ROOT / path).exists():
            return path
        if extras:
            known = tomllib.loads(project.read_text("utf-8"))["project"]["optional-dependencies"]
            if unknown := {*extras.split(",")} - {*known}:
                return f"the extras {sorted(unknown)} of {path}"
    return ""


class Clone:
    r"""A fresh clone of a repository, with an environment that is already installed."""

    def __init__(self, folder: Path, seconds: float, source: Path = ROOT) -> None:
        self.folder, self.seconds = folder / "clone", seconds
        subprocess.run(["git", "clone", "-q", str(source), str(self.folder)], check=True)
        tools = self.folder / ".venv" / "bin"
        tools.mkdir(parents=True)
        for each in (Path(sys.prefix) / "bin").iterdir():
            if not re.match(r"python|pip", each.name):
                (tools / each.name).symlink_to(each)
        for name in ("python", "python3"):
            (tools / name).write_text(STUB.format(python=sys.executable))
            (tools / name).chmod(0o755)
        for stamp in (".bench", ".all", ".dev", ".docs", ".lint"):
            (tools.parent / stamp).touch()
        self.environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": f"{self.folder}:{self.folder / 'bench'}:{self.folder / 'testing'}",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        }
        for path in source.glob("docs/*.md"):
            for name, text in files_of(path):
                (self.folder / name).write_text(text, encoding="utf-8")

    def run(self, command: Command) -> Result:
        if INSTALLS.search(command.text):
            unknown = unknown_of(command)
            said = f"Expected {unknown} to be in this repository." if unknown else ""
            return Result(command, FAILS if unknown else INSTALLATION, said)
        before = self.files()
        # A report is to end: one that is cut off may have been empty.
        seconds = self.seconds * (5 if command.reads_rounds else 1)
        code, out, err = self.finished(command.small(), seconds)
        asked = re.findall(r"--to (\S+)", command.text)
        changed = [
            path
            for path in self.git("diff", "--name-only").split()
            if not any(Path(path).is_relative_to(each) for each in asked)
        ]
        self.git("checkout", "-q", ".")
        lines = [
            line
            for line in err.splitlines()
            if line.strip() and not re.match(r"make: |.*\d+%|.*Warning|  ", line)
        ]
        said = lines[-1] if lines else ""
        if code is None:
            kind = RUNNING
        elif code == 0:
            kind = WORKS if out.strip() or lines or self.files() != before else EMPTY
        else:
            kind = NEEDS if len(lines) == 1 and names_a_need(said) else FAILS
        return Result(command, kind, said, tuple(changed))

    def finished(self, text: str, seconds: float) -> tuple[int | None, str, str]:
        r"""Exit code, None if it was ended, with what was printed."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(
                ["bash", "-c", text],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            try:
                code: int | None = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            return code, *(file.seek(0) or file.read() for file in (out, err))

    def files(self) -> dict[str, int]:
        r"""The files that are not git's, with their times."""
        found = (Path(top, name) for top, _, names in os.walk(self.folder) for name in names)
        kept = (each for each in found if not {".git", ".venv"} & {*each.parts})
        return {str(each): each.stat().st_mtime_ns for each in kept if each.suffix != ".pyc"}

    def git(self, *words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=self.folder, capture_output=True, text=True, check=True
        ).stdout


def names_a_need(line: str) -> bool:
    return bool(re.search(r"Expected .*\. Got |File not found: |No module named ", line))


def run_all(seconds: float, only: str = "") -> list[Result]:
    r"""Run reports without rounds first, then all commands in the order of their pages."""
    chosen = [each for each in commands() if only in f"{each.page} {each.text}"]
    first = [each for each in chosen if each.reads_rounds and "--to" not in each.text]
    results: list[Result] = []
    made: dict[str, Result] = {}  # by `make`, once each
    with tempfile.TemporaryDirectory() as folder:
        clone = Clone(Path(folder), seconds)
        for command in [*first, *chosen]:
            known = made.get(command.small())
            result = replace(known, command=command) if known else clone.run(command)
            if command.text.startswith("make "):
                made[command.small()] = result
            results.append(result)
            say(line_of(result))
        shutil.rmtree(clone.folder)
    return results


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def line_of(result: Result) -> str:
    command = result.command
    changed = f"; changed {', '.join(result.changed)}" if result.changed else ""
    said = f"; {result.said[:200]}" if result.kind in (NEEDS, FAILS) else ""
    return f"{result.kind}{changed}: {command.page}:{command.line} {command.text}{said}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each command, at most")
    parser.add_argument("--only", default="", help="commands that have this text, or their page")
    results = run_all(**vars(parser.parse_args()))
    counts = Counter(each.kind for each in results)
    changed = sum(bool(each.changed) for each in results)
    say(f"\n{len(results)} runs: {dict(counts)}; {changed} changed committed files")
    sys.exit(any(not each.is_right for each in results))


if __name__ == "__main__":
    main()
