r"""Each cell of the tables in `docs/risk_in_botorch.md` is what the code does."""

import re
from pathlib import Path

import pytest

from botorch_risk.acquisition.without_compiling import without_compiling
from tests.acquisition.botorch_table import CELLS, Cell, tables
from tests.finite_differences import assert_gradient

# Cells that work and give no acquisition function to differentiate.
WITHOUT_GRADIENT = re.compile("MaxPosteriorSampling, (50|4,000) points")  # draws among points

DOCUMENT = Path(__file__).parents[2] / "docs" / "risk_in_botorch.md"


@pytest.mark.every_device
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
@without_compiling()
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
