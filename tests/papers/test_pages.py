r"""Each page begins with the equations of its paper, and shows the lines of a user's own loop."""

import importlib
import re
from textwrap import dedent
from typing import Any

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf

from botorch_risk import acquisition, fit, risk
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models import MeanVarianceGP
from tests.papers.equations import PAPERS, Paper
from tests.papers.pages import PAGES, page_of, table_in, table_of


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_a_page_has_the_table_of_its_paper(paper: Paper) -> None:
    r"""`python -m tests.papers.pages` writes it again."""
    assert table_in(page_of(paper)) == table_of(paper) != ""


def test_every_paper_has_a_page() -> None:
    assert PAGES.keys() == {paper.key for paper in PAPERS}


OWN_LOOP = re.compile(r"own loop[^:]*:\n\n((?:    .*\n|\n(?=    ))+)")


@pytest.mark.parametrize("page", ["rahbo", "kde", "v_ucb", "uhe_bo"])
def test_the_lines_of_a_users_own_loop_run(page: str) -> None:
    module = importlib.import_module(f"botorch_risk.papers.{page}")
    found = OWN_LOOP.search(str(module.__doc__))
    assert found is not None
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    X = torch.rand(10, 2, dtype=torch.double)
    Y = (4 * X).sin().sum(dim=-1, keepdim=True)
    model: Any = SingleTaskGP(X, Y)
    if page == "rahbo":
        model = MeanVarianceGP(X, Y + 0.1 * torch.randn(10, 4, dtype=torch.double))
    names: dict[str, Any] = {**vars(acquisition), **vars(risk), **vars(fit), **vars(module)}
    names |= {"model": model, "t": 11, "seeds": 0, "alpha": 0.1, "optimize_acqf": optimize_acqf}
    names |= {"context_bounds": unit, "observed": X[:, 1:]}
    names |= {"environment": DiscreteEnvironment(torch.linspace(0, 1, 5).double().unsqueeze(-1))}
    names["bounds"] = unit.expand(2, 2) if page == "uhe_bo" else unit
    exec(dedent(found[1]), names)
    decisions = torch.rand(3, 1, 1 if page in ("kde", "v_ucb") else 2, dtype=torch.double)
    assert names["acqf"](decisions).isfinite().all()
    if page == "v_ucb":
        assert names["pair"].shape == (1, 2)
