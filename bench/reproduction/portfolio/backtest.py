r"""Back-tests of a trading strategy on real prices: the table of `PortfolioOptimization`.

    python -m pip install skfolio==1.12.2      # holds the prices; nothing is downloaded later
    python -m bench.reproduction.portfolio.backtest  # two minutes on one core

Writes `results/portfolio/portfolio_backtests.csv`, or into the folder of `--to`: 1,024 points of a
Sobol sequence in the five inputs and the return of the strategy there. The problem reads the copy
in `bench/botorch_risk_bench/problems`. Inputs, ranges and strategy are as in the back-tests of
[Cakmak2020risk]_, which the papers use: single-period optimisation as in [Boyd2017trading]_. On
each trading day it holds the weights w that solve

    maximise    forecast' w - risk_aversion w' S w
                - trade_aversion (bid_ask_spread / 2) |w - w_before|_1
                - holding_cost_multiplier borrow_cost |min(w, 0)|_1
    subject to  |w|_1 <= 3,    cash = 1 - sum(w)

and pays the costs without the multipliers. S is the covariance of the last 500 days; the forecasts
are returns of that day in much noise, shrunk to the best linear prediction, as [Boyd2017trading]_
simulates a provider of signals. What differs: 20 stocks (skfolio's prices, 2012 to 2016) where they
had hundreds, no price impact, as skfolio has no volumes, and cash without interest.

All back-tests run side by side, one day after the other; ADMM [Boyd2011admm]_ solves the problems
of a day at once, in the eigenvectors of S that they share.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from botorch_risk_bench.campaigns.whole_files import write_text
from numpy import ndarray
from torch.quasirandom import SobolEngine

from bench.reproduction.results import writing_parser

COLUMNS = (
    "risk_aversion",
    "trade_aversion",
    "holding_cost_multiplier",
    "bid_ask_spread",
    "borrow_cost",
    "return",
)
# What 0 and 1 stand for: the ranges of [Cakmak2020risk]_.
LOWER = np.array([0.1, 5.5, 0.1, 1e-4, 1e-4])
UPPER = np.array([1000.0, 8.0, 100.0, 1e-2, 1e-3])
FIRST_DAY, LAST_DAY = "2012-01-01", "2016-12-31"
DAYS_OF_COVARIANCE = 500
# The variances of a forecast's noise and of a return in the examples of the program of
# [Boyd2017trading]_.
NOISE_VARIANCE, RETURN_VARIANCE = 0.02, 0.0005
LEVERAGE = 3.0
# A day's problem is solved when no weight moves by more than this in some iterations.
TOLERANCE, ITERATIONS_BETWEEN_CHECKS, MAX_CHECKS = 1e-6, 20, 2000
CHECKS_BETWEEN_STEPS, STEP_LENGTHS = 50, (1.0, 4.0, 0.25, 16.0, 0.0625)
DAYS_A_YEAR = 250


class Market(NamedTuple):
    r"""What the strategies see and what happens.

    Args:
        returns: Of each stock on each day, `days x stocks`.
        forecasts: Of them, `days x stocks`.
        covariances: Before each day, `days x stocks x stocks`.
    """

    returns: ndarray
    forecasts: ndarray
    covariances: ndarray


def market(seed: int = 0) -> Market:
    r"""Five years of skfolio's twenty stocks."""
    try:
        from skfolio.datasets import load_sp500_dataset
    except ImportError as error:
        raise SystemExit("Expected skfolio, which holds the prices. Got none.") from error

    prices = load_sp500_dataset()
    returns = prices.pct_change().dropna()
    days = np.flatnonzero((returns.index >= FIRST_DAY) & (returns.index <= LAST_DAY))
    values = returns.to_numpy()
    noise = np.random.default_rng(seed).normal(0.0, NOISE_VARIANCE**0.5, values[days].shape)
    share = RETURN_VARIANCE / (RETURN_VARIANCE + NOISE_VARIANCE)
    return Market(
        returns=values[days],
        forecasts=share * (values[days] + noise),
        covariances=np.stack([np.cov(values[day - DAYS_OF_COVARIANCE : day].T) for day in days]),
    )


def backtest(points: ndarray, market: Market) -> ndarray:
    r"""Annual returns in percent, `rows`, for inputs `rows x 5` in the unit cube."""
    risk, trade, holding, spread, borrow = (LOWER + (UPPER - LOWER) * points).T[:, :, None]
    stocks = market.returns.shape[1]
    weights = np.full((len(points), stocks), 1.0 / stocks)
    solver = Solver(risk, trade * spread / 2, holding * borrow)
    total = np.zeros(len(points))
    for returns, forecast, covariance in zip(*market, strict=True):
        after = solver(weights, forecast, covariance)
        cost = (spread / 2 * np.abs(after - weights) + borrow * np.maximum(-after, 0)).sum(axis=1)
        gain = after @ returns - cost
        weights = after * (1 + returns) / (1 + gain[:, None])
        total += gain
    return 100 * DAYS_A_YEAR * total / len(market.returns)


