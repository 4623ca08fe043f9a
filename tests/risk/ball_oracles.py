r"""Slow and independent worst cases over balls: duals, cone programs, linear programs."""

import itertools
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import linprog, minimize_scalar

from tests.oracles import expectation


def dual_maximum(dual: Callable[[float], float]) -> float:
    r"""The maximum of a concave function of a multiplier > 0: in its logarithm, on a grid first."""
    logs = np.linspace(-14, 14, 400)
    best = int(np.argmax([dual(np.exp(log)) for log in logs]))
    ends = logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)]
    found = minimize_scalar(
        lambda log: -dual(np.exp(log)), bounds=ends, method="bounded", options={"xatol": 1e-12}
    )
    return max(-found.fun, dual(np.exp(logs[best])))


def kullback_leibler_worst_case(values: np.ndarray, weights: np.ndarray, radius: float) -> float:
    r"""The dual in one multiplier: any value of it is a lower bound."""
    if radius == 0:
        return expectation(values, weights)
    values, weights = values[weights > 0], weights[weights > 0]
    least = values.min()
    spread = max(np.ptp(values), 1e-300)

    def dual(multiplier: float) -> float:
        exponents = -(values - least) / spread / multiplier
        return -multiplier * (np.log(weights @ np.exp(exponents)) + radius)

    return least + spread * max(dual_maximum(dual), 0.0)


def chi_square_worst_case(values: np.ndarray, weights: np.ndarray, radius: float) -> float:
    r"""The cone program as it stands."""
    if radius == 0:
        return expectation(values, weights)
    values, weights = values[weights > 0], weights[weights > 0]
    least, spread = values.min(), max(np.ptp(values), 1e-300)
    cp = pytest.importorskip("cvxpy")
    worst = cp.Variable(len(values), nonneg=True)
    within = cp.norm(cp.multiply(1 / np.sqrt(weights), worst - weights)) <= np.sqrt(radius)
    problem = cp.Problem(
        cp.Minimize((values - least) / spread @ worst), [cp.sum(worst) == 1, within]
    )
    tight = {f"tol_{name}": 1e-11 for name in ("gap_abs", "gap_rel", "feas")}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL, **tight)
    assert problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE), problem.status
    return least + spread * problem.value


def distances(points: np.ndarray) -> np.ndarray:
    return np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=-1))


def wasserstein_worst_case(
    values: np.ndarray, weights: np.ndarray, distances: np.ndarray, radius: float
) -> float:
    r"""The linear program in what each point sends to each."""
    n = len(values)
    solution = linprog(
        np.tile(values, n),
        A_ub=distances.reshape(1, -1),
        b_ub=[radius],
        A_eq=np.kron(np.eye(n), np.ones(n)),
        b_eq=weights,
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert solution.status == 0, solution.message
    return solution.fun


def wasserstein_regularization(
    values: np.ndarray, weights: np.ndarray, distances: np.ndarray, radius: float
) -> float:
    r"""The mean less the radius times the steepest slope between any two points."""
    pairs = itertools.permutations(range(len(values)), 2)
    slopes = [(values[i] - values[j]) / distances[i, j] for i, j in pairs if distances[i, j] > 0]
    return expectation(values, weights) - radius * max([0.0, *slopes])


def wasserstein_distance(first: np.ndarray, second: np.ndarray, distances: np.ndarray) -> float:
    r"""The cheapest plan."""
    n = len(first)
    plan = np.concatenate([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    solution = linprog(distances.ravel(), A_eq=plan, b_eq=np.concatenate([first, second]))
    assert solution.status == 0, solution.message
    return solution.fun
