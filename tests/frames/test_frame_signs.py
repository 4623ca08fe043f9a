r"""Options of a DataFrame experiment are in the sign of the user."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError

from botorch_risk.constraints import NoiseConstraint, RiskConstraint, safe_rahbo
from botorch_risk.environments import DiscreteEnvironment, ObservedContexts
from botorch_risk.frames import FrameExperiment, SingleExperiment
from botorch_risk.papers import LevelSet
from botorch_risk.risk import Expectation, ShareAbove
from botorch_risk.robust import pareto_search
from botorch_risk.robust.pareto_search import HypervolumeImprovement
from botorch_risk.strategies import risk_search
from tests.strategies.bakery import FEW, cost

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)


def test_thresholds_of_options_are_in_the_sign_of_the_user() -> None:
    still = ObservedContexts(UNIT)
    asked = []
    for sign, at_most in ((1.0, True), (-1.0, False)):
        load = RiskConstraint(still, Expectation(), sign * 1.2, outcome=1, at_most=at_most)
        experiment = FrameExperiment(
            {"x": (0.0, 1.0)},
            {"cost": "minimize", "load": "minimize" if sign > 0 else "maximize"},
            risk_search,
            contexts={"w": (0.0, 1.0)},
            risk_measure=Expectation(),
            constraints=[load],
            num_initial=6,
            **FEW,
        )
        settings = experiment.ask().assign(w=np.linspace(0, 1, 6))
        experiment.tell(settings.assign(cost=cost(settings["x"], 0), load=sign * settings["x"]))
        asked.append(experiment.ask())
        best = experiment.recommend()
        assert best.columns.tolist()[-1] == "load_feasible"  # and none of the cost
        assert best["load_feasible"].between(0.9, 1).all()  # every setting meets the limit
    pd.testing.assert_frame_equal(*asked)


def test_a_limit_of_the_noise_has_no_sign() -> None:
    asked = []
    for direction, sign in (("minimize", 1.0), ("maximize", -1.0)):
        experiment = FrameExperiment(
            {"heat": (0.0, 2.0)},
            {"waste": direction},
            safe_rahbo,
            safe_points=torch.tensor([[0.1], [0.3], [0.5]], dtype=torch.double),
            constraints=[NoiseConstraint(0.5)],
            num_repeats=4,
            risk_aversion=1.0,
            num_candidates=64,
            num_restarts=1,
            raw_samples=8,
        )
        settings = pd.concat([experiment.ask()] * 4, ignore_index=True)
        noise = np.random.default_rng(0).normal(scale=settings["heat"])  # safe only where it is low
        experiment.tell(settings.assign(waste=sign * (settings["heat"] + noise)))
        asked.append(experiment.ask())
    pd.testing.assert_frame_equal(*asked)


@pytest.mark.slow
def test_a_reference_point_is_in_the_sign_of_the_user() -> None:
    options: dict[str, Any] = {"risk_measure": Expectation(), "num_initial": 5, "num_restarts": 1}
    frames = FrameExperiment(
        {"x": (0.0, 1.0)},
        {"gain": "maximize", "cost": "minimize"},
        pareto_search,
        contexts={"w": (0.0, 1.0)},
        reference_point=[0.0, 15.0],
        raw_samples=4,
        **options,
    )
    tensors = SingleExperiment(
        pareto_search(
            UNIT,
            0,
            environment=ObservedContexts(UNIT),
            reference_point=[0.0, -15.0],
            raw_samples=4,
            **options,
        )
    )
    X, settings = tensors.ask(), frames.ask().assign(w=np.linspace(0, 1, 5))
    X = torch.cat([X, torch.linspace(0, 1, 5).double().unsqueeze(-1)], dim=-1)
    frames.tell(settings.assign(gain=settings["x"], cost=cost(settings["x"], settings["w"])))
    tensors.tell(X, torch.stack([X[:, 0], -cost(*X.unbind(dim=-1))], dim=-1))
    assert frames.strategy.state_dict() == tensors.state_dict()
    assert torch.equal(torch.tensor(frames.ask().to_numpy()), tensors.ask())
    best = frames.recommend()
    assert torch.equal(torch.tensor(best[["x"]].to_numpy()), tensors.recommend())
    assert (best["cost_risk"] > 9).all() and (best["gain_risk"] >= 0).all()
    assert (best["cost_risk_lower"] < best["cost_risk_upper"]).all()


def compromise(**options: Any) -> FrameExperiment:
    options = {"risk_measure": Expectation(), **options}
    strategy = options.pop("strategy", pareto_search)
    return FrameExperiment(
        {"a": (0.0, 1.0)},
        {"cost": "minimize", "gain": "maximize"},
        strategy,
        contexts={"w": (0.0, 1.0)},
        environment=DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)),
        num_initial=4,
        **options,
    )


def test_thresholds_inside_options_are_in_the_sign_of_the_user() -> None:
    limit = RiskConstraint(ObservedContexts(UNIT), Expectation(), 3.0, outcome=0, at_most=True)
    point = {"reference_point": [2.0, 0.0]}
    built = [
        compromise(constraints=[limit], **given)
        for given in (
            point,
            {"acquisition": HypervolumeImprovement((2.0, 0.0))},
            {"strategy": partial(pareto_search, **point)},
            {"strategy": partial(partial(pareto_search, reference_point=[9.0, 9.0]), **point)},
        )
    ]
    for experiment in built:
        described = experiment.strategy.state_dict()["arguments"]
        assert described == built[0].strategy.state_dict()["arguments"]
        assert '"reference_point": [-2.0, 0.0]' in json.dumps(described)
        assert '"threshold": -3.0' in json.dumps(described)


@dataclass(frozen=True)
class Own:
    r"""A user's acquisition function, with parts in the unit of an outcome."""

    best_f: float | None = None
    parts: Any = ()

    def __call__(self, model: Any, X_baseline: Any, **options: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    "options",
    [
        {"acquisition": Own(best_f=3.0)},
        {"acquisition": Own(parts=[{"measure": ShareAbove(0.5)}])},
        {"acquisition": Own(parts=partial(LevelSet, threshold=0.5))},
        {"acquisition": partial(Own, best_f=2.0)},
        {"risk_measure": [ShareAbove(0.5), Expectation()], "reference_point": [1.0, 0.0]},
        {
            "constraints": [
                RiskConstraint(ObservedContexts(UNIT), ShareAbove(2.0), 0.5, outcome=0)
            ],
            "reference_point": [1.0, 0.0],
        },
    ],
)
def test_a_threshold_whose_sign_would_be_wrong_is_refused(options: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"not minimised for .* Got 'cost'"):
        compromise(**options)


def test_a_reference_point_has_a_finite_number_for_each_risk() -> None:
    for point in ((2.0,), (2.0, 0.0, 1.0)):
        with pytest.raises(ValueError, match="Expected `reference_point` of 2 finite values"):
            compromise(acquisition=HypervolumeImprovement(point))
    for value in (torch.nan, -torch.inf):
        with pytest.raises(ValueError, match="of 2 finite values"):
            HypervolumeImprovement((value, 0.0))
    with pytest.raises(ValueError, match=r"`reference_point` or `acquisition`\. Got both"):
        compromise(acquisition=HypervolumeImprovement((2.0, 0.0)), reference_point=[2.0, 0.0])
