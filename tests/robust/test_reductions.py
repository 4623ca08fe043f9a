r"""Which risks of which outcomes are taken."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError

from botorch_risk.environments import InputPerturbation
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.outcomes import check_outcomes
from botorch_risk.risk import Expectation, MaximumMeanDiscrepancyBall, WorstCase
from botorch_risk.robust.reductions import Reduction, Reductions
from tests.models.risks import ENVIRONMENT, DecisionDependent, decisions


def test_environments_are_laid_side_by_side() -> None:
    other = DecisionDependent()
    risks = Reductions(
        [
            Reduction(0, ENVIRONMENT, Expectation()),
            Reduction(1, other, WorstCase(), minimized=True),
            Reduction(1, ENVIRONMENT, WorstCase()),
        ]
    )
    X = decisions(5, 2)
    inputs, weights, columns = risks.expand(X, [0, 1, 2], (3,))
    assert inputs.shape == (5, 2, 8, 3)  # two of the three share their points
    assert torch.equal(inputs[..., 4:, :], other.expand(X)[0])
    assert [(c.outcome, c.start, c.stop, c.sign) for c in columns] == [
        (0, 0, 4, 1),
        (1, 4, 8, -1),
        (1, 0, 4, 1),
    ]
    assert weights[1].shape == (5, 2, 4)
    assert len(risks.expand(X, [2], (3,)).columns) == 1
    assert not risks.batched


def test_other_inputs_than_the_model_has_are_refused() -> None:
    risks = Reductions([Reduction(0, ENVIRONMENT, Expectation())])
    with pytest.raises(BotorchTensorDimensionError, match=r"make the 3 inputs .* Got 4"):
        risks.expand(decisions(2, d=3), [0], (3,))
    assert risks.expand(decisions(2, d=3), [0], None).inputs.shape == (2, 4, 4)


def test_bad_reductions_are_refused() -> None:
    environment: Any = "sunny"
    measure: Any = "CVaR"
    with pytest.raises(ValueError, match="at least one reduction"):
        Reductions([])
    with pytest.raises(TypeError, match=r"Expected an `Environment`.*'sunny'"):
        parts_of(environment, Expectation())
    with pytest.raises(TypeError, match=r"Expected a `RiskMeasure`.*'CVaR'"):
        parts_of(ENVIRONMENT, measure)
    with pytest.raises(ValueError, match=r"outcome in 0\.\.1, .* Got 2"):
        check_outcomes([0, 2], 2)
    perturbation = InputPerturbation(torch.zeros(1, 2))
    ball = MaximumMeanDiscrepancyBall(0.1, lambda v, w: v @ w.T)
    with pytest.raises(UnsupportedError, match="no fixed `points`"):
        Reductions([Reduction(0, perturbation, ball)])
