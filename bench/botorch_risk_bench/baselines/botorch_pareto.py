r"""Risks of several objectives as a BoTorch user would maximise them, seed by seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.multi_objective.multi_output_risk_measures import MARS, IndependentCVaR
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP
from botorch.utils.sampling import manual_seed, sample_simplex
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from botorch_risk.acquisition.without_compiling import without_compiling
from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.environments import Environment
from botorch_risk.gradients import require_gradients
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.robust.pareto_search import of_measures, quasi_random_sampler
from botorch_risk.strategies.environment_risk import Turn, input_range
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.appended_values import (
    maximize_singly,
    model_with_values,
    resampled_values,
    without_numerical_warnings,
)
from botorch_risk_bench.baselines.documented import documented

AcquisitionOfValues = Callable[..., AcquisitionFunction]


@documented(
    "risk_level=0.1, reference_point=[-1.0, -1.0], num_initial=4",
    1,
    options="`num_initial` and `batch_size`; further arguments of `BoTorchDecision`.",
)
def conditional_value_at_risk_log_nehvi(
    bounds: Tensor,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_level: float,
    reference_point: Sequence[float],
    n_w: int = 16,
    num_samples: int = 32,
    **options: Any,
) -> Strategy:
    r"""The conditional value-at-risk of each objective by qLogNEHVI and BoTorch's own measure.

    `qLogNoisyExpectedHypervolumeImprovement` with `IndependentCVaR` as the objective, over a model
    that appends `n_w` values of W to each decision (`BoTorchDecision`). Recommends as
    `pareto_search` does, by the same model.

    BoTorch's measure is the mean of the `n_w - ceil((1 - level) n_w) + 1` smallest values, which
    is a larger share than the level. For a level of 0.1, 19, 29 or 39 values come closest to it:
    2, 3 and 4 of them.

    Expected hypervolume improvement under noise is from [Daulton2021nehvi]_.
    """
    check_arguments(conditional_value_at_risk_log_nehvi, locals())
    acquisition = IndependentRiskHypervolume(
        tuple(reference_point), 1 - risk_level, n_w, num_samples
    )
    return _of_values(acquisition, bounds, seeds, environment, risk_level, **options)


@documented(
    "risk_level=0.1, reference_point=[-1.0, -1.0], num_initial=4",
    1,
    options="`num_initial` and `batch_size`; further arguments of `BoTorchDecision`.",
)
def mars_log_nei(
    bounds: Tensor,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_level: float,
    reference_point: Sequence[float],
    n_w: int = 16,
    num_samples: int = 32,
    **options: Any,
) -> Strategy:
    r"""The multivariate value-at-risk by random scalarisations, MARS-NEI of [Daulton2022mars]_.

    `qLogNoisyExpectedImprovement` with BoTorch's `MARS` as the objective: the value-at-risk of a
    Chebyshev scalarisation of the outcomes, whose weights are drawn for each query.

    **It optimises another risk.** The multivariate value-at-risk of a decision is the set of the
    vectors that the outcomes exceed, all at once, with the given probability. It recommends, and is
    scored, by the conditional value-at-risk of each objective like the others, which it does not
    aim at.
    """
    check_arguments(mars_log_nei, locals())
    acquisition = ScalarizedRiskImprovement(
        tuple(reference_point), 1 - risk_level, n_w, num_samples
    )
    return _of_values(acquisition, bounds, seeds, environment, risk_level, **options)


@dataclass(frozen=True)
class IndependentRiskHypervolume:
    r"""Builds qLogNEHVI with `IndependentCVaR`.

    Args:
        reference_point: A value of each risk.
        alpha: BoTorch's risk level, 1 minus the lower-tail probability.
    """

    reference_point: tuple[float, ...]
    alpha: float
    n_w: int
    num_samples: int

    def __post_init__(self) -> None:
        check_counts(n_w=self.n_w, num_samples=self.num_samples)

    @without_compiling()
    def __call__(self, model: ModelListGP, X_baseline: Tensor, **options: Any) -> Any:
        return qLogNoisyExpectedHypervolumeImprovement(
            model,
            ref_point=list(self.reference_point),
            X_baseline=X_baseline,
            sampler=quasi_random_sampler(self.num_samples),
            objective=IndependentCVaR(alpha=self.alpha, n_w=self.n_w),
            prune_baseline=True,
            **options,
        )


@dataclass(frozen=True)
class ScalarizedRiskImprovement:
    r"""Builds qLogNEI with `MARS`, as BoTorch's tutorial does."""

    reference_point: tuple[float, ...]
    alpha: float
    n_w: int
    num_samples: int

    def __post_init__(self) -> None:
        check_counts(n_w=self.n_w, num_samples=self.num_samples)

    def __call__(self, model: ModelListGP, X_baseline: Tensor, **options: Any) -> Any:
        weights = sample_simplex(model.num_outputs, dtype=X_baseline.dtype).squeeze(0)
        mars = MARS(
            alpha=self.alpha,
            n_w=self.n_w,
            chebyshev_weights=weights,
            ref_point=list(self.reference_point),
        )
        mars.set_baseline_Y(model=model, X_baseline=X_baseline)
        return qLogNoisyExpectedImprovement(
            model,
            X_baseline=X_baseline,
            sampler=quasi_random_sampler(self.num_samples),
            objective=mars,
            prune_baseline=True,
            **options,
        )


