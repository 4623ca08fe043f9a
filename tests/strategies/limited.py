r"""The toy problem of Gramacy et al. with an uncertain price and uncertain limits."""

import math
from typing import Any

import torch
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment


class LimitedPrice:
    r"""Two decision variables, w, and three outcomes: the objective and two slacks.

        f(x, w)   = -(0.5 + w) (x_1 + x_2)
        c_1(x, w) = x_1 + 2 x_2 + sin(2 pi (x_1^2 - 2 x_2)) / 2 - 1.5 - (w - 0.5) (0.2 + x_1)
        c_2(x, w) = 1.5 - x_1^2 - x_2^2 - 0.4 (w - 0.5)

    Both slacks decrease in w, whose mean is 1 / 2: so the expectation of f is f(x, 1 / 2), and
    P(c_i(x, W) >= 0) >= 0.95 where c_i(x, 0.75) >= 0.
    """

    decision_bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    best = -0.69960698  # of a feasible decision

    def __init__(self) -> None:
        w = torch.linspace(0, 1, 33, dtype=torch.double)
        masses = (-((w - 0.5) / 0.15).square() / 2).exp()
        self.environment = DiscreteEnvironment(w.unsqueeze(-1), masses / masses.sum())

    def outcomes(self, X: Tensor) -> Tensor:
        x_1, x_2, w = X.unbind(dim=-1)
        wave = torch.sin(2 * math.pi * (x_1.square() - 2 * x_2)) / 2
        first = x_1 + 2 * x_2 + wave - 1.5 - (w - 0.5) * (0.2 + x_1)
        second = 1.5 - x_1.square() - x_2.square() - 0.4 * (w - 0.5)
        return torch.stack([-(0.5 + w) * (x_1 + x_2), first, second], dim=-1)

    def objective(self, X: Tensor) -> Tensor:
        return -X.sum(dim=-1)

    def is_feasible(self, X: Tensor) -> Tensor:
        nearly_worst = torch.cat([X, torch.full_like(X[..., :1], 0.75)], dim=-1)
        return (self.outcomes(nearly_worst)[..., 1:] >= 0).all(dim=-1)

    def draw_contexts(self, X: Tensor, streams: Any) -> Tensor:
        return self.environment.sample(X.shape[-2], streams)

    def sample_outcomes(self, X: Tensor, num_repeats: int, streams: Any) -> Tensor:
        shape = (X.shape[-2], num_repeats, 3)
        noise = [torch.randn(shape, generator=each, dtype=torch.double) for each in streams]
        return self.outcomes(X).unsqueeze(-2) + 0.02 * torch.stack(noise)
