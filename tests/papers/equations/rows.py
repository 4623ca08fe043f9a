r"""Rows of the tables of equations: what computes a label of a paper, and what checks it.

A row names the function, method or class that computes an equation, and a test that compares it
with an independent reference. A row without a function gives the reason: it defines the problem, it
is a rate with unknown constants, or a step of a proof.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple


class Equation(NamedTuple):
    r"""One label of a paper.

    Attributes:
        number: The paper's label, such as "Eq. (7)", "Lemma 1" or "Algorithm 1".
        says: A few words for a cell of a table.
        function: The dotted path of what computes it, by its public name.
        vector: The test against an independent reference, `"tests/....py::test_name"`.
        reason: Why nothing computes it, if `function` is None.
    """

    number: str
    says: str
    function: str | None = None
    vector: str | None = None
    reason: str = ""


class Paper(NamedTuple):
    r"""The rows of a paper, and how many labels its text has.

    Attributes:
        key: The citation key.
        rows: Equations by number, then definitions, assumptions, lemmas and so on.
        num_equations: The largest number of an equation.
        unprinted: Numbers up to there that no formula of the text has.
        results: How many of each kind the text numbers, appendix included; a result that the
            appendix states again under its number counts once, under another number twice.
    """

    key: str
    rows: tuple[Equation, ...]
    num_equations: int
    results: Mapping[str, int]
    unprinted: tuple[int, ...] = ()


KINDS = (
    "Definition",
    "Assumption",
    "Example",
    "Remark",
    "Lemma",
    "Proposition",
    "Theorem",
    "Corollary",
    "Algorithm",
)

DEFINES = "It defines the problem."
ASSUMED = "An assumption of the theorems."
METRIC = "A metric of the experiments, with the true function: `botorch_risk_bench.metrics`."
RATE = "A rate with unknown constants."

WIDTHS = "papers/test_widths_of_theorems.py"
OF_GAIN = f"{WIDTHS}::test_greedy_choice_brackets_the_best_gain"


def label(number: int | str) -> str:
    return f"Eq. ({number})" if isinstance(number, int) else number


def computed(function: str, vector: str, says: Mapping[int | str, str]) -> list[Equation]:
    names = f"botorch_risk.{function}", f"tests/{vector}"
    return [Equation(label(number), words, *names) for number, words in says.items()]


def left_out(reason: str, says: Mapping[int | str, str]) -> list[Equation]:
    return [Equation(label(number), words, reason=reason) for number, words in says.items()]


def _position(row: Equation) -> tuple[int, list[tuple[int, str]]]:
    r"""Equations first, then the kinds in their order, each by number; appendices come last."""
    kind, number = row.number.split(" ", 1)
    order = 0 if kind == "Eq." else 1 + KINDS.index(kind)
    parts = re.findall(r"\d+|[A-Z]", number)
    return order, [(int(part), "") if part.isdigit() else (10**6, part) for part in parts]


def in_order(*groups: list[Equation]) -> tuple[Equation, ...]:
    return tuple(sorted((row for rows in groups for row in rows), key=_position))
