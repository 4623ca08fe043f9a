r"""Nothing that holds a constraint depends on the unit of an outcome.

Units are powers of two near 1e-8 and 1e8, so that what is equal is equal to a few roundings.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.models import ModelListGP, SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.ax import (
    best_arm,
    risk_averse,
    under_perturbed_inputs,
    under_uncertain_context,
    value_at_risk,
)
from botorch_risk.ax import readings as of_readings
from botorch_risk.constraints import (
    ConstrainedUpperConfidenceBound,
    NoisyChanceConstraint,
    RiskConstraint,
)
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models import MeanVarianceGP
from botorch_risk.recommend import recommend, recommend_everywhere
from botorch_risk.risk import ConditionalValueAtRisk, Expectation
from botorch_risk.robust import MonteCarloDecision, pareto_search, robust
from botorch_risk.robust.monte_carlo import in_spreads
from botorch_risk.strategies import Strategy, risk_search

SMALL, LARGE = 2.0**-27, 2.0**27
UNITS = [(SMALL, LARGE), (LARGE, SMALL)]  # of the objective and of the constraint
WEATHER = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
BOX = torch.tensor([[0.0], [1.0]], dtype=torch.double)
GRID = torch.linspace(0, 1, 41, dtype=torch.double).unsqueeze(-1)
TAIL = ConditionalValueAtRisk(0.4)
Found = Mapping[str, Tensor]


def profit_and_load(X: Tensor) -> Tensor:
    r"""The more profit, the more load; both of a spread of several units."""
    x, w = X[..., 0], X[..., 1]
    profit = 4 * torch.tanh(6 * (x - 0.6)) + w
    load = 12 * x.clamp_max(0.5) + 0.12 * (x - 0.5).clamp_min(0) + 0.2 * w
    return torch.stack([profit, load], dim=-1)


def chance(unit: float, threshold: float = 6.1) -> RiskConstraint:
    return RiskConstraint.chance(WEATHER, unit * threshold, outcome=1, delta=0.1)


def data(units: tuple[float, float]) -> tuple[Tensor, Tensor]:
    X = torch.rand(24, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    return X, profit_and_load(X) * torch.tensor(units, dtype=torch.double)


def outcomes(units: tuple[float, float]) -> ModelListGP:
    X, Y = data(units)
    models = []
    for unit, column in zip(units, Y.split(1, dim=-1), strict=True):
        models.append(SingleTaskGP(X, column, torch.full_like(column, 1e-4 * unit**2)))
        models[-1].covar_module.lengthscale = torch.tensor([0.3, 1.0], dtype=torch.double)
    return ModelListGP(*models).eval()


def constrained(
    units: tuple[float, float], threshold: float = 6.1, **options: Any
) -> ConstrainedUpperConfidenceBound:
    model = outcomes(units)
    bound = RiskUpperConfidenceBound(model.models[0], WEATHER, Expectation(), beta=4.0)
    constraints = [chance(units[1], threshold)]
    return ConstrainedUpperConfidenceBound(model, bound, constraints, **options)


def of_bounds(bounds: Any, unit: float, X: Tensor = GRID) -> dict[str, Tensor]:
    return {side: getattr(bounds, side)(X) / unit for side in ("lower", "mean", "upper")}


def of_constraint(units: tuple[float, float]) -> Found:
    return of_bounds(chance(units[1]).bound(outcomes(units), 4.0), units[1])


def of_noisy_constraint(units: tuple[float, float]) -> Found:
    r"""With a known noise of 0 at some points."""
    X, Y = data(units)
    X, Y = X[:, :1], Y[:, 1:]
    noise = torch.linspace(-0.2, 0.2, 4, dtype=torch.double) * (X - 0.5).clamp_min(0)
    model = MeanVarianceGP(X, Y + units[1] * noise, keep_copies=True)  # none where x < 0.5
    constraint = NoisyChanceConstraint(units[1] * 6.1, outcome=0, delta=0.1, noise_beta=4.0)
    return of_bounds(constraint.bound(model, 4.0), units[1])


def of_bound(units: tuple[float, float], **options: Any) -> Found:
    acqf = constrained(units, **options)
    slacks = acqf.slacks(GRID)
    return {
        **of_bounds(acqf, units[0]),
        "cautious mean": acqf.cautious(GRID) / units[0],
        "slacks": slacks / units[1],
        "worst slack": acqf.worst_slack(slacks),
        "feasible": acqf.feasible(GRID),
    }


def of_recommendation(units: tuple[float, float]) -> Found:
    acqf = constrained(units)
    nowhere = constrained(units, threshold=-1.0)
    found = {
        "feasible": recommend(acqf.bound, GRID, "posterior_mean", feasible=acqf),
        "least infeasible": recommend(nowhere, GRID, "lower_confidence_bound"),
        "everywhere": recommend_everywhere(acqf, BOX, seeds=0, num_restarts=2, raw_samples=32),
    }
    return {name: each.point for name, each in found.items()}


def of_botorch(units: tuple[float, float]) -> Found:
    r"""BoTorch smooths an objective in units of its own, which is why strategies divide it."""
    torch.manual_seed(0)  # of the samples
    model, options = robust(outcomes(units), WEATHER, TAIL, constraints=[chance(units[1])])
    X = GRID.unsqueeze(-2)
    risks = model.posterior(X).mean.squeeze(-2)
    options["objective"] = in_spreads(model, GRID, options["objective"])
    best = options["objective"](risks).median()
    return {
        "risks": risks / risks.new_tensor(units),
        "acquisition": qLogExpectedImprovement(model, best, **options)(X),
    }


def of_strategy(make: Callable[..., Strategy], units: tuple[float, float], **options: Any) -> Found:
    strategy = make(
        BOX, 0, environment=WEATHER, constraints=[chance(units[1])], num_initial=12, **options
    )
    X = strategy.ask()
    if X.shape[-1] == 1:
        X = torch.cat([X, WEATHER.points[torch.arange(12) % 5].unsqueeze(0)], dim=-1)
    strategy.tell(X, (profit_and_load(X) * torch.tensor(units)).unsqueeze(-2))
    return {"asked": strategy.ask(), "recommended": strategy.recommend()}


def of_pareto_search(units: tuple[float, float]) -> Found:
    r"""The load is to be large, too, up to its limit."""
    point = [-5 * units[0], 0.0]
    return of_strategy(
        pareto_search, units, risk_measure=[TAIL, TAIL], reference_point=point, **FEW
    )


def of_ax(make: Callable[..., Any], units: tuple[float, float]) -> Found:
    r"""Ax stores ten decimals: its units are not as small."""
    profit, load = (max(unit, 2.0**-10) for unit in units)
    client = Client(random_seed=0)
    client.configure_experiment(
        [RangeParameterConfig(name, (0.0, 1.0), "float") for name in ("x", "w")]
    )
    client.configure_optimization("profit", outcome_constraints=[f"load <= {6.1 * load!r}"])
    client.configure_tracking_metrics(["profit_count", *["context"] * (make is contextual)])
    client.set_generation_strategy(make(profit))
    for row, (x, w) in enumerate(data((1.0, 1.0))[0][:12].tolist()):
        values = profit_and_load(torch.tensor([x, w])).tolist()
        readings = [profit * (values[0] + sign * 0.1) for sign in (-1, 0, 1)]
        index = client.attach_trial({"x": x, "w": (row % 3) / 2 if make is contextual else w})
        found = of_readings({"profit": readings})
        if make is contextual:
            found["context"] = w
        client.complete_trial(index, {**found, "load": (load * values[1], load * 1e-2)})
    best = best_arm(client)
    assert best.runner_up is not None
    numbers = [best.mean, best.lower, best.upper, best.runner_up.mean]
    arms = [best.trial_index, best.runner_up.trial_index, int(bool(best.feasible))]
    return {"arms": torch.tensor(arms), "bounds": torch.tensor(numbers) / profit}


def contextual(unit: float) -> Any:
    return under_uncertain_context("profit", {"context": (0.0, 1.0)})


FEW = {"num_restarts": 2, "raw_samples": 16}
CASES: dict[str, Callable[[tuple[float, float]], Found]] = {
    "constraints.RiskConstraint": of_constraint,
    "constraints.NoisyChanceConstraint": of_noisy_constraint,
    "constraints.ConstrainedUpperConfidenceBound": of_bound,
    "without a penalty": functools.partial(of_bound, penalty=0.0),
    "recommend.recommend": of_recommendation,
    "robust.robust": of_botorch,
    "strategies.risk_search": functools.partial(
        of_strategy, risk_search, risk_measure=TAIL, w_is_chosen=True, **FEW
    ),
    "robust.MonteCarloDecision": functools.partial(
        of_strategy,
        risk_search,
        risk_measure=TAIL,
        decide=MonteCarloDecision(qLogNoisyExpectedImprovement),
        **FEW,
    ),
    "robust.pareto_search": of_pareto_search,
    "ax.risk_averse": functools.partial(
        of_ax, lambda unit: risk_averse("profit", risk_aversion=1 / unit)
    ),
    "ax.under_uncertain_context": functools.partial(of_ax, contextual),
    "ax.under_perturbed_inputs": functools.partial(
        of_ax, lambda _: under_perturbed_inputs({"x": 0.05}, n_w=16)
    ),
    "ax.value_at_risk": functools.partial(
        of_ax, lambda _: value_at_risk({"w": ([0.0, 0.5, 1.0], [0.2, 0.6, 0.2])})
    ),
}


@functools.cache
def in_plain_units(case: Callable[[tuple[float, float]], Found]) -> Found:
    return case((1.0, 1.0))


def assert_no_unit_matters(
    case: Callable[[tuple[float, float]], Found], units: tuple[float, float]
) -> None:
    for key, value in case(units).items():
        expected = in_plain_units(case)[key]
        torch.testing.assert_close(
            value, expected, rtol=1e-5, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}"
        )


@pytest.mark.parametrize("units", UNITS, ids=["small and large", "large and small"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name.startswith("ax.") else [])
        for name in CASES
    ],
)
@pytest.mark.filterwarnings("ignore::botorch_risk.recommend.InfeasibleRecommendationWarning")
@pytest.mark.filterwarnings("ignore:No observation of outcome")
@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
@pytest.mark.handful
def test_no_unit_of_an_outcome_changes_what_holds_or_is_recommended(
    name: str, units: tuple[float, float]
) -> None:
    assert_no_unit_matters(CASES[name], units)


@pytest.mark.parametrize("options", [{}, {"penalty": 0.0}], ids=["default", "without a penalty"])
@pytest.mark.parametrize("units", UNITS, ids=["small and large", "large and small"])
@pytest.mark.parametrize("side", ["lower", "mean"])
def test_what_fails_a_constraint_is_reported_below_all_that_meets_it(
    side: str, units: tuple[float, float], options: dict[str, float]
) -> None:
    acqf = constrained(units, **options)
    values, feasible = getattr(acqf, side)(GRID), acqf.feasible(GRID, side)
    assert feasible.any() and not feasible.all()
    assert values[~feasible].max() < values[feasible].min() - 1000 * units[0]
