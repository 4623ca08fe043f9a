r"""Functions whose slopes lead a greedy search away from their optimum."""

import torch
from torch import Tensor

from botorch_risk.arguments import check_counts, check_numbers
from botorch_risk.test_functions.repeats import ConstantNoiseProblem


class Deceptive(ConstantNoiseProblem):
    r"""In every input, a narrow peak between two wide slopes that lead away from it; maximised.

        f(x) = ( mean_i g_i(x_i) ) ** 2,    alpha_i = i / (d + 1)

        g_i(x) = 4/5 - x / alpha_i                      for 0 <= x <= 4/5 alpha_i
                 5 x / alpha_i - 4                      to alpha_i
                 5 (x - alpha_i) / (alpha_i - 1) + 1    to (1 + 4 alpha_i) / 5
                 (x - 1) / (1 - alpha_i) + 4/5          to 1

    on [0, 1]^d. The optimum is 1 at x = alpha. A. Gavana's collection of test functions has -f,
    minimised, with these pieces; Appendix C of [Ha2023uhe]_ prints the third and the fourth without
    "+ 1" and "+ 4/5", so that f would jump.

    Raises:
        ValueError: If `dim` is less than 1.

    Example:
        >>> Deceptive(dim=2)(torch.tensor([[1 / 3, 2 / 3], [0.0, 1.0]]))
        tensor([1.0000, 0.6400])
    """

    _optimal_value = 1.0

    def __init__(
        self, dim: int = 2, noise_std: float | None = None, dtype: torch.dtype = torch.double
    ) -> None:
        check_counts(dim=dim)
        self.dim = dim
        self.continuous_inds = list(range(dim))
        self._bounds = [(0.0, 1.0)] * dim
        self._optimizers = [tuple((i + 1) / (dim + 1) for i in range(dim))]
        super().__init__(noise_std=noise_std, dtype=dtype)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        alpha = torch.arange(1, self.dim + 1).to(X) / (self.dim + 1)
        pieces = torch.where(
            alpha >= X,
            torch.where(0.8 * alpha >= X, 0.8 - X / alpha, 5 * X / alpha - 4),
            torch.where(
                (1 + 4 * alpha) / 5 >= X,
                5 * (X - alpha) / (alpha - 1) + 1,
                (X - 1) / (1 - alpha) + 0.8,
            ),
        )
        return pieces.mean(dim=-1).square()


class H1(ConstantNoiseProblem):
    r"""Ripples in two inputs under a peak at (8.6998, 6.7665); maximised.

        f(x) = (sin(x_1 - x_2 / 8)^2 + sin(x_2 + x_1 / 8)^2)
               / sqrt((x_1 - 8.6998)^2 + (x_2 - 6.7665)^2 + 1)

    From [Soest2003h1]_. The maximum is 2. The box is `[-half_width, half_width]^2`; the usual one
    is [-100, 100]^2. The paper of UHE-BO does not state its box; [-25, 25]^2 is in use too.

    Raises:
        ValueError: If the box does not contain the optimum.
    """

    dim = 2
    continuous_inds: list[int] = [0, 1]  # noqa: RUF012 as in BoTorch
    _optimal_value = 2.0
    _optimizers: list[tuple[float, ...]] = [(8.6998, 6.7665)]  # noqa: RUF012

    def __init__(
        self,
        half_width: float = 100.0,
        noise_std: float | None = None,
        dtype: torch.dtype = torch.double,
    ) -> None:
        check_numbers(half_width=half_width)
        if not 8.6998 <= half_width < float("inf"):
            raise ValueError(f"Expected a box that holds the optimum. Got {half_width=}.")
        self._bounds = [(-half_width, half_width)] * 2
        super().__init__(noise_std=noise_std, dtype=dtype)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x, y = X.unbind(dim=-1)
        ripples = (x - y / 8).sin().square() + (y + x / 8).sin().square()
        return ripples / ((x - 8.6998).square() + (y - 6.7665).square() + 1).sqrt()
