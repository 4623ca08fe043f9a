import re
import warnings
from typing import Any

import pytest
import torch
from ax.exceptions.core import UnsupportedError, UserInputError
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.exceptions.warnings import BotorchWarning, InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.models.transforms.input import Log10
from botorch.utils.datasets import SupervisedDataset
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.ax import best_arm, under_uncertain_context
from botorch_risk.ax.contextual import ContextualRiskModel, ObservedDataset
from botorch_risk.ax.fitted import model_of
from botorch_risk.ax.observed import with_contexts
from botorch_risk.constraints import ConstrainedUpperConfidenceBound
from botorch_risk.environments import KernelDensityEnvironment
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from tests.ax.laboratory import HUMIDITY, adapter_of, complete, laboratory, node_of, play

NAMES: dict[str, Any] = {"feature_names": ["a", "b"], "outcome_names": ["y"]}
MEASURE = ConditionalValueAtRisk(0.3)


def data() -> ObservedDataset:
    X = torch.rand(10, 2, dtype=torch.double) * 3
    W = torch.rand(10, 1, dtype=torch.double) * 100
    Y = (X.sum(dim=-1, keepdim=True) + W / 50).sin()
    every = torch.cat([W, torch.rand(3, 1, dtype=torch.double) * 100])
    return ObservedDataset(X, Y, contexts=W, every_context=every, **NAMES)


def test_it_is_the_risk_of_a_process_of_decision_and_context() -> None:
    dataset, bounds = data(), torch.tensor([[0.0, 0.0, 0.0], [3.0, 3.0, 100.0]]).double()
    inputs = ContextualRiskModel.construct_inputs(
        dataset, context_bounds=[[0.0, 100.0]], risk_measure=MEASURE, n_w=16, seed=3
    )
    model = ContextualRiskModel(**inputs, input_transform=Normalize(2, bounds=bounds[:, :2]))
    plain = SingleTaskGP(
        torch.cat([dataset.X, dataset.contexts], dim=-1),
        dataset.Y,
        outcome_transform=Standardize(1),
        input_transform=Normalize(3, bounds=bounds),
    )
    for each in (model.model, plain):
        fit_gpytorch_mll(ExactMarginalLogLikelihood(each.likelihood, each))
    environment = KernelDensityEnvironment(dataset.every_context, bounds[:, 2:], n_w=16, seeds=3)
    X = torch.rand(5, 1, 2, dtype=torch.double) * 3
    (reduction,) = model.reductions
    found, expected = (
        RiskUpperConfidenceBound(process, density, MEASURE, 4.0)(X)
        for process, density in ((model.model, reduction.environment), (plain, environment))
    )
    torch.testing.assert_close(found, expected)


def test_decisions_without_a_transform_keep_their_unit_and_contexts_get_it() -> None:
    dataset = data()
    inputs = ContextualRiskModel.construct_inputs(
        dataset, context_bounds=[[0.0, 200.0]], risk_measure=MEASURE
    )
    inputs["train_X"] = inputs["train_X"] / 3
    model = ContextualRiskModel(**inputs)
    seen = model.model.input_transform(torch.tensor([[0.25, 0.75, 100.0]]).double())
    assert seen.tolist() == [[0.25, 0.75, 0.5]]


