r"""Trading under uncertain costs: a surrogate of back-tests."""

import json
import math
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from botorch.exceptions.errors import InputDataError
from torch import Tensor
from torch.distributions import Distribution, Normal, Uniform

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.test_functions.value_at_risk import ValueAtRiskTestProblem, equidistant_grid
from botorch_risk_bench.problems.expectation import ExpectationTestProblem


class Surrogate(NamedTuple):
    r"""A Gaussian process of standardised outcomes: scaled Matern-5/2 kernel, constant mean.

    Args:
        lengthscale: One for each of the five inputs.
        outcome_mean: Mean of the outcomes in their own units.
    """

    lengthscale: tuple[float, ...]
    outputscale: float
    noise: float
    constant: float
    outcome_mean: float
    outcome_std: float


# Fitted in [Cakmak2020risk]_ to the negated returns of their 3,000 back-tests.
OF_THE_PAPERS = Surrogate(
    lengthscale=(
        0.22256403179589296,
        7.779735112513876,
        0.2632666177637054,
        0.5240390690579588,
        2.5219273781918257,
    ),
    outputscale=4.6199055900995285,
    noise=0.013679594732820988,
    constant=-0.5664739012718201,
    outcome_mean=-2.885737895965576,
    outcome_std=3.829587936401367,
)


class PortfolioOptimization(ExpectationTestProblem):
    r"""Return of a trading strategy; three decision variables, two environmental ones.

    Decisions are the aversions to risk and to trading and the multiplier of the holding cost;
    W is the bid-ask spread and the borrowing cost, uniform or normal `N(0.5, 0.1^2)`. All are
    scaled to [0, 1].

        f(x, w) = the posterior mean of a GP (Matern-5/2) of the annual return in percent

    Sec. 4.3 and B.2 of [Huang2024kde]_, after [Cakmak2020risk]_. There are two tables of
    back-tests:

    - The bundled one, the default: 1,024 back-tests of the same strategy, of ours, on the prices of
      20 stocks from 2012 to 2016 that come with the package skfolio (BSD 3-clause licence; for
      tests and examples only, says its documentation). The table holds returns of the strategy
      and no prices. `bench/reproduction/portfolio/` in the project's sources made it and tells how.
    - The papers', 3,000 back-tests and their fitted hyperparameters: give its path. It is in the
      public repository `lamda-bbo/sbokde`, folder `Benchmark/port_evals`, in 30 files of 100, and
      not part of this package.
    """

    num_decision = 3
    num_environment = 2
    train_X: Tensor
    weights: Tensor

    def __init__(
        self,
        table: str | PathLike[str] | None = None,
        distribution: Literal["uniform", "normal"] = "uniform",
        noise_std: float | None = None,
        dtype: torch.dtype = torch.double,
    ) -> None:
        r"""Reads the table and conditions the surrogate on it, which takes up to a second.

        Args:
            table: The path of the papers' table, a file of comma-separated values with one heading
                line and 3,000 rows: five inputs in the order above, and the negated return. The
                bundled table if omitted.
            distribution: The distribution of W, "uniform" or "normal".

        Raises:
            InputDataError: If the table does not hold the 3,000 back-tests.
        """
        optima = OPTIMA["bundled" if table is None else "papers"]
        if distribution not in optima:
            raise ValueError(
                f"Expected `distribution` to be one of {tuple(optima)}. Got {distribution=}."
            )
        self.distribution = distribution
        self.optimal_expectation, self._optimal_decision, self._num_points = optima[distribution]
        super().__init__(noise_std=noise_std, dtype=dtype)
        self.surrogate = _bundled_surrogate() if table is None else OF_THE_PAPERS
        self._sign = 1.0 if table is None else -1.0  # the papers' table has negated returns
        train_X, targets = _read_bundled(self.surrogate) if table is None else _read_papers(table)
        noise = self.surrogate.noise * torch.eye(len(train_X), dtype=torch.double)
        weights = torch.cholesky_solve(
            targets.unsqueeze(-1) - self.surrogate.constant,
            torch.linalg.cholesky(self._covariance(train_X, train_X) + noise),
        )
        self.register_buffer("train_X", train_X, persistent=False)
        self.register_buffer("weights", weights, persistent=False)

    @property
    def marginals(self) -> Distribution:
        zero = torch.zeros((), dtype=torch.double)
        if self.distribution == "uniform":
            return Uniform(zero, zero + 1)
        return Normal(zero + 0.5, 0.1)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        rows = X.reshape(-1, self.dim).double()
        train_X, weights = self.train_X.double(), self.weights.double()
        parts = [self._covariance(part, train_X) @ weights for part in rows.split(2**12)]
        mean = self.surrogate.constant + torch.cat(parts).reshape(X.shape[:-1])
        outcome = self.surrogate.outcome_mean + self.surrogate.outcome_std * mean
        return (self._sign * outcome).to(X)

    def _covariance(self, A: Tensor, B: Tensor) -> Tensor:
        scale = torch.tensor(self.surrogate.lengthscale).to(A) / math.sqrt(5)
        distance = torch.cdist(A / scale, B / scale)
        profile = (1 + distance + distance.square() / 3) * torch.exp(-distance)
        return self.surrogate.outputscale * profile


