r"""The tables of equations in the papers' pages: `python -m tests.papers.pages` writes them."""

import re
from itertools import groupby
from pathlib import Path

from tests.papers.equations import PAPERS, Equation, Paper

PACKAGE = Path(__file__).parents[2] / "botorch_risk" / "papers"
PAGES = {
    "Makarova2021rahbo": "rahbo/__init__.py",
    "Ha2023uhe": "uhe_bo.py",
    "Bogunovic2016truvar": "truvar/__init__.py",
    "Nguyen2021vucb": "v_ucb.py",
    "Huang2024kde": "kde.py",
}
SAID = "Equations and results, by what computes them:"
_BLOCK = re.compile(rf"{re.escape(SAID)}\n\n((?:    .*\n|\n(?=    ))*)")


def _function(row: Equation) -> str:
    return str(row.function).removeprefix("botorch_risk.")


def table_of(paper: Paper) -> str:
    r"""The lines of the table, indented by four."""
    rows = [row for row in paper.rows if row.function is not None]
    first = {function: index for index, function in reversed([*enumerate(map(_function, rows))])}
    rows.sort(key=lambda row: first[_function(row)])  # stable: the paper's order within
    lines = []
    for function, own in groupby(rows, key=_function):
        lines.append(f"    {function}\n")
        lines += [f"        {row.number:16}{row.says}\n" for row in own]
    return "".join(lines)


def page_of(paper: Paper) -> Path:
    return PACKAGE / PAGES[paper.key]


def table_in(page: Path) -> str:
    r"""The table that a page has."""
    found = _BLOCK.search(page.read_text(encoding="utf-8"))
    return "" if found is None else found[1]


def main() -> None:
    for paper in PAPERS:
        page = page_of(paper)
        text = page.read_text(encoding="utf-8")
        new = f"{SAID}\n\n{table_of(paper)}"
        page.write_text(_BLOCK.sub(lambda _, new=new: new, text, count=1), encoding="utf-8")


if __name__ == "__main__":
    main()
