r"""RAHBO that never asks for a point whose constraints may fail, after [Konig2023ragoose]_."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import ModelListGP
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_risk.arguments import (
    as_data,
    check_arguments,
    check_counts,
    check_fields,
    check_nonnegative,
)
from botorch_risk.constraints.constrained_bound import ConstrainedUpperConfidenceBound
from botorch_risk.constraints.risk_constraint import NoiseConstraint, NoisyChanceConstraint
from botorch_risk.constraints.safe_candidate import safe_candidate
from botorch_risk.papers.rahbo import MeanVarianceSearch, Weights
from botorch_risk.recommend import recommend
from botorch_risk.seeding import Draws
from botorch_risk.steady import sent
from botorch_risk.strategies.method import Method, View, rows_at
from botorch_risk.strategies.prediction import Interval, Prediction
from botorch_risk.strategies.space import Box, SpaceOfBox, check_columns, decision_box
from botorch_risk.strategies.strategy import Strategy

SafetyConstraint = NoisyChanceConstraint | NoiseConstraint
# Distances of candidates from the evaluated points, in ranges of the bounds: log-uniform.
_NEAREST, _FARTHEST = 1e-3, 0.3


@dataclass(frozen=True)
class SafeStart(SpaceOfBox):
    r"""Decisions of a box, some of which are known to be safe.

    Args:
        box: The decisions.
        safe_points: `n x d` points, the initial design.
    """

    safe_points: Tensor

    def __post_init__(self) -> None:
        points = as_data(self.safe_points, "safe_points")
        if points.dtype == torch.float32 != self.box.bounds.dtype:  # 0.1, not 0.10000000149
            points = torch.tensor(points.numpy(force=True).astype(str).astype(float))
        points = points.to(self.box.bounds).unsqueeze(0)
        check_columns(points, self.box.num_columns)
        object.__setattr__(self, "safe_points", self.box.checked(points).squeeze(0))

    def initial(self, seeds: Sequence[int], num_points: int) -> Tensor:
        r"""The safe points in their order, starting over if more points are needed."""
        rows = torch.arange(num_points) % len(self.safe_points)
        return self.safe_points[rows.to(self.bounds.device)].repeat(len(seeds), 1, 1)

    def candidates(self, X: Tensor, seeds: Sequence[int], num_points: int, stream: int) -> Tensor:
        r"""The safe points, evaluated ones, and random ones far from them and near them."""
        far = self.box.random_points(seeds, num_points - num_points // 2, "far candidates", stream)
        lower, upper = self.bounds
        draws, number = Draws(seeds, "near candidates", stream), num_points // 2
        rows = (draws.uniforms(number, 1) * X.shape[-2]).astype(np.int64)
        steps = draws.normals(number, len(lower))
        steps *= _NEAREST * (_FARTHEST / _NEAREST) ** draws.uniforms(number, 1)
        index = sent(rows, X.device).expand(-1, -1, X.shape[-1])
        near = X.gather(-2, index) + (upper - lower) * sent(steps, X.device).to(X)
        moved = near.clamp(lower, upper)
        moved[..., self.box.discrete] = moved[..., self.box.discrete].round()
        if self.box.limits is not None:
            moved, has_one = self.box.inside(moved)
            moved = moved.where(has_one.unsqueeze(-1), far[..., :1, :])
        return torch.cat([self.safe_points.expand(len(X), -1, -1), X, far, moved], dim=-2)


@dataclass(frozen=True)
class _KnownSafe:
    r"""Bounds of constraints at evaluated points, some of which are known to be safe."""

    bound: ConstrainedUpperConfidenceBound
    known: Tensor  # R x n

    def check_points(self, X: Tensor) -> None:
        self.bound.check_points(X)

    def slacks(self, X: Tensor) -> Tensor:
        slacks = self.bound.slacks(X)
        return slacks.clamp_min(0.0).where(self.known, slacks)

    def worst_slack(self, slacks: Tensor) -> Tensor:
        return self.bound.worst_slack(slacks)

    def cautious(self, X: Tensor, expected: bool = False) -> Tensor:
        return self.bound.cautious(X, expected)


@dataclass(frozen=True)
class SafeMeanVarianceSearch(Method):
    r"""A search by `MeanVarianceGP` that asks only for points that are safe with confidence.

    Each outcome has a model of its own. RAHBO's point is asked for if it is safe; otherwise
    `safe_candidate` chooses among random candidates. The points that are known to be safe stay
    safe. The recommendation is an evaluated point that is safe with confidence or known to be, by
    the rule of `search`.

    Args:
        search: The model, the weights and the reporting rule.
        constraints: What has to hold at every point.
        beta: Squared width of the bounds of the constraints.
        epsilon: See `safe_candidate`.
        num_candidates: The number of random candidates.

    Raises:
        UnsupportedError: If hyperparameters are not fitted in every round, or the reporting rule
            may recommend points that were not evaluated.
    """

    search: MeanVarianceSearch
    constraints: tuple[SafetyConstraint, ...]
    beta: float = 9.0
    epsilon: float = 0.1
    num_candidates: int = 1024

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "constraints", tuple(self.constraints))
        check_nonnegative(beta=self.beta, epsilon=self.epsilon)
        check_counts(2, num_candidates=self.num_candidates)
        if not self.constraints:
            raise ValueError("Expected at least one constraint. Got none; `rahbo` needs none.")
        if self.search.refit_every != 1:
            raise UnsupportedError(f"Expected `refit_every=1`. Got {self.search.refit_every=}.")
        if self.search.rule == "posterior_mean_everywhere":
            raise UnsupportedError(
                "Expected a reporting rule that recommends evaluated points, because others may "
                f"not be safe. Got {self.search.rule!r}."
            )

    @property
    def num_outcomes(self) -> int:
        return 1 + max(each.outcome for each in self.constraints)

    @property
    def keeps_fits(self) -> bool:
        return True

    def believe(self, view: View) -> ConstrainedUpperConfidenceBound:
        r"""The bounds of the objective and of the constraints, on the unit cube."""
        models = [self._inner(view, outcome).belief for outcome in range(self.num_outcomes)]
        return self._bound(view, models[0] if len(models) == 1 else ModelListGP(*models))

    def propose(self, view: View) -> Tensor:
        r"""Points chosen in sequence: the earlier ones are pending, for the objective alone."""
        space, search = view.space, self.search
        chosen = view.history.running
        for pick in range(view.batch_size):
            bound = view.belief
            if chosen.shape[-2]:
                bound = self._bound(view, bound.model)
                bound.bound.set_X_pending(space.unit(chosen))
            seeds = view.history.streams("acquisition", *([pick] if pick else []))
            best = space.maximize(bound.bound, seeds, 1, search.num_restarts, search.raw_samples)
            X = space.candidates(view.decisions, seeds, self.num_candidates, view.round)
            known = torch.arange(X.shape[-2], device=X.device) < len(space.safe_points)
            row, _ = safe_candidate(
                bound, space.unit(X), known.expand(X.shape[:-1]), epsilon=self.epsilon
            )
            is_safe = bound.feasible(space.unit(best)).unsqueeze(-1)
            best = best.where(is_safe, rows_at(X, row).unsqueeze(-2))
            chosen = torch.cat([chosen, best], dim=-2)
        return chosen[:, -view.batch_size :]

    def record(self, view: View, rows: Tensor) -> Tensor:
        return self.search.record(self._objective(view), rows)

    def recommend(self, view: View) -> Tensor:
        r"""The best evaluated point that is safe, by the reporting rule."""
        bound = view.belief
        X = view.space.unit(view.X)
        rule: Any = self.search.rule
        known = (view.decisions.unsqueeze(-2) == view.space.safe_points).all(dim=-1).any(dim=-1)
        feasible = _KnownSafe(bound, known)
        chosen = recommend(bound.bound, X, rule, view.recorded, feasible=feasible)
        return rows_at(view.decisions, chosen.row)

    def predict(self, view: View, X: Tensor) -> Prediction:
        r"""Predict the objective's outcome."""
        return self.search.predict(self._objective(view), X)

    def predict_risk(self, view: View, X: Tensor) -> Interval:
        return self.search.predict_risk(self._objective(view), X)

    def _bound(self, view: View, model: Model) -> ConstrainedUpperConfidenceBound:
        first: Any = model.models[0] if isinstance(model, ModelList) else model
        objective = self.search.acquisition(first, view.round, self.search.weights)
        return ConstrainedUpperConfidenceBound(model, objective, self.constraints, self.beta)

    def _inner(self, view: View, outcome: int) -> View:
        r"""The view of one outcome for a method of one outcome."""
        search = self.search if outcome == 0 else replace(self.search, known_noise=None)
        history = view.history.of_outcome(outcome)
        # It shares `fits` with the view, so that the ends of its fits are kept.
        return replace(view, method=search, history=history, prefix=f"outcome {outcome} ")

    def _objective(self, view: View) -> View:
        inner = self._inner(view, 0)
        model = view.belief.model
        vars(inner)["belief"] = model.models[0] if isinstance(model, ModelList) else model
        return inner


