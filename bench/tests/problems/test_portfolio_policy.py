r"""The policy of a portfolio against a loop over years, trades and stocks, without look-ahead."""

import csv
import math
from datetime import date, timedelta
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import InputDataError
from botorch_risk_bench import problems
from botorch_risk_bench.problems import PortfolioPolicy
from botorch_risk_bench.problems.portfolio_policy import HELD_OUT_YEARS, TRAINING_YEARS
from scipy.optimize import minimize_scalar

POLICIES = [(4, 1, 2.0), (52, 10, 0.25), (17, 3, 1.3), (4, 10, 2.0), (52, 1, 0.8)]


@cache
def bundled() -> tuple[list[str], list[list[float]]]:
    text = (resources.files(problems) / "weekly_closes.csv").read_text(encoding="utf-8")
    _, *rows = csv.reader(text.splitlines())
    return [row[0] for row in rows], [[float(each) for each in row[1:]] for row in rows]


@cache
def training() -> PortfolioPolicy:
    return PortfolioPolicy()


def slow_returns(policy, dates, closes, years):
    r"""The returns of all years, by loops; every choice sees only the prices so far."""
    look_back, holdings, leverage = policy
    found = []
    for start in range(52, len(dates) - 52):
        first, last = int(dates[start][:4]), int(dates[start + 52][:4])
        if first < years[0] or last > years[1]:
            continue
        wealth = 1.0
        for now in range(start, start + 52, 4):
            known = closes[: now + 1]
            gains = [(known[-1][i] / known[-1 - look_back][i], -i) for i in range(len(known[0]))]
            winners = [-minus for _, minus in sorted(gains, reverse=True)[:holdings]]
            rises = [closes[now + 4][i] / closes[now][i] - 1 for i in winners]
            wealth *= max(0.0, 1 + leverage * sum(rises) / holdings)
        found.append(wealth - 1)
    return found


