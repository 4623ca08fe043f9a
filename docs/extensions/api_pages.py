r"""Writes the pages of the API: one a module that exports names, one a public object."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import botorch_risk_bench
import botorch_risk_testing

from tests.public_objects import public_objects

AREA = """{area}
{line}

{title}

.. currentmodule:: {module}

.. autosummary::
   :nosignatures:

{names}
"""

OBJECT = """:orphan:

{name}
{line}

In :doc:`{module} <../{area}>`.

.. currentmodule:: {module}

.. {directive}:: {name}
"""

MEMBERS, BASES = "   :members:\n", "   :show-inheritance:\n"

# Modules of one function each, which have no list of their names.
MODULES = {
    "recommend": [
        "ConfidenceBound",
        "ConstraintBounds",
        "Recommendation",
        "recommend",
        "recommend_everywhere",
    ],
    "seeding": ["derive_seed", "generators"],
}


def objects() -> dict[str, Any]:
    r"""The public objects of the plugin, of the bench and of the contracts, which are one area."""
    names = botorch_risk_testing.__all__
    contracts = {f"testing.{name}": getattr(botorch_risk_testing, name) for name in names}
    return public_objects() | public_objects(botorch_risk_bench) | contracts


def areas() -> dict[str, list[str]]:
    r"""The names of the public objects by the module that exports them."""
    found: dict[str, list[str]] = {}
    for name in sorted(objects(), key=lambda name: (name.rpartition(".")[0], name.lower())):
        area, _, own = name.rpartition(".")
        found.setdefault(area, []).append(own)
    return found | MODULES


def _module(area: str) -> str:
    r"""The dotted name of an area, in whichever distribution has it."""
    if area == "testing":
        return "botorch_risk_testing"
    bench = {name.rpartition(".")[0] for name, value in objects().items() if _is_bench(value)}
    return f"botorch_risk_bench.{area}" if area in bench else f"botorch_risk.{area}"


def _is_bench(value: Any) -> bool:
    return value.__module__.startswith("botorch_risk_bench.")


def _page(value: Any, module: str, area: str, name: str) -> str:
    directive, options = "autofunction", ""
    if isinstance(value, type):  # the fields of a record stand among its attributes
        directive, options = "autoclass", BASES if hasattr(value, "_fields") else MEMBERS + BASES
        nested = [own for own, each in vars(value).items() if isinstance(each, type)]
        if nested:  # records, whose fields stand in their own docstrings
            options += f"   :exclude-members: {', '.join(nested)}\n"
    line = "=" * len(name)
    page = OBJECT.format(name=name, module=module, area=area, line=line, directive=directive)
    return page + options


def pages() -> dict[str, str]:
    r"""The text of every page by its path in the folder of the API."""
    found = {}
    for area, names in areas().items():
        name_of_module = _module(area)
        module = importlib.import_module(name_of_module)
        text = inspect.cleandoc(module.__doc__ or "")
        title = text.partition("\n\n")[0].replace("\n", " ")
        rows = "\n".join(f"   {name}" for name in names)
        line = "=" * len(area)
        found[f"{area}.rst"] = AREA.format(
            module=name_of_module, area=area, line=line, title=title, names=rows
        )
        for name in names:
            page = _page(getattr(module, name), name_of_module, area, name)
            found[f"objects/{area}.{name}.rst"] = page
    return found


def write(folder: Path) -> None:
    r"""Writes what has changed, and removes the pages of what is gone."""
    texts = pages()
    for old in folder.rglob("*.rst"):
        if old.relative_to(folder).as_posix() not in texts:
            old.unlink()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
