r"""The newsvendor's profit and best order, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import burr12

from botorch_risk.test_functions import (
    Newsvendor,
)


def test_optimum_of_the_newsvendor_is_the_median_of_the_demand():
    problem = Newsvendor()
    x = problem.optimal_decision.item()
    assert x == pytest.approx(burr12(2, 20).median(), abs=1e-12)
    sold = burr12(2, 20).expect(lambda w: np.minimum(x, w), epsabs=1e-12)
    assert problem.optimal_expectation == pytest.approx(8 * sold - 4 * x, abs=1e-8)


def test_profit_by_hand():
    problem = Newsvendor()
    X = torch.tensor([[0.5, 0.2], [0.2, 0.5], [1.0, 1.0]], dtype=torch.double)
    sold_out, left_over = 9 * 0.2 - 5 * 0.2, 9 * 0.2 + 0.3 - 5 * 0.5
    assert problem(X).tolist() == pytest.approx([left_over, sold_out, 4.0])


def test_demand_is_burrs():
    uniforms = torch.linspace(0.01, 0.99, 20, dtype=torch.double)
    np.testing.assert_allclose(Newsvendor().marginals.icdf(uniforms), burr12(2, 20).ppf(uniforms))
