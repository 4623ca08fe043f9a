r"""Gives the tables that a script has stored a title, from where they lie."""

from __future__ import annotations

from typing import Any

PAPERS = {
    "kde": "SBO-KDE and DRBO-KDE",
    "portfolio": "Portfolios",
    "rahbo": "RAHBO",
    "truvar": "TRUVAR",
    "uhe": "UHE-BO",
    "vucb": "V-UCB",
}


# Reached by links alone.
LINKED = {"README", "bench/README", "bench/botorch_risk_bench/problems/weekly_closes"}
ORPHAN = "---\norphan: true\n---\n\n"


def _title(app: Any, docname: str, source: list[str]) -> None:
    folder, _, name = docname.rpartition("/")
    measured = folder.startswith(("bench/reproduction", "bench/studies"))
    if measured and not source[0].lstrip().startswith("# "):
        of = folder.rpartition("/")[2]
        of = PAPERS.get(of, of.replace("_", " ").capitalize())
        source[0] = f"# {of}: {name.replace('_', ' ')}\n\n{source[0]}"
    if docname in LINKED or (measured and name != "README"):
        source[0] = ORPHAN + source[0]


def setup(app: Any) -> dict[str, Any]:
    r"""Before the page is parsed."""
    app.connect("source-read", _title)
    return {"parallel_read_safe": True, "version": "1"}
