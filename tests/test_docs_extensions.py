r"""What the site makes of docstrings."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EXTENSIONS = Path(__file__).parents[1] / "docs" / "extensions"


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(EXTENSIONS))
    yield runpy.run_path(str(EXTENSIONS / "docstrings.py"))
    sys.path.remove(str(EXTENSIONS))
    sys.modules.pop("formulas", None)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("sqrt(beta) sigma_{t-1}(x)", r"\sqrt{\beta }\;\sigma _{t-1}(x)"),
        ("h <= x^2", r"h\;\le \;x^{2}"),
        (
            "risk_aversion * ucb_var(x)",
            r"\mathrm{risk\_aversion}\;\cdot \;\mathrm{ucb}_{\mathrm{var}}(x)",
        ),
        ("w in the support", r"w\;\;\text{in the support}\;"),
        ("x in M_t", r"x\; \in \;M_{t}"),
    ],
)
def test_formulas_are_typeset(found: dict[str, Any], text: str, latex: str) -> None:
    assert found["latex"](text) == latex


def test_a_long_line_is_broken_at_its_gap(found: dict[str, Any]) -> None:
    text = f"score(x) = {' + '.join(20 * 'x')},   x in M_t"
    assert found["latex"](text).endswith(r", \\ & \qquad x\; \in \;M_{t}\end{aligned}")


@pytest.mark.parametrize("text", ["acqf = LogEI(FastMarginals(model))", '"clip": w', "x % 2"])
def test_code_is_no_formula(found: dict[str, Any], text: str) -> None:
    with pytest.raises(found["NotAFormula"]):
        found["latex"](text)


def test_a_docstring_is_rewritten_up_to_its_sections(found: dict[str, Any]) -> None:
    lines = ["Title [Nguyen2021vucb]_.", "", "    y = x", "", "Args:", "    x: As it is.", ""]
    lines += ["| a | b |", "|---|---|", "| c | d |"]
    text = "\n".join(found["rewrite"](lines))
    assert "Title :cite:p:`Nguyen2021vucb`." in text
    assert ".. math::\n\n   y\\;=\\;x\n" in text
    assert "Args:\n    x: As it is." in text
    assert "   * - c\n     - d" in text
