r"""Maximise a user-supplied acquisition function in each round."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_risk.arguments import check_counts, check_fields
from botorch_risk.fit.estimators import ContinuedEstimator, Estimator, MaximumAPosteriori
from botorch_risk.models.standardized_gp import renewed_standardized_gp, standardized_gp
from botorch_risk.strategies.encoded_decisions import (
    AcquisitionOfDecisions,
    kept_apart,
    maximize_by_botorch,
)
from botorch_risk.strategies.method import Method, State, View, best_observed
from botorch_risk.strategies.prediction import Interval, Prediction, predict_by_models
from botorch_risk.strategies.space import Box, Space, check_space, unit_cube

AcquisitionFactory = Callable[[Any, int], AcquisitionFunction]
ModelFactory = Callable[[Tensor, Tensor], SingleTaskGP]


@dataclass(frozen=True)
class Acquire(Method):
    r"""Fits a model of all data in each round and maximises an acquisition function of it.

    Inputs are scaled to the unit cube, and repeats are replaced by their mean. The method
    recommends the evaluated point with the best observed mean, as UHE-BO does.

    Args:
        acquisition: Maps a fitted model and the round, from 1, to the round's acquisition function
            on the unit cube: one of this package, or one of BoTorch's with q = 1.
        batched: Whether `acquisition` takes a model of all replicates at once and scores each
            separately: this package's do, and so do BoTorch's analytic ones if arguments such as
            `best_f` have one number per replicate. Otherwise replicates are processed in sequence,
            each with its own model, by `optimize_acqf`, or `optimize_acqf_mixed_alternating` in a
            box with integers or categories; under limits, by `optimize_acqf_replicates`.
        model: Maps inputs `... x n x d` on the unit cube and outcomes `... x n x 1` to a model.
        estimator: Fits the model.
        num_restarts: Starts of the acquisition optimiser.
        raw_samples: Raw samples of the acquisition optimiser.

    Example:
        >>> from botorch.acquisition import UpperConfidenceBound
        >>> from botorch_risk.examples import unit
        >>> from botorch_risk.strategies import Strategy
        >>> method = Acquire(lambda model, t: UpperConfidenceBound(model, beta=4.0), batched=True)
        >>> strategy = Strategy(Box(unit), method, seeds=[0, 1], num_initial=5)
        >>> for _ in range(3):
        ...     X = strategy.ask()
        ...     strategy.tell(X, -((X - 0.3) ** 2))
        >>> (strategy.recommend() - 0.3).abs().squeeze(-1) < 0.05
        tensor([True, True])
    """

    acquisition: AcquisitionFactory
    batched: bool = False
    model: ModelFactory = standardized_gp
    estimator: Estimator = field(default_factory=MaximumAPosteriori)
    num_restarts: int = 10
    raw_samples: int = 256

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(num_restarts=self.num_restarts, raw_samples=self.raw_samples)

    @property
    def keeps_fits(self) -> bool:
        return self.batched and isinstance(self.estimator, ContinuedEstimator)

    def start(self, space: Space, num_replicates: int) -> State:
        check_space(space, self, "unit", "maximize" if self.batched else "from_unit")
        return {}

    def believe(self, view: View) -> list[Any]:
        r"""Fitted models: one for all replicates if they are batched, or one for each."""
        return [self.fit(part) for part in self.parts(view)]

    def propose(self, view: View) -> Tensor:
        parts = zip(self.parts(view), view.belief, strict=True)
        return torch.cat([self.maximize(part, model) for part, model in parts])

    def recommend(self, view: View) -> Tensor:
        return best_observed(view)

    def predict(self, view: View, X: Tensor) -> Prediction:
        inputs = view.space.unit(X)
        if self.batched:
            return predict_by_models(view.belief, inputs)
        rows = zip(view.belief, inputs.split(1), strict=True)
        found = [predict_by_models([model], row) for model, row in rows]
        outcome = (torch.cat(each) for each in zip(*(one.outcome for one in found), strict=True))
        return Prediction(Interval(*outcome), torch.cat([each.noise for each in found]))

    def parts(self, view: View) -> list[View]:
        r"""The groups that are modelled together: all replicates at once, or each by itself."""
        return [view] if self.batched else [view.of([row]) for row in range(len(view.seeds))]

    def fit(self, view: View) -> Any:
        r"""A fitted model, without a batch dimension if replicates are not batched."""
        X, Y = view.space.unit(view.X), view.Y
        if not self.batched:
            X, Y = X.squeeze(0), Y.squeeze(0)
        if self.batched and self.model is standardized_gp:
            known = view.previous  # a wrapper has another kind of belief
            before = known[0] if isinstance(known, list) and known else None
            model: Any = renewed_standardized_gp(before, X, Y)
        else:
            model = self.model(X, Y)
        if not (self.batched and isinstance(self.estimator, ContinuedEstimator)):
            return self.estimator(model, view.seeds, view.round)
        view.fit("model", model, partial(self.estimator.fit, seeds=view.seeds, t=view.round))
        return model

    def maximize(self, view: View, model: Any) -> Tensor:
        r"""The maximiser of a model's acquisition function, `R x q x d` decisions.

        Raises:
            UnsupportedError: If the acquisition function takes no pending points and q > 1.
        """
        acquisition, q = self.acquisition(model, view.round), view.batch_size
        has_pending = q > 1 or view.running is not None
        if has_pending and isinstance(acquisition, AnalyticAcquisitionFunction):
            raise UnsupportedError(
                "Expected an acquisition function that takes pending points, or a `batch_size` of "
                f"1 and no running points. Got {type(acquisition).__name__}, {q=}."
            )
        running = None if view.running is None else view.space.unit(view.running)
        if running is not None:
            acquisition.set_X_pending(running if self.batched else running.squeeze(0))
        seeds = view.history.streams("acquisition")
        if self.batched:
            return view.space.maximize(acquisition, seeds, q, self.num_restarts, self.raw_samples)
        if has_pending:
            started = None if running is None else running.squeeze(0)
            cube = unit_cube(view.space.unit(view.decisions)[0, :2])
            acquisition = kept_apart(acquisition, started, lambda X: X, cube)
        seed = seeds[0] % 2**31  # BoTorch's optimisers take 31 bits
        options: dict[str, Any] = {
            "q": q,
            "num_restarts": self.num_restarts,
            "raw_samples": self.raw_samples,
        }
        if isinstance(view.space, Box) and view.space.limits is not None:
            pointwise: Any = acquisition  # or one of BoTorch's, which is called with q = 1
            return view.space.maximize(pointwise, [seed], q, self.num_restarts, self.raw_samples)
        if isinstance(view.space, Box) and view.space.discrete:
            of_decisions = AcquisitionOfDecisions(acquisition, view.space.unit)
            X = maximize_by_botorch(of_decisions, view.space, seed, **options).unsqueeze(0)
            return view.space.each_once(of_decisions, X, running)
        with manual_seed(seed):
            X, _ = optimize_acqf(
                acquisition,
                unit_cube(view.space.bounds),
                sequential=q > 1,
                options={"seed": seed},
                **options,
            )
        return view.space.from_unit(X.unsqueeze(0))
