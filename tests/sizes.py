r"""The lines of each room of the package, next to its budget, and what the lines are.

    python -m tests.sizes [--write]

A room is a top-level folder, `root` are the files outside any, and the folders of the engine are
rooms inside a room. Shares are of all lines; what is missing to 100 % is blank. A room that exceeds
its budget by more than 5 % is an error. `--write` sets each budget in `sizes.txt` to the lines of
today, rounded up to the next hundred, and keeps the reasons. It needs nothing but Python, as
`make lint` has nothing else.
"""

import argparse
import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FILE, PACKAGE = Path(__file__).with_suffix(".txt"), Path(__file__).parents[1] / "botorch_risk"
DIVIDED = ("engine",)
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
TOLERANCE = 0.05
KINDS = ("docstrings", "comments", "code")
Budgets = dict[str, tuple[int, str]]  # the lines of each room, with the reason


def lines_of(source: str) -> Counter[str]:
    r"""The number of lines of each kind, and of all of them; code with a comment is code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings |= {*range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = sum(
        each.type == tokenize.COMMENT and each.line.lstrip().startswith("#") for each in tokens
    )
    lines = source.splitlines()
    filled = sum(bool(line.strip()) for row, line in enumerate(lines, 1) if row not in docstrings)
    return Counter(
        lines=len(lines), docstrings=len(docstrings), comments=comments, code=filled - comments
    )


def measured(package: Path) -> dict[str, Counter[str]]:
    r"""The lines of each room; a room inside another one also counts there."""
    found: dict[str, Counter[str]] = {}
    for path in sorted(package.rglob("*.py")):
        top, *inner = path.relative_to(package).parts[:-1] or ("root",)
        rooms = [top, f"{top}/{inner[0]}"] if inner and top in DIVIDED else [top]
        for room in rooms:
            found.setdefault(room, Counter()).update(lines_of(path.read_text(encoding="utf-8")))
    return dict(sorted(found.items(), key=lambda each: (each[0] != "root", each[0])))


def read(file: Path) -> Budgets:
    r"""The budgets of a file with a room, its lines and the reason in each row.

    Raises:
        ValueError: If a row has another form, or a room comes twice.
    """
    budgets: Budgets = {}
    for row in file.read_text(encoding="utf-8").splitlines():
        room, lines, reason = [*row.split(maxsplit=2), "", "", ""][:3]
        if not (lines.isdecimal() and reason) or room in budgets:
            raise ValueError(f"Expected a room, once, its lines and the reason. Got {row!r}.")
        budgets[room] = int(lines), reason
    return budgets


def write(file: Path, sizes: dict[str, Counter[str]]) -> None:
    r"""Budgets of the lines of today, with the reasons of before."""
    before = read(file) if file.exists() else {}
    rows = [
        f"{room:26} {-(-each['lines'] // 100) * 100:6}  {before.get(room, (0, 'as measured'))[1]}\n"
        for room, each in sizes.items()
    ]
    file.write_text("".join(rows), encoding="utf-8")


def faults(sizes: dict[str, Counter[str]], budgets: Budgets) -> Iterator[str]:
    r"""What is wrong, room by room."""
    for room in dict.fromkeys([*sizes, *budgets]):
        if room not in budgets:
            yield f"Expected a row of {room!r} in sizes.txt. Got none."
        elif room not in sizes:
            yield f"Expected the rooms of the package in sizes.txt. Got {room!r}, which it lacks."
        elif sizes[room]["lines"] > (1 + TOLERANCE) * budgets[room][0]:
            lines, budget = sizes[room]["lines"], budgets[room][0]
            yield f"Expected at most {budget} lines of {room!r}, or 5 % more. Got {lines}."


def table(sizes: dict[str, Counter[str]], budgets: Budgets) -> str:
    total: Counter[str] = Counter()
    for room, each in sizes.items():
        total.update(each if "/" not in room else {})
    everything = sum(lines for room, (lines, _) in budgets.items() if "/" not in room)
    rows = [f"{'room':26} {'lines':>6} {'budget':>6}" + "".join(f" {kind:>10}" for kind in KINDS)]
    for room, each in {**sizes, "total": total}.items():
        budget = everything if room == "total" else budgets.get(room, ("",))[0]
        shares = "".join(f" {each[kind] / max(1, each['lines']):>10.0%}" for kind in KINDS)
        name = f"  {room}" if "/" in room else room
        rows.append(f"{name:26} {each['lines']:6} {budget:6}{shares}")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", action="store_true", help="set the budgets to today's lines")
    sizes = measured(PACKAGE)
    if parser.parse_args().write:
        write(FILE, sizes)
    budgets = read(FILE)
    sys.stdout.write(table(sizes, budgets) + "\n")
    if wrong := [*faults(sizes, budgets)]:
        advice = (
            "If the room is worth it, raise its budget with the reason; after rooms have moved, "
            "`python -m tests.sizes --write` writes all rows again."
        )
        sys.stderr.write("\n".join([*wrong, advice]) + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
