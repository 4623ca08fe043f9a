import json
from collections.abc import Callable

import pytest
import torch

from botorch_risk.test_functions.certified import (
    OPTIMA,
    RISKS,
    CertifiedProblem,
    certificates,
    environment_of,
    measure_of,
)
from botorch_risk.test_functions.closed_forms import FORMS
from tests import oracles

PAIRS = [(form, risk) for form, risks in certificates().items() for risk in risks]


@pytest.mark.parametrize(("form", "risk"), PAIRS)
def test_nothing_nearby_or_at_random_is_better(form: str, risk: str) -> None:
    problem = CertifiedProblem(form, risk)
    generator = torch.Generator().manual_seed(0)
    best, d = problem.optimal_decision, problem.num_decision
    assert problem.objective(best).item() == pytest.approx(problem.optimal_risk, abs=1e-7)
    anywhere = torch.rand(100, d, dtype=torch.double, generator=generator)
    steps = torch.randn(100, d, dtype=torch.double, generator=generator)
    nearby = [(best + step * steps).clamp(0, 1) for step in (1e-2, 1e-4)]
    values = problem.objective(torch.cat([anywhere, *nearby]))
    assert values.max() <= problem.optimal_risk + 1e-6


def test_there_are_at_least_sixty_pairs_and_risks_change_the_decision() -> None:
    assert len(PAIRS) >= 60
    for form, risks in certificates().items():
        decisions = torch.tensor([proof["decision"] for proof in risks.values()])
        assert torch.pdist(decisions).max() > 0.02, form


@pytest.mark.parametrize("risk", RISKS)
def test_risks_are_those_of_plain_loops(risk: str) -> None:
    environment = environment_of(1)
    values = torch.randn(33, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    found = measure_of(risk, environment)(values, environment.weights).item()
    v, w = values.numpy(), environment.weights.numpy()
    kernel = oracles.squared_exponential(environment.points.numpy(), 0.2)
    expected: dict[str, Callable[[], float]] = {
        "expectation": lambda: oracles.expectation(v, w),
        "value-at-risk": lambda: oracles.value_at_risk(v, w, 0.1),
        "conditional-value-at-risk": lambda: oracles.conditional_value_at_risk(v, w, 0.1),
        "worst-case": v.min,
        "mean-variance": lambda: oracles.mean_variance(v, w, 1.0),
        "total-variation-ball": lambda: oracles.total_variation_worst_case(v, w, 0.3),
        "mmd-ball": lambda: oracles.mmd_worst_case(v, w, kernel, 0.1),
    }
    assert found == pytest.approx(expected[risk](), abs=1e-6)


def test_the_environment_of_two_variables_is_a_product() -> None:
    environment = environment_of(2)
    joint = environment.weights.view(9, 9)
    torch.testing.assert_close(joint, torch.outer(joint.sum(1), joint.sum(0)))
    assert environment_of(2, torch.float32).points.dtype == torch.float32


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"a certified pair \(branin: expectation, .*risk='luck'"):
        CertifiedProblem("branin", "luck")
    assert json.loads(OPTIMA.read_text()).keys() <= FORMS.keys()
