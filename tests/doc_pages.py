r"""The pages of the documentation: their blocks, what those print, and the links between them.

A page is read as it stands. Its Python blocks continue each other. A block of `text` right after a
block of Python is what that prints; numbers may differ in their last digits, since a fit ends a
little differently on every machine.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\S+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Block:
    r"""A block of Python, and what the page says that it prints; `None` where it does not say."""

    code: str
    output: str | None


def blocks(path: Path) -> list[Block]:
    r"""The Python blocks of a page, in order."""
    text = path.read_text(encoding="utf-8")
    found, fences = [], list(FENCE.finditer(text))
    for fence, after in zip_longest(fences, fences[1:]):
        if fence[1] != "python":
            continue
        shown = after is not None and after[1] == "text"
        shown = shown and not text[fence.end() : after.start()].strip()
        found.append(Block(fence[2], after[2] if after is not None and shown else None))
    return found


def run(
    path: Path, folder: Path, first: int | None = None
) -> tuple[dict[str, Any], list[tuple[Block, str]]]:
    r"""Runs the blocks of a page, or its first ones, in a folder.

    Returns the names that they leave, and each block with what it prints.
    """
    names: dict[str, Any] = {"__name__": "page"}
    printed: list[str] = []
    names["print"] = lambda *values: printed.append(" ".join(map(str, values)))
    results, here = [], Path.cwd()
    torch.manual_seed(0)
    os.chdir(folder)
    try:
        for block in blocks(path)[:first]:
            exec(compile(block.code, str(path), "exec", dont_inherit=True), names)
            results.append((block, "\n".join(printed)))
            printed.clear()
    finally:
        os.chdir(here)
    return names, results


def is_as_said(said: str, printed: str) -> bool:
    r"""Whether two outputs have the same words, and numbers that are near to each other."""
    texts = [" ".join(NUMBER.sub("#", text).split()) for text in (said, printed)]
    numbers = [[float(each) for each in NUMBER.findall(text)] for text in (said, printed)]
    return texts[0] == texts[1] and all(
        math.isclose(*pair, rel_tol=0.15, abs_tol=0.15) for pair in zip(*numbers, strict=True)
    )


def names_after(path: Path, folder: Path, first: int | None = None) -> SimpleNamespace:
    r"""What the blocks of a page leave behind, once they have printed what the page says."""
    names, results = run(path, folder, first)
    for block, printed in results:
        assert bool(printed) == (block.output is not None), f"{block.code}\nprints\n{printed}"
        assert is_as_said(block.output or "", printed), f"{block.code}\nprints\n{printed}"
    return SimpleNamespace(**names)


def written_links(path: Path) -> list[str]:
    r"""Where a page leads, by links, tables of contents and cards, as it is written."""
    text = re.sub(
        r"^```python\n.*?^```$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    found = [*re.findall(r"\]\(([^)#\s]+)", text), *re.findall(r"^:link: (\S+)$", text, re.M)]
    for body in re.findall(r"^```{toctree}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        entries = [line.rpartition("<")[2].rstrip(">") for line in body.splitlines()]
        found += [entry for entry in entries if entry and not entry.startswith(":")]
    return [each for each in found if "://" not in each]


def links(path: Path) -> list[Path]:
    r"""The files that a page leads to."""
    return [target for each in written_links(path) for target in _targets(path.parent, each)]


def broken_links(path: Path) -> list[str]:
    r"""The links of a page that lead to no file."""
    generated = {"api/*"}  # by `make docs`
    return [
        each
        for each in written_links(path)
        if each not in generated and not list(_targets(path.parent, each))
    ]


def pictures(path: Path) -> list[tuple[str, Path]]:
    r"""The pictures of a page: what stands for each where it cannot be seen, and its file."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"!\[(.*?)\]\((\S+?)\)", text)
    found += [(alt, at) for at, alt in re.findall(r'<img src="(\S+)" alt="(.*?)"', text)]
    return [(alt, (path.parent / at).resolve()) for alt, at in found]


def _targets(folder: Path, link: str) -> Iterator[Path]:
    r"""What a link leads to; a page may go without its suffix, and a toctree may hold a glob."""
    base = ROOT / link[1:] if link.startswith("/") else folder / link
    for suffix in ("", ".md", ".ipynb"):
        for each in sorted(ROOT.glob(os.path.relpath(base, ROOT) + suffix)):
            if each.is_file():
                yield each.resolve()


@cache
def clicks(start: Path) -> dict[Path, int]:
    r"""How many links every page is away from a page, along the shortest path."""
    found, edge = {start.resolve(): 0}, [start.resolve()]
    while edge:
        reached = {
            target: found[page] + 1
            for page in edge
            if page.suffix == ".md"
            for target in links(page)
            if target not in found
        }
        found |= reached
        edge = list(reached)
    return found
