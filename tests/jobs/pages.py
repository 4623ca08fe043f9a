r"""A job is a script made of the pages' code, unchanged but for what is the reader's own.

A block of a page that begins with `# Yours` stands for the reader's own data or function. A job
replaces these blocks by a world of its own, whose truth it knows, and leaves every other line as
it is.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Part:
    r"""A section of a page.

    Args:
        page: Its name, without the suffix.
        heading: Of the section; the part before the first one if empty.
        own: Names that replace the blocks that begin with `# Yours`.
        num_blocks: How many of the other blocks run; all of them by default.
    """

    page: str
    heading: str
    own: dict[str, Any]
    num_blocks: int | None = None

    @property
    def code(self) -> list[str]:
        r"""The blocks that stay as they are.

        Raises:
            ValueError: If the page has no such section, or the section no such blocks.
        """
        text = (DOCS / f"{self.page}.md").read_text(encoding="utf-8")
        title, *sections = re.split(r"^##+ ", text, flags=re.MULTILINE)
        of = {each.partition("\n")[0]: each for each in sections} | {"": title}
        kept = [each for each in FENCE.findall(of.get(self.heading, "")) if not is_yours(each)]
        if not kept or len(kept) < (self.num_blocks or 0):
            raise ValueError(f"Expected code in '{self.heading}' of {self.page}.md. Got {kept}.")
        return kept[: self.num_blocks]


def is_yours(block: str) -> bool:
    return block.startswith("# Yours: ")


Figures = dict[str, float]
# A job is given the number of its world, yields parts and receives what they leave behind.
Job = Callable[[int], Generator[Part, SimpleNamespace, Figures]]


def play(job: Job, world: int, folder: Path) -> tuple[Figures, list[Part]]:
    r"""What a job finds in a world, with the parts of pages that it used."""
    names: dict[str, Any] = {"__name__": "job"}
    parts: list[Part] = []
    torch.manual_seed(world)
    steps, here = job(world), Path.cwd()
    os.chdir(folder)
    try:
        part = next(steps)
        while True:
            parts.append(part)
            names.update(part.own)
            with contextlib.redirect_stdout(None):
                for block in part.code:
                    exec(compile(block, f"{part.page}.md", "exec", dont_inherit=True), names)
            part = steps.send(SimpleNamespace(**names))
    except StopIteration as end:
        return end.value, parts
    finally:
        os.chdir(here)
