r"""Problems whose noise depends on the point, with a known optimum of mean minus variance."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
from botorch.test_functions.synthetic import Branin, Hartmann, SixHumpCamel, SyntheticTestFunction
from scipy.optimize import minimize
from torch import Tensor

from botorch_risk.arguments import check_kind, check_nonnegative, in_short
from botorch_risk.test_functions.repeats import RepeatedTestProblem

GRID_SIZE = 2**18  # points of the grid, whatever the dimension
NUM_STARTS = 16
START_DISTANCE = 0.05  # between two starts in any one input, as a fraction of its range


def local_maxima(
    function: Callable[[Tensor], Tensor], bounds: Sequence[tuple[float, float]]
) -> tuple[Tensor, Tensor]:
    r"""Climb with L-BFGS-B from the best points of a dense grid that lie apart.

    The search is deterministic and in float64. The grid is dense enough for up to three inputs.

    Args:
        function: A differentiable function from points `n x d` to values `n`.
        bounds: Lower and upper bound of each of the `d` inputs.

    Returns:
        The points, `n x d`, and their values, `n`, best first. Several starts may have
        reached the same point.
    """
    X = torch.stack([_climb(function, start, bounds) for start in _starts(function, bounds)])
    values = function(X)
    order = values.argsort(descending=True, stable=True)
    return X[order], values[order]


def _starts(
    function: Callable[[Tensor], Tensor], bounds: Sequence[tuple[float, float]]
) -> list[Tensor]:
    r"""The best point of a grid, the best one away from it, and so on; each a `d`-tensor."""
    size = round(GRID_SIZE ** (1 / len(bounds)))
    axes = [torch.linspace(lower, upper, size, dtype=torch.double) for lower, upper in bounds]
    grid = torch.cartesian_prod(*axes).view(-1, len(bounds))
    reach = START_DISTANCE * (grid.amax(dim=0) - grid.amin(dim=0))
    values = function(grid)
    starts: list[Tensor] = []
    while len(starts) < NUM_STARTS and values.max() > -torch.inf:
        starts.append(grid[values.argmax()])
        values[((grid - starts[-1]).abs() < reach).all(dim=-1)] = -torch.inf
    return starts


def _climb(
    function: Callable[[Tensor], Tensor], start: Tensor, bounds: Sequence[tuple[float, float]]
) -> Tensor:
    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        X = torch.from_numpy(x).unsqueeze(0).requires_grad_()  # 1 x d
        value = -function(X).sum()
        (gradient,) = torch.autograd.grad(value, X)
        return value.item(), gradient.squeeze(0).numpy()

    options = {"ftol": 1e-16, "gtol": 1e-10}
    found = minimize(
        loss, start.numpy(), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return torch.from_numpy(found.x)


SigmoidIs = Literal["standard_deviation", "variance"]

TIE_TOLERANCE = 1e-9  # relative; values closer than this are equal optima


class HeteroscedasticTestProblem(RepeatedTestProblem, SyntheticTestFunction, ABC):
    r"""A maximised synthetic problem with Gaussian noise of a known, input-dependent variance.

        outcome(x) = f(x) + sqrt(noise_variance(x)) * N(0, 1)

    Eq. (1) of [Makarova2021rahbo]_.
    `forward` adds this noise, not a constant `noise_std`. As everywhere in BoTorch, `optimal_value`
    and `optimizers` belong to `f` alone; `optimal_mean_variance` is the optimum
    under risk. A subclass defines `_evaluate_true` and `_noise_variance`, both
    differentiable, and treats its parameters as fixed once it is built.

    Args:
        risk_aversion: The weight of the variance (the paper's alpha) in the objective.
        dtype: The dtype of the bounds and optimizers.

    Raises:
        ValueError: If `risk_aversion` is negative or not finite.

    Example:
        >>> class Line(HeteroscedasticTestProblem):
        ...     dim, continuous_inds, _bounds, _optimal_value = 1, [0], [(0.0, 1.0)], 1.0
        ...     def _evaluate_true(self, X):
        ...         return X[..., 0]
        ...     def _noise_variance(self, X):
        ...         return X[..., 0].square()
        >>> X = torch.tensor([[0.0], [0.5], [1.0]])
        >>> Line().mean_variance(X, risk_aversion=1.0)  # x - x^2
        tensor([0.0000, 0.2500, 0.0000])
    """

    def __init__(self, risk_aversion: float = 1.0, dtype: torch.dtype = torch.double) -> None:
        check_nonnegative(risk_aversion=risk_aversion)
        super().__init__(dtype=dtype)
        self.risk_aversion = risk_aversion
        self._optima: dict[float, tuple[list[float], float]] = {}

    def noise_variance(self, X: Tensor) -> Tensor:
        r"""The variance of one outcome at `... x d` points, in squared units of the objective."""
        self._validate(X)
        return self._noise_variance(X)

    def objective(self, X: Tensor) -> Tensor:
        r"""`mean_variance` with the weight of this problem, `... x d -> ...`."""
        return self.mean_variance(X, self.risk_aversion)

    def mean_variance(self, X: Tensor, risk_aversion: float) -> Tensor:
        r"""The objective under risk, `... x d -> ...`.

            mean_variance(x) = f(x) - risk_aversion * noise_variance(x)

        Eq. (2) of [Makarova2021rahbo]_.

        Raises:
            ValueError: If `risk_aversion` is negative or not finite, or `X` is not within
                the bounds.
        """
        check_nonnegative(risk_aversion=risk_aversion)
        self._validate(X)
        return self._mean_variance(X, risk_aversion)

    def optimal_mean_variance(self, risk_aversion: float) -> tuple[Tensor, float]:
        r"""The optimizer of `mean_variance`, a `d`-tensor, and its value, found by `local_maxima`.

        Among equal optima, it is the one with the least noise.

        Raises:
            ValueError: If `risk_aversion` is negative or not finite.
        """
        check_nonnegative(risk_aversion=risk_aversion)
        if risk_aversion not in self._optima:
            X, values = local_maxima(lambda X: self._mean_variance(X, risk_aversion), self._bounds)
            tied = values >= values[0] - TIE_TOLERANCE * values[0].abs().clamp_min(1.0)
            best = self._noise_variance(X[tied]).argmin()
            self._optima[risk_aversion] = X[best].tolist(), values[best].item()
        optimizer, value = self._optima[risk_aversion]
        return self.bounds.new_tensor(optimizer), value

    def _mean_variance(self, X: Tensor, risk_aversion: float) -> Tensor:
        return self._evaluate_true(X) - risk_aversion * self._noise_variance(X)  # Eq. (2)

    def _observe(self, X: Tensor, draws: Tensor) -> Tensor:
        mean, variance = self._evaluate_true(X), self._noise_variance(X)  # ...
        return mean.unsqueeze(-1) + variance.sqrt().unsqueeze(-1) * draws.to(X)  # ... x k

    @abstractmethod
    def _noise_variance(self, X: Tensor) -> Tensor:
        r"""The variance of one outcome, a `...` tensor, at valid points `X: ... x d`."""


class SigmoidNoiseProblem(HeteroscedasticTestProblem, ABC):
    r"""A heteroscedastic problem whose level of noise is built from sigmoids.

    The paper's text calls the sigmoid the noise variance; the authors' program, which made their
    figures, uses it as the standard deviation. Both are offered.

    Args:
        noise_scale: The height of each sigmoid, at least 0. The authors' configurations
            use 1 and 2; the paper gives none.
        sigmoid_is: Whether the sigmoid is the "standard_deviation" of the noise,
            as in the authors' program, or its "variance", as in the paper's text.
        risk_aversion: The weight of the variance (the paper's alpha) in the objective.
        dtype: The dtype of the bounds and optimizers.

    Raises:
        ValueError: If `noise_scale` or `risk_aversion` is negative or not finite, or
            `sigmoid_is` unknown.
    """

    def __init__(
        self,
        noise_scale: float = 1.0,
        sigmoid_is: SigmoidIs = "standard_deviation",
        risk_aversion: float = 1.0,
        dtype: torch.dtype = torch.double,
    ) -> None:
        check_nonnegative(noise_scale=noise_scale)
        check_kind(SigmoidIs, sigmoid_is=sigmoid_is)
        super().__init__(risk_aversion, dtype)
        self.noise_scale = noise_scale
        self.sigmoid_is = sigmoid_is

    def _noise_variance(self, X: Tensor) -> Tensor:
        level = self._noise_level(X)
        return level.square() if self.sigmoid_is == "standard_deviation" else level

    @abstractmethod
    def _noise_level(self, X: Tensor) -> Tensor:
        r"""The standard deviation or the variance, whichever `sigmoid_is` says."""


class HeteroscedasticSine(SigmoidNoiseProblem):
    r"""A sine with two equal maxima; the right one is noisy; `d = 1` on `[0, 2]`.

        f(x) = sin(2 pi x)
        level(x) = noise_scale * sigmoid(30 (x - 1)) + 0.1

    Section 4 of [Makarova2021rahbo]_; the constants are from the authors' program.

    Example:
        >>> problem = HeteroscedasticSine()
        >>> X = torch.tensor([[0.25], [1.25]], dtype=torch.double)
        >>> problem.mean_variance(X, risk_aversion=1.0)
        tensor([ 0.9900, -0.2088], dtype=torch.float64)
        >>> problem.sample_repeats(X, num_repeats=10, generator=torch.Generator()).shape
        torch.Size([2, 10])
    """

    dim = 1
    continuous_inds: list[int] = [0]  # noqa: RUF012 as in BoTorch
    _bounds: list[tuple[float, float]] = [(0.0, 2.0)]  # noqa: RUF012
    _optimal_value = 1.0
    _optimizers: list[tuple[float, ...]] = [(0.25,), (1.25,)]  # noqa: RUF012

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return torch.sin(2 * math.pi * X[..., 0])

    def _noise_level(self, X: Tensor) -> Tensor:
        return self.noise_scale * torch.sigmoid(30.0 * (X[..., 0] - 1.0)) + 0.1


class HeteroscedasticBranin(SigmoidNoiseProblem):
    r"""Branin negated, with three equal, unequally noisy maxima; on `[-5, 10] x [0, 15]`.

        f(x) = -Branin(x)
        level(x) = (noise_scale * sigmoid(2 (x_1 - 3.2)) + 0.2)
                   * (noise_scale * sigmoid(2 x_2) + 0.2)

    Section 4 of [Makarova2021rahbo]_; the constants are from the authors' program. The
    maximum at `(-pi, 12.275)` has the least noise, the one at `(3 pi, 2.475)` the most.

    Example:
        >>> problem = HeteroscedasticBranin(noise_scale=2.0)
        >>> problem.noise_variance(problem.optimizers)
        tensor([ 0.1936,  6.1890, 23.1268], dtype=torch.float64)
        >>> optimizer, value = problem.optimal_mean_variance(risk_aversion=1.0)
        >>> optimizer, round(value, 4)
        (tensor([-3.1416, 12.2750], dtype=torch.float64), -0.5915)
    """

    dim = 2
    continuous_inds: list[int] = [0, 1]  # noqa: RUF012
    _bounds: list[tuple[float, float]] = Branin._bounds
    _optimal_value = -10 / (8 * math.pi)  # where BoTorch's Branin rounds to 0.397887
    _optimizers: list[tuple[float, ...]] = Branin._optimizers

    _branin = Branin()  # shared, as its formula holds no state

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -self._branin._evaluate_true(X)

    def _noise_level(self, X: Tensor) -> Tensor:
        first = self.noise_scale * torch.sigmoid(2.0 * (X[..., 0] - 3.2)) + 0.2
        second = self.noise_scale * torch.sigmoid(2.0 * X[..., 1]) + 0.2
        return first * second


class HeteroscedasticHartmann(HeteroscedasticTestProblem):
    r"""The negated Hartmann function of three or six inputs on `[0, 1]^d`.

        f(x) = -Hartmann(x)
        std(x) = 0.1 + exp(-|x - x*|^2 / (2 0.2^2)),          d = 3: a bump round the maximiser of f
        std(x) = 0.1 + 0.7 sigmoid(-20 (x_1 - 0.3)),          d = 6: a step in one input

    With six inputs the second maximum of f, at `x_1 = 0.40`, is quiet.

    Raises:
        ValueError: If `dim` is neither 3 nor 6, or `risk_aversion` is negative or not finite.
    """

    _optimal_value: float

    def __init__(
        self, dim: int = 3, risk_aversion: float = 1.0, dtype: torch.dtype = torch.double
    ) -> None:
        if dim not in (3, 6):
            raise ValueError(f"Expected `dim` to be 3 or 6. Got {in_short(dim)}.")
        self.dim = dim
        self.continuous_inds = list(range(dim))
        self._bounds = [(0.0, 1.0)] * dim
        hartmann = Hartmann(dim=dim, negate=True, dtype=torch.double)
        self._optimal_value = hartmann.optimal_value
        self._optimizers = [tuple(row) for row in hartmann.optimizers.tolist()]
        self._peak = hartmann.optimizers[0]
        super().__init__(risk_aversion, dtype)
        self._hartmann = hartmann

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -self._hartmann.to(X)._evaluate_true(X)

    def _noise_variance(self, X: Tensor) -> Tensor:
        if self.dim == 3:
            level = 0.1 + (-(X - self._peak.to(X)).square().sum(dim=-1) / 0.08).exp()
        else:
            level = 0.1 + 0.7 * torch.sigmoid(-20 * (X[..., 0] - 0.3))
        return level.square()


class HeteroscedasticCamel(HeteroscedasticTestProblem):
    r"""The six-hump camel function negated, with unequal noise at its two equal maxima.

        f(x) = -SixHumpCamel(x) on [-2, 2] x [-1, 1]
        std(x) = 0.4 exp(x_1)

    The noise grows by a factor of 50 along the first input.
    """

    dim = 2
    continuous_inds: list[int] = [0, 1]  # noqa: RUF012 as in BoTorch
    _bounds: list[tuple[float, float]] = [(-2.0, 2.0), (-1.0, 1.0)]  # noqa: RUF012
    _optimal_value = -SixHumpCamel._optimal_value
    _optimizers: list[tuple[float, ...]] = SixHumpCamel._optimizers

    _camel = SixHumpCamel()  # shared, as its formula holds no state

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -self._camel._evaluate_true(X)

    def _noise_variance(self, X: Tensor) -> Tensor:
        return (0.4 * X[..., 0].exp()).square()
