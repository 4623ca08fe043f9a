r"""Spaces of decisions with an environmental variable, whose distribution is known or learnt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from numpy import ndarray
from torch import Tensor

from botorch_risk.arguments import check_fields, first_index
from botorch_risk.environments import (
    DiscreteEnvironment,
    IndependentEnvironment,
    InputPerturbation,
    ObservedContexts,
)
from botorch_risk.environments.environment import choose
from botorch_risk.models.botorch_parts import as_environment, check_risk_measure
from botorch_risk.risk import RiskMeasure
from botorch_risk.risk.worst_case import even_weights
from botorch_risk.seeding import Draws
from botorch_risk.steady import sent
from botorch_risk.strategies.finite_domain import FiniteDomain, codes_of
from botorch_risk.strategies.history import rows_where
from botorch_risk.strategies.space import Box, check_columns


@dataclass(frozen=True)
class EnvironmentSpace:
    r"""Decisions in a box, with an environmental variable whose distribution is known or learnt.

    A row is a pair (x, w). If the environment perturbs the decision, a row holds the decision and
    the perturbed one, (x, x + w): the user evaluates x + w.

    Args:
        box: The decisions: a box or a list of points.
        environment: The distribution of W, shared or one per replicate; `ObservedContexts` if it is
            learnt from the w observed with the outcomes.
        w_is_chosen: Whether the strategy chooses w; otherwise it is observed with the outcome.
        initial_risk: The risk by whose `importance` the values of W of the initial design are
            chosen, or several risks, whose importances are averaged. Default: all values of the
            support with the same probability.

    Raises:
        UnsupportedError: If W depends on the decision other than by a perturbation, if an integer
            or a category is perturbed, or if w is chosen although its distribution has to be
            learnt.
        ValueError: If the environment is a BoTorch transform without a counterpart.

    Example:
        >>> from botorch_risk.examples import unit
        >>> weather = DiscreteEnvironment(torch.tensor([[0.2], [0.7]], dtype=torch.double))
        >>> EnvironmentSpace(Box(unit), weather).initial([0], 20)[..., 1].unique()
        tensor([0.2000, 0.7000], dtype=torch.float64)
        >>> EnvironmentSpace(Box(unit), weather, w_is_chosen=False).initial([0], 20).shape
        torch.Size([1, 20, 1])
    """

    box: Box | FiniteDomain
    environment: Any
    w_is_chosen: bool = True
    initial_risk: RiskMeasure | tuple[RiskMeasure, ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for measure in self._initial_risks:
            check_risk_measure(measure)
        if self.is_learnt:
            if self.w_is_chosen:
                raise UnsupportedError(
                    "Expected a known distribution of w if w is chosen: chosen values do not "
                    "show how w is distributed. Got `ObservedContexts`; learn from earlier "
                    "contexts, `environment=contexts.learnt(observed, seeds)`, or pass "
                    "`w_is_chosen=False`."
                )
            return
        object.__setattr__(self, "environment", as_environment(self.environment))
        if not isinstance(self.environment, IndependentEnvironment | InputPerturbation):
            raise UnsupportedError(
                "Expected an `IndependentEnvironment` or an `InputPerturbation`. "
                f"Got {type(self.environment).__name__}."
            )
        if isinstance(self.environment, InputPerturbation):
            moved = self.environment.perturbations[..., self.box.discrete]
            if (moved != 0).any():
                raise UnsupportedError(
                    "Expected perturbations of 0 in the columns of integers and categories, "
                    f"{self.box.discrete}. Got {moved[moved != 0][0].item():g}."
                )

    @property
    def _initial_risks(self) -> tuple[RiskMeasure, ...]:
        one = self.initial_risk
        return () if one is None else one if isinstance(one, tuple) else (one,)

    @property
    def bounds(self) -> Tensor:
        return self.box.bounds

    @property
    def is_learnt(self) -> bool:
        r"""Whether the distribution of W is learnt from observations."""
        return isinstance(self.environment, ObservedContexts)

    @property
    def perturbs(self) -> bool:
        r"""Whether a row is a decision with the perturbed decision."""
        return isinstance(self.environment, InputPerturbation)

    @property
    def categories_of_w(self) -> dict[int, list[float]]:
        r"""The values of each column of W that is a category, by its place among the inputs."""
        environment, d_x = self.environment, self.bounds.shape[-1]
        codes = environment.codes if self.is_learnt else {}
        if not self.is_learnt and environment.categories:
            codes = codes_of(environment.points, environment.categories)
        return {d_x + column: values for column, values in codes.items()}

    @property
    def num_columns(self) -> int:
        d_x = self.bounds.shape[-1]
        return self.environment.num_inputs(d_x) + (d_x if self.perturbs else 0)

    def of(self, replicates: Sequence[int]) -> EnvironmentSpace:
        r"""The space of some replicates, each of which may have its own environment.

        Raises:
            UnsupportedError: If replicates have their own environments and these are not discrete.
        """
        if self.is_learnt:
            return self
        environment, index = self.environment, list(replicates)
        shape = environment.weights.shape[:-1]
        if not shape or index == list(range(shape[0])):
            return self
        if not isinstance(environment, DiscreteEnvironment):
            raise UnsupportedError(
                "Expected one environment for all replicates, or a `DiscreteEnvironment`, as some "
                f"replicates have fewer outcomes. Got {type(environment).__name__} of {shape}."
            )
        return replace(self, environment=environment.some(index))

    def environment_at(self, rows: Tensor, seeds: Sequence[int]) -> Any:
        r"""The distribution of W, learnt from rows `R x n x d` if necessary.

        A context counts if its row was evaluated, even if the evaluation failed.
        """
        if not self.is_learnt:
            return self.environment
        contexts = rows_where(rows, rows.isfinite().all(dim=-1))[..., self.bounds.shape[-1] :]
        return self.environment.learnt(contexts, seeds)

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""Sobol decisions, each with a value of W if it is chosen.

        If there are fewer listed decisions than points, they are taken in turn. With
        `initial_risk`, the shares of the values follow their importance as closely as the
        number of points allows.
        """
        count = num_points
        if isinstance(self.box, FiniteDomain):  # which has each decision once
            count = min(num_points, len(self.box.domain))
        turns = torch.arange(num_points).to(self.bounds.device) % count
        decisions = self.box.initial(seeds, count)[:, turns]
        if not self.w_is_chosen:
            return decisions
        inputs, weights = self.environment.expand(decisions)  # R x n x n_w x d
        draws = Draws(seeds, "initial environment")
        uniforms = draws.uniforms(num_points, 1, 1)
        shares = even_weights(weights.to(inputs))
        if self._initial_risks:  # one number in each of as many parts of the unit interval
            every = [each.importance(weights.to(inputs)) for each in self._initial_risks]
            shares = torch.stack(every).mean(dim=0)
            uniforms = (draws.permutations(num_points)[..., None, None] + uniforms) / num_points
        return self._row_of(decisions, inputs, shares, uniforms)

    def random_points(self, seeds: Sequence[int], num_points: int, *stream: int | str) -> Tensor:
        r"""Uniform decisions, each with a value of W if w is chosen, all equally probable."""
        decisions = self.box.random_points(seeds, num_points, *stream)
        if not self.w_is_chosen:
            return decisions
        inputs, weights = self.environment.expand(decisions)
        uniforms = Draws(seeds, "random w", *stream).uniforms(num_points, 1, 1)
        return self._row_of(decisions, inputs, even_weights(weights.to(inputs)), uniforms)

    def _row_of(self, X: Tensor, inputs: Tensor, shares: Tensor, uniforms: ndarray) -> Tensor:
        r"""A row of each decision with one of its inputs, which a uniform number chooses."""
        drawn = sent(uniforms, inputs.device)
        chosen = choose(inputs, shares.expand(inputs.shape[:-1]), drawn)
        return self.row(X, chosen.squeeze(-2))

    def row(self, X: Tensor, inputs: Tensor) -> Tensor:
        r"""A row from a decision `R x q x d_x` and the inputs of the model."""
        return torch.cat([X, inputs], dim=-1) if self.perturbs else inputs

    def inputs(self, rows: Tensor) -> Tensor:
        r"""The inputs of the model, (x, w) or x + w."""
        return rows[..., self.bounds.shape[-1] :] if self.perturbs else rows

    def shown(self, asked: Tensor) -> Tensor:
        r"""What is evaluated: (x, w) or x + w; decisions if w is not chosen."""
        return self.inputs(asked) if self.w_is_chosen else asked

    def rows(self, X: Tensor, asked: Callable[[], Tensor]) -> Tensor:
        r"""Pairs; to perturbed decisions, in the order of asking, the decisions are added."""
        if self.perturbs:
            rows, d_x = asked(), self.bounds.shape[-1]
            if X.shape != rows[:, : X.shape[1], :d_x].shape:
                raise BotorchTensorDimensionError(
                    f"Expected at most {tuple(rows.shape[:-1])} rows of perturbed decisions, as "
                    f"asked, of {self.bounds.shape[-1]} columns. Got {tuple(X.shape)}."
                )
            row = torch.arange(X.shape[1], device=X.device).expand(X.shape[:-1])
            if self.w_is_chosen:  # of the row that it equals, if there is one
                equal = (X.unsqueeze(-2) == rows[..., d_x:].unsqueeze(-3)).all(dim=-1)
                first = equal.to(torch.uint8).argmax(dim=-1)
                is_unknown = ~equal.gather(-1, row.unsqueeze(-1)).squeeze(-1)
                row = first.where(is_unknown & equal.any(dim=-1), row)
            decisions = rows[..., :d_x].gather(-2, row.unsqueeze(-1).expand(X.shape))
            X = torch.cat([decisions.masked_fill(X.isnan(), torch.nan), X], dim=-1)
        check_columns(X, self.num_columns)
        X = self.box.checked(X)
        W = X[..., self.bounds.shape[-1] :]
        if self.is_learnt:
            self.environment.check(W)
            return X
        supported = self.environment.contains(X[..., : self.bounds.shape[-1]], W)
        outside = W.isfinite().all(dim=-1) & ~supported
        if outside.any():
            index = first_index(outside)
            raise InputDataError(
                "Expected every w in the support of its distribution. "
                f"Got {W[index].tolist()} at {index}."
            )
        return X
