r"""Classical functions some of whose inputs are random, and whose value-at-risk is maximised."""

import math

import torch
from botorch.test_functions.synthetic import Branin, Hartmann
from torch import Tensor

from botorch_risk.test_functions.value_at_risk import (
    DistributionOfW,
    Optimum,
    ValueAtRiskTestProblem,
)


class ValueAtRiskBranin(ValueAtRiskTestProblem):
    r"""Branin-Hoo (1, 1): one decision variable and one environmental one.

        f(x, w) = -(B(15 x - 5, 15 w) - 44.81) / 51.95

    with `B` the Branin function, scaled as in the authors' program, which the paper leaves open.

    Source: [Nguyen2021vucb]_, Sec. 4.1.

    Example:
        >>> problem = ValueAtRiskBranin()
        >>> problem.objective(problem.optimal_decision).item()
        0.539985...
    """

    num_decision = 1
    num_environment = 1
    _optima: dict[DistributionOfW, Optimum] = {  # noqa: RUF012
        "discrete": (0.53998580, (0.23479985,)),
        "continuous": (0.44704070, (0.24744090,)),
    }
    _optimal_value = -(10 / (8 * math.pi) - 44.81) / 51.95
    _optimizers: list[tuple[float, ...]] = [  # noqa: RUF012
        ((u + 5) / 15, v / 15) for u, v in Branin._optimizers
    ]

    _branin = Branin()  # shared, as its formula holds no state

    def _evaluate_true(self, X: Tensor) -> Tensor:
        inputs = 15 * X - X.new_tensor([5.0, 0.0])
        return -(self._branin._evaluate_true(inputs) - 44.81) / 51.95


class ValueAtRiskGoldsteinPrice(ValueAtRiskTestProblem):
    r"""Goldstein-Price (1, 1): one decision variable and one environmental one.

        f(x, w) = -(log G(4 x - 2, 4 w - 2) - 8.693)

    with `G` the function of Goldstein and Price. In the authors' program the usual division by
    2.427 is switched off; the paper leaves the scaling open.

    Source: [Nguyen2021vucb]_, Sec. 4.1.
    """

    num_decision = 1
    num_environment = 1
    _optima: dict[DistributionOfW, Optimum] = {  # noqa: RUF012
        "discrete": (1.79940408, (0.83613117,)),
        "continuous": (1.65181556, (0.72788837,)),
    }
    _optimal_value = 8.693 - math.log(3)
    _optimizers: list[tuple[float, ...]] = [(0.5, 0.25)]  # noqa: RUF012

    def _evaluate_true(self, X: Tensor) -> Tensor:
        a, b = (4 * X - 2).unbind(dim=-1)
        sums = 19 - 14 * a + 3 * a**2 - 14 * b + 6 * a * b + 3 * b**2
        differences = 18 - 32 * a + 12 * a**2 + 48 * b - 36 * a * b + 27 * b**2
        first = 1 + (a + b + 1) ** 2 * sums
        return 8.693 - (first * (30 + (2 * a - 3 * b) ** 2 * differences)).log()


class ValueAtRiskHartmann(ValueAtRiskTestProblem):
    r"""Hartmann's function of three inputs, negated, of which one or two are environmental.

    Hartmann-(1, 2) has 64 points of W, Hartmann-(2, 1) 100 in the discrete case.

    Source: [Nguyen2021vucb]_, Sec. 4.1.

    Raises:
        ValueError: If `num_decision` or `distribution` is unknown.
    """

    _optimal_value = 3.86278  # as in BoTorch
    _optimizers: list[tuple[float, ...]] = [(0.114614, 0.555649, 0.852547)]  # noqa: RUF012

    _hartmann = Hartmann(dim=3)  # shared, as its formula holds no state but the dtype

    def __init__(
        self,
        num_decision: int = 1,
        distribution: DistributionOfW = "discrete",
        noise_std: float | None = 0.1,
        dtype: torch.dtype = torch.double,
    ) -> None:
        optima: dict[int, dict[DistributionOfW, Optimum]] = {
            1: {"discrete": (0.44710348, (0.21168817,)), "continuous": (0.4037292, (0.25832157,))},
            2: {
                "discrete": (1.66426194, (0.10935229, 0.87145164)),
                "continuous": (0.87758262, (0.10977531, 0.87085811)),
            },
        }
        if num_decision not in optima:
            raise ValueError(f"Expected 1 or 2 decision variables. Got {num_decision=}.")
        self.num_decision, self.num_environment = num_decision, 3 - num_decision
        self._optima = optima[num_decision]
        super().__init__(distribution, noise_std, dtype)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -self._hartmann._evaluate_true(X)
