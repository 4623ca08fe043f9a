r"""Make the tables that `TabularProblem` reads, from data of scikit-learn and this package.

python -m bench.studies.open_benchmark.make_tables [NAME ...] [--to results/open_benchmark]

A row is a decision, a column behind the first two a condition that cannot be controlled.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from typing import Any

import numpy as np
from botorch_risk_bench.campaigns.whole_files import write_text
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bench.reproduction.results import writing_parser

Array = NDArray[np.float64]
Table = tuple[Sequence[str], Sequence[Array], Callable[[float, float], Sequence[float]]]
r"""The names of the columns, the values of both decisions, and from a decision to its row."""

SIZE = 12  # of each decision


def digits() -> Table:
    r"""Accuracy [%] of a support vector machine on digits, by the noise of new images."""
    X, y = load_digits(return_X_y=True)
    train, test = next(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    levels = np.arange(9.0)  # standard deviation, in units of a grey level from 0 to 16
    noise = np.random.default_rng(0).normal(size=X[test].shape)

    def row(log_cost: float, log_width: float) -> list[float]:
        model = SVC(C=10**log_cost, gamma=10**log_width).fit(X[train], y[train])
        return [100 * model.score(X[test] + level * noise, y[test]) for level in levels]

    names = ["log10_C", "log10_gamma", *(f"noise {level:g}" for level in levels)]
    return names, [np.linspace(-2, 3, SIZE), np.linspace(-5, -1.5, SIZE)], row


def diabetes() -> Table:
    r"""Minus the root mean squared error of the disease's progression, by the patient's age."""
    X, y = load_diabetes(return_X_y=True)
    groups = _ninths(X[:, 0])
    folds = KFold(10, shuffle=True, random_state=0)
    mean = y.mean()

    def row(log_penalty: float, log_width: float) -> list[float]:
        ridge = KernelRidge(alpha=10**log_penalty, gamma=10**log_width, kernel="rbf")
        model = make_pipeline(StandardScaler(), ridge)
        error = cross_val_predict(model, X, y - mean, cv=folds) - (y - mean)
        return [-float(np.sqrt(np.mean(error[group] ** 2))) for group in groups]

    names = ["log10_alpha", "log10_gamma", *(f"age {number}" for number in range(len(groups)))]
    return names, [np.linspace(-3, 2, SIZE), np.linspace(-4, 0, SIZE)], row


def cancer() -> Table:
    r"""Mean log likelihood of the diagnosis, by the size of the nuclei."""
    X, y = load_breast_cancer(return_X_y=True)
    groups = _ninths(X[:, 0])
    folds = StratifiedKFold(10, shuffle=True, random_state=0)

    def row(neighbours: float, exponent: float) -> list[float]:
        def weights(distances: Array) -> Array:
            found: Array = (distances + 0.1) ** -exponent
            return found

        neighbour = KNeighborsClassifier(round(neighbours), weights=weights)
        model = make_pipeline(StandardScaler(), neighbour)
        shares = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
        score = np.log(np.clip(shares[np.arange(len(y)), y], 0.01, None))
        return [float(score[group].mean()) for group in groups]

    names = ["neighbours", "exponent", *(f"radius {number}" for number in range(len(groups)))]
    return names, [np.round(np.geomspace(2, 60, SIZE)), np.linspace(0, 4, SIZE)], row


def momentum() -> Table:
    r"""Return of a year [%] of the stocks that have risen most, held for four weeks in turn."""
    source = resources.files("botorch_risk_bench.problems") / "weekly_closes.csv"
    lines = list(csv.reader(source.read_text(encoding="utf-8").splitlines()))[1:]
    closes = np.array([[float(value) for value in line[1:]] for line in lines])
    years = np.array([int(line[0][:4]) for line in lines])
    known = [year for year in range(1992, years.max() + 1) if (years == year).sum() >= 50]

    def row(lookback: float, count: float) -> list[float]:
        past, held = round(lookback), round(count)
        found = []
        for year in known:
            weeks = np.flatnonzero(years == year)
            value = 1.0
            for week in weeks[:-4:4]:
                rise = closes[week] / closes[week - past]
                best = np.argsort(-rise, kind="stable")[:held]
                value *= float(np.mean(closes[week + 4, best] / closes[week, best]))
            found.append(100 * (value - 1))
        return found

    names = ["weeks", "stocks", *(f"year {year}" for year in known)]
    return names, [np.round(np.geomspace(2, 80, SIZE)), np.arange(1.0, SIZE + 1)], row


TABLES: dict[str, Callable[[], Table]] = {
    "digits": digits,
    "diabetes": diabetes,
    "cancer": cancer,
    "momentum": momentum,
}


def rows_of(table: Table) -> Iterator[list[float]]:
    r"""The decisions in order, each with its outcomes."""
    _, (first, second), row = table
    for one in first.tolist():
        for other in second.tolist():
            yield [one, other, *row(one, other)]


def _ninths(values: Array) -> list[NDArray[np.bool_]]:
    r"""Which values are in which ninth of their distribution; ties stay together."""
    edges = np.quantile(values, np.linspace(0, 1, 10)[1:-1])
    found = np.searchsorted(edges, values)
    return [found == number for number in range(9)]


def main() -> None:
    parser = writing_parser(__doc__, "results/open_benchmark")
    parser.add_argument("names", nargs="*", default=list(TABLES))
    arguments: Any = parser.parse_args()
    for name in arguments.names:
        table = TABLES[name]()
        lines = [",".join(f"{value:.6g}" for value in row) for row in rows_of(table)]
        text = "\n".join([",".join(table[0]), *lines]) + "\n"
        write_text(arguments.to / f"{name}.csv", text)
        print(f"{name}: {len(lines)} decisions, {len(table[0]) - 2} conditions", flush=True)


if __name__ == "__main__":
    main()
