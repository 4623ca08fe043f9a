r"""Each cell of the tables in `docs/risk_in_botorch.md` is what the code does."""

import re
from pathlib import Path

import botorch.acquisition.multi_objective.logei as hypervolume
import pytest

from tests.acquisition.botorch_table import CELLS, Cell, tables
from tests.finite_differences import assert_gradient

# Cells that work and give no acquisition function to differentiate.
WITHOUT_GRADIENT = re.compile("MaxPosteriorSampling, (50|4,000) points")  # draws among points

DOCUMENT = Path(__file__).parents[2] / "docs" / "risk_in_botorch.md"


@pytest.fixture(autouse=True)
def _without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    r"""BoTorch compiles a kernel for minutes on first use, and does without it as well."""
    monkeypatch.setattr(hypervolume, "_load_attempted", True)


@pytest.mark.every_device
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_cell(cell: Cell) -> None:
    if cell.answer.startswith("refused"):
        with pytest.raises(Exception, match=cell.match):
            cell.check()
    else:
        assert cell.answer.startswith("works")
        scored = cell.check()
        assert (scored is None) == bool(WITHOUT_GRADIENT.match(cell.row))
        if scored is not None:
            assert_gradient(*scored)


def test_the_document_has_these_tables() -> None:
    assert tables().strip() in DOCUMENT.read_text(encoding="utf-8")
