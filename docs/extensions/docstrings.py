r"""Reads the docstrings of the package: citations by key, and formulas as indented plain text."""

from __future__ import annotations

import re
from typing import Any

from formulas import NotAFormula, latex

CITATION = re.compile(r"\[([A-Z]\w+\d{4}\w+)\]_")
CODE = re.compile(r"optimizer=|^\w+ = [A-Z]\w+\(", flags=re.MULTILINE)
PRIVATE = re.compile(r", _\w+(?:: [^=,]*)? ?= ?\w+")
# A summary on a page of the API is the first sentence, which does not end at one of these.
ABBREVIATIONS = ("Alg.", "App.", "Cor.", "Eq.", "Eqs.", "Fig.", "Figs.", "Sec.", "Secs.")
SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Example|Examples|Attributes|References):$")


def _typeset(block: list[str]) -> list[str]:
    r"""An indented block as a formula, or as code where it is none."""
    lines = [line[4:] for line in block]
    try:
        return [".. math::", "", f"   {latex(chr(10).join(lines))}", ""]
    except NotAFormula:
        language = "python" if CODE.search("\n".join(lines)) else "text"
        return [f".. code-block:: {language}", "", *(f"   {line}" for line in lines), ""]


def _table(rows: list[str]) -> list[str]:
    r"""A table in Markdown as one of reStructuredText."""
    found = [".. list-table::", "   :header-rows: 1", ""]
    for row in (rows[0], *rows[2:]):
        first, *others = (cell.strip() for cell in row.strip("|").split("|"))
        found += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    return [*found, ""]


def rewrite(lines: list[str]) -> list[str]:
    r"""The lines as reStructuredText: formulas typeset, citations as references."""
    found: list[str] = []
    block: list[str] = []
    rows: list[str] = []
    in_prose = True
    for line in [*lines, ""]:
        in_prose = in_prose and not SECTION.match(line)
        if in_prose and line.startswith("    ") and (block or not found or not found[-1].strip()):
            block.append(line)
            continue
        if line.startswith("|") and line.endswith("|"):
            rows.append(line)
            continue
        if rows:
            found += _table(rows)
            rows = []
        if block:
            found += _typeset(block)
            block = []
        found.append(CITATION.sub(r":cite:p:`\1`", line))
    return found


def _process(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    lines[:] = rewrite(lines)


def _signature(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str | None, returns: Any
) -> tuple[str | None, Any]:
    r"""Leaves out what a dataclass keeps for itself."""
    return (signature and PRIVATE.sub("", signature)), returns


def setup(app: Any) -> dict[str, Any]:
    r"""Before napoleon, whose sections it leaves alone."""
    from sphinx.ext import autosummary

    autosummary.WELL_KNOWN_ABBREVIATIONS = ("et al.", "e.g.", "i.e.", "vs.", *ABBREVIATIONS)
    app.connect("autodoc-process-docstring", _process, priority=400)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True, "version": "1"}
