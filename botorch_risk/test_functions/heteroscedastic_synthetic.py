r"""Problems of two to six inputs whose largest mean is noisy, each with another shape of noise."""

import torch
from botorch.test_functions.synthetic import Hartmann, SixHumpCamel
from torch import Tensor

from botorch_risk.test_functions.heteroscedastic import HeteroscedasticTestProblem


class HeteroscedasticHartmann(HeteroscedasticTestProblem):
    r"""Hartmann negated, of three or six inputs; `[0, 1]^d`.

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
            raise ValueError(f"Expected `dim` to be 3 or 6. Got {dim}.")
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
    r"""The six-hump camel function negated, its two equal maxima unequally noisy.

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
