r"""BoTorch's own risk measures, as a BoTorch user would maximise them."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.objective import MCAcquisitionObjective
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.models.transforms.input import AppendFeatures, ChainedInputTransform
from torch import Tensor

from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.environments import Environment, IndependentEnvironment
from botorch_risk.risk import RiskMeasure
from botorch_risk.robust.monte_carlo import AcquisitionOfRisk, MonteCarloDecision
from botorch_risk.strategies.decision_then_value import DecisionThenValue, largest_reduction
from botorch_risk.strategies.environment_risk import Chooser, EnvironmentRisk, Reporting, Turn
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.risk_search import RiskRecipe
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.appended_values import resampled, without_numerical_warnings
from botorch_risk_bench.baselines.documented import documented

ObjectiveOfRisk = Callable[..., MCAcquisitionObjective]


@documented(
    "risk_measure=WorstCase(), objective=partial(CVaR, alpha=0.5), n_w=2, num_initial=4",
    1,
    "from functools import partial",
    "from botorch.acquisition.risk_measures import CVaR",
    "from botorch_risk.risk import WorstCase",
    objective="BoTorch's, called with `n_w=`, such as `functools.partial(CVaR, alpha=0.8)`.",
    options="Further arguments of `EnvironmentRisk`.",
)
def botorch_risk_measure(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_measure: RiskMeasure,
    objective: ObjectiveOfRisk,
    n_w: int = 32,
    acquisition: AcquisitionOfRisk = qLogNoisyExpectedImprovement,
    num_initial: int = 10,
    batch_size: int = 1,
    reporting: Reporting = "posterior_mean",
    **options: Any,
) -> Strategy:
    r"""An acquisition function of BoTorch with a risk measure of BoTorch as its objective.

    The model appends `n_w` values of W to each decision (`AppendFeatures`), over whose samples the
    measure is taken. It knows no weights: they are drawn in proportion to the probabilities, once
    for each decision to be chosen, by systematic resampling. The model, its fit, the optimiser and
    the recommendation are as in `risk_search`. w is observed.

    Risks of joint samples as in [Cakmak2020risk]_.
    """
    check_arguments(botorch_risk_measure, locals())
    if not isinstance(environment, IndependentEnvironment):
        raise UnsupportedError(
            f"Expected an `IndependentEnvironment`. Got {type(environment).__name__}."
        )
    check_counts(n_w=n_w)
    reduce = AppendedValues(objective, n_w)
    decide = Quietly(MonteCarloDecision(acquisition, risk_measure, reduce=reduce))
    method = EnvironmentRisk(
        RiskRecipe(risk_measure), DecisionThenValue(decide, largest_reduction), reporting, **options
    )
    space = EnvironmentSpace(decision_box(bounds), environment, w_is_chosen=False)
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)


@dataclass(frozen=True)
class Quietly:
    r"""Decides without warnings of covariances that equal values of W make singular."""

    decide: Chooser

    def __call__(self, turn: Turn) -> Tensor:
        r"""Decisions, `R x 1 x d_x`."""
        with without_numerical_warnings():
            return self.decide(turn)


@dataclass(frozen=True)
class AppendedValues:
    r"""Appends values of W to a model and takes BoTorch's measure over them, as its objective.

    Args:
        objective: Called with `n_w=`.
    """

    objective: ObjectiveOfRisk
    n_w: int

    def __call__(
        self, model: Model, environment: Any, risk_measure: RiskMeasure, constraints: Any = ()
    ) -> tuple[Model, dict[str, Any]]:
        r"""The model with the values, and the objective; draws from torch's generator."""
        appended: Any = copy.deepcopy(model)
        shift = torch.rand(1, dtype=torch.double)
        drawn = resampled(environment, self.n_w, shift).to(appended.train_inputs[0])
        values = AppendFeatures(feature_set=drawn)
        appended.input_transform = ChainedInputTransform(
            append=values, inputs=appended.input_transform
        ).eval()
        return appended, {"objective": self.objective(n_w=self.n_w)}
