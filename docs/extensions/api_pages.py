r"""Writes the pages of the API: one a module that exports names, one a public object."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import botorch_risk_bench

from tests.public_objects import public_objects

AREA = """{area}
{line}

{title}

.. currentmodule:: {package}.{area}

.. autosummary::
   :nosignatures:

{names}
"""

OBJECT = """:orphan:

{name}
{line}

In :doc:`{package}.{area} <../{area}>`.

.. currentmodule:: {package}.{area}

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
    r"""The public objects of the plugin and of the bench."""
    return public_objects() | public_objects(botorch_risk_bench)


def areas() -> dict[str, list[str]]:
    r"""The names of the public objects by the module that exports them."""
    found: dict[str, list[str]] = {}
    for name in sorted(objects(), key=lambda name: (name.rpartition(".")[0], name.lower())):
        area, _, own = name.rpartition(".")
        found.setdefault(area, []).append(own)
    return found | MODULES


def _package(area: str) -> str:
    r"""The package of the plugin or of the bench, whichever has the area."""
    bench = {name.rpartition(".")[0] for name, value in objects().items() if _is_bench(value)}
    return "botorch_risk_bench" if area in bench else "botorch_risk"


def _is_bench(value: Any) -> bool:
    return value.__module__.startswith("botorch_risk_bench.")


def _page(value: Any, package: str, area: str, name: str) -> str:
    directive, options = "autofunction", ""
    if isinstance(value, type):  # the fields of a record stand among its attributes
        directive, options = "autoclass", BASES if hasattr(value, "_fields") else MEMBERS + BASES
        nested = [own for own, each in vars(value).items() if isinstance(each, type)]
        if nested:  # records, whose fields stand in their own docstrings
            options += f"   :exclude-members: {', '.join(nested)}\n"
    line = "=" * len(name)
    page = OBJECT.format(name=name, package=package, area=area, line=line, directive=directive)
    return page + options


def pages() -> dict[str, str]:
    r"""The text of every page by its path in the folder of the API."""
    found = {}
    for area, names in areas().items():
        package = _package(area)
        module = importlib.import_module(f"{package}.{area}")
        text = inspect.cleandoc(module.__doc__ or "")
        title = text.partition("\n\n")[0].replace("\n", " ")
        rows = "\n".join(f"   {name}" for name in names)
        line = "=" * len(area)
        found[f"{area}.rst"] = AREA.format(
            package=package, area=area, line=line, title=title, names=rows
        )
        for name in names:
            found[f"objects/{area}.{name}.rst"] = _page(getattr(module, name), package, area, name)
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