def test_columns_that_ax_does_not_normalise_are_left_alone() -> None:
    dataset = data()
    inputs = ContextualRiskModel.construct_inputs(
        dataset, context_bounds=[[0.0, 100.0]], risk_measure=MEASURE
    )
    inputs["train_X"] = inputs["train_X"] * torch.tensor([1 / 3, 1.0])
    transform = Normalize(2, indices=[1], bounds=torch.tensor([[0.0], [3.0]]).double())
    model = ContextualRiskModel(**inputs, input_transform=transform)
    point = torch.tensor([[0.2, 1.5, 50.0]], dtype=torch.double)
    assert model.model.input_transform(point).tolist() == [[0.2, 0.5, 0.5]]
    with pytest.raises(ValueError, match=r"Expected `Normalize` of the decisions.*Got Log10"):
        ContextualRiskModel(**inputs, input_transform=Log10(indices=[0]))


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["purity", "-purity"])
@pytest.mark.parametrize("acquisition", [RiskUpperConfidenceBound, qLogNoisyExpectedImprovement])
def test_trials_are_completed_with_their_context(objective: str, acquisition: Any) -> None:
    strategy = under_uncertain_context(
        "purity", HUMIDITY, risk_measure=MEASURE, num_initial=3, acquisition=acquisition
    )
    client = laboratory(objective=objective, strategy=strategy)
    play(client, 5)
    assert node_of(client, 4) == "under_uncertain_context"
    adapter: Any = client._generation_strategy.adapter
    models = adapter.generator.surrogate
    (index,) = (i for i, names in enumerate(models._submodels) if names == ("purity",))
    model = list(models._submodels.values())[index]
    assert isinstance(model, ContextualRiskModel)
    assert model.reductions[0].environment.observed.shape == (4, 1)  # of the trials before it
    transform = adapter.generator._acquisition.acqf.posterior_transform
    sign = 1.0 if transform is None else transform.weights.item()
    assert sign == (-1.0 if objective.startswith("-") else 1.0)


def test_the_distribution_is_learnt_also_from_trials_without_an_outcome() -> None:
    X, W = torch.rand(3, 2), torch.tensor([[1.0], [torch.nan], [3.0]])
    dataset = SupervisedDataset(X, X.sum(dim=-1, keepdim=True), **NAMES)
    every = torch.tensor([[1.0], [torch.nan], [3.0], [7.0]])
    with pytest.warns(BotorchWarning, match=r"\['w'\] in every trial. Got 1 without"):
        found = with_contexts(dataset, W, every, ["w"])
    assert found.contexts.flatten().tolist() == [1.0, 3.0]
    assert found.every_context.flatten().tolist() == [1.0, 3.0, 7.0]
    assert torch.equal(found.X, X[[0, 2]]) and found.Yvar is None
    noisy = SupervisedDataset(X, X[:, :1], Yvar=X[:, 1:], **NAMES)
    with pytest.warns(BotorchWarning):
        found = with_contexts(noisy, W, every, ["w"])
    assert found.Yvar is not None and torch.equal(found.Yvar, X[[0, 2], 1:])
    with pytest.raises(UserInputError, match=r"contexts \['w'\] as tracking metrics next to 'y'"):
        with_contexts(dataset, torch.full((3, 1), torch.nan), every, ["w"])


@pytest.mark.parametrize("end", ["mark_trial_failed", "mark_trial_abandoned", "complete_trial"])
def test_the_context_of_a_trial_without_an_outcome_counts_once_it_is_completed(end: str) -> None:
    client = laboratory(strategy=under_uncertain_context("purity", HUMIDITY, num_initial=3))
    for heat, humidity in ((0.1, 10.0), (0.5, 20.0), (0.8, 30.0)):
        index = client.attach_trial({"heat": heat, "stir": 1.0})
        client.complete_trial(index, {"purity": heat, "humidity": humidity})
    assert _contexts(client) == [10.0, 20.0, 30.0]
    index = client.attach_trial({"heat": 0.3, "stir": 1.0})
    client.attach_data(index, {"humidity": 90.0})
    getattr(client, end)(index)
    last = [90.0] if end == "complete_trial" else []
    assert _contexts(client) == [10.0, 20.0, 30.0, *last]  # though no outcome is new
    assert adapter_of(client).get_training_data().observation_data["mean", "purity"].count() == 3


def _contexts(client: Any) -> list[float]:
    model: Any = model_of(adapter_of(client), "purity")
    observed: list[float] = model.reductions[0].environment.observed.flatten().tolist()
    return observed


def test_bad_input() -> None:
    with pytest.raises(
        ValueError,
        match=r"bounds of the context 'w', the lower one below the upper one. Got \(1.0, 0.0\)",
    ):
        under_uncertain_context("y", {"w": (1.0, 0.0)})
    with pytest.raises(ValueError, match=r"the bounds of each context, by name. Got {}"):
        under_uncertain_context("y", {})
    with pytest.raises(TypeError, match="Expected a `RiskMeasure`"):
        under_uncertain_context("y", HUMIDITY, risk_measure="mean")  # type: ignore[arg-type]
    plain = SupervisedDataset(torch.rand(3, 2), torch.rand(3, 1), **NAMES)
    with pytest.raises(ValueError, match=r"contexts with \['y'\]. Got a SupervisedDataset without"):
        ContextualRiskModel.construct_inputs(
            plain, context_bounds=[[0.0, 1.0]], risk_measure=Expectation()
        )


