r"""The strategy behind the bundled back-tests, against cvxpy."""

import cvxpy
import numpy as np
import pytest
from numpy import ndarray

from bench.reproduction.portfolio.backtest import (
    DAYS_A_YEAR,
    LEVERAGE,
    LOWER,
    UPPER,
    Market,
    Solver,
    backtest,
)

STOCKS, DAYS = 6, 4
# The last two hardly mind the risk, so that the limit of the leverage holds them.
POINTS = np.array(
    [
        [0.5, 0.2, 0.1, 0.0, 0.5],
        [0.02, 0.9, 0.6, 0.05, 0.1],
        [0.001, 0.5, 0.5, 0.01, 1.0],
        [0.0, 0.0, 0.01, 0.0, 0.0],
    ]
)


def market() -> Market:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(STOCKS, STOCKS))
    returns = 0.01 * rng.normal(size=(DAYS, STOCKS)) @ factors.T
    return Market(
        returns=returns,
        forecasts=0.1 * returns + 0.002 * rng.normal(size=returns.shape),
        covariances=np.stack([1e-4 * factors @ factors.T] * DAYS),
    )


def weights_of_cvxpy(point: ndarray, before: ndarray, forecast: ndarray, S: ndarray) -> ndarray:
    risk, trade, holding, spread, borrow = LOWER + (UPPER - LOWER) * point
    w = cvxpy.Variable(STOCKS)
    value = forecast @ w - risk * cvxpy.quad_form(w, cvxpy.psd_wrap(S))
    value -= trade * spread / 2 * cvxpy.norm1(w - before)
    value -= holding * borrow * cvxpy.sum(cvxpy.neg(w))
    cvxpy.Problem(cvxpy.Maximize(value), [cvxpy.norm1(w) <= LEVERAGE]).solve("CLARABEL")
    return w.value


def test_weights_and_returns_equal_cvxpy() -> None:
    data = market()
    expected = []
    for point in POINTS:
        _, _, _, spread, borrow = LOWER + (UPPER - LOWER) * point
        before, total = np.full(STOCKS, 1 / STOCKS), 0.0
        for returns, forecast, covariance in zip(*data, strict=True):
            w = weights_of_cvxpy(point, before, forecast, covariance)
            costs = spread / 2 * np.abs(w - before).sum() + borrow * np.maximum(-w, 0).sum()
            gain = w @ returns - costs
            before, total = w * (1 + returns) / (1 + gain), total + gain
        expected.append(100 * DAYS_A_YEAR * total / DAYS)
    np.testing.assert_allclose(backtest(POINTS, data), expected, rtol=1e-3, atol=1e-2)


def test_the_leverage_is_limited() -> None:
    data = market()
    risk, trade, holding, spread, borrow = (LOWER + (UPPER - LOWER) * POINTS).T[:, :, None]
    solver = Solver(risk, trade * spread / 2, holding * borrow)
    before = np.full((len(POINTS), STOCKS), 1 / STOCKS)
    leverage = np.abs(solver(before, data.forecasts[0], data.covariances[0])).sum(axis=1)
    assert leverage[-1] == pytest.approx(LEVERAGE, abs=1e-5)
    assert (leverage <= LEVERAGE + 1e-5).all()
