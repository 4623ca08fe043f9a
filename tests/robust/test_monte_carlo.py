r"""Acquisition functions of BoTorch on risks, within a strategy."""

from typing import Any

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.monte_carlo import qSimpleRegret
from botorch.models import ModelListGP
from torch import Tensor

from botorch_risk.robust import MonteCarloDecision, robust
from botorch_risk.robust.monte_carlo import model_of_replicate
from botorch_risk.strategies import Strategy, risk_search
from botorch_risk.strategies.environment_risk import Turn
from tests.strategies.cases import PAIRS
from tests.strategies.loops import play

RISK: dict[str, Any] = {"environment": PAIRS.environment, "reporting": "posterior_mean"}


class Recorded(list[dict[str, Any]]):
    r"""An acquisition function whose arguments are kept."""

    def __call__(self, model: Any, X_baseline: Tensor, **options: Any) -> AcquisitionFunction:
        self.append({"model": model, "X_baseline": X_baseline, **options})
        options.pop("constraints", None)
        return qSimpleRegret(model, **options)


def searched(seeds: Any, acquisition: Any, **options: Any) -> Strategy:
    from botorch_risk.risk import ConditionalValueAtRisk

    known = {**RISK, "risk_measure": ConditionalValueAtRisk(0.3), "num_initial": 5}
    few = {"num_restarts": 2, "raw_samples": 8}
    strategy = risk_search(
        PAIRS.bounds, seeds, decide=MonteCarloDecision(acquisition), **{**known, **few, **options}
    )
    play(strategy, 1, problem=PAIRS)
    return strategy


def test_each_replicate_has_the_fitted_model_of_the_batch() -> None:
    strategy = searched([0, 1, 2], Recorded())
    method: Any = strategy.method
    view = strategy.views[0][1]
    inputs = torch.rand(3, 7, 2, dtype=torch.double)
    inputs[..., 1:] = PAIRS.environment.points[:7]
    batched = view.belief.model.posterior(inputs)
    for row in range(3):
        alone = model_of_replicate(Turn(method, view, 0, None), row)
        assert alone.batch_shape == torch.Size()
        found = alone.posterior(inputs[row])
        torch.testing.assert_close(found.mean, batched.mean[row], rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(found.variance, batched.variance[row], rtol=1e-5, atol=1e-8)


def test_a_single_replicate_loses_its_batch_dimension_too() -> None:
    strategy = searched(0, Recorded())
    method: Any = strategy.method
    view = strategy.views[0][1]
    alone = model_of_replicate(Turn(method, view, 0, None), 0)
    assert alone.batch_shape == torch.Size()
    inputs = torch.rand(1, 7, 2, dtype=torch.double)
    batched, found = view.belief.model.posterior(inputs), alone.posterior(inputs[0])
    torch.testing.assert_close(found.mean, batched.mean[0], rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(found.variance, batched.variance[0], rtol=1e-5, atol=1e-8)


@pytest.mark.slow
def test_the_acquisition_gets_what_robust_gives_and_what_is_pending() -> None:
    calls = Recorded()
    from tests.strategies.cases import _USED

    strategy = searched([4, 5], calls, batch_size=2, constraints=_USED)
    asked = strategy.ask()
    assert asked.shape == (2, 2, 1)
    assert len(calls) == 4  # two replicates, two points each
    decide: Any = strategy.method
    decide = decide.choose.decide
    assert isinstance(decide, MonteCarloDecision)
    for index, call in enumerate(calls):
        row = index % 2
        torch.testing.assert_close(call["X_baseline"], strategy.history.X[row, :, :1])
        assert call["model"].num_outputs == 2
        assert len(call["constraints"]) == 1
        pending = call["X_pending"]
        assert pending is None if index < 2 else torch.equal(pending, asked[row, :1])


@pytest.mark.slow
def test_the_decision_is_the_largest_value_of_the_acquisition() -> None:
    strategy = searched([1], lambda model, X, **options: qSimpleRegret(model, **options))
    asked = strategy.ask()
    view = strategy.views[0][1]
    method: Any = strategy.method
    model = model_of_replicate(Turn(method, view, 0, None), 0)
    risks, options = robust(model, PAIRS.environment, method.recipe.risk_measure)
    acqf = qSimpleRegret(risks, **options)
    grid = torch.linspace(0, 1, 200, dtype=torch.double).reshape(-1, 1, 1)
    with torch.no_grad():
        values, found = acqf(grid), acqf(asked[0].unsqueeze(0))
    spread = values.max() - values.min()
    assert found >= values.max() - 0.05 * spread  # samples differ


@pytest.mark.parametrize("constrained", [False, True])
def test_several_outcomes_come_as_a_list_of_models(constrained: bool) -> None:
    from tests.strategies.cases import _USED

    strategy = searched([0, 1], Recorded(), constraints=_USED if constrained else ())
    method: Any = strategy.method
    model = model_of_replicate(Turn(method, strategy.views[0][1], 0, None), 1)
    assert isinstance(model, ModelListGP) is constrained