class Solver:
    r"""Solves a day's problem for every row, starting from the day before.

    Args:
        risk: Risk aversions, `rows x 1`.
        trading: Weights of `|w - w_before|`, `rows x 1`.
        shorting: Weights of `max(-w, 0)`, `rows x 1`.
    """

    def __init__(self, risk: ndarray, trading: ndarray, shorting: ndarray) -> None:
        self.risk, self.trading, self.shorting = risk, trading, shorting
        self.state: ndarray | None = None  # the two copies of w and their prices

    def __call__(self, before: ndarray, forecast: ndarray, covariance: ndarray) -> ndarray:
        r"""The weights to hold, `rows x stocks`, given those of before the trade."""
        variances, vectors = np.linalg.eigh(covariance)
        if self.state is None:
            zero = np.zeros_like(before)
            self.state = np.stack([before, before, zero, zero])
        # Of the order of the curvature; without any, of the forecasts over the leverage.
        step = 2 * self.risk * np.sqrt(variances[0] * variances[-1]) + 1e-3
        rows = np.arange(len(before))  # not solved yet
        self.state[2:] /= step
        for check in range(1, MAX_CHECKS + 1):
            old = self.state[:, rows]
            new = self._iterate(old, rows, before[rows], forecast, variances, vectors, step[rows])
            self.state[:, rows] = new
            moved = np.abs(new - old)[:2].max(axis=(0, 2))
            apart = np.abs(new[0] - new[1]).max(axis=1)
            rows = rows[(moved > TOLERANCE) | (apart > TOLERANCE)]
            if not rows.size:
                self.state[2:] *= step
                return self.state[0].copy()
            if check % CHECKS_BETWEEN_STEPS == 0:  # hardly any row: another length may do
                turn = check // CHECKS_BETWEEN_STEPS
                length, last = (STEP_LENGTHS[t % len(STEP_LENGTHS)] for t in (turn, turn - 1))
                step[rows] *= length / last
                self.state[2:, rows] *= last / length
        raise RuntimeError(f"ADMM has not converged in rows {rows}.")

    def _iterate(
        self,
        state: ndarray,
        rows: ndarray,
        before: ndarray,
        forecast: ndarray,
        variances: ndarray,
        vectors: ndarray,
        step: ndarray,
    ) -> ndarray:
        r"""Some iterations of ADMM."""
        inverse = 1.0 / (2 * self.risk[rows] * variances + 2 * step)
        costs = self.trading[rows] / step, self.shorting[rows] / step
        cost, ball, price_cost, price_ball = state
        for _ in range(ITERATIONS_BETWEEN_CHECKS):
            target = forecast + step * (cost - price_cost + ball - price_ball)
            x = ((target @ vectors) * inverse) @ vectors.T
            ahead_cost, ahead_ball = 1.6 * x - 0.6 * cost, 1.6 * x - 0.6 * ball  # over-relaxed
            cost = proximal_cost(ahead_cost + price_cost, before, *costs)
            ball = project_on_ball(ahead_ball + price_ball, LEVERAGE)
            price_cost = price_cost + ahead_cost - cost
            price_ball = price_ball + ahead_ball - ball
        return np.stack([cost, ball, price_cost, price_ball])


def proximal_cost(a: ndarray, before: ndarray, trading: ndarray, shorting: ndarray) -> ndarray:
    r"""The minimum of `(u - a)^2 / 2 + trading |u - before| + shorting max(-u, 0)`."""
    first, last = np.minimum(before, 0.0), np.maximum(before, 0.0)  # the two kinks
    below, above = a + trading + shorting, a - trading
    between = np.where(before > 0, a + trading, a - trading + shorting)
    inside = np.clip(between, first, last)
    return np.where(below < first, below, np.where(above > last, above, inside))


def project_on_ball(a: ndarray, radius: float) -> ndarray:
    r"""The nearest point whose absolute values sum to no more than the radius."""
    sizes = -np.sort(-np.abs(a), axis=1)
    excess = np.cumsum(sizes, axis=1) - radius
    candidates = excess / np.arange(1, a.shape[1] + 1)
    threshold = np.maximum(candidates.max(axis=1, keepdims=True), 0.0)
    return np.sign(a) * np.maximum(np.abs(a) - threshold, 0.0)


def main(to: Path, exponent: int = 10) -> None:
    # Four digits are what the table holds, and what is evaluated.
    points = SobolEngine(5, scramble=True, seed=0).draw(2**exponent, dtype=torch.double)
    points = points.numpy().round(4)
    returns = backtest(points, market())
    lines = [",".join(COLUMNS)]
    for point, value in zip(points, returns, strict=True):
        lines.append(",".join([*(f"{x:.4f}" for x in point), f"{value:.6f}"]))
    write_text(to / "portfolio_backtests.csv", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(writing_parser(__doc__, "results/portfolio").parse_args().to)
