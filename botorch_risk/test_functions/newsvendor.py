r"""The newsvendor problem: how much to buy before the demand is known."""

import torch
from torch import Tensor
from torch.distributions import Distribution, TransformedDistribution, Uniform
from torch.distributions.transforms import AffineTransform, PowerTransform

from botorch_risk.environments.uniforms import legendre_axes
from botorch_risk.test_functions.expectation import ExpectationTestProblem

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
