r"""Where things live: no import upwards or in a circle, short files, tests in each folder."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import botorch_risk.engine

ROOT = Path(__file__).parents[1]
PLUGIN, BENCH = ROOT / "botorch_risk", ROOT / "bench" / "botorch_risk_bench"
TESTING = ROOT / "testing" / "botorch_risk_testing"
MODULES = sorted(path for each in (PLUGIN, TESTING, BENCH) for path in each.rglob("*.py"))

# From the ground up: a file imports only from its own floor and from those before it.
WINGS = "robust constraints repeats level_sets stopping frames faster diagnostics tables"
FLOORS = (
    "arguments chunks extras gradients matrices plot_style points printed seeding steady",
    "engine",
    "risk",
    "environments",
    "test_functions",
    "fit",
    "models examples",
    "bandits",
    "acquisition",
    "recommend",
    "strategies",
    "papers",
    "ax",
    WINGS,
    "testing",
    "problems",
    "metrics",
    "baselines",
    "experiments",
    "campaigns",
    "reports",
    "cli campaign_commands",
)
FLOOR_OF = {place: floor for floor, places in enumerate(FLOORS) for place in places.split()}


def name_of(path: Path) -> str:
    r"""The dotted name of a module."""
    root = next(each.parent for each in (PLUGIN, TESTING, BENCH) if path.is_relative_to(each))
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def place_of(name: str) -> str:
    r"""The folder or the top-level module that a module is in; empty for the package itself."""
    if name.startswith("botorch_risk_testing"):
        return "testing"
    return name.split(".")[1] if "." in name else ""


class Imports(ast.NodeVisitor):
    r"""What a module imports of the package when it runs, at the top or in a function."""

    def __init__(self, known: set[str], package: str) -> None:
        self.known, self.package, self.found = known, package, set[str]()

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.found |= self.known & {alias.name for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = f"{self.package}.{node.module}" if node.level else node.module
        modules = self.known & {f"{module}.{alias.name}" for alias in node.names}
        self.found |= modules
        if len(modules) < len(node.names):  # names of the module or package itself
            self.found |= self.known & {module or ""}


@cache
def imports() -> dict[str, set[str]]:
    r"""The modules that each module imports."""
    known = {name_of(path) for path in MODULES}
    found = {}
    for path in MODULES:
        visitor = Imports(known, package=name_of(path.parent / "__init__.py"))
        visitor.visit(ast.parse(path.read_text(encoding="utf-8")))
        found[name_of(path)] = visitor.found - {name_of(path)}
    return found


def test_no_module_imports_itself_by_a_detour() -> None:
    TopologicalSorter(imports()).prepare()  # raises a CycleError that names the circle


def test_no_module_imports_from_a_floor_above_it() -> None:
    upwards = {
        f"{name} -> {other}"
        for name, others in imports().items()
        for other in others
        if place_of(name) and place_of(other)
        if FLOOR_OF[place_of(name)] < FLOOR_OF[place_of(other)]
    }
    assert upwards == set()


def test_nothing_of_the_plugin_imports_the_bench_or_the_contracts() -> None:
    found = {
        f"{name} -> {other}"
        for name, others in imports().items()
        for other in others
        if name.startswith("botorch_risk.")
        if other.startswith(("botorch_risk_bench", "botorch_risk_testing"))
    }
    assert found == set()


def test_a_wing_imports_one_other_wing_at_most() -> None:
    wings = WINGS.split()
    others = {
        wing: {
            place_of(other)
            for name, found in imports().items()
            if place_of(name) == wing
            for other in found
            if place_of(other) in wings
        }
        - {wing}
        for wing in wings
    }
    assert {wing: found for wing, found in others.items() if len(found) > 1} == {}


def test_a_wing_and_ax_meet_in_one_module() -> None:
    r"""Its `with_ax`, which the rest of the wing does not import: Ax is an extra."""
    found = {
        f"{name} -> {other}"
        for name, others in imports().items()
        for other in others
        if place_of(name) != "ax" and not name.endswith(".with_ax")
        if place_of(other) == "ax" or other.endswith(".with_ax")
        if name.startswith("botorch_risk.")
    }
    assert found == set()


def test_the_engine_has_one_door() -> None:
    r"""Others import what its page exports; its own tests and benchmarks go deeper."""
    own = ("botorch_risk/engine/", "tests/engine/", "bench/speed/engine/", "tests/test_layout.py")
    deeper = re.compile(r"(?:import|from) botorch_risk\.engine\.|from \.+engine\.\w")
    found = {
        place
        for folder in ("botorch_risk", "bench", "tests", "tutorials", "docs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".ipynb")
        if not (place := path.relative_to(ROOT).as_posix()).startswith(own)
        if deeper.search(path.read_text(encoding="utf-8"))
    }
    assert found == set()
    assert len(botorch_risk.engine.__all__) <= 21
