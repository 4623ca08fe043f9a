r"""A newsvendor who chooses a price, a number of lots and a supplier: a mixed problem."""

import torch
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.test_functions.environmental import (
    EnvironmentalTestProblem,
    Risk,
    bell_shaped_environment,
    risk_over,
)

SALVAGE = 0.5
LOTS, COSTS, LOSSES = (15.0, 20.0, 30.0), (3.0, 2.4, 1.7), (0.0, 0.2, 0.6)  # of the suppliers


class MixedNewsvendor(EnvironmentalTestProblem):
    r"""The profit of a season, for a continuous, an integer and a categorical decision variable.

        f(x, w) = (price min(demand, received) + 0.5 max(0, received - demand) - cost ordered) / 100
        demand = 400 exp(-price / 4) (0.4 + 1.2 w),  ordered = lots * units in a lot,
        received = ordered (1 - loss (1 - w))
        objective(x) = CVaR(f(x, W)), the mean of the worst fifth

    A newsvendor who sets the price, after [Petruzzi1999pricing]_. The columns of x are the price in
    [3, 10], the number of lots 1, ..., 8 and the supplier:

        0: lots of 15 units, 3.0 each, all arrive;
        1: lots of 20 units, 2.4 each, up to 0.2 of them are lost;
        2: lots of 30 units, 1.7 each, up to 0.6 of them are lost.

    W, the quality of the season, has the distribution `bell_shaped_environment()`. The best
    expectation, 3.12, is that of the cheapest supplier, who delivers least in a bad season.

    Example:
        >>> problem = MixedNewsvendor()
        >>> problem.optimal_decision
        tensor([7.1606, 3.0000, 1.0000], dtype=torch.float64)
        >>> problem.objective(problem.optimal_decision).item()
        2.079819...
    """

    num_decision = 3
    num_environment = 1
    dim = 4
    continuous_inds: list[int] = [0, 3]  # noqa: RUF012 as in BoTorch
    discrete_inds: list[int] = [1]  # noqa: RUF012
    categorical_inds: list[int] = [2]  # noqa: RUF012
    _bounds: list[tuple[float, float]] = [  # noqa: RUF012
        (3.0, 10.0),
        (1.0, 8.0),
        (0.0, 2.0),
        (0.0, 1.0),
    ]
    environment: DiscreteEnvironment
    risk_level = 0.2
    optimal_conditional_value_at_risk = 2.07981976
    _optimal_decision = (7.16059160, 3.0, 1.0)

    def __init__(self, noise_std: float | None = None, dtype: torch.dtype = torch.double) -> None:
        super().__init__(noise_std=noise_std, dtype=dtype)
        self.environment = bell_shaped_environment(dtype)

    @property
    def optimal_decision(self) -> Tensor:
        r"""The decision with the largest conditional value-at-risk, a `d_x`-tensor."""
        return self.bounds.new_tensor(self._optimal_decision)

    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The conditional value-at-risk at `risk_level`, or another measure of risk.

        Raises:
            ValueError: If `X` does not have three columns, is not within the bounds, or the number
                of lots or the supplier is not a whole number.
        """
        self._check_decisions(X)
        measure = ConditionalValueAtRisk(self.risk_level) if risk is None else risk
        return risk_over(self.environment, X, self._evaluate_true, measure)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        price, lots, supplier, w = X.unbind(dim=-1)
        tables = X.new_tensor([LOTS, COSTS, LOSSES])
        units, cost, loss = tables[:, supplier.long()].unbind(dim=0)
        demand = 400 * torch.exp(-price / 4) * (0.4 + 1.2 * w)
        ordered = lots * units
        received = ordered * (1 - loss * (1 - w))
        revenue = price * torch.minimum(demand, received)
        return (revenue + SALVAGE * (received - demand).clamp_min(0) - cost * ordered) / 100
