r"""Problems on tables of real data: decisions on a grid, under conditions that cannot be chosen."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.test_functions.certified import RISKS, measure_of
from botorch_risk.test_functions.environmental import EnvironmentalTestProblem, Risk

FOLDER = Path(__file__).with_name("tables")
TABLES = ("digits", "diabetes", "cancer", "momentum")


class TabularProblem(EnvironmentalTestProblem):
    r"""A table of real data, with a risk whose optimum is known since all decisions are in it.

    Decisions are two integers, the position on a grid of 12 x 12; w in [0, 1] is the position of
    the condition, all of which are equally probable. Outcomes are in units of their standard
    deviation over the table.

    | table | decision | condition | outcome |
    |---|---|---|---|
    | digits | C and gamma of a support vector machine | noise of new images | accuracy |
    | diabetes | penalty and width of a kernel ridge regression | age of patients | minus RMSE |
    | cancer | neighbours, and the exponent of their weights | size of nuclei | log likelihood |
    | momentum | weeks looked back, number of stocks held | calendar year | return |

    `bench/studies/open_benchmark/make_tables.py` made them, from data that come with scikit-learn
    and from `weekly_closes.csv`.

    Example:
        >>> problem = TabularProblem("digits", "worst-case")
        >>> problem.objective(problem.optimal_decision).item() == problem.optimal_risk
        True
    """

    num_decision = 2
    num_environment = 1
    dim = 3
    discrete_inds: list[int] = [0, 1]  # noqa: RUF012 as in BoTorch
    continuous_inds: list[int] = [2]  # noqa: RUF012

    def __init__(
        self,
        table: str,
        risk: str,
        noise_std: float | None = 0.1,
        dtype: torch.dtype = torch.double,
    ) -> None:
        r"""Reads the table.

        Args:
            table: One of `TABLES`.
            risk: One of `botorch_risk.test_functions.certified.RISKS`, with the levels and radii of
                `CertifiedProblem`.
        """
        if table not in TABLES or risk not in RISKS:
            raise ValueError(
                f"Expected `table` to be one of {', '.join(TABLES)} and `risk` one of "
                f"{', '.join(RISKS)}. Got {table=}, {risk=}."
            )
        rows = np.loadtxt(FOLDER / f"{table}.csv", delimiter=",", skiprows=1)
        outcomes = torch.from_numpy(rows[:, 2:])
        first, second = (len(np.unique(column)) for column in rows[:, :2].T)
        self._bounds = [(0.0, first - 1.0), (0.0, second - 1.0), (0.0, 1.0)]
        super().__init__(noise_std=noise_std, dtype=dtype)
        num_conditions = outcomes.shape[-1]
        points = torch.linspace(0, 1, num_conditions, dtype=torch.double).unsqueeze(-1)
        weights = torch.full((num_conditions,), 1 / num_conditions, dtype=torch.double)
        exact = DiscreteEnvironment(points, weights)
        self.environment = DiscreteEnvironment(points.to(dtype), weights.to(dtype))
        self.risk_measure = measure_of(risk, exact)
        self._weights = weights
        self._outcomes = (outcomes / outcomes.std()).view(first, second, num_conditions)
        risks = self.risk_measure(self._outcomes, weights)
        self.optimal_risk = risks.max().item()
        best = int(risks.argmax())
        self._optimal_decision = (float(best // second), float(best % second))

    @property
    def optimal_decision(self) -> Tensor:
        r"""Where the risk is largest, a `2`-tensor."""
        return self.bounds.new_tensor(self._optimal_decision)

    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The risk of decisions, `... x 2 -> ...`; of the problem, or another one."""
        self._check_decisions(X)
        first, second = X.long().cpu().unbind(dim=-1)  # the table stays on the CPU
        values: Tensor = (risk or self.risk_measure)(self._outcomes[first, second], self._weights)
        return values.to(X)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        first, second = X[..., :2].round().long().cpu().unbind(dim=-1)
        last = self._outcomes.shape[-1] - 1
        condition = (X[..., 2] * last).round().long().cpu()
        return self._outcomes[first, second, condition].to(X)
