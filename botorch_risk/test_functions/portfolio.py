r"""Trading under uncertain costs: a surrogate of a back-test."""

from __future__ import annotations

import math
from os import PathLike
from typing import Literal

import numpy as np
import torch
from botorch.exceptions.errors import InputDataError
from torch import Tensor
from torch.distributions import Distribution, Normal, Uniform

from botorch_risk.test_functions.environmental import EnvironmentalTestProblem

LENGTHSCALE = (
    0.22256403179589296,
    7.779735112513876,
    0.2632666177637054,
    0.5240390690579588,
    2.5219273781918257,
)
OUTPUTSCALE = 4.6199055900995285
NOISE = 0.013679594732820988
CONSTANT = -0.5664739012718201
OUTCOME_MEAN, OUTCOME_STD = -2.885737895965576, 3.829587936401367


class PortfolioOptimization(EnvironmentalTestProblem):
    r"""Return of a trading strategy; three decision variables, two environmental ones.

    Decisions are the aversions to risk and to trading and the multiplier of the holding cost;
    W is the bid-ask spread and the borrowing cost, uniform or normal `N(0.5, 0.1^2)`. All are
    scaled to [0, 1].

        f(x, w) = minus the posterior mean of a GP (Matern-5/2) of the negated return

    Sec. 4.3 and B.2 of Huang et al., 2024, after Cakmak et al., "Bayesian Optimization of Risk
    Measures", 2020, whose 3,000 back-tests and fitted hyperparameters these are. The back-tests
    are in the public repository `lamda-bbo/sbokde`, folder `Benchmark/port_evals`, in 30 files of
    100; they are not part of this package.

    Example:
        >>> problem = PortfolioOptimization("portfolio.csv", law="normal")  # doctest: +SKIP
        >>> problem.objective(problem.optimal_decision)  # doctest: +SKIP
        tensor(21.5862, dtype=torch.float64)
    """

    num_decision = 3
    num_environment = 2
    train_X: Tensor
    weights: Tensor

    def __init__(
        self,
        table: str | PathLike[str],
        law: Literal["uniform", "normal"] = "uniform",
        noise_std: float | None = None,
        dtype: torch.dtype = torch.double,
    ) -> None:
        r"""Reads the table and conditions the surrogate on it, which takes a second.

        Args:
            table: A file of comma-separated values with one heading line and 3,000 rows: five
                inputs in the order above, and the negated return.
            law: The law of W, "uniform" or "normal".
            noise_std: Standard deviation of the noise that `forward` adds. Default: none.
            dtype: The dtype of the bounds and of the law's points. The surrogate needs float64
                inside, and has it.

        Raises:
            InputDataError: If the table is not that of the 3,000 back-tests.
            ValueError: If `law` is neither.
        """
        optima: dict[str, tuple[float, tuple[float, ...], int]] = {
            "uniform": (19.325125, (0.0, 1.0, 0.59954656), 24**2),
            "normal": (21.586239, (0.0, 1.0, 0.08280091), 26**2),
        }
        if law not in optima:
            raise ValueError(f"Expected `law` to be one of {tuple(optima)}. Got {law=}.")
        self.law = law
        self.optimal_expectation, self._optimal_decision, self._num_points = optima[law]
        super().__init__(noise_std=noise_std, dtype=dtype)
        train_X, targets = _read(table)
        gram = _matern(train_X, train_X) + NOISE * torch.eye(len(train_X), dtype=torch.double)
        weights = torch.cholesky_solve(
            targets.unsqueeze(-1) - CONSTANT, torch.linalg.cholesky(gram)
        )
        self.register_buffer("train_X", train_X, persistent=False)
        self.register_buffer("weights", weights, persistent=False)

    @property
    def marginals(self) -> Distribution:
        r"""Uniform or normal."""
        zero = torch.zeros((), dtype=torch.double)
        return Uniform(zero, zero + 1) if self.law == "uniform" else Normal(zero + 0.5, 0.1)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        rows = X.reshape(-1, self.dim).double()
        train_X, weights = self.train_X.double(), self.weights.double()
        parts = [_matern(part, train_X) @ weights for part in rows.split(2**12)]
        mean = CONSTANT + torch.cat(parts).reshape(X.shape[:-1])
        return -(OUTCOME_MEAN + OUTCOME_STD * mean).to(X)


def _matern(A: Tensor, B: Tensor) -> Tensor:
    scale = torch.tensor(LENGTHSCALE).to(A) / math.sqrt(5)
    distance = torch.cdist(A / scale, B / scale)
    return OUTPUTSCALE * (1 + distance + distance.square() / 3) * torch.exp(-distance)


def _read(table: str | PathLike[str]) -> tuple[Tensor, Tensor]:
    r"""Inputs, `3000 x 5`, and standardised outcomes."""
    rows = torch.from_numpy(np.loadtxt(table, delimiter=",", skiprows=1, ndmin=2))
    expected = torch.tensor([OUTCOME_MEAN, OUTCOME_STD], dtype=torch.double)
    found = torch.stack([rows[:, -1].mean(), rows[:, -1].std()])
    if rows.shape != (3000, 6) or not torch.allclose(found, expected, atol=1e-6):
        raise InputDataError(
            "Expected 3,000 rows of five inputs and an outcome of mean and deviation "
            f"{expected.tolist()}. Got {tuple(rows.shape)}, {found.tolist()}."
        )
    return rows[:, :-1].contiguous(), (rows[:, -1] - OUTCOME_MEAN) / OUTCOME_STD