@pytest.mark.slow
@pytest.mark.parametrize("measure", [None, ConditionalValueAtRisk(0.3)])
@pytest.mark.filterwarnings("ignore::botorch_risk.recommend.InfeasibleRecommendationWarning")
def test_constraints_hold_under_a_risk_over_the_contexts(measure: Any) -> None:
    strategy = under_uncertain_context(
        "purity", HUMIDITY, risk_measure=MEASURE, constraint_risk_measure=measure, num_initial=4
    )
    client = laboratory(strategy=strategy, constraints=["cost <= 1.0"])
    play(client, 5)
    adapter: Any = client._generation_strategy.adapter
    acqf = adapter.generator._acquisition.acqf
    assert isinstance(acqf, ConstrainedUpperConfidenceBound)
    (constraint,) = acqf.risk_constraints
    assert constraint.risk_measure == (measure or MEASURE)
    assert (constraint.threshold, constraint.at_most) == (1.0, True)
    assert torch.equal(constraint.environment.observed, acqf.bound.environment.observed)
    assert constraint.environment.observed.shape == (4, 1)
    cost = acqf.model.models[constraint.outcome]  # of heat, stir and humidity
    assert cost.train_inputs[0].shape == (4, 3)
    assert best_arm(client).lower <= best_arm(client).mean


def test_constraints_beside_contexts_need_a_bound_and_an_absolute_limit() -> None:
    unbounded = under_uncertain_context(
        "purity", HUMIDITY, acquisition=qLogNoisyExpectedImprovement
    )
    client = laboratory(strategy=unbounded, constraints=["cost <= 1.0"])
    with pytest.raises(UnsupportedError, match=r"Expected no outcome constraint.*Got 'cost <= 1"):
        client.get_next_trials(max_trials=1)
    client = laboratory(
        strategy=under_uncertain_context("purity", HUMIDITY), constraints=["cost <= 1.1 * baseline"]
    )
    with pytest.raises(UnsupportedError, match=r"an absolute limit .* relative to the baseline"):
        client.get_next_trials(max_trials=1)


def test_a_client_without_the_context_is_told_its_name() -> None:
    strategy = under_uncertain_context("purity", {"light": (0.0, 1.0)}, num_initial=2)
    client = laboratory(strategy=strategy)
    for index, parameters in client.get_next_trials(max_trials=2).items():
        complete(client, index, parameters)
    with pytest.raises(UserInputError, match=r"whose metrics are \['purity', .* Got 'light'"):
        client.get_next_trials(max_trials=1)


def test_a_context_outside_its_bounds_is_counted_at_the_nearest_one_and_named() -> None:
    strategy = under_uncertain_context("purity", HUMIDITY, num_initial=3)
    client = laboratory(strategy=strategy)
    play(client, 3)
    index = client.attach_trial({"heat": 0.5, "stir": 1.0})
    client.complete_trial(index, {"purity": 0.1, "humidity": 130.0})
    message = r"'humidity' within its bounds \[0, 100\]. Got 130 in trial 3\. .*nearest bound"
    with warnings.catch_warnings(record=True) as seen:  # `pytest.warns` would raise Ax's own ones
        warnings.simplefilter("always", InputDataWarning)
        play(client, 1)
    said = {str(each.message) for each in seen if each.category is InputDataWarning}
    assert len(said) == 1 and re.search(message, said.pop())
    assert node_of(client, 4) == "under_uncertain_context"
    adapter: Any = client._generation_strategy.adapter
    model = adapter.generator.surrogate.model
    assert model.model.train_inputs[0][3, -1] == pytest.approx(1.3)  # met where it was
    assert model.reductions[0].environment.observed.max() == 100.0
