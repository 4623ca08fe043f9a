r"""Classical constrained functions whose constraints have to hold with a given probability."""

import math

import torch
from botorch.test_functions.synthetic import Branin
from torch import Tensor

from botorch_risk.test_functions.chance_constrained import ChanceConstrainedTestProblem


class ChanceConstrainedGramacy(ChanceConstrainedTestProblem):
    r"""The toy problem of Gramacy et al. with uncertain prices and limits; two decisions.

        f(x, w)   = -(0.5 + w) (x_1 + x_2)
        c_1(x, w) = x_1 + 2 x_2 + sin(2 pi (x_1^2 - 2 x_2)) / 2 - 1.5 - (w - 0.5) (0.2 + x_1)
        c_2(x, w) = 1.5 - x_1^2 - x_2^2 - 0.4 (w - 0.5)

    At w = 0.5 it is the problem of [Gramacy2016lagrangian]_, whose optimum is -0.5998 at
    (0.1954, 0.4044). Decisions near it miss the chance: the optimum moves away along the first
    constraint, which is tight there. A second local optimum is -0.756041 at (0, 0.756041). 35 % of
    the square is feasible.

    Example:
        >>> problem = ChanceConstrainedGramacy()
        >>> problem.objective(problem.optimal_decision).item()
        -0.699606...
        >>> X = torch.tensor([[0.1954, 0.4044], [0.3, 0.45]], dtype=torch.double)
        >>> problem.is_feasible_decision(X)
        tensor([False,  True])
    """

    num_decision = 2
    num_environment = 1
    num_constraints = 2
    _bounds: list[tuple[float, float]] = [(0.0, 1.0)] * 3
    optimal_expectation = -0.69960698
    _optimal_decision = (0.27446772, 0.42513927)
    _worst_feasible_value = -math.sqrt(2.8)  # on the diagonal, where the second constraint is tight

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -(0.5 + X[..., 2]) * (X[..., 0] + X[..., 1])

    def _evaluate_slack_true(self, X: Tensor) -> Tensor:
        x_1, x_2, w = X.unbind(dim=-1)
        wave = torch.sin(2 * math.pi * (x_1.square() - 2 * x_2)) / 2
        first = x_1 + 2 * x_2 + wave - 1.5 - (w - 0.5) * (0.2 + x_1)
        second = 1.5 - x_1.square() - x_2.square() - 0.4 * (w - 0.5)
        return torch.stack([first, second], dim=-1)


class ChanceConstrainedBranin(ChanceConstrainedTestProblem):
    r"""Branin, shifted at random, in a disk of random size; two decisions.

        f(x, w) = -(B(x_1 + 4 (w - 0.5), x_2) - 44.81) / 51.95
        c(x, w) = 1 - ((x_1 - 2.5)^2 + (x_2 - 7.5)^2) / 50 - 2.4 (w - 0.5)

    with `B` the Branin function. At w = 0.5 the constraint is the disk of [Gelbart2014unknown]_.
    The feasible set is the disk of radius sqrt(20) round (2.5, 7.5), 28 % of the box. The optimum
    is on its circle; without the constraint the expectation reaches 0.820359.
    """

    num_decision = 2
    num_environment = 1
    num_constraints = 1
    _bounds: list[tuple[float, float]] = [(-5.0, 10.0), (0.0, 15.0), (0.0, 1.0)]  # noqa: RUF012
    optimal_expectation = 0.81097041
    _optimal_decision = (3.01327250, 3.05741615)
    _worst_feasible_value = -1.25734087

    _branin = Branin()  # shared, as its formula holds no state

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x_1, x_2, w = X.unbind(dim=-1)
        inputs = torch.stack([x_1 + 4 * (w - 0.5), x_2], dim=-1)
        return -(self._branin._evaluate_true(inputs) - 44.81) / 51.95

    def _evaluate_slack_true(self, X: Tensor) -> Tensor:
        x_1, x_2, w = X.unbind(dim=-1)
        squares = (x_1 - 2.5).square() + (x_2 - 7.5).square()
        return (1 - squares / 50 - 2.4 * (w - 0.5)).unsqueeze(-1)
