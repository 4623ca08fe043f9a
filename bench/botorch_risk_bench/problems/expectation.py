r"""Base class for problems whose expectation over an environmental variable is maximised."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from botorch.test_functions.synthetic import Branin, Hartmann
from torch import Generator, Tensor
from torch.distributions import Cauchy, Distribution, Normal, TransformedDistribution, Uniform
from torch.distributions.transforms import AffineTransform, PowerTransform

from botorch_risk.environments import ContinuousEnvironment, Mixture
from botorch_risk.environments.continuous import Rule
from botorch_risk.environments.uniforms import draw_uniforms, legendre_axes
from botorch_risk.test_functions.environmental import (
    MAX_EVALUATIONS,
    EnvironmentalTestProblem,
    Risk,
)


class ExpectationTestProblem(EnvironmentalTestProblem, ABC):
    r"""A maximised function `f(x, w)` on the unit cube with a known distribution of W.

        objective(x) = E[f(x, W)],  or another measure of risk of f(x, W)

    The setting of [Huang2024kde]_, Eq. (1): W is drawn from a distribution and clipped to [0, 1],
    coordinate by coordinate. Deterministic given `(x, w)` unless `noise_std` is given.
    As everywhere in BoTorch, `optimal_value` and `optimizers` belong to `f`; `optimal_decision` and
    `optimal_expectation` belong to its expectation.

    A subclass names the distribution and defines `_evaluate_true`.
    """

    environment: ContinuousEnvironment
    optimal_expectation: float
    _optimal_decision: tuple[float, ...]
    _num_points: int = 514  # of the distribution; for a quadrature, two of each axis are the bounds
    _rule: Rule = "quadrature"

    def __init__(self, noise_std: float | None = None, dtype: torch.dtype = torch.double) -> None:
        self.dim = self.num_decision + self.num_environment
        self.continuous_inds = list(range(self.dim))
        self._bounds = [(0.0, 1.0)] * self.dim
        super().__init__(noise_std=noise_std, dtype=dtype)
        self.environment = ContinuousEnvironment(
            self.marginals,
            self.bounds[:, self.num_decision :],
            n_w=self._num_points,
            seeds=0,
            rule=self._rule,
            beyond="clip",
        )

    @property
    @abstractmethod
    def marginals(self) -> Distribution:
        r"""The distribution of each coordinate of W before it is clipped."""

    @property
    def optimal_decision(self) -> Tensor:
        r"""The decision with the largest expectation, a `d_x`-tensor."""
        return self.bounds.new_tensor(self._optimal_decision)

    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The expectation to six digits, or another measure of risk, differentiable in `X`.

        Another measure uses the points of `environment`, and is less exact.

        Raises:
            ValueError: If `X` does not have `d_x` columns or is not in the unit cube.
        """
        self._check_decisions(X)
        rows = X.reshape(-1, self.num_decision).double()
        chunk = max(1, MAX_EVALUATIONS // len(self.environment.weights))
        values = [
            self._expectation(part) if risk is None else self._measure(part, risk)
            for part in rows.split(chunk)
        ]
        return torch.cat(values).reshape(X.shape[:-1]).to(X)

    def sample_environment(
        self, num_samples: int, generator: Generator | Sequence[Generator], clipped: bool = True
    ) -> Tensor:
        r"""The next values of the environment, `n x d_w`, or `R x n x d_w`.

        Args:
            num_samples: The number of values of W to draw, `n`.
            generator: A CPU generator, or one for each of `R` replicates.
            clipped: Whether to clip the values to the bounds, which `f` needs. In the paper's
                public program, the models see the values before clipping.
        """
        if clipped:
            return self.environment.sample(num_samples, generator)
        uniforms = draw_uniforms((num_samples, self.num_environment), generator)
        return self.marginals.icdf(uniforms).to(self.bounds)

    def _measure(self, X: Tensor, risk: Risk) -> Tensor:
        inputs, weights = self.environment.expand(X)  # m x n_w x d
        return risk(self._evaluate_true(inputs), weights)

    def _expectation(self, X: Tensor) -> Tensor:
        r"""The expectation at `m x d_x` in float64, to six digits."""
        return self._measure(X, lambda values, weights: (values * weights).sum(dim=-1))


ACKLEY_HALF_WIDTH = 32.768


def _normal(mean: float, standard_deviation: float) -> Normal:
    return Normal(torch.tensor(mean, dtype=torch.double), standard_deviation)


class EnvironmentalAckley(ExpectationTestProblem):
    r"""Ackley negated, with two decision variables and one or four environmental ones.

        f(x, w) = 20 exp(-0.2 |z| / sqrt(d)) + exp(mean(cos(2 pi z))) - 20 - e,
        z = 65.536 (x, w) - 32.768,  W ~ N(0.5, 0.15^2)

    Sec. B.2 and Appendix D of [Huang2024kde]_, which lacks the minus sign of a maximised
    function. The expectation is exact: a product over the coordinates for the cosines, and for
    the root the integral, over `v > 0`, of such products,

        exp(-c |z|) = 2 / sqrt(pi) * integral exp(-v^2 - c^2 |z|^2 / (4 v^2)) dv.

    Raises:
        ValueError: If `num_environment` is neither 1 nor 4.
    """

    num_decision = 2
    _optimal_value = 0.0
    _optimal_decision = (0.5, 0.5)  # by symmetry, both terms are largest there
    _check_grad_at_opt = False

    def __init__(
        self,
        num_environment: int = 1,
        noise_std: float | None = None,
        dtype: torch.dtype = torch.double,
    ) -> None:
        optima = {1: -10.95227124, 4: -16.19957151}
        if num_environment not in optima:
            raise ValueError(f"Expected 1 or 4 environmental variables. Got {num_environment=}.")
        self.num_environment = num_environment
        self.optimal_expectation = optima[num_environment]
        self._optimizers = [(0.5,) * (2 + num_environment)]
        self._rule: Rule = "quadrature" if num_environment == 1 else "sobol"
        self._num_points = 1026 if num_environment == 1 else 2**13
        super().__init__(noise_std=noise_std, dtype=dtype)

    @property
    def marginals(self) -> Distribution:
        return _normal(0.5, 0.15)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        z = ACKLEY_HALF_WIDTH * (2 * X - 1)
        root = torch.linalg.vector_norm(z, dim=-1) / math.sqrt(self.dim)
        waves = torch.cos(2 * math.pi * z).mean(dim=-1)
        return 20 * torch.exp(-0.2 * root) + torch.exp(waves) - 20 - math.e

    def _expectation(self, X: Tensor) -> Tensor:
        z = ACKLEY_HALF_WIDTH * (2 * X - 1)  # m x 2
        c = 0.2 / math.sqrt(self.dim)
        log_v = torch.linspace(-25, 2.2, 1500, dtype=torch.double).to(X)
        rate = (c / 2) ** 2 * torch.exp(-2 * log_v)
        kernel = 2 / math.sqrt(math.pi) * torch.exp(log_v - torch.exp(2 * log_v))
        means = torch.exp(-rate * z.square().sum(dim=-1, keepdim=True))  # m x 1500
        means = means * self._mean_of_gaussian(rate) ** self.num_environment
        roots = (kernel * means).sum(dim=-1) * (log_v[1] - log_v[0])
        waves = torch.exp(torch.cos(2 * math.pi * z).sum(dim=-1) / self.dim)
        return 20 * roots + waves * self._mean_of_wave() - 20 - math.e

    def _mean_of_gaussian(self, rate: Tensor) -> Tensor:
        r"""`E exp(-rate * z^2)` for one environmental variable, its clipped ends included."""
        half, sd = ACKLEY_HALF_WIDTH, 2 * ACKLEY_HALF_WIDTH * 0.15
        narrower = 1 + 2 * rate * sd**2
        inside = torch.erf(half / sd * (narrower / 2).sqrt()) / narrower.sqrt()
        return inside + math.erfc(half / sd / math.sqrt(2)) * torch.exp(-rate * half**2)

    def _mean_of_wave(self) -> float:
        r"""`E exp(sum(cos(2 pi z(i))) / d)` over the environmental variables."""
        edges = torch.linspace(0, 1, 132, dtype=torch.double)  # panels of half a period
        panels = [legendre_axes(panel.reshape(2, 1), 16) for panel in edges.unfold(0, 2, 1)]
        w, lengths = (torch.cat(part) for part in zip(*panels, strict=True))
        z = ACKLEY_HALF_WIDTH * (2 * w - 1)
        distribution = self.marginals
        masses = distribution.log_prob(w).exp() * lengths
        inside = (masses * torch.exp(torch.cos(2 * math.pi * z) / self.dim)).sum().item()
        end = math.exp(math.cos(2 * math.pi * ACKLEY_HALF_WIDTH) / self.dim)
        return (inside + 2 * distribution.cdf(0 * edges[:1]).item() * end) ** self.num_environment


class EnvironmentalBranin(ExpectationTestProblem):
    r"""The modified Branin function, two decision variables and two environmental ones.

        f(x, w) = -sqrt(B(15 x_1 - 5, 15 w_1) B(15 w_2 - 5, 15 x_2)),  W(i) ~ N(0.5, 0.1^2)

    with `B` the Branin function; Sec. B.2 of [Huang2024kde]_, after [Williams2000branin]_. The
    expectation is a product of two, one for each environmental variable.

    Example:
        >>> problem = EnvironmentalBranin()
        >>> problem.objective(problem.optimal_decision).item()
        -9.60390...
    """

    num_decision = 2
    num_environment = 2
    optimal_expectation = -9.60390984
    _num_points = 66**2
    _optimal_value = -10 / (8 * math.pi)
    _optimal_decision = (0.1955515609, 0.1788387073)
    _optimizers: list[tuple[float, ...]] = [  # noqa: RUF012 as in BoTorch
        ((first[0] + 5) / 15, second[1] / 15, first[1] / 15, (second[0] + 5) / 15)
        for first in Branin._optimizers
        for second in Branin._optimizers
    ]

    _branin = Branin()  # shared, as its formula holds no state

    @property
    def marginals(self) -> Distribution:
        return _normal(0.5, 0.1)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x_1, x_2, w_1, w_2 = X.unbind(dim=-1)
        return -self._root(x_1, w_1) * self._root(w_2, x_2)

    def _expectation(self, X: Tensor) -> Tensor:
        axis = ContinuousEnvironment(
            self.marginals, self.bounds[:, :1].to(X), 514, rule="quadrature", beyond="clip"
        )
        x_1, x_2 = X.unsqueeze(-1).unbind(dim=-2)  # m x 1
        w, weights = axis.points.squeeze(-1), axis.weights
        return -(self._root(x_1, w) @ weights) * (self._root(w, x_2) @ weights)

    def _root(self, first: Tensor, second: Tensor) -> Tensor:
        inputs = torch.stack(torch.broadcast_tensors(15 * first - 5, 15 * second), dim=-1)
        return self._branin._evaluate_true(inputs).sqrt()


class EnvironmentalHartmann(ExpectationTestProblem):
    r"""Hartmann's function of six inputs, negated; the last input is environmental.

        "normal":       W ~ N(0.5, 0.1^2)
        "complicated":  W ~ equal shares of six normal distributions and two Cauchy distributions

    Hartmann and Complicated Hartmann of Sec. B.2 of [Huang2024kde]_. The second of the weights
    printed there, 2.0, must be 1.2.

    Raises:
        ValueError: If `distribution` is neither.
    """

    num_decision = 5
    num_environment = 1
    _optimal_value = 3.32237  # as in BoTorch
    _optimizers: list[tuple[float, ...]] = [  # noqa: RUF012
        (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)
    ]

    _hartmann = Hartmann(dim=6)  # shared, as its formula holds no state but the dtype

    def __init__(
        self,
        distribution: Literal["normal", "complicated"] = "normal",
        noise_std: float | None = None,
        dtype: torch.dtype = torch.double,
    ) -> None:
        optima: dict[str, tuple[float, tuple[float, ...]]] = {
            "normal": (2.61356484, (0.19703704, 0.14966287, 0.48391305, 0.27257225, 0.31350574)),
            "complicated": (
                1.94515025,
                (0.20010594, 0.15471568, 0.48676326, 0.27420541, 0.3122437),
            ),
        }
        if distribution not in optima:
            raise ValueError(
                f"Expected `distribution` to be one of {tuple(optima)}. Got {distribution=}."
            )
        self.distribution = distribution
        self.optimal_expectation, self._optimal_decision = optima[distribution]
        super().__init__(noise_std=noise_std, dtype=dtype)

    @property
    def marginals(self) -> Distribution:
        if self.distribution == "normal":
            return _normal(0.5, 0.1)
        normals = [(0.1, 0.02), (0.3, 0.075), (0.4, 0.1), (0.5, 0.1), (0.7, 0.075), (0.8, 0.03)]
        centers = torch.tensor([0.2, 0.8], dtype=torch.double)
        return Mixture([_normal(*each) for each in normals] + [Cauchy(c, 0.02) for c in centers])

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -self._hartmann._evaluate_true(X)  # Eq. (28)


COST, PRICE, SALVAGE = 5.0, 9.0, 1.0
SHAPE, TAIL = 2.0, 20.0  # alpha and beta of the Burr XII distribution


class Newsvendor(ExpectationTestProblem):
    r"""Profit from buying `x` units when `w` are demanded; one variable of each kind.

        f(x, w) = 9 min(x, w) + max(0, x - w) - 5 x,  P(W <= w) = 1 - (1 + w^2)^(-20)

    Sec. 4.3 and B.2 of [Huang2024kde]_. The expectation is known,

        objective(x) = (9 - 1) * integral_0^x (1 + w^2)^(-20) dw - (5 - 1) x,

    and is largest where `P(W <= x) = 1/2`. Clipping W at 1 changes nothing for `x <= 1`.

    Example:
        >>> problem = Newsvendor()
        >>> problem.optimal_decision, problem.objective(problem.optimal_decision)
        (tensor([0.1878], dtype=torch.float64), tensor(0.4639, dtype=torch.float64))
    """

    num_decision = 1
    num_environment = 1
    optimal_expectation = 0.4639430729
    _rule = "midpoints"  # f has a kink
    _num_points = 1024
    _optimal_decision = ((2 ** (1 / TAIL) - 1) ** (1 / SHAPE),)
    _optimal_value = PRICE - COST
    _optimizers: list[tuple[float, ...]] = [(1.0, 1.0)]  # noqa: RUF012 as in BoTorch
    _check_grad_at_opt = False

    @property
    def marginals(self) -> Distribution:
        r"""Burr's distribution of type XII."""
        one = torch.tensor(1.0, dtype=torch.double)
        survival_to_demand = [
            PowerTransform(-one / TAIL),  # (1 + w^alpha)
            AffineTransform(-one, one),
            PowerTransform(one / SHAPE),
        ]
        return TransformedDistribution(Uniform(0 * one, one), survival_to_demand)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x, w = X.unbind(dim=-1)
        return PRICE * torch.minimum(x, w) + SALVAGE * (x - w).clamp_min(0) - COST * x

    def _expectation(self, X: Tensor) -> Tensor:
        x = X.squeeze(-1)
        nodes, lengths = (part.to(X).squeeze(-1) for part in legendre_axes(self.bounds[:, :1], 64))
        w = x.unsqueeze(-1) * nodes
        sold = x * ((1 + w**SHAPE) ** -TAIL * lengths).sum(dim=-1)  # E min(x, W)
        return (PRICE - SALVAGE) * sold - (COST - SALVAGE) * x