@dataclass(frozen=True)
class BoTorchDecision:
    r"""Maximises an acquisition function over a sample of values of W.

    Each seed has its own unbatched models, one for each outcome, fitted by `fit_gpytorch_mll` in
    every round, and its own call of `optimize_acqf`. The models append `n_w` values of W to each
    decision, drawn for each query (`resampled_values`).

    Args:
        acquisition: `acquisition(model, X_baseline, X_pending=)`.
    """

    acquisition: AcquisitionOfValues
    n_w: int = 16
    max_iterations: int = 50

    def __post_init__(self) -> None:
        check_counts(n_w=self.n_w, max_iterations=self.max_iterations)

    def __call__(self, turn: Turn) -> Tensor:
        r"""Decisions, `R x 1 x d_x`."""
        require_gradients("fit_gpytorch_mll")
        w_sets, streams = resampled_values(turn, self.n_w), turn.streams("acquisition")
        return torch.stack(
            [
                self._decide(turn, row, w_set, seed % 2**31)
                for row, (w_set, seed) in enumerate(zip(w_sets, streams, strict=True))
            ]
        )

    def _decide(self, turn: Turn, row: int, w_set: Tensor, seed: int) -> Tensor:
        r"""The decision of one replicate, `1 x d_x`."""
        d_x, method = turn.space.bounds.shape[-1], turn.method
        pending = None if turn.pending is None else turn.pending[row, :, :d_x]
        with manual_seed(seed), without_numerical_warnings():
            outcomes = range(method.num_outcomes)
            model = ModelListGP(*(_fitted(turn, row, outcome, w_set) for outcome in outcomes))
            acquisition = self.acquisition(
                model.eval(), turn.view.decisions[row], X_pending=pending
            )
            return maximize_singly(
                acquisition,
                turn.space.bounds,
                method.num_restarts,
                method.raw_samples,
                self.max_iterations,
            )


def _fitted(turn: Turn, row: int, outcome: int, w_set: Tensor) -> Any:
    X, Y = turn.view.history.means_of(outcome)
    model = model_with_values(X[row], Y[row], w_set, input_range(turn.space))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def _of_values(
    acquisition: IndependentRiskHypervolume | ScalarizedRiskImprovement,
    bounds: Tensor,
    seeds: int | Sequence[int],
    environment: Environment,
    risk_level: float,
    *,
    max_iterations: int = 50,
    num_initial: int = 10,
    batch_size: int = 1,
    num_restarts: int = 4,
    raw_samples: int = 32,
) -> Strategy:
    r"""A strategy that observes w, and reports by the conditional value-at-risk."""
    choose = BoTorchDecision(acquisition, acquisition.n_w, max_iterations)
    measures = [ConditionalValueAtRisk(risk_level)] * len(acquisition.reference_point)
    method = of_measures(measures, choose, num_restarts=num_restarts, raw_samples=raw_samples)
    space = EnvironmentSpace(Box(bounds), environment, w_is_chosen=False)
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)
