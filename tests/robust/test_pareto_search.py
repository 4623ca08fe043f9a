r"""Risks of several objectives at once, by BoTorch's hypervolume improvement."""

from typing import Any

import pytest
import torch
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.exceptions.errors import UnsupportedError
from botorch.models import ModelListGP
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_risk.acquisition.without_compiling import without_compiling
from botorch_risk.constraints import RiskConstraint
from botorch_risk.environments import InputPerturbation
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.robust import HypervolumeImprovement, pareto_search, robust
from botorch_risk.robust.monte_carlo import model_of_replicate
from botorch_risk.strategies import Strategy
from botorch_risk.strategies.environment_risk import Turn
from tests.strategies.cases import OBJECTIVES
from tests.strategies.loops import play, recommended

CVAR = ConditionalValueAtRisk(0.4)
REFERENCE = (-5.0, -5.0)
FEW: dict[str, Any] = {"num_restarts": 1, "raw_samples": 4, "max_iterations": 2}


def build(seeds: Any = 0, **options: Any) -> Strategy:
    chosen: dict[str, Any] = {
        "environment": OBJECTIVES.environment,
        "risk_measure": CVAR,
        "acquisition": HypervolumeImprovement(REFERENCE, num_samples=8),
        "num_initial": 6,
        **FEW,
    }
    return pareto_search(OBJECTIVES.bounds, seeds, **{**chosen, **options})


@pytest.mark.slow
def test_it_asks_for_what_botorch_finds_best_on_the_risks() -> None:
    strategy = build(num_restarts=4, raw_samples=32, max_iterations=50)
    play(strategy, 1, problem=OBJECTIVES)
    view: Any = strategy.views[0][1]
    models = model_of_replicate(Turn(view.method.report, view, 0, None), 0)
    assert isinstance(models, ModelListGP)
    risks, options = robust(models, OBJECTIVES.environment, CVAR)
    X = strategy.history.X[0, :, :1]
    with manual_seed(0), without_compiling():
        acquisition = qLogNoisyExpectedHypervolumeImprovement(
            risks, list(REFERENCE), X, cache_root=False, **options
        )
    grid = torch.linspace(0, 2, 201, dtype=torch.double).reshape(-1, 1, 1)
    asked = strategy.ask()
    with torch.no_grad():
        scores = acquisition(grid)
        found = acquisition(asked)
    assert found > scores.max() - 0.3  # of a logarithm; other samples than its own
    assert scores.max() - scores.min() > 2


@pytest.mark.slow
def test_a_measure_for_each_objective_and_w_that_is_chosen() -> None:
    strategy = build([0, 1], risk_measure=[CVAR, Expectation()], w_is_chosen=True, batch_size=2)
    play(strategy, 2, problem=OBJECTIVES)
    asked = strategy.ask()
    assert asked.shape == (2, 2, 2)
    assert torch.isin(asked[..., 1], OBJECTIVES.environment.points).all()
    assert not torch.equal(asked[:, 0], asked[:, 1])
    bounds = strategy.belief.bounds
    assert [bound.risk_measure for bound in bounds] == [CVAR, Expectation()]


@pytest.mark.slow
def test_constraints_of_objectives_and_of_further_outcomes_bind_where_it_asks() -> None:
    environment = OBJECTIVES.environment
    w = environment.points.repeat(4, 1).expand(1, 12, 1)

    def told(*thresholds: float) -> Strategy:
        r"""With least values of the first objective and of a further outcome, `x + w`."""
        constraints = [
            RiskConstraint(environment, CVAR, threshold, outcome=outcome)
            for outcome, threshold in zip((0, 2), thresholds, strict=True)
        ]
        many = {"num_restarts": 2, "raw_samples": 32, "max_iterations": 20}
        strategy = build(2, num_initial=12, constraints=constraints, constraint_beta=0.1, **many)
        X = strategy.ask()
        pairs = torch.cat([X, w], dim=-1)
        strategy.tell(pairs, torch.stack([-(X - w).square(), X.sin(), X + w], dim=-1))
        return strategy

    def risks(x: Tensor) -> Tensor:
        values = torch.stack([-(x - w[0, :3]).square(), x + w[0, :3]])  # 2 x n_w x m
        return CVAR(values.mT, environment.weights)

    loose, far, near = told(-4.0, -9.0), told(-4.0, 1.5), told(-0.4, -9.0)
    first, further = torch.cat([risks(each.ask().flatten()) for each in (loose, far, near)], -1)
    assert first[1] < first[0] < -0.42 < first[2]  # a threshold of -0.4, by few samples
    assert further[0] < 1.5 <= further[1]
    everywhere, chosen = (risks(recommended(each)[0].flatten())[1] for each in (loose, far))
    assert (everywhere < 1.5).any() and len(chosen) >= 1 and (chosen >= 1.5).all()


def test_perturbed_decisions() -> None:
    environment = InputPerturbation(torch.tensor([[-0.1], [0.0], [0.1]]).double())
    strategy = build(environment=environment)
    X = strategy.ask()
    strategy.tell(X, torch.stack([-(X - 0.5).square(), (2 * X).sin()], dim=-1))
    assert strategy.ask().shape == (1, 1, 1)


def test_the_reference_point_is_all_that_the_default_needs() -> None:
    strategy = build(acquisition=None, reference_point=REFERENCE)
    method: Any = strategy.method
    assert method.report.choose.decide.acquisition == HypervolumeImprovement(REFERENCE)
    three = build(num_objectives=3, acquisition=None, reference_point=(*REFERENCE, 0.0))
    assert three.method.num_outcomes == 3


def test_errors() -> None:
    for wrong in (
        {"acquisition": None},
        {"acquisition": None, "reference_point": [0.0]},
        {"acquisition": None, "reference_point": [0.0, torch.inf]},
    ):
        with pytest.raises(ValueError, match="Expected `reference_point` of 2 finite values"):
            build(**wrong)
    for wrong in ({"num_objectives": 1}, {"risk_measure": [CVAR]}):
        with pytest.raises(ValueError, match="Expected at least 2 objectives"):
            build(**wrong)
    with pytest.raises(ValueError, match=r"one for each.*num_objectives=3"):
        build(risk_measure=[CVAR, CVAR], num_objectives=3)
    with pytest.raises(TypeError, match="Expected a `RiskMeasure`"):
        build(risk_measure=[CVAR, len])
    with pytest.raises(ValueError, match="beta"):
        build(constraint_beta=-1.0)
    with pytest.raises(UnsupportedError, match="`w_is_chosen=False` if the environment pert"):
        build(environment=InputPerturbation(torch.zeros(1, 1)), w_is_chosen=True)
