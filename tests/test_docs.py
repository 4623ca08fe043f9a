r"""Every block of the documentation's pages runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doc_pages import DOCS, blocks, is_as_said, run

# Pages whose blocks a test of their own runs, with what has to be installed or written first.
ELSEWHERE = {
    "ax": "tests/ax/test_guide.py",
    "campaigns": "tests/experiments/campaigns/test_guide.py",
    "faster_loops": "tests/test_faster_loops_guide.py",
    "xopt": "tests/test_xopt_guide.py",
}
PAGES = sorted(
    page for page in DOCS.glob("*.md") if blocks(page) and page.stem not in ELSEWHERE
)
# Importing Ax, and searches that end at kinks of a risk.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Optimization failed:RuntimeWarning", "ignore:.*is deprecated:DeprecationWarning"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_run_and_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    _, results = run(page, tmp_path)
    for block, printed in results:
        assert bool(printed) == (block.output is not None), f"{block.code}\nprints\n{printed}"
        assert is_as_said(block.output or "", printed), f"{block.code}\nprints\n{printed}"


def test_pages_that_run_elsewhere_do() -> None:
    for page, test in ELSEWHERE.items():
        assert f"{page}.md" in (DOCS.parent / test).read_text(encoding="utf-8")
        assert blocks(DOCS / f"{page}.md")


def test_what_is_printed_is_compared() -> None:
    assert is_as_said("best [0.2]: -1.04\n", "best [0.2]:   -1.05")
    assert not is_as_said("best [0.2]: -1.04", "best [0.9]: -1.04")
    assert not is_as_said("best -1.04", "worst -1.04")
    assert not is_as_said("1 2", "1 2 3")
