r"""The package's own path gives the same recommendation, in any unit and direction."""

from typing import Any

import pandas as pd
import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from botorch.exceptions.warnings import BotorchWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Tensor

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound, RiskUpperConfidenceBound
from botorch_risk.ax import (
    best_arm,
    readings,
    risk_averse,
    under_perturbed_inputs,
    under_uncertain_context,
    value_at_risk,
)
from botorch_risk.ax.contextual import ContextualRiskModel
from botorch_risk.ax.trials import STORED_DECIMALS
from botorch_risk.engine import fit_exact_gp
from botorch_risk.environments import (
    DiscreteEnvironment,
    InputPerturbation,
    KernelDensityEnvironment,
)
from botorch_risk.models import MeanVarianceGP
from botorch_risk.recommend import recommend
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    RiskMeasure,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.tables import table_search
from botorch_risk.tables.with_ax import filled_table, finite_table
from tests.ax.laboratory import adapter_of

pytestmark = pytest.mark.filterwarnings("ignore")  # of units in which decimals are lost

UNITS = [1e-8, 1e-4, 1.0, 1e4, 1e8]
UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)
units = pytest.mark.parametrize("unit", UNITS)
directions = pytest.mark.parametrize("sign", [1.0, -1.0])
MEASURES = [Expectation(), ValueAtRisk(0.2), ConditionalValueAtRisk(0.3), WorstCase()]
measures = pytest.mark.parametrize("measure", MEASURES, ids=lambda each: type(each).__name__)
X = [0.05, 0.2, 0.3, 0.45, 0.55, 0.7, 0.85, 0.95]
W = [0.1, 0.9, 0.5, 0.3, 0.7, 0.2, 0.8, 0.4]


def client_of(strategy: Any, sign: float, *names: str) -> Client:
    client = Client()
    client.configure_experiment([RangeParameterConfig(name, (0.0, 1.0), "float") for name in names])
    client.configure_optimization("y" if sign > 0 else "-y")
    client.set_generation_strategy(strategy)
    return client


def tell(client: Client, parameters: Any, outcome: Any) -> None:
    client.complete_trial(client.attach_trial(parameters), outcome)


def value(x: float, w: float) -> float:
    return 1 - (x - 0.6) ** 2 - 0.8 * x * w


def agree(client: Client, bound: Any, decisions: Tensor) -> None:
    r"""Whether `best_arm` recommends as `recommend` does, with the same bounds, to 1e-6."""
    found, own = best_arm(client), recommend(bound, decisions, "lower_confidence_bound")
    x = own.point.unsqueeze(-2)
    assert found.parameters["x"] == pytest.approx(own.point[0].item(), abs=1e-9)
    lower, mean, upper = (getattr(bound, side)(x).item() for side in ("lower", "mean", "upper"))
    scale = upper - lower
    assert found.mean == pytest.approx(mean, rel=1e-6, abs=1e-6 * scale)
    assert found.lower == pytest.approx(lower, rel=1e-6, abs=1e-6 * scale)
    assert found.upper == pytest.approx(upper, rel=1e-6, abs=1e-6 * scale)


def column(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.double).unsqueeze(-1)


def as_ax_stores_them(Y: Tensor) -> Tensor:
    r"""Four readings of a row with the mean and the standard error that Ax's store keeps."""
    mean = Y.mean(dim=-1, keepdim=True).round(decimals=STORED_DECIMALS)
    error = (Y.std(dim=-1, keepdim=True) / 2).round(decimals=STORED_DECIMALS)
    return mean + 3**0.5 * error * torch.tensor([-1.0, -1.0, 1.0, 1.0], dtype=torch.double)


@units
@directions
def test_the_mean_less_the_variance_of_the_noise(unit: float, sign: float) -> None:
    client, Y = of_readings(unit, sign)
    model = MeanVarianceGP(column(X), as_ax_stores_them(Y), keep_copies=True)
    fit_exact_gp(model)
    bound = RiskAverseUpperConfidenceBound(model, risk_aversion=2.0 / unit)
    agree(client, bound, model.train_X)


def of_readings(unit: float, sign: float) -> tuple[Client, Tensor]:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(len(X), 4, generator=generator, dtype=torch.double)
    Y = unit * (column([value(x, 0.0) for x in X]) + 0.1 * column(X) * noise)
    client = client_of(risk_averse("y", risk_aversion=2.0 / unit, num_initial=2), sign, "x")
    for x, row in zip(X, (sign * Y).tolist(), strict=True):
        tell(client, {"x": x}, readings({"y": row}))
    return client, Y


@pytest.mark.filterwarnings("default")
def test_units_in_which_the_store_of_ax_loses_digits_are_warned_of() -> None:
    with pytest.warns(BotorchWarning, match="10 decimals are enough"):
        best_arm(of_readings(1e-8, 1.0)[0])


