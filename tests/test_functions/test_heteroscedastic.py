r"""Problems with heteroscedastic noise."""

import io
import math
import pickle
from copy import deepcopy

import numpy as np
import pytest
import torch
from botorch.test_functions.synthetic import Branin, Hartmann, SixHumpCamel
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)
from scipy.optimize import minimize
from scipy.stats import chi2

from botorch_risk.test_functions import (
    HeteroscedasticBranin,
    HeteroscedasticCamel,
    HeteroscedasticHartmann,
    HeteroscedasticSine,
    HeteroscedasticTestProblem,
)

READINGS = ("standard_deviation", "variance")

PROBLEMS = [
    pytest.param(cls, noise_scale, reading, id=f"{cls.__name__}-{noise_scale}-{reading}")
    for cls in (HeteroscedasticSine, HeteroscedasticBranin)
    for noise_scale in (1.0, 2.0)
    for reading in READINGS
]


class TestBotorchContracts(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = [HeteroscedasticSine(), HeteroscedasticBranin(noise_scale=2.0)]  # noqa: RUF012


def numpy_mean(name, x):
    if name == "HeteroscedasticSine":
        return np.sin(2 * np.pi * x[0])
    square = (x[1] - 5.1 * x[0] ** 2 / (4 * np.pi**2) + 5 * x[0] / np.pi - 6) ** 2
    return -(square + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x[0]) + 10)


def numpy_variance(name, x, noise_scale, reading):
    def sigmoid(slope, shift, values):
        return noise_scale / (1 + np.exp(-slope * (values - shift)))

    if name == "HeteroscedasticSine":
        level = sigmoid(30, 1, x[0]) + 0.1
    else:
        level = (sigmoid(2, 3.2, x[0]) + 0.2) * (sigmoid(2, 0, x[1]) + 0.2)
    return level**2 if reading == "standard_deviation" else level


def brute_force_optimum(name, risk_aversion, noise_scale, reading):
    r"""The largest value on a grid that is laid ever closer around its best point."""
    bounds = [(0.0, 2.0)] if name == "HeteroscedasticSine" else [(-5.0, 10.0), (0.0, 15.0)]
    box = bounds
    for _ in range(8):
        axes = [np.linspace(lower, upper, 401) for lower, upper in box]
        x = np.stack([axis.ravel() for axis in np.meshgrid(*axes)])
        values = numpy_mean(name, x) - risk_aversion * numpy_variance(name, x, noise_scale, reading)
        best = x[:, values.argmax()]
        widths = [(upper - lower) / 20 for lower, upper in box]
        box = [
            (max(lower, center - width), min(upper, center + width))
            for (lower, upper), center, width in zip(bounds, best, widths, strict=True)
        ]
    return values.max()


def random_points(problem, *shape, dtype=torch.double):
    lower, upper = problem.bounds.to(dtype)
    return lower + (upper - lower) * torch.rand(*shape, problem.dim, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize(("cls", "noise_scale", "reading"), PROBLEMS)
def test_mean_and_variance_equal_numpy(cls, noise_scale, reading, batch_shape, dtype):
    problem = cls(noise_scale=noise_scale, sigmoid_is=reading).to(dtype=dtype)
    X = random_points(problem, *batch_shape, 4, dtype=dtype)
    columns = np.moveaxis(X.double().numpy(), -1, 0)
    mean = numpy_mean(cls.__name__, columns)
    variance = numpy_variance(cls.__name__, columns, noise_scale, reading)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-10}
    for found, expected in (
        (problem.evaluate_true(X), mean),
        (problem(X, noise=False), mean),
        (problem.noise_variance(X), variance),
        (problem.mean_variance(X, risk_aversion=2.5), mean - 2.5 * variance),
    ):
        assert found.shape == (*batch_shape, 4)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.double().numpy(), expected, **tolerance)


@pytest.mark.parametrize(
    "risk_aversion",
    [0.0, 1.0, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.5, 5.0))],
)
@pytest.mark.parametrize(("cls", "noise_scale", "reading"), PROBLEMS)
@pytest.mark.handful
def test_optimum_equals_brute_force(cls, noise_scale, reading, risk_aversion):
    problem = cls(noise_scale=noise_scale, sigmoid_is=reading)
    optimizer, value = problem.optimal_mean_variance(risk_aversion)
    expected = brute_force_optimum(cls.__name__, risk_aversion, noise_scale, reading)
    assert value == pytest.approx(expected, abs=1e-9)
    assert optimizer.shape == (problem.dim,)
    assert problem.mean_variance(optimizer, risk_aversion).item() == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("cls", "noise_scale", "reading"), PROBLEMS)