def safe_rahbo(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    safe_points: Tensor,
    constraints: Sequence[SafetyConstraint],
    num_repeats: int,
    risk_aversion: float,
    beta: float = 4.0,
    noise_beta: float = 4.0,
    safety_beta: float = 9.0,
    epsilon: float = 0.1,
    num_candidates: int = 1024,
    num_initial: int | None = None,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""RAHBO under constraints that hold at every point it asks for, after [Konig2023ragoose]_.

        maximise  f(x) - risk_aversion * noise variance(x)   s.t. constraints, while searching too

    The idea is RaGoOSE's: the safe exploration of GoOSE ([Turchetta2019goose]_) with RAHBO's bound
    as the proposal. Only the paper's abstract and introduction were at hand, so the rest is ours:
    the constraints' noise is learnt from repeats, like the objective's; the model's correlations
    replace a Lipschitz constant (`safe_candidate`); and where RAHBO's point is not safe, the choice
    is among random candidates, half of them near evaluated points.

    A point is safe if the lower bounds of the constraints reach their limits. That is what the
    model believes, and with few points its hyperparameters are uncertain: in bench/studies/safe, 7
    of 600 points were not safe, and 1 with a `safety_beta` of 25. Give several safe points that
    differ in every input. A region that cannot be proven safe in one step is never crossed.

    Other arguments are as in `rahbo`.

    Args:
        safe_points: Points that are known to be safe, `n x d`, in the units of the bounds.
        constraints: Each a `NoisyChanceConstraint` on readings, or with `delta=0.5` on the mean, or
            a `NoiseConstraint`; on outcome 0, the objective's, or on further ones, in which case
            `tell` takes `R x q x k x m`.
        safety_beta: Squared width of the bounds of the constraints, the confidence in safety.
        epsilon: As in `safe_candidate`.
        num_candidates: The number of random candidates in a round.
        num_initial: The number of points in the initial design: the safe points in their order,
            starting over if more are needed. Default: each once.
        options: Further arguments of `MeanVarianceSearch`, except `refit_every`.

    Example:
        >>> from botorch_risk.constraints import NoiseConstraint, NoisyChanceConstraint
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> heat = NoisyChanceConstraint(threshold=1.5, outcome=1, delta=0.05, noise_beta=4.0)
        >>> strategy = safe_rahbo(
        ...     bounds, 0, safe_points=torch.tensor([[0.1], [0.3], [0.5]]), num_repeats=4,
        ...     constraints=[heat, NoiseConstraint(0.5)], risk_aversion=1.0,
        ... )
        >>> X = strategy.ask()  # the safe points
        >>> noise = 0.05 * torch.randn(1, 3, 4, 2, dtype=torch.double)
        >>> strategy.tell(X, torch.stack([(3 * X).sin(), X], dim=-1) + noise)  # R x q x k x m
        >>> bool(strategy.ask() < 1.5)
        True
    """
    check_arguments(safe_rahbo, locals())
    search = MeanVarianceSearch(
        Weights(risk_aversion, beta, noise_beta), num_repeats=num_repeats, **options
    )
    method = SafeMeanVarianceSearch(
        search, tuple(constraints), safety_beta, epsilon, num_candidates
    )
    space = SafeStart(decision_box(bounds), safe_points)
    if num_initial is None:
        num_initial = len(space.safe_points)
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)
