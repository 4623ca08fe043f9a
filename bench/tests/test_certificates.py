r"""Bounds by interval arithmetic hold, and certificates of optima agree with dense searches."""

from typing import Any

import pytest
import torch
from gpytorch.kernels import RBFKernel
from torch import Tensor

from bench.studies.open_benchmark.bounds import TooManyCellsError, _RiskInBoxes, certify
from bench.studies.open_benchmark.intervals import Interval, Ranged
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MaximumMeanDiscrepancyBall,
    MeanVariance,
    RiskMeasure,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.test_functions import bell_shaped_environment
from botorch_risk.test_functions.certified import (
    CertifiedProblem,
    certificates,
    environment_of,
    measure_of,
)
from botorch_risk.test_functions.closed_forms import FORMS, ClosedForm
from botorch_risk.test_functions.heteroscedastic import local_maxima

W = bell_shaped_environment()
KERNEL = RBFKernel()
KERNEL.lengthscale = 0.2
MEASURES: dict[str, RiskMeasure] = {
    "expectation": Expectation(),
    "value-at-risk": ValueAtRisk(0.1),
    "conditional value-at-risk": ConditionalValueAtRisk(0.1),
    "worst case": WorstCase(),
    "mean-variance": MeanVariance(1.0),
    "total variation": TotalVariationBall(0.3),
    "MMD": MaximumMeanDiscrepancyBall(0.1, KERNEL).bind(W),
}


def plane(environment: DiscreteEnvironment, d_w: int) -> tuple[Tensor, Tensor]:
    r"""Values of W and their probabilities, of one variable or of two on a coarse grid."""
    if d_w == 1:
        return environment.points, environment.weights
    axis, weights = environment.points[::8, 0], environment.weights[::8]
    joint = torch.outer(weights, weights).flatten()
    return torch.cartesian_prod(axis, axis), joint / joint.sum()


def boxes(d: int, m: int = 200) -> tuple[Tensor, float]:
    half = 0.03
    centres = torch.rand(m, d, dtype=torch.double, generator=torch.Generator().manual_seed(d))
    return half + (1 - 2 * half) * centres, half


def inside(centres: Tensor, half: float, n: int = 30) -> Tensor:
    draws = torch.rand(n, *centres.shape, dtype=torch.double)
    corners = torch.cat([draws, draws.round()])
    return centres + half * (2 * corners - 1)  # n x m x d


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
def test_ranges_hold_what_is_in_the_box(form: ClosedForm) -> None:
    torch.manual_seed(0)
    points, weights = plane(W, form.num_environment)
    centres, half = boxes(form.num_decision)
    risk = _RiskInBoxes(form, Expectation(), points, weights)
    ranged = risk._ranged(centres, half)
    for X in inside(centres, half):
        X.requires_grad_()
        values = risk._values(X)
        assert (ranged.value.lower <= values + 1e-9).all()
        assert (values <= ranged.value.upper + 1e-9).all()
        for j in range(0, len(points), 11):
            (gradient,) = torch.autograd.grad(values[:, j].sum(), X, retain_graph=True)
            for slope, column in zip(ranged.slopes, gradient.unbind(dim=-1), strict=True):
                assert (slope.lower[:, j] <= column + 1e-9).all()
                assert (column <= slope.upper[:, j] + 1e-9).all()


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
@pytest.mark.parametrize("name", ["branin", "hartmann-2-1", "rosenbrock", "shifted-mccormick"])
def test_no_decision_in_a_box_has_a_risk_above_its_bound(name: str, measure: RiskMeasure) -> None:
    torch.manual_seed(0)
    form = FORMS[name]
    centres, half = boxes(form.num_decision, 20)
    risk = _RiskInBoxes(form, measure, W.points, W.weights)
    upper = risk.upper(centres, half)
    for X in inside(centres, half, 10):
        assert (risk.at(X) <= upper + 1e-6).all()  # what the solver of the MMD ball leaves open
    # The bound comes down to the value as boxes shrink, so that branching ends.
    assert (risk.upper(centres, 1e-7) - risk.at(centres)).max() < 1e-4


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
@pytest.mark.parametrize(
    "name",
    [
        "branin",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("ridges", "shifted-mccormick")),
    ],
)
def test_certificates_agree_with_a_dense_search(name: str, measure: RiskMeasure) -> None:
    form = FORMS[name]
    risk = _RiskInBoxes(form, measure, W.points, W.weights)
    start = torch.full((form.num_decision,), 0.37, dtype=torch.double)
    found = certify(form, measure, W.points, W.weights, start, tolerance=1e-5)
    size = 4001 if form.num_decision == 1 else 61
    axes = [torch.linspace(0, 1, size, dtype=torch.double)] * form.num_decision
    grid = torch.cartesian_prod(*axes).view(-1, form.num_decision)
    dense = torch.cat([risk.at(part) for part in grid.split(500)]).max().item()
    assert dense <= found.best + found.tolerance
    assert dense >= found.best - (0.02 if form.num_decision == 1 else 0.2)
    at = torch.tensor([found.decision], dtype=torch.double)
    assert risk.at(at).item() == pytest.approx(found.best, abs=1e-8)