@pytest.mark.handful
def test_no_risk_aversion_gives_the_quietest_of_botorchs_optimizers(cls, noise_scale, reading):
    problem = cls(noise_scale=noise_scale, sigmoid_is=reading)
    optimizer, value = problem.optimal_mean_variance(0.0)
    quietest = problem.optimizers[problem.noise_variance(problem.optimizers).argmin()]
    torch.testing.assert_close(optimizer, quietest, atol=1e-5, rtol=0)
    assert value == pytest.approx(problem.optimal_value, abs=1e-12)


def test_large_risk_aversion_leaves_the_maxima_of_the_mean():
    problem = HeteroscedasticBranin()
    optimizer, value = problem.optimal_mean_variance(1e4)
    assert problem.noise_variance(optimizer) < problem.noise_variance(problem.optimizers).min()
    assert value == pytest.approx(
        brute_force_optimum("HeteroscedasticBranin", 1e4, 1.0, "standard_deviation"), abs=1e-6
    )


@pytest.mark.slow
def test_optimum_does_not_depend_on_dtype_and_cannot_be_spoilt():
    problem = HeteroscedasticBranin()
    optimizer, value = problem.optimal_mean_variance(1.0)
    expected = optimizer.clone()
    optimizer.zero_()
    torch.testing.assert_close(problem.optimal_mean_variance(1.0)[0], expected)
    optimizer_float, value_float = problem.float().optimal_mean_variance(1.0)
    assert optimizer_float.dtype == torch.float32
    assert value_float == value == HeteroscedasticBranin().float().optimal_mean_variance(1.0)[1]


def test_optimum_is_pickled_but_not_part_of_the_state():
    problem = HeteroscedasticSine()
    state_keys = set(problem.state_dict())
    _, value = problem.optimal_mean_variance(0.5)
    assert set(problem.state_dict()) == state_keys == {"bounds", "optimizers"}
    X = random_points(problem, 5)
    for copy in (pickle.loads(pickle.dumps(problem)), deepcopy(problem)):
        assert copy.optimal_mean_variance(0.5)[1] == value
        assert torch.equal(copy.noise_variance(X), problem.noise_variance(X))
    buffer = io.BytesIO()
    torch.save(problem.state_dict(), buffer)
    buffer.seek(0)
    HeteroscedasticSine().load_state_dict(torch.load(buffer, weights_only=True))


@pytest.mark.parametrize("cls", [HeteroscedasticSine, HeteroscedasticBranin])
def test_is_maximised_as_botorch_understands_it(cls):
    problem = cls()
    assert not problem.is_minimization_problem
    assert problem.noise_std is None
    X = random_points(problem, 200)
    assert (problem(X, noise=False) <= problem.optimal_value).all()


def test_branin_is_botorchs_negated():
    X = random_points(HeteroscedasticBranin(), 50)
    negated = Branin(negate=True)
    torch.testing.assert_close(HeteroscedasticBranin()(X, noise=False), negated(X, noise=False))
    assert HeteroscedasticBranin().optimal_value == pytest.approx(negated.optimal_value, abs=1e-6)


@pytest.mark.parametrize(("cls", "noise_scale", "reading"), PROBLEMS)
def test_repeats_have_the_mean_and_variance_of_the_law(cls, noise_scale, reading):
    problem, num_repeats = cls(noise_scale=noise_scale, sigmoid_is=reading), 4000
    X = random_points(problem, 25)
    Y = problem.sample_repeats(X, num_repeats, torch.Generator().manual_seed(0))
    variance = problem.noise_variance(X)
    # (k - 1) s^2 / variance has the chi-square distribution with k - 1 degrees of freedom.
    statistic = (num_repeats - 1) * Y.var(dim=-1) / variance
    lower, upper = chi2.ppf([1e-6, 1 - 1e-6], num_repeats - 1)
    assert ((statistic > lower) & (statistic < upper)).all()
    standardized = (Y.mean(dim=-1) - problem.evaluate_true(X)) / (variance / num_repeats).sqrt()
    assert (standardized.abs() < 5.0).all()


def test_forward_adds_the_noise_of_the_problem():
    problem, num_draws = HeteroscedasticSine(), 4000
    X = torch.tensor([[0.25], [1.25]], dtype=torch.double).expand(num_draws, 2, 1)
    Y = problem(X)
    assert Y.shape == (num_draws, 2)
    lower, upper = chi2.ppf([1e-6, 1 - 1e-6], num_draws - 1) / (num_draws - 1)
    ratio = Y.var(dim=0) / problem.noise_variance(X[0])
    assert ((ratio > lower) & (ratio < upper)).all()
    torch.manual_seed(1)
    first = problem(X)
    torch.manual_seed(1)
    assert torch.equal(problem(X), first)


@pytest.mark.parametrize("cls", [HeteroscedasticSine, HeteroscedasticBranin])
@pytest.mark.slow
def test_optimum_does_not_depend_on_the_device(cls, device):
    optimizer, value = cls().to(device).optimal_mean_variance(1.0)
    assert optimizer.device == device
    assert value == cls().optimal_mean_variance(1.0)[1]


