r"""Base class for problems whose value-at-risk over an environmental variable is maximised."""

import math
from abc import ABC
from typing import ClassVar, Literal

import torch
from botorch.test_functions.synthetic import Branin, Hartmann
from torch import Tensor
from torch.distributions import Normal

from botorch_risk.arguments import check_kind, in_short
from botorch_risk.environments import ContinuousEnvironment, DiscreteEnvironment
from botorch_risk.environments.continuous import BoundedMarginals
from botorch_risk.environments.uniforms import tensor_grid
from botorch_risk.risk import ValueAtRisk
from botorch_risk.test_functions.environmental import (
    MAX_EVALUATIONS,
    EnvironmentalTestProblem,
    Risk,
)

DistributionOfW = Literal["discrete", "continuous"]
Optimum = tuple[float, tuple[float, ...]]


class ValueAtRiskTestProblem(EnvironmentalTestProblem, ABC):
    r"""A maximised function `f(x, w)` on the unit cube, with a known distribution of W.

        objective(x) = VaR(f(x, W)) = inf {v : P(f(x, W) <= v) >= risk_level}

    This is the setting of [Nguyen2021vucb]_, Sec. 4 and Appendix I, where w is a part of the query.
    The distribution of W is one of

    - `"discrete"`: equidistant points of the unit cube of W, bounds included, with probabilities
      proportional to `prod_i exp(-(w(i) - 0.5)^2 / 0.1^2)`;
    - `"continuous"`: independent `N(0.5, 0.125^2)` coordinates, cut at two standard deviations.

    The objective is exact for a discrete distribution. For a continuous one it uses the whole
    distribution and is right to about six digits, while `environment` holds quantile
    midpoints. As everywhere in BoTorch, `optimal_value` and `optimizers` belong to `f`;
    `optimal_decision` and `optimal_value_at_risk` belong to the objective.

    A subclass defines `_evaluate_true` and states the optima for both distributions.

    Args:
        distribution: The distribution of W.
        noise_std: Standard deviation of the noise that `forward` adds; the paper's variance
            is 0.01.
        dtype: The dtype of the bounds and of the distribution's points.

    Raises:
        ValueError: If `distribution` is unknown.
    """

    risk_level: float = 0.1
    _optima: dict[DistributionOfW, Optimum]
    # Of the unit cube of W by probability: cells along the first axis, midpoints on others.
    _resolution: ClassVar[dict[int, tuple[int, int]]] = {1: (4096, 1), 2: (256, 1024)}

    def __init__(
        self,
        distribution: DistributionOfW = "discrete",
        noise_std: float | None = 0.1,
        dtype: torch.dtype = torch.double,
    ) -> None:
        check_kind(DistributionOfW, distribution=distribution)
        self.distribution = distribution
        self.optimal_value_at_risk, self._optimal_decision = self._optima[distribution]
        self.dim = self.num_decision + self.num_environment
        self.continuous_inds = list(range(self.dim))
        self._bounds = [(0.0, 1.0)] * self.dim
        super().__init__(noise_std=noise_std, dtype=dtype)
        box = self.bounds[:, self.num_decision :]
        self.environment = _discrete(box) if distribution == "discrete" else _continuous(box)

    @property
    def optimal_decision(self) -> Tensor:
        r"""The decision with the largest value-at-risk, a `d_x`-tensor."""
        return self.bounds.new_tensor(self._optimal_decision)

    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The value-at-risk without a gradient, or another measure over the environment.

        Raises:
            ValueError: If `X` does not have `d_x` columns or is not in the unit cube.
        """
        self._check_decisions(X)
        rows = X.reshape(-1, self.num_decision).double()
        if risk is None and self.distribution == "continuous":
            with torch.no_grad():
                values = [self._continuous_value_at_risk(row) for row in rows.split(1)]
        else:
            measure = ValueAtRisk(self.risk_level) if risk is None else risk
            chunk = max(1, MAX_EVALUATIONS // self.environment.points.shape[-2])
            parts = [self.environment.expand(part) for part in rows.split(chunk)]
            values = [measure(self._evaluate_true(inputs), weights) for inputs, weights in parts]
        return torch.cat(values).reshape(X.shape[:-1]).to(X)

    def _continuous_value_at_risk(self, x: Tensor) -> Tensor:
        r"""At a `1 x d_x` decision: `f` is linear between nodes that are equally probable."""
        cells, lines = self._resolution[self.num_environment]
        first = torch.linspace(0, 1, cells + 1, dtype=torch.double).to(x)
        others = [(torch.arange(lines, dtype=torch.double).to(x) + 0.5) / lines]
        levels = tensor_grid([*others * (self.num_environment - 1), first])  # lines vary slowest
        W = _truncated_normal(self.num_environment).from_uniforms(levels.cpu()).to(x)
        inputs = torch.cat([x.expand(len(W), -1), W], dim=-1)
        values = self._evaluate_true(inputs).reshape(-1, cells + 1)
        return _quantile(values, self.risk_level).unsqueeze(0)


def equidistant_grid(box: Tensor, size: int) -> Tensor:
    r"""Equidistant points of the unit cube, bounds included, `size` on each axis."""
    axis = torch.linspace(0, 1, size, dtype=torch.double).to(box)
    return tensor_grid([axis] * box.shape[-1])


def _discrete(box: Tensor) -> DiscreteEnvironment:
    r"""100 points in one dimension, 8 by 8 in two (Sec. 4.1 and Appendix I)."""
    points = equidistant_grid(box.double(), {1: 100, 2: 8}[box.shape[-1]])
    masses = torch.exp(-((points - 0.5) / 0.1).square().sum(dim=-1))
    return DiscreteEnvironment(points.to(box), (masses / masses.sum()).to(box))


def _continuous(box: Tensor) -> ContinuousEnvironment:
    distribution = _truncated_normal(box.shape[-1])
    n_w = {1: 128, 2: 16**2}[box.shape[-1]]
    return ContinuousEnvironment(
        distribution.marginals, distribution.bounds.to(box), n_w, rule="midpoints"
    )


def _truncated_normal(d_w: int) -> BoundedMarginals:
    r"""Cut at two standard deviations, 0.25 and 0.75 (Appendix I)."""
    normal = Normal(torch.tensor(0.5, dtype=torch.double), 0.125)
    bounds = torch.tensor([[0.25], [0.75]], dtype=torch.double).expand(2, d_w)
    return BoundedMarginals(normal, bounds)


def _quantile(values: Tensor, level: float) -> Tensor:
    r"""Quantile of a function that is linear between equally probable nodes.

    `values`, `lines x (cells + 1)`, are those at the nodes of equally probable lines.
    """
    ends = (
        torch.minimum(values[:, :-1], values[:, 1:]),
        torch.maximum(values[:, :-1], values[:, 1:]),
    )
    lower, upper = (end.flatten() for end in ends)  # of each cell
    target, settled = level * len(lower), torch.zeros_like(values[0, 0])
    low, high = values.min(), values.max()
    for _ in range(50):  # halves the range to rounding
        middle = (low + high) / 2
        shares = ((middle - lower) / (upper - lower).clamp_min(1e-300)).clamp(0, 1)
        low, high = (middle, high) if settled + shares.sum() < target else (low, middle)
        below = upper <= low
        settled += below.sum()
        open_cells = ~below & (lower < high)
        lower, upper = lower[open_cells], upper[open_cells]
    return (low + high) / 2


class ValueAtRiskBranin(ValueAtRiskTestProblem):
    r"""Branin-Hoo (1, 1): one decision variable and one environmental one.

        f(x, w) = -(B(15 x - 5, 15 w) - 44.81) / 51.95

    with `B` the Branin function. The paper does not specify the scaling. In the authors' program B
    lacks its constant 10: its values are larger than these by 10 / 51.95 everywhere.

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

    with `G` the function of Goldstein and Price. The authors' program omits the usual division by
    2.427; the paper does not specify the scaling.

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
    r"""Hartmann's function of three inputs, negated; one or two of them are environmental.

    In the discrete case, Hartmann-(1, 2) has 64 points of W, and Hartmann-(2, 1) has 100.

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
            raise ValueError(
                f"Expected 1 or 2 decision variables. Got num_decision={in_short(num_decision)}."
            )
        self.num_decision, self.num_environment = num_decision, 3 - num_decision
        self._optima = optima[num_decision]
        super().__init__(distribution, noise_std, dtype)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -self._hartmann._evaluate_true(X)