def write(path: Path, closes: np.ndarray, first: date = date(1990, 1, 5)) -> Path:
    r"""A table of weeks in the form of the bundled one."""
    days = [(first + timedelta(weeks=week)).isoformat() for week in range(len(closes))]
    lines = [",".join(["Date", *(f"S{i}" for i in range(closes.shape[1]))])]
    lines += [",".join([d, *map(repr, row)]) for d, row in zip(days, closes.tolist(), strict=True)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def walk(weeks: int = 200, stocks: int = 12) -> np.ndarray:
    steps = np.random.default_rng(0).normal(0.002, 0.05, size=(weeks, stocks))
    return np.exp(steps.cumsum(axis=0))


@pytest.mark.parametrize("years", [TRAINING_YEARS, HELD_OUT_YEARS])
@pytest.mark.parametrize("policy", POLICIES)
def test_returns_equal_a_slow_loop(policy, years):
    problem = PortfolioPolicy(years=years)
    X = torch.tensor(policy, dtype=torch.double)
    expected = slow_returns(policy, *bundled(), years)
    assert problem.num_windows == len(expected) == 783
    np.testing.assert_allclose(problem.returns(X), expected, rtol=1e-11, atol=1e-12)
    assert problem.evaluate_true(X[None]).item() == pytest.approx(np.mean(expected))
    assert problem.noise_variance(X).item() == pytest.approx(np.var(expected))
    value = problem.mean_variance(X, risk_aversion=3.0).item()
    assert value == pytest.approx(np.mean(expected) - 3 * np.var(expected))


def test_prices_after_a_year_have_no_part_in_it(tmp_path):
    closes = walk()
    X = torch.tensor(POLICIES, dtype=torch.double)
    before = PortfolioPolicy(years=(1991, 1993), table=write(tmp_path / "a.csv", closes)).returns(X)
    week = 130  # from which on all is otherwise
    closes[week:] = walk(stocks=24)[week:, 12:]
    after = PortfolioPolicy(years=(1991, 1993), table=write(tmp_path / "b.csv", closes)).returns(X)
    ends = torch.arange(before.shape[-1]) + 52 + 52  # the week in which each year ends
    assert before.shape == after.shape
    assert torch.equal(before[:, ends < week], after[:, ends < week])
    assert (before[:, ends >= week + 4] != after[:, ends >= week + 4]).all()


def test_winners_are_chosen_without_their_next_returns(tmp_path):
    r"""Whatever all stocks do after a trade, the one that has risen is held."""
    closes = np.ones((157, 10))
    closes[:, 3] = 1.01 ** np.arange(157)
    crash = 52 + 52 - 4  # the last trade of the first year
    closes[crash + 1 :, 3] /= 4  # and no other stock falls
    problem = PortfolioPolicy(years=(1991, 1992), table=write(tmp_path / "a.csv", closes))
    year = problem.returns(torch.tensor([[4.0, 1.0, 1.0]]).double())[0, 0].item()
    assert year == pytest.approx(1.01**52 / 4 - 1)


def test_later_years_have_no_part_in_training(tmp_path):
    dates, closes = bundled()
    kept = [
        row for day, row in zip(dates, closes, strict=True) if int(day[:4]) <= TRAINING_YEARS[1]
    ]
    lines = [",".join(["Date", *map(str, range(20))])]
    lines += [",".join([day, *map(repr, row)]) for day, row in zip(dates, kept, strict=False)]
    (tmp_path / "a.csv").write_text("\n".join(lines), encoding="utf-8")
    alone = PortfolioPolicy(table=tmp_path / "a.csv")
    assert torch.equal(alone.four_weeks, training().four_weeks)


def test_wealth_that_is_lost_stays_lost(tmp_path):
    closes = np.ones((160, 10))
    closes[:, 0] = 1.001 ** np.arange(160)
    closes[80:, 0] *= 0.4  # 60 % in a week: more than all at a leverage of 2
    problem = PortfolioPolicy(years=(1991, 1992), table=write(tmp_path / "a.csv", closes))
    returns = problem.returns(torch.tensor([[4.0, 1.0, 2.0], [4.0, 1.0, 1.0]]).double())
    assert returns[0].min() == -1 and -0.7 < returns[1].min() < -0.5


@pytest.mark.parametrize("risk_aversion", [0.0, 0.5, 2.0, 8.0])
def test_optimum_against_every_pair_and_a_search_of_its_leverage(risk_aversion):
    problem = training()
    (look_back, holdings, leverage), value = problem.optimal_mean_variance(risk_aversion)
    X = problem.policies(15)  # leverages between the steps of the search
    assert X.shape == (49 * 10 * 15, 3) and len(X.unique(dim=0)) == len(X)
    assert (problem.mean_variance(X, risk_aversion) <= value + 1e-12).all()

    def loss(candidate):
        returns = problem.returns(torch.tensor([look_back, holdings, candidate]).double()).numpy()
        return risk_aversion * returns.var() - returns.mean()

    best = minimize_scalar(loss, bounds=(0.25, 2.0), method="bounded", options={"xatol": 1e-9})
    assert value == pytest.approx(-best.fun, abs=1e-6)
    assert leverage.item() == pytest.approx(best.x, abs=1e-4)


def test_risk_aversion_asks_for_less_risk():
    problem = training()
    deviations, leverages = [], []
    for risk_aversion in (0.0, 0.5, 2.0, 8.0):
        policy, _ = problem.optimal_mean_variance(risk_aversion)
        deviations.append(problem.noise_variance(policy).sqrt().item())
        leverages.append(policy[2].item())
    assert deviations == sorted(deviations, reverse=True)
    assert deviations[0] > 10 * deviations[-1] and leverages[0] == 2.0 > leverages[-1]


def test_readings_are_returns_of_years_all_as_probable():
    problem = training()
    X = torch.tensor(POLICIES[:2], dtype=torch.double)
    readings = problem.sample_repeats(X, 40_000, torch.Generator().manual_seed(0))
    returns = problem.returns(X)
    for drawn, possible in zip(readings, returns, strict=True):
        assert torch.isin(drawn, possible).all() and len(drawn.unique()) == len(possible.unique())
    z = (readings.mean(-1) - returns.mean(-1)) / (problem.noise_variance(X) / 40_000).sqrt()
    assert z.abs().max() < 4


def test_errors(tmp_path):
    problem = training()
    for wrong in ([8.5, 3.0, 1.0], [8.0, 3.5, 1.0], [3.0, 3.0, 1.0], [8.0, 3.0, 2.1]):
        with pytest.raises(ValueError, match="Expected `X` to"):
            problem.returns(torch.tensor(wrong).double())
    for build in (PortfolioPolicy, lambda a: problem.mean_variance(problem.bounds, a)):
        for wrong in (-1.0, math.inf):
            with pytest.raises(ValueError, match="`risk_aversion` to be finite"):
                build(wrong)
    with pytest.raises(InputDataError, match="within `years` and 52 before them"):
        PortfolioPolicy(years=(2022, 2030))
    with pytest.raises(InputDataError, match=r"at least 10 stocks\. Got 9 stocks"):
        PortfolioPolicy(table=write(tmp_path / "a.csv", walk(stocks=9)))
    closes = walk()
    closes[7, 2] = 0.0
    with pytest.raises(InputDataError, match=r"positive prices.*lowest price 0"):
        PortfolioPolicy(table=write(tmp_path / "a.csv", closes))


def test_the_table_names_its_source_and_terms():
    dates, closes = bundled()
    days = [date.fromisoformat(day) for day in dates]
    assert len(days) == 1722 and {len(row) for row in closes} == {20}
    weeks = [day.isocalendar()[:2] for day in days]
    assert weeks == sorted(set(weeks)) and max(np.diff(days)) <= timedelta(days=11)
    text = (resources.files(problems) / "weekly_closes.md").read_text(encoding="utf-8")
    for said in ("skfolio", "1.12.2", "tests and examples only", "Redistributions of source code"):
        assert said in text