def test_a_new_problem_defines_its_mean_and_its_variance():
    class Bowl(HeteroscedasticTestProblem):
        dim = 3
        continuous_inds = [0, 1, 2]  # noqa: RUF012
        _bounds = [(-1.0, 1.0)] * 3

        def _evaluate_true(self, X):
            return -X.square().sum(dim=-1)

        def _noise_variance(self, X):
            return (1.0 - X[..., 0]).square()

    # -x^2 - a (1 - x)^2 is largest at x = a / (1 + a), where it is -a / (1 + a).
    optimizer, value = Bowl().optimal_mean_variance(3.0)
    torch.testing.assert_close(optimizer, optimizer.new_tensor([0.75, 0.0, 0.0]), atol=1e-6, rtol=0)
    assert value == pytest.approx(-0.75, abs=1e-10)


@pytest.mark.parametrize("noise_scale", [-1.0, math.inf, math.nan])
def test_refuses_a_noise_scale_that_gives_no_law(noise_scale):
    with pytest.raises(ValueError, match="Expected `noise_scale` to be finite and >= 0"):
        HeteroscedasticSine(noise_scale=noise_scale)


def test_refuses_an_unknown_reading():
    with pytest.raises(ValueError, match=r"Expected `sigmoid_is` to be one of .* Got .*'sd'"):
        HeteroscedasticSine(sigmoid_is="sd")


@pytest.mark.parametrize("risk_aversion", [-0.5, math.inf, math.nan])
def test_refuses_a_risk_aversion_that_is_none(risk_aversion):
    problem = HeteroscedasticSine()
    with pytest.raises(ValueError, match="Expected `risk_aversion` to be finite and >= 0"):
        problem.optimal_mean_variance(risk_aversion)
    with pytest.raises(ValueError, match="Expected `risk_aversion` to be finite and >= 0"):
        problem.mean_variance(problem.optimizers, risk_aversion)


def test_refuses_points_outside_the_bounds():
    problem = HeteroscedasticSine()
    for X in (torch.tensor([[2.5]]), torch.tensor([[math.nan]])):
        for method in (
            problem.noise_variance,
            problem,
            lambda X: problem.mean_variance(X, 1.0),
            lambda X: problem.sample_repeats(X, 2, torch.Generator()),
        ):
            with pytest.raises(ValueError, match="Expected `X` to be within the bounds"):
                method(X)


SYNTHETIC = [HeteroscedasticCamel(), HeteroscedasticHartmann(3), HeteroscedasticHartmann(6)]


@pytest.mark.parametrize("problem", SYNTHETIC, ids=["camel", "hartmann3", "hartmann6"])
@pytest.mark.slow
def test_no_ascent_from_random_starts_finds_a_better_decision(problem: object) -> None:
    _, best = problem.optimal_mean_variance(1.0)  # type: ignore[attr-defined]
    bounds = problem.bounds.T.tolist()  # type: ignore[attr-defined]
    generator = np.random.default_rng(0)

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        X = torch.from_numpy(x).requires_grad_()
        value = -problem.mean_variance(X.unsqueeze(0), 1.0).sum()  # type: ignore[attr-defined]
        (gradient,) = torch.autograd.grad(value, X)
        return value.item(), gradient.numpy()

    found = []
    for _ in range(60):
        start = np.array([generator.uniform(*each) for each in bounds])
        found.append(-minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).fun)
    assert max(found) <= best + 1e-9
    assert max(found) == pytest.approx(best, abs=1e-6)


def test_means_are_botorchs_and_the_noise_is_the_formula() -> None:
    X = torch.rand(6, 6, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    for dim in (3, 6):
        problem, x = HeteroscedasticHartmann(dim), X[:, :dim]
        torch.testing.assert_close(problem.evaluate_true(x), -Hartmann(dim).evaluate_true(x))
    bump = 0.1 + np.exp(
        -((X[:, :3].numpy() - np.array([0.114614, 0.555649, 0.852547])) ** 2).sum(axis=1) / 0.08
    )
    found = HeteroscedasticHartmann(3).noise_variance(X[:, :3]).sqrt()
    np.testing.assert_allclose(found, bump, atol=1e-5)
    step = 0.1 + 0.7 / (1 + np.exp(20 * (X[:, 0].numpy() - 0.3)))
    np.testing.assert_allclose(HeteroscedasticHartmann(6).noise_variance(X).sqrt(), step)
    camel, x = HeteroscedasticCamel(), 4 * X[:, :2] - 2
    x[:, 1] /= 2
    torch.testing.assert_close(camel.evaluate_true(x), -SixHumpCamel().evaluate_true(x))
    np.testing.assert_allclose(camel.noise_variance(x), 0.16 * np.exp(2 * x[:, 0].numpy()))


def test_other_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`dim` to be 3 or 6. Got 4"):
        HeteroscedasticHartmann(4)
