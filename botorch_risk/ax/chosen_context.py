r"""Contexts that are parameters of the search space, whose values a strategy chooses."""

from __future__ import annotations

from typing import Any

import torch
from ax.exceptions.core import UserInputError
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition import select_lacing_value
from botorch_risk.ax.acquisition import RiskAcquisition
from botorch_risk.constraints import ConstrainedUpperConfidenceBound
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.seeding import derive_seed


class ChosenContextAcquisition(RiskAcquisition):
    r"""Ax's `Acquisition` for decisions that are chosen first, and then the context to try.

    Its `options`, by `acquisition_options` of the generator: `contexts`, the names of the last
    parameters; `points`, `n_w x d_w` of their values; `weights`, `n_w` of these; `rule` of
    `select_lacing_value`; `seed`.

    Example:
        >>> from botorch_risk.ax import value_at_risk
        >>> strategy = value_at_risk({"wind": ([0.0, 0.5, 1.0], [0.2, 0.6, 0.2])})
        >>> (spec,) = strategy.nodes_by_name["value_at_risk"].generator_specs
        >>> spec.generator_kwargs["acquisition_class"].__name__
        'ChosenContextAcquisition'
    """

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        names = list(self.options["contexts"])
        order = self.search_space_digest.feature_names
        if order[-len(names) :] != names:
            raise UserInputError(
                f"Expected the contexts {names} to be the last parameters, in this order. Got "
                f"{order}."
            )
        self._num_decisions = len(order) - len(names)
        like = self.surrogate.Xs[0]
        points = torch.tensor(self.options["points"], dtype=torch.double).to(like)
        bounds = torch.tensor(self.search_space_digest.bounds, dtype=torch.double)
        lower, upper = bounds.to(like).mT
        outside = (points < lower[-len(names) :]) | (points > upper[-len(names) :])
        if outside.any():
            raise UserInputError(
                f"Expected values of {names} within the bounds of their parameters, which are not "
                f"log-scaled. Got {points[outside][0].item():g}."
            )
        weights = torch.tensor(self.options["weights"], dtype=torch.double).to(like)
        environment = DiscreteEnvironment(points, weights)
        pending, self.X_pending = self.X_pending, None  # rows, where a bound takes decisions
        bound = super()._construct_botorch_acquisition(
            botorch_acqf_class, {"environment": environment, **botorch_acqf_options}, model
        )
        self.X_pending = pending
        acqf = OfDecisions(bound, self._num_decisions)
        acqf.set_X_pending(pending)
        return acqf

    def optimize(  # type: ignore[override]
        self, n: int, *, fixed_features: dict[int, float] | None = None, **options: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Decisions that maximise the bound, each with the context to try beside it.

        A context that is fixed for this candidate stays as it is.
        """
        X, values, weights = super().optimize(n, fixed_features=fixed_features, **options)
        seed = derive_seed(self.options["seed"], "lacing", sum(len(each) for each in self._rows))
        acqf: Any = self.acqf
        acqf.set_X_pending(self.X_pending)
        of_objective = acqf.bound
        if isinstance(of_objective, ConstrainedUpperConfidenceBound):
            of_objective = of_objective.bound
        tried = [
            select_lacing_value(
                of_objective, x[None, : self._num_decisions], self.options["rule"], seeds=seed + row
            )
            for row, x in enumerate(X)
        ]
        rows = torch.cat(tried)
        for column, value in (fixed_features or {}).items():
            rows[:, column] = value
        return rows, values, weights

    @property
    def _rows(self) -> list[Tensor]:
        pending = [] if self.X_pending is None else [self.X_pending]
        return [*self.surrogate.Xs, *pending]


class OfDecisions(AcquisitionFunction):
    r"""A bound of decisions as an acquisition function of decisions and contexts.

    Args:
        bound: Of decisions.
        num_decisions: The number of columns in front that are decisions.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.acquisition import RiskUpperConfidenceBound
        >>> from botorch_risk.risk import Expectation
        >>> X = torch.rand(9, 2, dtype=torch.double)
        >>> model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True))
        >>> winds = DiscreteEnvironment(torch.tensor([[0.2], [0.8]], dtype=torch.double))
        >>> bound = RiskUpperConfidenceBound(model, winds, Expectation(), beta=4.0)
        >>> OfDecisions(bound, 1)(X[:3, None]).shape
        torch.Size([3])
    """

    def __init__(self, bound: Any, num_decisions: int) -> None:
        super().__init__(model=bound.model)
        self.bound, self.num_decisions = bound, num_decisions

    def forward(self, X: Tensor) -> Tensor:
        r"""The bound of the decisions, whatever the contexts are."""
        values: Tensor = self.bound(X[..., : self.num_decisions])
        return values

    def lower(self, X: Tensor) -> Tensor:
        r"""The lower bound of the decisions, `m x d -> m`."""
        values: Tensor = self.bound.lower(X[..., : self.num_decisions])
        return values

    def mean(self, X: Tensor) -> Tensor:
        r"""The posterior mean of the risk of the decisions, likewise."""
        values: Tensor = self.bound.mean(X[..., : self.num_decisions])
        return values

    def upper(self, X: Tensor) -> Tensor:
        r"""The upper bound of the decisions, likewise."""
        values: Tensor = self.bound.upper(X[..., : self.num_decisions])
        return values

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Takes rows under evaluation, of which the bound takes the decisions."""
        self.X_pending = X_pending  # type: ignore[assignment]
        of_decisions = None if X_pending is None else X_pending[..., : self.num_decisions]
        self.bound.set_X_pending(of_decisions)
