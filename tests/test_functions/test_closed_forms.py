r"""Formulas on the unit cube, and the search for their maxima."""

import math

import pytest
import torch
from botorch.test_functions.synthetic import Branin, Hartmann, SixHumpCamel
from torch import Tensor

from botorch_risk.test_functions.closed_forms import FORMS, ClosedForm
from botorch_risk.test_functions.heteroscedastic import local_maxima


def cube(d: int, n: int = 500) -> Tensor:
    return torch.rand(n, d, dtype=torch.double, generator=torch.Generator().manual_seed(d))


def value(name: str, X: Tensor) -> Tensor:
    return FORMS[name].formula(list(X.unbind(dim=-1)))


def test_formulas_are_those_of_botorch() -> None:
    X = cube(2)
    u = torch.stack([15 * X[:, 0] - 5, 15 * X[:, 1]], dim=-1)
    torch.testing.assert_close(value("branin", X), -Branin(dtype=torch.double)(u))
    u = torch.stack([4 * X[:, 0] - 2, 2 * X[:, 1] - 1], dim=-1)
    torch.testing.assert_close(value("camel", X), -SixHumpCamel(dtype=torch.double)(u))
    X = cube(3)
    hartmann = -Hartmann(dim=3, dtype=torch.double)(X)
    torch.testing.assert_close(value("hartmann-2-1", X), hartmann, atol=1e-6, rtol=1e-6)


def test_known_values() -> None:
    at = torch.tensor([[0.5, 0.25]], dtype=torch.double)  # the minimum, 3, of (0, -1)
    assert value("goldstein-price", at).item() == pytest.approx(-math.log(3))
    at = torch.tensor([[(-0.54719 + 1.5) / 5.5, (-1.54719 + 3) / 7]], dtype=torch.double)
    assert value("mccormick", at).item() == pytest.approx(1.9133, abs=1e-4)
    at = torch.tensor([[2.5 / 3, 2.5 / 3, 2.5 / 3]], dtype=torch.double)  # (1, 1, 1)
    assert value("rosenbrock", at).item() == pytest.approx(0.0, abs=1e-12)
    at = torch.tensor([[0.25, 0.0]], dtype=torch.double)  # the ridge, and the tail of the hill
    assert value("ridges", at).item() == pytest.approx(1.5 + math.exp(-(2.25**2)))


@pytest.mark.parametrize("name", ["camel", "mccormick"])
def test_no_shift_is_the_function_itself(name: str) -> None:
    x = cube(2)
    w = torch.full((len(x), FORMS[f"shifted-{name}"].num_environment), 0.5, dtype=torch.double)
    torch.testing.assert_close(value(f"shifted-{name}", torch.cat([x, w], dim=-1)), value(name, x))


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
def test_outcomes_vary_by_one(form: ClosedForm) -> None:
    X = cube(form.num_decision + form.num_environment, 50_000)
    assert form(list(X.unbind(dim=-1))).std().item() == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
def test_decision_and_environment_interact(form: ClosedForm) -> None:
    r"""In a sum of a function of x and one of w the mixed differences would be 0."""
    d_x, d = form.num_decision, form.num_decision + form.num_environment
    first, other = cube(d), cube(d).flip(0)
    mixed = torch.cat([first[:, :d_x], other[:, d_x:]], dim=-1)
    back = torch.cat([other[:, :d_x], first[:, d_x:]], dim=-1)
    corners = [form(list(each.unbind(dim=-1))) for each in (first, other, mixed, back)]
    assert (corners[0] + corners[1] - corners[2] - corners[3]).std() > 0.1


@pytest.mark.parametrize("cls", [SixHumpCamel, lambda negate: Hartmann(dim=3, negate=negate)])
@pytest.mark.slow
def test_finds_botorchs_optimizers(cls):
    problem = cls(negate=True)
    X, values = local_maxima(lambda X: problem(X, noise=False), problem._bounds)
    assert values[0].item() == pytest.approx(problem.optimal_value, abs=1e-4)
    for optimizer in problem.optimizers:
        assert (X - optimizer).abs().amax(dim=-1).min() < 1e-3


def test_keeps_every_maximum_apart_best_first():
    X, values = local_maxima(lambda X: torch.cos(4 * math.pi * X[:, 0]), [(0.0, 1.0)])
    assert (values.diff() <= 0).all()
    for maximum in (0.0, 0.5, 1.0):
        assert (X - maximum).abs().min() < 1e-6


def test_a_maximum_may_lie_on_the_bounds():
    X, values = local_maxima(lambda X: X[:, 0] - X[:, 1].exp(), [(-1.0, 2.0), (0.0, 3.0)])
    assert X[0].tolist() == [2.0, 0.0]
    assert values[0] == 1.0


def test_is_deterministic():
    first, second = (
        local_maxima(lambda X: -(X - 0.3).abs().pow(1.5).sum(-1), [(0.0, 1.0)]) for _ in range(2)
    )
    assert torch.equal(first[0], second[0])


def test_stays_inside_a_narrow_box():
    X, _ = local_maxima(lambda X: X[:, 0].sin(), [(1.0, 1.0 + 1e-9)])
    assert ((X >= 1.0) & (X <= 1.0 + 1e-9)).all()
