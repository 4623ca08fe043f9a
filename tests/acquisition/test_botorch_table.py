r"""Each cell of the tables in `docs/risk_in_botorch.md` is what the code does."""

from __future__ import annotations

from pathlib import Path

import botorch.acquisition.multi_objective.logei as hypervolume
import pytest

from tests.acquisition.botorch_table import CELLS, Cell, tables

DOCUMENT = Path(__file__).parents[2] / "docs" / "risk_in_botorch.md"


@pytest.fixture(autouse=True)
def _without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    r"""BoTorch compiles a kernel for minutes on first use, and does without it as well."""
    monkeypatch.setattr(hypervolume, "_load_attempted", True)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_cell(cell: Cell) -> None:
    if cell.answer.startswith("refused"):
        with pytest.raises(Exception, match=cell.match):
            cell.check()
    else:
        assert cell.answer.startswith("works")
        cell.check()


def test_the_document_has_these_tables() -> None:
    assert tables().strip() in DOCUMENT.read_text(encoding="utf-8")
