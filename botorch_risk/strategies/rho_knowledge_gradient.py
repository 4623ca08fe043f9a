r"""Knowledge gradient of the value-at-risk as an outside baseline, seed by seed.

.. [Cakmak2020risk]
    S. Cakmak, R. Astudillo, P. Frazier, E. Zhou. Bayesian Optimization of Risk Measures. Advances
    in Neural Information Processing Systems 33, 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from botorch import settings
from botorch.acquisition import AcquisitionFunction, qSimpleRegret
from botorch.acquisition.knowledge_gradient import qMultiFidelityKnowledgeGradient
from botorch.acquisition.risk_measures import VaR
from botorch.models import SingleTaskGP
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_risk.environments import IndependentEnvironment
from botorch_risk.strategies.value_at_risk_botorch import BoTorchValueAtRisk

InnerSolutions = Literal["visited", "anywhere"]


class RhoKnowledgeGradient(BoTorchValueAtRisk):
    r"""Knowledge gradient of the value-at-risk, rho-KG of [Cakmak2020risk]_.

        (x_t, w_t) = argmax_(x, w) E[ max_x' E_{t+1}[VaR(f(x', W))] | y(x, w) ]

    What V-UCB is compared with. The outer expectation is over `num_fantasies` outcomes at (x, w),
    the inner one over samples of the outcomes at (x', W). The inner solutions x' are

    - `"visited"`: the decisions that were queried, those pending, and x itself; rho-KG-apx, which
      needs no inner optimisation. With x among them a query of a new decision is worth what it
      says about that decision, not about its neighbours alone;
    - `"anywhere"`: one for each fantasy, maximised together with (x, w) by
      `qMultiFidelityKnowledgeGradient`, as in BoTorch's tutorial on risk-averse optimisation with
      environmental variables.

    The maximisation is over the box of x and the range of W; where W has finitely many values, w
    is moved to the nearest one of them. The expectations of the value-at-risk are of joint samples
    of the outcomes; the value of what is known now, which does not depend on (x, w), is not
    subtracted. Slow: tens of seconds a query at 60 observations.

    V-UCB's authors let it recommend the decision of the largest `E[VaR(f(x, W))]` in the whole
    domain. Here all strategies report by one rule, so that it is the queries that are compared:
    the largest VaR of the mean among the decisions queried, or in the whole domain for
    `reporting="posterior_mean_everywhere"`.

    Example:
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> law = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
        >>> strategy = RhoKnowledgeGradient(
        ...     bounds, law, risk_level=0.1, seeds=0, num_initial=4, n_w=4, num_fantasies=2,
        ...     num_samples=4, num_restarts=1, raw_samples=4, max_iterations=2,
        ... )
        >>> pairs = strategy.ask()
        >>> strategy.tell(pairs, (4 * pairs).sin().sum(dim=-1, keepdim=True))
        >>> strategy.ask().shape
        torch.Size([1, 1, 2])
    """

    def __init__(
        self,
        bounds: Tensor,
        environment: IndependentEnvironment,
        risk_level: float,
        seeds: int | Sequence[int],
        *,
        inner_solutions: InnerSolutions = "visited",
        num_fantasies: int = 8,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
            environment: The known law of W.
            risk_level: Lower-tail probability in (0, 1); BoTorch's `alpha` is 1 minus it.
            seeds: One seed per replicate.
            inner_solutions: What the inner maximum is over.
            num_fantasies: Outcomes at (x, w) that the outer expectation is over.
            options: `n_w`, `num_samples`, `refit_every`, `max_iterations`, `num_restarts`,
                `raw_samples`, and further arguments of `KnownLawStrategy` but `w_is_chosen`.

        Raises:
            ValueError: If the inner solutions are unknown or a number is below 1.
        """
        if inner_solutions not in get_args(InnerSolutions):
            known = get_args(InnerSolutions)
            raise ValueError(f"Expected `inner_solutions` in {known}. Got {inner_solutions!r}.")
        if num_fantasies < 1:
            raise ValueError(f"Expected `num_fantasies` to be at least 1. Got {num_fantasies}.")
        super().__init__(bounds, environment, risk_level, seeds, **options)
        self.inner_solutions, self.num_fantasies = inner_solutions, num_fantasies

    def _optimize(self, model: SingleTaskGP, visited: Tensor, pending: Tensor | None) -> Tensor:
        d_x = visited.shape[-1]
        fantasies, inner = self._sampler(self.num_fantasies), self._sampler(self.num_samples)
        if self.inner_solutions == "visited":
            acqf: AcquisitionFunction = _VisitedKnowledgeGradient(
                model, visited, self.objective, fantasies, inner, pending
            )
        else:
            acqf = qMultiFidelityKnowledgeGradient(
                model,
                num_fantasies=self.num_fantasies,
                sampler=fantasies,
                objective=self.objective,
                inner_sampler=inner,
                X_pending=pending,
                project=lambda X: X[..., :d_x],
            )
        return self._maximizer(acqf, self._box())


class _VisitedKnowledgeGradient(AcquisitionFunction):
    r"""Knowledge gradient whose inner solutions are decisions visited, pending or under trial."""

    def __init__(
        self,
        model: SingleTaskGP,
        visited: Tensor,
        objective: VaR,
        sampler: SobolQMCNormalSampler,
        inner_sampler: SobolQMCNormalSampler,
        X_pending: Tensor | None,
    ) -> None:
        super().__init__(model)
        self.visited, self.objective = visited, objective
        self.sampler, self.inner_sampler = sampler, inner_sampler
        self.set_X_pending(X_pending)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""The value, without what is known before, of `batch_shape x 1 x d` pairs."""
        if self.X_pending is not None:
            ahead = self.X_pending.expand(*X.shape[:-2], *self.X_pending.shape)
            X = torch.cat([X, ahead], dim=-2)
        model: Any = self.model
        after = model.fantasize(X, sampler=self.sampler)
        decisions = self.visited.expand(*X.shape[:-2], *self.visited.shape)
        inner = torch.cat([decisions, X[..., : self.visited.shape[-1]]], dim=-2)
        inner = inner.movedim(-2, 0).unsqueeze(1).unsqueeze(-2)  # n x 1 x batch_shape x 1 x d_x
        inner = inner.expand(-1, self.sampler.sample_shape[0], *inner.shape[2:])
        value = qSimpleRegret(after, sampler=self.inner_sampler, objective=self.objective)
        with settings.propagate_grads(True):
            return value(inner).amax(dim=0).mean(dim=0)