class ValueAtRiskPortfolio(ValueAtRiskTestProblem):
    r"""`PortfolioOptimization` (3, 2) with 100 equally probable values of W, at level 0.2.

    [Nguyen2021vucb]_, Sec. 4.2. The 100 points are a grid of ten by ten, bounds included, which
    the paper leaves open. The noise variance, 0.01, is in units of the return. On the bundled table
    of back-tests or, with its path, on the paper's; see `PortfolioOptimization`.
    """

    num_decision = 3
    num_environment = 2
    risk_level = 0.2

    def __init__(
        self,
        table: str | PathLike[str] | None = None,
        noise_std: float | None = 0.1,
        dtype: torch.dtype = torch.double,
    ) -> None:
        r"""Reads the table, as `PortfolioOptimization` does.

        Args:
            table: The path of the paper's table; the bundled one if omitted.

        Raises:
            InputDataError: If the table does not hold the 3,000 back-tests.
        """
        bundled, papers = (
            (17.04402976, (0.0, 1.0, 0.31432341)),
            (17.35272976, (0.0, 1.0, 0.61738783)),
        )
        self._optima = {"discrete": bundled if table is None else papers}
        super().__init__("discrete", noise_std, dtype)
        self.surrogate = PortfolioOptimization(table, dtype=dtype)
        grid = equidistant_grid(self.bounds[:, self.num_decision :], 10)
        self.environment = DiscreteEnvironment(grid)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self.surrogate._evaluate_true(X)


# The largest expectation, its decision, and the number of points of the distribution that gives six
# digits.
OPTIMA: dict[str, dict[str, tuple[float, tuple[float, ...], int]]] = {
    "papers": {
        "uniform": (19.325125, (0.0, 1.0, 0.59954656), 24**2),
        "normal": (21.586239, (0.0, 1.0, 0.08280091), 26**2),
    },
    "bundled": {
        "uniform": (38.158113, (0.0, 0.0, 1.0), 24**2),
        "normal": (20.204596, (0.0, 0.0, 1.0), 26**2),
    },
}


def _bundled(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _bundled_surrogate() -> Surrogate:
    return Surrogate(**json.loads(_bundled("portfolio_surrogate.json")))


def _read_bundled(surrogate: Surrogate) -> tuple[Tensor, Tensor]:
    r"""Inputs, `1024 x 5`, and standardised returns."""
    lines = _bundled("portfolio_backtests.csv").splitlines()
    rows = torch.from_numpy(np.loadtxt(lines, delimiter=",", skiprows=1))
    return rows[:, :-1].contiguous(), (rows[:, -1] - surrogate.outcome_mean) / surrogate.outcome_std


def _read_papers(table: str | PathLike[str]) -> tuple[Tensor, Tensor]:
    r"""Inputs, `3000 x 5`, and standardised outcomes."""
    rows = torch.from_numpy(np.loadtxt(Path(table), delimiter=",", skiprows=1, ndmin=2))
    mean, std = OF_THE_PAPERS.outcome_mean, OF_THE_PAPERS.outcome_std
    expected = torch.tensor([mean, std], dtype=torch.double)
    found = torch.stack([rows[:, -1].mean(), rows[:, -1].std()])
    if rows.shape != (3000, 6) or not torch.allclose(found, expected, atol=1e-6):
        raise InputDataError(
            "Expected 3,000 rows of five inputs and an outcome of mean and deviation "
            f"{expected.tolist()}. Got {tuple(rows.shape)}, {found.tolist()}."
        )
    return rows[:, :-1].contiguous(), (rows[:, -1] - mean) / std
