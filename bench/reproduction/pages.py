r"""Pages of sections, each with the date and the commit that made it."""

import functools
import re
import shutil
import subprocess
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from botorch_risk_bench.campaigns.whole_files import write_text

from botorch_risk import __version__

_STAMP = re.compile(r"^Made on \d{4}-\d\d-\d\d by .*\.\n\n?", re.MULTILINE)


def write_sections(path: Path, page: Iterable[str]) -> None:
    r"""Write a page whose sections begin with `## ` or `### `.

    A section that is not made again stays, and so does one that comes out the same. Each says when
    and by which commit it was made. So a page can be made from campaigns that hold a part each, or
    whose rounds are lost, and still says what is old.

    Args:
        path: The page; its folder is made if it is missing.
        page: Parts of the new sections, in order. What stands before the first replaces what stood
            there.
    """
    old = sections_of(path.read_text(encoding="utf-8")) if path.exists() else {}
    made = {
        heading: old[heading] if _same(old.get(heading, ""), section) else _stamped(section)
        for heading, section in sections_of("\n".join(page)).items()
    }
    sections = {"": "", **old, **made}
    write_text(path, "\n".join(text for text in sections.values() if text))


def sections_of(page: str) -> dict[str, str]:
    r"""Map headings to sections, in order; the key of what stands before the first is empty."""
    head, *parts = re.split(r"^(?=##+ )", page, flags=re.MULTILINE)
    sections = {"": f"{head.strip()}\n"} if head.strip() else {}
    for part in parts:
        text = f"{part.strip()}\n"
        sections[text.partition("\n")[0]] = text
    return sections


def _same(old: str, new: str) -> bool:
    return _STAMP.sub("", old) == new


def _stamped(section: str) -> str:
    heading, _, body = section.partition("\n")
    if not heading.startswith("##") or not body:  # before the first section, or a heading alone
        return section
    return f"{heading}\n\nMade on {date.today()} by {_code()}.\n{body}"


@functools.cache
def _code() -> str:
    r"""Name the commit of this code, or the version if it is not in a repository."""
    if shutil.which("git") is None:
        return f"version {__version__}"

    def git(*words: str) -> str:
        run = subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
        return run.stdout.strip()

    commit = git("rev-parse", "--short=8", "HEAD")
    if not commit:
        return f"version {__version__}"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/*.py")
    return f"commit {commit}" + (" with changes" if changed else "")
