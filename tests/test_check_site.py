r"""What follows the links of the built site finds those that lead nowhere."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

CHECK = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "check_site.py"))["check"]
GOOD = '<h1 id="top">A</h1><a href="b/other.html#there">b</a><pre>\\frac</pre><a href="#top">up</a>'


def wrong_with(folder: Path, text: str) -> list[str]:
    (folder / "b").mkdir()
    (folder / "index.html").write_text(text)
    (folder / "b" / "other.html").write_text('<p id="there"><a href="../index.html?v=1">a</a></p>')
    return CHECK(folder)[0]


def test_a_good_site_has_nothing_wrong(tmp_path: Path) -> None:
    assert wrong_with(tmp_path, GOOD) == []
    assert CHECK(tmp_path)[1:] == (2, 3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('<a href="c.html">c</a>', "is not there"),
        ('<a href="b/other.html#here">c</a>', "no such place"),
        ('<script src="https://example.org/a.js"></script>', "loads"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "loads"),
        ("<p>where $$x$$</p>", "shows LaTeX"),
        (r"<p>\frac{1}{2}</p>", "shows LaTeX"),
        (r'<div class="math">\[x\\]</div>', "shows LaTeX"),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, text: str, why: str) -> None:
    (found,) = wrong_with(tmp_path, text)
    assert why in found
