r"""Every numbered equation of the papers is in the tables, computed where it says, and checked."""

import ast
import importlib
import inspect
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.papers.equations import KINDS, PAPERS, Equation, Paper

ROOT = Path(__file__).parents[2]
each_paper = pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
computed = pytest.mark.parametrize(
    ("paper", "row"),
    [
        pytest.param(paper, row, id=f"{paper.key}-{row.number}")
        for paper in PAPERS
        for row in paper.rows
        if row.function is not None
    ],
)


def kind_and_number(label: str) -> tuple[str, str]:
    found = re.fullmatch(r"(Eq\.|[A-Z][a-z]+) \(?([A-Z\d.]+?)\)?", label)
    assert found, label
    return found[1], found[2]


def numbers_of(paper: Paper, kind: str) -> list[str]:
    labels = [kind_and_number(row.number) for row in paper.rows]
    return [number for of, number in labels if of == kind]


@each_paper
def test_no_label_occurs_twice(paper: Paper) -> None:
    labels = [row.number for row in paper.rows]
    assert len(set(labels)) == len(labels)


@each_paper
def test_the_numbering_of_equations_has_no_gap(paper: Paper) -> None:
    expected = set(range(1, paper.num_equations + 1)) - set(paper.unprinted)
    assert {int(number) for number in numbers_of(paper, "Eq.")} == expected


@each_paper
def test_all_results_of_the_text_are_there(paper: Paper) -> None:
    found = {kind: len(numbers_of(paper, kind)) for kind in KINDS}
    assert {kind: count for kind, count in found.items() if count} == paper.results
    assert len(paper.rows) == sum(found.values()) + len(numbers_of(paper, "Eq."))


@each_paper
def test_what_is_not_computed_has_a_reason(paper: Paper) -> None:
    for row in paper.rows:
        assert (row.function is None) == (row.vector is None) == bool(row.reason), row
        # Each is one cell of a table.
        assert row.says and "|" not in row.says and len(row.says) <= 60, row
        assert row.says[-1] != ".", row


@cache
def resolved(path: str) -> Any:
    r"""The function or class of a dotted path; of a method, the class that defines it."""
    names = path.split(".")
    found: Any = importlib.import_module(names[0])
    owner = found
    for end, name in enumerate(names[1:], start=2):
        # A module may have the name of its function, which the folder exports.
        attribute = getattr(found, name, None)
        if attribute is not None and end < len(names) and ".".join(names[:end]) in sys.modules:
            attribute = sys.modules[".".join(names[:end])]
        owner = found
        found = importlib.import_module(".".join(names[:end])) if attribute is None else attribute
    assert callable(found), path
    if inspect.isclass(owner):
        return next(each for each in owner.__mro__ if names[-1] in vars(each))
    return found


def labels_in(source: str, kind: str) -> set[str]:
    r"""The numbers after "Eq." or "Eqs.", "Lemma" or "Lemmas", and so on, with their ranges."""
    text = re.sub(r"\s+(?:# )?", " ", source)
    word = re.escape(kind.rstrip(".")) + (r"s?\." if kind == "Eq." else "s?")
    if kind == "Algorithm":
        word = f"(?:{word}|Algs?[.])"
    number = r"\(?(?:[A-Z]\.)?\d+(?:\.\d+)?\)?"
    found: set[str] = set()
    for listed in re.findall(rf"{word} ({number}(?:(?:,| and| to|, and) {number})*)", text):
        parts = re.findall(r"(to )?\(?((?:[A-Z]\.)?\d+(?:\.\d+)?)", listed)
        for (is_end, part), (_, before) in zip(parts, [("", ""), *parts], strict=False):
            found.add(part)
            if is_end:
                found |= {str(each) for each in range(int(before), int(part))}
    return found


def test_labels_are_read_as_they_are_written() -> None:
    text = (
        "Eqs. (1), (2) and (20), Eq. 16; Theorems 1 and\n    # 2, Alg. 2, Eqs. 13 to 15, Lemma C.1"
    )
    assert labels_in(text, "Eq.") == {"1", "2", "20", "16", "13", "14", "15"}
    assert labels_in(text, "Theorem") == {"1", "2"}
    assert labels_in(text, "Algorithm") == {"2"}
    assert labels_in(text, "Lemma") == {"C.1"}


@computed
def test_the_function_says_its_equation(paper: Paper, row: Equation) -> None:
    assert row.function is not None
    owner = resolved(row.function)
    file = inspect.getsourcefile(owner)
    assert file is not None
    assert f"[{paper.key}]_" in Path(file).read_text(), f"{file} does not cite the paper"
    kind, number = kind_and_number(row.number)
    assert number in labels_in(inspect.getsource(owner), kind), f"{row.function}: {row.number}"


@cache
def functions_of(path: Path) -> dict[str, ast.FunctionDef]:
    body = ast.parse(path.read_text()).body
    return {each.name: each for each in body if isinstance(each, ast.FunctionDef)}


def says_shape(node: ast.AST) -> bool:
    shapes = {"shape", "ndim", "dim", "size", "len"}
    names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return bool(
        shapes & (names | {each.id for each in ast.walk(node) if isinstance(each, ast.Name)})
    )


def compares_values(test: ast.FunctionDef) -> bool:
    r"""Whether a test asserts more than shapes, itself or by a function that it calls for that."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert) and not says_shape(node.test):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = ast.unparse(node.value.func).rsplit(".", 1)[-1]
            if name.startswith(("assert_", "check", "agree", "by_hand")):
                return True
    return False


@computed
def test_the_vector_compares_values(paper: Paper, row: Equation) -> None:
    assert row.vector is not None and row.function is not None
    file, name = row.vector.split("::")
    assert (ROOT / file).is_file(), row.vector
    *_, folder, own = row.function.split(".")
    named = [own, folder] if folder[0].isupper() else [own]  # a method or its class
    assert any(re.search(rf"\b{each}\b", (ROOT / file).read_text()) for each in named), row
    test = functions_of(ROOT / file).get(name)
    assert test is not None, f"{row.vector} is not there"
    assert compares_values(test), f"{row.vector} asserts nothing but shapes"


def test_a_test_of_shapes_alone_is_noticed() -> None:
    for body, expected in (
        ("assert X.shape == (2, 3)", False),
        ("assert X.dim() == 2", False),
        ("assert_close(X, Y)", True),
        ("assert X.shape == (2,)\n    assert X[0] == 1", True),
        ("run(X)", False),
    ):
        (found,) = ast.parse(f"def test_it():\n    {body}").body
        assert isinstance(found, ast.FunctionDef)
        assert compares_values(found) == expected
