r"""Problems with other shapes of noise against plain formulas and a search of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.test_functions.synthetic import Hartmann, SixHumpCamel
from scipy.optimize import minimize

from botorch_risk.test_functions import HeteroscedasticCamel, HeteroscedasticHartmann

PROBLEMS = [HeteroscedasticCamel(), HeteroscedasticHartmann(3), HeteroscedasticHartmann(6)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=["camel", "hartmann3", "hartmann6"])
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