def test_a_smooth_optimum_to_eight_digits() -> None:
    form = FORMS["hartmann-1-2"]
    points, weights = plane(W, 2)
    risk = _RiskInBoxes(form, Expectation(), points, weights)
    X, values = local_maxima(risk.at, [(0.0, 1.0)])
    found = certify(form, Expectation(), points, weights, X[0], tolerance=1e-8)
    assert found.best == pytest.approx(values[0].item(), abs=1e-8)
    assert found.num_cells < 1000


def test_a_claim_that_is_too_low_is_raised_and_none_is_made_without_proof() -> None:
    form, start = FORMS["branin"], torch.zeros(1, dtype=torch.double)
    found = certify(form, Expectation(), W.points, W.weights, start, tolerance=1e-4)
    at_start = _RiskInBoxes(form, Expectation(), W.points, W.weights).at(start.unsqueeze(0))
    assert found.best > at_start.item() + 0.1
    with pytest.raises(TooManyCellsError, match="at most 20 boxes"):
        certify(form, Expectation(), W.points, W.weights, start, max_cells=20)


def ranged(lower: float, upper: float) -> Any:
    ends = (torch.tensor([end], dtype=torch.double) for end in (lower, upper))
    return Ranged(Interval(*ends), (Interval.of(torch.ones(1)),))


OPERATIONS = {
    "sin": torch.sin,
    "cos": torch.cos,
    "exp": torch.exp,
    "tanh": torch.tanh,
    "square": torch.square,
    "abs": torch.abs,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "reciprocal": torch.reciprocal,
    "quotient": lambda x: 2 / x - x / 3,
    "tensor first": lambda x: torch.tensor([3.0]).double() * x + (1 - x) * x,
}


POSITIVE = [(0.2, 0.3), (0.5, 9.0), (3.0, 3.0)]
NEGATIVE = [(-0.7, 0.4), (-5.0, -2.0)]  # also across 0, where a logarithm is not defined
CASES = [
    (name, ends)
    for name in OPERATIONS
    for ends in (POSITIVE if name in ("log", "sqrt") else POSITIVE + NEGATIVE)
]


@pytest.mark.parametrize(("name", "ends"), CASES)
def test_operations(name: str, ends: tuple[float, float]) -> None:
    operation = OPERATIONS[name]
    x = torch.linspace(*ends, 1001, dtype=torch.double).requires_grad_()
    values = operation(x)
    usable = values.isfinite()
    (slopes,) = torch.autograd.grad(values.sum(), x)
    found = apply(name, ranged(*ends))
    assert (found.value.lower - 1e-9 <= values[usable]).all()
    assert (values[usable] <= found.value.upper + 1e-9).all()
    assert (found.slopes[0].lower - 1e-9 <= slopes[usable]).all()
    assert (slopes[usable] <= found.slopes[0].upper + 1e-9).all()


def apply(name: str, value: Any) -> Any:
    return getattr(value, name)() if hasattr(value, name) else OPERATIONS[name](value)


PAIRS = [(form, risk) for form, risks in certificates().items() for risk in risks]
FAST = [pair for pair in PAIRS if FORMS[pair[0]].num_decision == 1 and pair[1] != "mmd-ball"]


@pytest.mark.parametrize(("form", "risk"), FAST)
def test_the_proof_holds_again(form: str, risk: str) -> None:
    problem = CertifiedProblem(form, risk)
    environment = environment_of(problem.num_environment)
    start = problem.optimal_decision
    measure = measure_of(risk, environment)
    found = certify(problem.form, measure, environment.points, environment.weights, start)
    assert found.best == pytest.approx(problem.optimal_risk, abs=1e-9)
    assert found.num_cells == certificates()[form][risk]["boxes"]


@pytest.mark.slow
@pytest.mark.parametrize(("form", "risk"), [pair for pair in PAIRS if pair not in FAST])
def test_the_longer_proofs_hold_again(form: str, risk: str) -> None:
    test_the_proof_holds_again(form, risk)
