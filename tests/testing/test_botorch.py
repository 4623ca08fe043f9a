r"""The laws over BoTorch's own parts: which hold, and which the page of reports lists."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    LogNoisyExpectedImprovement,
    PosteriorMean,
    PosteriorStandardDeviation,
    ProbabilityOfImprovement,
    UpperConfidenceBound,
    qExpectedImprovement,
    qKnowledgeGradient,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qNegIntegratedPosteriorVariance,
    qNoisyExpectedImprovement,
    qProbabilityOfImprovement,
    qSimpleRegret,
    qUpperConfidenceBound,
)
from botorch.acquisition.max_value_entropy_search import (
    qLowerBoundMaxValueEntropy,
    qMaxValueEntropy,
)
from botorch.acquisition.risk_measures import CVaR, Expectation, RiskMeasureMCObjective, VaR
from botorch.acquisition.risk_measures import WorstCase as Worst
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.models import ModelListGP, SingleTaskGP, SingleTaskMultiFidelityGP
from botorch.models.map_saas import AdditiveMapSaasSingleTaskGP
from botorch.models.robust_relevance_pursuit_model import RobustRelevancePursuitSingleTaskGP
from botorch.models.transforms.input import InputPerturbation
from botorch.test_functions import Branin, EggHolder, Hartmann, SixHumpCamel
from botorch.test_functions.synthetic import Labs, TrajectoryPlanning
from botorch_risk_testing import (
    LawsBrokenError,
    RepeatedData,
    Report,
    check_acquisition,
    check_model,
    check_risk_measure,
    check_test_problem,
)
from torch import Tensor

from botorch_risk.models import MeanVarianceGP

PAGE = Path(__file__).parents[2] / "docs" / "upstream.md"
GRADIENT = "gradients_are_those_of_finite_differences"
STATE = "a_state_dict_holds_all_hyperparameters"
UNIT = "predictions_have_the_unit_of_the_outcome"
OPTIMUM = "nothing_is_better_than_the_stated_optimum"
FROM_AX = "the_input_constructor_takes_what_ax_passes"
T_BATCH = "forward_has_the_shape_of_the_t_batch"
PENDING = "pending_points_count_until_they_are_gone"
SEQUENTIAL = "a_sequential_batch_repeats_no_point"

BASELINE = torch.rand(5, 2, generator=torch.Generator().manual_seed(4), dtype=torch.double)
SHIFTS = torch.tensor([[-0.1, 0.05], [0.0, 0.0], [0.07, 0.1], [0.02, -0.03]], dtype=torch.double)


def of_known_noise(data: RepeatedData) -> SingleTaskGP:
    return SingleTaskGP(data.X, data.means, torch.full_like(data.means, 0.01))


def perturbed(data: RepeatedData) -> SingleTaskGP:
    shifts = InputPerturbation(SHIFTS.to(data.X))
    return SingleTaskGP(data.X, data.means, input_transform=shifts).eval()


def with_baseline(kind: Any) -> Callable[[Any], Any]:
    return lambda model: kind(model, BASELINE.to(model.train_targets))


class OfSamples:
    r"""A measure of BoTorch as a function of equally probable values."""

    def __init__(self, kind: type[RiskMeasureMCObjective], **options: Any) -> None:
        self.kind, self.options = kind, options

    def __call__(self, values: Tensor, weights: Tensor) -> Tensor:
        measure = self.kind(n_w=values.shape[-1], **self.options)
        return measure(values.unsqueeze(-1)).squeeze(-1)


def acquisition(build: Any, **options: Any) -> Callable[[], Report]:
    return partial(check_acquisition, build, **options)


def knowledge_gradient(objective: Any = None) -> Callable[[], Report]:
    r"""A one-shot function: a candidate is one point and four fantasies."""
    given = {} if objective is None else {"objective": objective}
    options = {"num_fantasies": 4, **given}
    arguments = {"arguments": options, "q": 5, **({"model": perturbed} if given else {})}
    return acquisition(lambda model: qKnowledgeGradient(model, **options), **arguments)


def model(build: Any, standardizes: bool = True, **options: Any) -> Callable[[], Report]:
    return partial(check_model, build, standardizes=standardizes, **options)


def measure(kind: Any, **options: Any) -> Callable[[], Report]:
    return partial(check_risk_measure, OfSamples(kind, **options), equal_weights=True)


def problem(kind: Any, negate: bool = True, **options: Any) -> Callable[[], Report]:
    return partial(check_test_problem, partial(_negated, kind, negate), **options)


def _negated(kind: Any, negate: bool, dtype: torch.dtype) -> Any:
    return kind(negate=negate, dtype=dtype)


# The part, its check, and the laws that it is known to break with BoTorch 0.18.1.
PARTS: list[tuple[str, Callable[[], Report], set[str]]] = [
    ("PosteriorMean", acquisition(PosteriorMean), set()),
    ("PosteriorStandardDeviation", acquisition(PosteriorStandardDeviation), set()),
    ("UpperConfidenceBound", acquisition(partial(UpperConfidenceBound, beta=4.0)), set()),
    ("LogExpectedImprovement", acquisition(partial(LogExpectedImprovement, best_f=1.0)), set()),
    ("ProbabilityOfImprovement", acquisition(partial(ProbabilityOfImprovement, best_f=1.0)), set()),
    (
        "LogNoisyExpectedImprovement",
        acquisition(with_baseline(LogNoisyExpectedImprovement), model=of_known_noise),
        {STATE},
    ),
    ("qSimpleRegret", acquisition(qSimpleRegret), set()),
    ("qUpperConfidenceBound", acquisition(partial(qUpperConfidenceBound, beta=4.0)), set()),
    ("qExpectedImprovement", acquisition(partial(qExpectedImprovement, best_f=1.0)), set()),
    ("qLogExpectedImprovement", acquisition(partial(qLogExpectedImprovement, best_f=1.0)), set()),
    (
        "qProbabilityOfImprovement",
        acquisition(partial(qProbabilityOfImprovement, best_f=1.0)),
        set(),
    ),
    ("qNoisyExpectedImprovement", acquisition(with_baseline(qNoisyExpectedImprovement)), {STATE}),
    (
        "qLogNoisyExpectedImprovement",
        acquisition(with_baseline(qLogNoisyExpectedImprovement)),
        {STATE},
    ),
    ("qKnowledgeGradient", knowledge_gradient(), {FROM_AX}),
    ("qKnowledgeGradient with CVaR", knowledge_gradient(CVaR(0.6, n_w=4)), {FROM_AX, GRADIENT}),
    ("qMaxValueEntropy", acquisition(with_baseline(qMaxValueEntropy)), {FROM_AX, STATE}),
    (
        "qLowerBoundMaxValueEntropy",
        acquisition(with_baseline(qLowerBoundMaxValueEntropy)),
        {STATE, T_BATCH},
    ),
    (
        "qNegIntegratedPosteriorVariance",
        acquisition(with_baseline(qNegIntegratedPosteriorVariance)),
        {GRADIENT},
    ),
    ("PathwiseThompsonSampling", acquisition(PathwiseThompsonSampling), {PENDING, SEQUENTIAL}),
    (
        "qSimpleRegret with CVaR",
        acquisition(
            lambda model: qSimpleRegret(model, objective=CVaR(0.6, n_w=4)),
            model=perturbed,
            arguments={"objective": CVaR(0.6, n_w=4)},
        ),
        set(),
    ),
    ("SingleTaskGP", model(lambda data: SingleTaskGP(data.X, data.means)), {UNIT}),
    ("SingleTaskGP of known noise", model(of_known_noise, standardizes=False), set()),
    (
        "SingleTaskGP without a transform",
        model(lambda data: SingleTaskGP(data.X, data.means, outcome_transform=None), False),
        set(),
    ),
    (
        "SingleTaskMultiFidelityGP",
        model(lambda data: SingleTaskMultiFidelityGP(data.X, data.means, data_fidelities=[1])),
        {UNIT, "predictions_are_repeatable_and_survive_pickling"},
    ),
    ("ModelListGP", model(lambda data: ModelListGP(SingleTaskGP(data.X, data.means))), {UNIT}),
    (
        "AdditiveMapSaasSingleTaskGP",
        model(lambda data: AdditiveMapSaasSingleTaskGP(data.X, data.means)),
        {UNIT},
    ),
    (
        "RobustRelevancePursuitSingleTaskGP",
        model(lambda data: RobustRelevancePursuitSingleTaskGP(data.X, data.means), batch_dims=0),
        {UNIT},
    ),
    (
        "MeanVarianceGP (ours, on BoTorch's posterior)",
        model(lambda data: MeanVarianceGP(data.X, data.Y)),
        {UNIT},
    ),
    ("CVaR(0.7)", measure(CVaR, alpha=0.7), {"a_point_may_be_given_as_two"}),
    ("VaR(0.7)", measure(VaR, alpha=0.7), set()),
    ("WorstCase", measure(Worst), set()),
    ("Expectation", measure(Expectation), set()),
    ("Branin", problem(Branin), set()),
    ("Hartmann", problem(Hartmann), set()),
    ("EggHolder", problem(EggHolder), {OPTIMUM}),
    ("SixHumpCamel", problem(SixHumpCamel), {OPTIMUM}),
    ("Labs", problem(Labs, negate=False), {OPTIMUM}),
    (
        "TrajectoryPlanning",
        problem(TrajectoryPlanning, objective=None, optimum=None),
        {"bounds_are_a_box"},
    ),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # numerical ones of BoTorch's are not the subject
@pytest.mark.parametrize(("name", "check", "broken"), PARTS, ids=[part[0] for part in PARTS])
def test_it_breaks_the_laws_that_the_page_lists(
    name: str, check: Callable[[], Report], broken: set[str]
) -> None:
    try:
        report = check()
    except LawsBrokenError as error:
        report = error.report
    assert set(report.broken) == broken, report.broken
    named = ", ".join(f"`{law}`" for law in sorted(broken)) or "none"
    row = f"| {name} | {len(report.held)} of {len(report.held) + len(broken)} | {named} |"
    assert " ".join(row.split()) in PAGE.read_text(encoding="utf-8"), row