@units
@directions
@measures
@pytest.mark.handful
def test_a_risk_over_contexts_that_are_observed(
    unit: float, sign: float, measure: RiskMeasure
) -> None:
    strategy = under_uncertain_context(
        "y", {"w": (0.0, 1.0)}, risk_measure=measure, num_initial=2, seed=3
    )
    client = client_of(strategy, sign, "x")
    Y = unit * column([value(*pair) for pair in zip(X, W, strict=True)]).round(decimals=2)
    for x, w, y in zip(X, W, (sign * Y.flatten()).tolist(), strict=True):
        tell(client, {"x": x}, {"y": y, "w": w})
    environment = KernelDensityEnvironment(column(W), UNIT, n_w=64, seeds=3)
    bound = RiskUpperConfidenceBound(
        own(client, sign, Y, column(X), column(W)), environment, measure, 4.0
    )
    agree(client, bound, column(X))


def own(client: Client, sign: float, Y: Tensor, *inputs: Tensor) -> SingleTaskGP:
    r"""The process of larger-is-better outcomes, with the hyperparameters of Ax's."""
    found: Any = adapter_of(client).generator.surrogate.model
    process = found.model if isinstance(found, ContextualRiskModel) else found
    inputs_of_both = torch.cat(inputs, dim=-1)
    cube = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, inputs_of_both.shape[-1])
    model = SingleTaskGP(
        inputs_of_both,
        Y,
        outcome_transform=Standardize(1, min_stdv=1e-150),
        input_transform=Normalize(inputs_of_both.shape[-1], bounds=cube),
    )
    model.covar_module.lengthscale = process.covar_module.lengthscale.detach()
    model.likelihood.noise = process.likelihood.noise.detach()
    model.mean_module.constant = sign * process.mean_module.constant.item()
    return model.eval()


@units
@directions
@measures
@pytest.mark.handful
def test_a_risk_over_contexts_that_are_chosen(
    unit: float, sign: float, measure: RiskMeasure
) -> None:
    values, shares = [0.0, 0.5, 1.0], [0.2, 0.5, 0.3]
    strategy = value_at_risk(
        {"w": (values, shares)}, risk_measure=measure, value_rule="risk_variance", num_initial=2
    )
    client = client_of(strategy, sign, "x", "w")
    tried = [values[i % 3] for i in range(len(X))]
    Y = unit * column([value(*pair) for pair in zip(X, tried, strict=True)]).round(decimals=2)
    for x, w, y in zip(X, tried, (sign * Y.flatten()).tolist(), strict=True):
        tell(client, {"x": x, "w": w}, {"y": y})
    environment = DiscreteEnvironment(column(values), torch.tensor(shares, dtype=torch.double))
    model = own(client, sign, Y, column(X), column(tried))
    agree(client, RiskUpperConfidenceBound(model, environment, measure, 4.0), column(X))


@units
@directions
@measures
@pytest.mark.handful
def test_a_risk_over_errors_of_parameters(unit: float, sign: float, measure: RiskMeasure) -> None:
    strategy = under_perturbed_inputs({"x": 0.1}, risk_measure=measure, num_initial=2, seed=3)
    client = client_of(strategy, sign, "x")
    Y = unit * column([value(x, 0.0) for x in X]).round(decimals=2)
    for x, y in zip(X, (sign * Y.flatten()).tolist(), strict=True):
        tell(client, {"x": x}, {"y": y})
    errors = draw_sobol_normal_samples(d=1, n=64, seed=3, dtype=torch.double)
    environment = InputPerturbation(0.1 * errors, bounds=UNIT)
    bound = RiskUpperConfidenceBound(own(client, sign, Y, column(X)), environment, measure, 4.0)
    agree(client, bound, column(X))


@units
@directions
@pytest.mark.handful
def test_a_finite_table(unit: float, sign: float) -> None:
    client = Client()
    names = {"a": ["p", "q", "r"], "s": ["u", "v", "w"]}
    client.configure_experiment(
        [ChoiceParameterConfig(name, each, "str", is_ordered=False) for name, each in names.items()]
    )
    client.configure_optimization("y" if sign > 0 else "-y")
    client.set_generation_strategy(finite_table(["a"], ["s"], num_initial=2))
    frames = [pd.DataFrame({name: each}, index=pd.Index(each)) for name, each in names.items()]
    search = table_search(*frames, risk_measure=Expectation(), seed=0, num_initial=2)
    rows = (("q", "u", 0.9), ("q", "v", 0.8), ("p", "v", 0.2), ("r", "u", 0.5), ("p", "w", 0.4))
    for a, s, y in rows:
        tell(client, {"a": a, "s": s}, {"y": sign * unit * y})
    outcomes = torch.tensor([unit * y for *_, y in rows], dtype=torch.double)
    search.tell([(a, s) for a, s, _ in rows], outcomes)
    found, expected = filled_table(client).recommend(), search.recommend()
    assert found.condition[0] == expected.condition
    assert found.risk == pytest.approx(expected.risk, rel=1e-6)
