r"""Knowledge gradient of the value-at-risk, rho-KG of [Cakmak2020risk]_."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from botorch import settings
from botorch.acquisition import AcquisitionFunction, qSimpleRegret
from botorch.acquisition.knowledge_gradient import qMultiFidelityKnowledgeGradient
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_risk.arguments import check_arguments, check_counts, check_fields
from botorch_risk.environments import Environment
from botorch_risk.gradients import conditioning_on
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.botorch_value_at_risk import Query, of_botorch

InnerSolutions = Literal["visited", "anywhere"]


def rho_knowledge_gradient(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_level: float,
    inner_solutions: InnerSolutions = "visited",
    num_fantasies: int = 8,
    **options: Any,
) -> Strategy:
    r"""Knowledge gradient of the value-at-risk, rho-KG of [Cakmak2020risk]_.

        (x_t, w_t) = argmax_(x, w) E[ max_x' E_{t+1}[VaR(f(x', W))] | y(x, w) ]

    The outer expectation is over `num_fantasies` outcomes at (x, w), the inner one over samples of
    the outcomes at (x', W). The inner solutions x' are

    - `"visited"`: the decisions that were queried, those pending, and x itself; rho-KG-apx, which
      needs no inner optimisation. With x among them a query of a new decision is worth what it
      says about that decision, not about its neighbours alone;
    - `"anywhere"`: one for each fantasy, maximised together with (x, w) by
      `qMultiFidelityKnowledgeGradient`, as in BoTorch's tutorial on risk-averse optimisation with
      environmental variables.

    The maximisation is over the box of x and the range of W; where W has finitely many values, w
    is moved to the nearest one of them. The value of what is known now, which does not depend on
    (x, w), is not subtracted. Slow: tens of seconds a query at 60 observations.

    V-UCB's authors let it recommend the decision of the largest `E[VaR(f(x, W))]` in the whole
    domain. Here all strategies report by one rule, so that it is the queries that are compared:
    the largest VaR of the mean among the decisions queried, or in the whole domain for
    `reporting="posterior_mean_everywhere"`.

    Args:
        bounds: The lower and the upper bounds of the decisions, `2 x d_x`, or a `Box`.
        seeds: One seed per replicate.
        environment: The known distribution of W.
        risk_level: Lower-tail probability in (0, 1); BoTorch's `alpha` is 1 minus it.
        inner_solutions: What the inner maximum is over.
        num_fantasies: Outcomes at (x, w) that the outer expectation is over.
        options: `num_initial` and `batch_size`; further arguments of `BoTorchValueAtRisk`.

    Raises:
        TypeError: If an argument has the wrong type.
        UnsupportedError: If the box has integers or categories.
        ValueError: If the inner solutions are unknown or a number is below 1.

    Example:
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> weather = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
        >>> strategy = rho_knowledge_gradient(
        ...     bounds, 0, environment=weather, risk_level=0.1, num_initial=4, n_w=4,
        ...     num_fantasies=2, num_samples=4, num_restarts=1, raw_samples=4, max_iterations=2,
        ... )
        >>> pairs = strategy.ask()
        >>> strategy.tell(pairs, (4 * pairs).sin().sum(dim=-1, keepdim=True))
        >>> strategy.ask().shape
        torch.Size([1, 1, 2])
    """
    check_arguments(rho_knowledge_gradient, locals())
    acquisition = KnowledgeGradient(inner_solutions, num_fantasies)
    return of_botorch(acquisition, bounds, seeds, environment, risk_level, of_pairs=True, **options)


@dataclass(frozen=True)
class KnowledgeGradient:
    r"""Builds the acquisition function of `rho_knowledge_gradient` for a replicate."""

    inner_solutions: InnerSolutions = "visited"
    num_fantasies: int = 8

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(num_fantasies=self.num_fantasies)

    def __call__(self, query: Query) -> AcquisitionFunction:
        fantasies, inner = query.sampler(self.num_fantasies), query.sampler()
        if self.inner_solutions == "visited":
            return _VisitedKnowledgeGradient(query, fantasies, inner)
        d_x = query.visited.shape[-1]
        return qMultiFidelityKnowledgeGradient(
            query.model,
            num_fantasies=self.num_fantasies,
            sampler=fantasies,
            objective=query.objective,
            inner_sampler=inner,
            X_pending=query.pending,
            project=lambda X: X[..., :d_x],
        )


class _VisitedKnowledgeGradient(AcquisitionFunction):
    r"""Knowledge gradient whose inner solutions are decisions visited, pending or under trial."""

    def __init__(self, query: Query, sampler: Any, inner_sampler: Any) -> None:
        super().__init__(query.model)
        self.visited, self.objective = query.visited, query.objective
        self.sampler, self.inner_sampler = sampler, inner_sampler
        self.set_X_pending(query.pending)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""The value, without what is known before, of `batch_shape x 1 x d` pairs."""
        if self.X_pending is not None:
            ahead = self.X_pending.expand(*X.shape[:-2], *self.X_pending.shape)
            X = torch.cat([X, ahead], dim=-2)
        model: Any = self.model
        with conditioning_on(X):
            after = model.fantasize(X, sampler=self.sampler)
        decisions = self.visited.expand(*X.shape[:-2], *self.visited.shape)
        inner = torch.cat([decisions, X[..., : self.visited.shape[-1]]], dim=-2)
        inner = inner.movedim(-2, 0).unsqueeze(1).unsqueeze(-2)  # n x 1 x batch_shape x 1 x d_x
        inner = inner.expand(-1, self.sampler.sample_shape[0], *inner.shape[2:])
        value = qSimpleRegret(after, sampler=self.inner_sampler, objective=self.objective)
        with settings.propagate_grads(True):
            return value(inner).amax(dim=0).mean(dim=0)
