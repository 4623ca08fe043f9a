r"""What the site makes of docstrings, and what follows its links."""

import re
import runpy
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

EXTENSIONS = Path(__file__).parents[1] / "docs" / "extensions"


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(EXTENSIONS))
    yield runpy.run_path(str(EXTENSIONS / "docstrings.py"))
    sys.path.remove(str(EXTENSIONS))
    sys.modules.pop("formulas", None)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("sqrt(beta) sigma_{t-1}(x)", r"\sqrt{\beta }\;\sigma _{t-1}(x)"),
        ("h <= x^2", r"h\;\le \;x^{2}"),
        (
            "risk_aversion * ucb_var(x)",
            r"\mathrm{risk\_aversion}\;\cdot \;\mathrm{ucb}_{\mathrm{var}}(x)",
        ),
        ("w in the support", r"w\;\;\text{in the support}\;"),
        ("x in M_t", r"x\; \in \;M_{t}"),
    ],
)
def test_formulas_are_typeset(found: dict[str, Any], text: str, latex: str) -> None:
    assert found["latex"](text) == latex


def test_a_long_line_is_broken_at_its_gap(found: dict[str, Any]) -> None:
    text = f"score(x) = {' + '.join(20 * 'x')},   x in M_t"
    assert found["latex"](text).endswith(r", \\ & \qquad x\; \in \;M_{t}\end{aligned}")


@pytest.mark.parametrize("text", ["acqf = LogEI(FastMarginals(model))", '"clip": w', "x % 2"])
def test_code_is_no_formula(found: dict[str, Any], text: str) -> None:
    with pytest.raises(found["NotAFormula"]):
        found["latex"](text)


def test_a_docstring_is_rewritten_up_to_its_sections(found: dict[str, Any]) -> None:
    lines = ["Title [Nguyen2021vucb]_.", "", "    y = x", "", "Args:", "    x: As it is.", ""]
    lines += ["| a | b |", "|---|---|", "| c | d |"]
    text = "\n".join(found["rewrite"](lines))
    assert "Title :cite:p:`Nguyen2021vucb`." in text
    assert ".. math::\n\n   y\\;=\\;x\n" in text
    assert "Args:\n    x: As it is." in text
    assert "   * - c\n     - d" in text


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
        ("<p>a <code>Bound</code>s :cite:p:</p>", "shows markup: s :cite:p:"),
        (r'<div class="math">\[x\\]</div>', "shows LaTeX"),
        ("<td><p>The bound of a paper, Eq.</p></td>", "cuts a sentence: The bound of a paper, Eq."),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, text: str, why: str) -> None:
    (found,) = wrong_with(tmp_path, text)
    assert why in found


@pytest.mark.parametrize("code", ["MyBound", "acquisition.MyBound", "MyBound(beta=4.0)"])
def test_a_public_name_is_a_link_except_in_headings_and_at_home(tmp_path: Path, code: str) -> None:
    own = tmp_path / "docs" / "api" / "objects" / "acquisition.MyBound.html"
    own.parent.mkdir(parents=True)
    own.write_text(f"<p><code>{code}</code></p>")
    page = tmp_path / "index.html"
    link = f'<a href="docs/api/objects/{own.name}"><code>{code}</code></a>'
    page.write_text(f"<h2><code>{code}</code></h2><p>{link}</p><pre><code>{code}</code></pre>")
    assert CHECK(tmp_path)[0] == []
    page.write_text(f"<p>{link} and <code><span>{code}</span></code></p>")
    assert CHECK(tmp_path)[0] == [f"index.html does not link {code}"]


LINKS = runpy.run_path(str(EXTENSIONS / "name_links.py")) if find_spec("docutils") else {}
KNOWN = {
    "Bound": ["botorch_risk.acquisition.Bound"],
    "Bound.evaluate": ["botorch_risk.acquisition.Bound.evaluate"],
    "sbo_kde": ["botorch_risk.acquisition.sbo_kde", "botorch_risk.papers.sbo_kde"],
    "recommend": ["botorch_risk.recommend.recommend"],
}


@pytest.mark.skipif(not LINKS, reason="needs sphinx")
def test_a_long_name_may_break_at_its_joints() -> None:
    text = "risk.KernelDensity(n_w=5.0)"
    assert LINKS["JOINT"].sub("|", text) == "risk.|Kernel|Density(|n_|w=|5.0)"


@pytest.mark.skipif(not LINKS, reason="needs sphinx")
@pytest.mark.parametrize(
    ("text", "imports", "expected"),
    [
        ("Bound", {}, "botorch_risk.acquisition.Bound"),
        ("Bound(beta=(1, 2))", {}, "botorch_risk.acquisition.Bound"),
        ("acquisition.Bound", {}, "botorch_risk.acquisition.Bound"),
        ("Bound.evaluate", {}, "botorch_risk.acquisition.Bound.evaluate"),
        ("sbo_kde", {}, "botorch_risk.papers.sbo_kde"),
        ("sbo_kde", {"sbo_kde": "botorch_risk.acquisition"}, "botorch_risk.acquisition.sbo_kde"),
        ("recommend", {"recommend": "botorch_risk.recommend"}, "botorch_risk.recommend.recommend"),
        ("recommend", {}, None),  # a word
        ("beta = 4", {}, None),
        ("Unknown", {}, None),
    ],
)
def test_a_literal_is_resolved(text: str, imports: dict[str, str], expected: str | None) -> None:
    assert LINKS["resolve"](text, KNOWN, imports) == expected


DOCS = EXTENSIONS.parent
LINK, CODE = r'href="(.*?)"', r"<code>(.*?)</code>"


def wizard() -> dict[str, tuple[list[str], str]]:
    r"""The steps of "Which risk do I have?": where their buttons lead, and the text."""
    text = (DOCS / "which_risk.html").read_text("utf-8")
    found = re.findall(r'<section data-step="(\w+)".*?>\n(.*?)</section>', text, re.DOTALL)
    return {step: (re.findall(r'data-next="(\w+)"', body), body) for step, body in found}


def test_the_wizard_asks_at_most_four_questions_and_reaches_every_answer() -> None:
    steps, depth = wizard(), {"start": 1}
    front = ["start"]
    while front:
        at = front.pop()
        for following in steps[at][0]:
            depth[following] = max(depth.get(following, 0), depth[at] + 1)
            front.append(following)
    assert depth.keys() == steps.keys()
    assert max(depth[step] for step, (buttons, _) in steps.items() if buttons) <= 4


def test_the_wizard_and_the_table_say_the_same() -> None:
    page = (DOCS / "which_risk.md").read_text("utf-8")
    table = page.partition("## As a table")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    said = [(re.findall(r"\]\((.*?)\)", row), re.findall(r"`(.*?)`", row)) for row in rows]
    answers = [body for buttons, body in wizard().values() if not buttons]
    assert said == [
        ([re.sub(r"\.html\b", ".md", each) for each in re.findall(LINK, body)], codes)
        for body in answers
        for codes in [re.findall(CODE, body)]
    ]


def test_places_that_the_table_leads_to_are_headings() -> None:
    for link in re.findall(r"\]\((\w+\.md#.*?)\)", (DOCS / "which_risk.md").read_text("utf-8")):
        page, _, place = link.partition("#")
        headings = re.findall(r"^#+ (.*)$", (DOCS / page).read_text("utf-8"), re.MULTILINE)
        slugs = [
            re.sub(r"[^\w\- ]", "", each).strip().lower().replace(" ", "-") for each in headings
        ]
        assert place in slugs, link
