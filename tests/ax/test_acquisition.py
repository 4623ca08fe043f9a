from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.search_space import SearchSpaceDigest
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generators.torch_base import TorchOptConfig
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.models import ModelList, SingleTaskGP
from botorch.utils.datasets import SupervisedDataset

from botorch_risk.acquisition import qRiskAverseUpperConfidenceBound
from botorch_risk.ax import under_perturbed_inputs, under_uncertain_context, value_at_risk
from botorch_risk.ax.acquisition import _contextual
from botorch_risk.ax.contextual import ContextualRiskModel, ObservedDataset
from botorch_risk.ax.generator import RiskGenerator
from botorch_risk.constraints import ConstrainedUpperConfidenceBound
from botorch_risk.level_sets.with_ax import level_set
from botorch_risk.risk import Expectation
from tests.ax.test_generator import BOUNDS, data, generator


def fitted(outcome_constraints: Any) -> Any:
    r"""A generator that has asked, with a constraint on the sum of the inputs."""
    dataset, digest = data(), SearchSpaceDigest(feature_names=["a", "b"], bounds=BOUNDS)
    cost = SupervisedDataset(
        dataset.X,
        dataset.X.sum(dim=-1, keepdim=True),
        feature_names=["a", "b"],
        outcome_names=["cost"],
    )
    ours = generator()
    ours.fit([dataset, cost], digest)
    weights = torch.tensor([[-1.0, 0.0]], dtype=torch.double)  # minimised
    return ours, lambda: ours.gen(
        1, digest, TorchOptConfig(weights, outcome_constraints=outcome_constraints)
    )


def rows(*weights: list[float]) -> torch.Tensor:
    return torch.tensor(weights, dtype=torch.double)


@pytest.mark.slow
def test_constraints_of_both_directions_are_those_of_ax() -> None:
    ours, gen = fitted((rows([0.0, 1.0], [0.0, -2.0]), rows([3.0], [-4.0])))  # 2 <= cost <= 3
    found = gen().points.sum().item()
    assert 1.9 < found < 3.1
    acqf = ours._acquisition.acqf
    assert isinstance(acqf, ConstrainedUpperConfidenceBound)
    first, second = acqf.risk_constraints
    assert (first.threshold, first.at_most, first.outcome) == (3.0, True, 1)
    assert (second.threshold, second.at_most, second.outcome) == (2.0, False, 1)
    X = torch.tensor([[0.2, 1.1], [0.5, 2.0], [1.9, 2.9]], dtype=torch.double)
    assert acqf.feasible(X).tolist() == [False, True, False]


def test_what_would_leave_a_constraint_aside_is_refused() -> None:
    ours, gen = fitted((rows([0.0, 1.0]), rows([3.0])))
    ours._botorch_acqf_class = qRiskAverseUpperConfidenceBound
    ours._user_specified_botorch_acqf_class = qRiskAverseUpperConfidenceBound
    with pytest.raises(UnsupportedError, match=r"Got qRiskAverseUpper.*ignore"):
        gen()


def test_a_constraint_on_a_sum_of_metrics_is_refused() -> None:
    _, gen = fitted((rows([1.0, 1.0]), rows([3.0])))
    with pytest.raises(UnsupportedError, match=r"may use one metric. Got a constraint that uses 2"):
        gen()


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (
            value_at_risk({"a": ([0.5], [1.0])}),
            r"contexts \['a'\] to be the last .*Got \['a', 'b'\]",
        ),
        (value_at_risk({"b": ([2.0, 3.5], [0.5, 0.5])}), r"values of \['b'\] within .* Got 3\.5"),
        (under_perturbed_inputs({"c": 0.1}), r"a continuous range, \['a', 'b'\]\. Got \['c'\]"),
    ],
    ids=["order", "bounds", "perturbed"],
)
def test_what_a_node_would_have_refused_is_refused_by_its_generator_alone(
    strategy: Any, message: str
) -> None:
    (spec,) = strategy.nodes_by_name[strategy.name].generator_specs
    alone = RiskGenerator(**spec.generator_kwargs)
    digest = SearchSpaceDigest(feature_names=["a", "b"], bounds=BOUNDS)
    alone.fit([data()], digest)
    with pytest.raises(UserInputError, match=message):
        alone.gen(1, digest, TorchOptConfig(torch.ones(1, 1, dtype=torch.double)))


def test_metrics_have_contexts_all_or_none() -> None:
    X = torch.rand(6, 2, dtype=torch.double)
    W = torch.rand(6, 1, dtype=torch.double)
    options: dict[str, Any] = {"contexts": W, "every_context": W, "context_bounds": [(0.0, 1.0)]}
    risk = ContextualRiskModel(X, (X + W)[:, :1].sin(), **options, risk_measure=Expectation())
    both = ModelList(risk, SingleTaskGP(X, X[:, :1]))
    with pytest.raises(UnsupportedError, match=r"all metrics or for none\. Got \['Con.*'SingleTa"):
        _contextual(both)


def test_constraints_under_contexts_are_those_of_a_bound() -> None:
    strategy = under_uncertain_context("y", {"w": (0.0, 1.0)})
    (spec,) = strategy.nodes_by_name[strategy.name].generator_specs
    ours = RiskGenerator(**spec.generator_kwargs)
    X, W = torch.rand(6, 2, dtype=torch.double), torch.rand(6, 1, dtype=torch.double)
    tables = [
        ObservedDataset(
            X,
            (X + W).sum(dim=-1, keepdim=True).sin(),
            contexts=W,
            every_context=W,
            feature_names=["a", "b"],
            outcome_names=[name],
        )
        for name in ("y", "cost")
    ]
    digest = SearchSpaceDigest(feature_names=["a", "b"], bounds=BOUNDS)
    ours.fit(tables, digest)
    ours._botorch_acqf_class = qLogNoisyExpectedImprovement
    ours._user_specified_botorch_acqf_class = qLogNoisyExpectedImprovement
    weights = torch.tensor([[1.0, 0.0]], dtype=torch.double)
    config = TorchOptConfig(weights, outcome_constraints=(rows([0.0, 1.0]), rows([3.0])))
    with pytest.raises(UnsupportedError, match=r"constraints with contexts, .* Got qLogNoisy"):
        ours.gen(1, digest, config)


@pytest.mark.parametrize(
    ("objective", "threshold", "expected"),
    [
        ("-y", 0.9, -0.9),
        ("-y", torch.tensor(0.9, dtype=torch.double), -0.9),
        ("y + z", 1.5, 1.5),
        ("y - z", 0.3, 0.3),
    ],
)
@pytest.mark.slow
def test_a_threshold_stays_the_level_of_its_metric_or_expression(
    objective: str, threshold: Any, expected: float
) -> None:
    client = Client()
    client.configure_experiment([RangeParameterConfig("heat", (0.0, 1.0), "float")])
    client.configure_optimization(objective)
    options = {"threshold": threshold}
    client.set_generation_strategy(level_set(0.0, num_initial=2, acquisition_options=options))
    for heat in (0.1, 0.5, 0.8):
        index = client.attach_trial({"heat": heat})
        client.complete_trial(index, {name: heat**2 for name in "yz" if name in objective})
    for _ in range(2):
        client.get_next_trials(max_trials=1)
        adapter: Any = client._generation_strategy.adapter
        assert adapter.generator._acquisition.acqf.threshold.item() == expected
    assert float(threshold) == abs(expected)
