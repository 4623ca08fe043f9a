r"""The commands of the pages name what there is; run small in a fresh clone, they work."""

import re
import subprocess
from pathlib import Path

import pytest

from tests import documented_commands as checked
from tests.documented_commands import (
    EMPTY,
    FAILS,
    NEEDS,
    RUNNING,
    WORKS,
    Clone,
    Command,
    commands,
    run_all,
)

ROOT = Path(__file__).parents[1]
TABLE = "('Expected a table. Got none.')"
PAGE = """\
```sh
STUDY=bench/study OTHERS="-a -b"
botorch-risk campaign run $STUDY/pairs.py \\
    --out results/pairs.sqlite   # an hour
```

Run `make two-trees BEFORE=<commit>`, or `python -m bench...` of a
folder; `pip install -e
./bench` installs both. `botorch-risk run` resumes.
"""


def test_commands_are_read_from_blocks_and_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked, "ROOT", tmp_path)
    (tmp_path / "README.md").write_text(PAGE)
    block, trees, install = commands()
    assert block.line == 2 and block.before == ('STUDY=bench/study OTHERS="-a -b"',)
    assert block.text == "botorch-risk campaign run $STUDY/pairs.py --out results/pairs.sqlite"
    assert block.small().splitlines()[1].endswith("--engine serial --report-seconds 1")
    assert trees.line == 7 and trees.small() == "make -n two-trees BEFORE=HEAD~1"
    assert install.text == "pip install -e ./bench"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    root = tmp_path_factory.mktemp("root")
    (root / "page.md").write_text("kept")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "A page"]):
        who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        subprocess.run(["git", *who, *words], cwd=root, check=True)
    return Clone(tmp_path_factory.mktemp("folder"), 2.0, source=root)


@pytest.mark.parametrize(
    ("text", "kind", "is_right"),
    [
        ("echo done", WORKS, True),
        ("touch new", WORKS, True),
        ("true", EMPTY, False),
        ("echo lost > page.md", WORKS, False),
        ("echo done; echo lost > page.md", WORKS, False),
        ("echo done; echo better > page.md; : --to .", WORKS, True),
        ("sleep 60", RUNNING, True),
        ("echo 'Expected a.csv. Got none.' >&2; exit 2", NEEDS, True),
        ("python -c 'raise SystemExit(\"Expected a table. Got none.\")'", NEEDS, True),
        ("python -c 'raise ValueError(\"Expected a table. Got none.\")'", FAILS, False),
        ("echo 'rm: no page' >&2; exit 1", FAILS, False),
        ("pip install -e ./gone", FAILS, False),
    ],
)
def test_how_a_command_ends(clone: Clone, text: str, kind: str, is_right: bool) -> None:
    result = clone.run(Command("page.md", 1, text))
    assert (result.kind, result.is_right) == (kind, is_right)
    assert (clone.folder / "page.md").read_text() == "kept"  # whatever the command has done


def test_commands_name_programs_targets_and_files_that_exist() -> None:
    found = commands()
    assert len(found) > 100
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for each in found:
        if re.search(r"python3? -m bench\b", each.text):
            assert each.program is not None, each
        if target := re.match(r"make (\S+)", each.text):
            assert target[1] in targets, each
        for path in re.findall(r"\bbench/[\w/]+\.py\b", each.text):
            assert (ROOT / path).is_file(), each


@pytest.mark.slow
def test_every_command_works_in_a_fresh_clone() -> None:
    assert [each for each in run_all(seconds=20.0) if not each.is_right] == []
