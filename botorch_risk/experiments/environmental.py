r"""Problems of (x, w) as the experiment loop wants them."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from botorch_risk.environments import IndependentEnvironment
from botorch_risk.experiments.remembered import RememberedFunction


class EnvironmentalProblem:
    r"""A problem with an environment that is drawn, or chosen by the strategy.

    Args:
        problem: Has `bounds: 2 x d` with those of the decision in the first `num_decision`
            columns, an `environment` to sample from, and the true `objective` of decisions.
        environment: The law of w in place of the problem's.
    """

    noise_std: ClassVar[float] = 0.0

    def __init__(self, problem: Any, environment: IndependentEnvironment | None = None) -> None:
        r"""Takes the problem of (x, w), and the law of w if it has none itself."""
        self.problem = problem
        self.environment = problem.environment if environment is None else environment
        self._remembered = RememberedFunction(self._true_risk)

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds of the decision, `2 x d_x`."""
        return self.problem.bounds[:, : self.problem.num_decision]

    def draw_contexts(self, X: Tensor, generators: list[Generator]) -> Tensor:
        r"""Contexts `R x q x d_w` from the law."""
        return self.environment.sample(X.shape[-2], generators)

    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        r"""Outcomes `R x q x k` of decisions with contexts, with noise of `noise_std`."""
        values = self._evaluate(X).unsqueeze(-1)
        shape = (*X.shape[1:-1], num_repeats)
        if self.noise_std == 0.0:
            return values.expand(len(X), *shape)
        draws = [torch.randn(shape, generator=each, dtype=torch.double) for each in generators]
        return values + self.noise_std * torch.stack(draws)

    def objective(self, X: Tensor) -> Tensor:
        r"""The true risk objective, `R x q x d_x -> R x q`."""
        return self._remembered(X)

    def _true_risk(self, X: Tensor) -> Tensor:
        r"""The true risk objective, `n x d_x -> n`."""
        return self.problem.objective(X)

    def _evaluate(self, X: Tensor) -> Tensor:
        r"""Outcomes without noise, `R x q`."""
        return self.problem(X, noise=False)


def build_strategy(
    kind: Any,
    law: Any,
    arguments: dict[str, Any],
    bounds: Tensor,
    seeds: list[int],
    num_initial: int,
) -> Any:
    r"""A strategy that knows the law of the environment, or the bounds of its contexts.

    Args:
        kind: The class of the strategy.
        law: What it takes after the bounds: the environment, or bounds of the contexts.
        arguments: Its further arguments.
        bounds: Those of the decisions, `2 x d_x`.
        seeds: One seed per replicate.
        num_initial: The number of points of the initial design.
    """
    return kind(bounds, law, seeds=seeds, num_initial=num_initial, **arguments)
