r"""Each page begins with the equations of its paper."""

import pytest

from tests.papers.equations import PAPERS, Paper
from tests.papers.pages import PAGES, page_of, table_in, table_of


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_a_page_has_the_table_of_its_paper(paper: Paper) -> None:
    r"""`python -m tests.papers.pages` writes it again."""
    assert table_in(page_of(paper)) == table_of(paper) != ""


def test_every_paper_has_a_page() -> None:
    assert PAGES.keys() == {paper.key for paper in PAPERS}
