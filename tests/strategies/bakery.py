r"""A bakery that keeps its readings in DataFrames."""

from typing import Any

import numpy as np
import pandas as pd

from botorch_risk.frames import FrameExperiment
from botorch_risk.repeats import risk_averse_kg

FEW: dict[str, Any] = {"num_restarts": 2, "raw_samples": 16}
REPEATED: dict[str, Any] = {"num_repeats": 2, "risk_aversion": 0.5, "num_initial": 6, **FEW}
FLOURS = ["rye", "wheat", "oats"]
TABLE = {"heat": (150.0, 250.0), "flour": FLOURS, "trays": (1, 8, 1)}


def baker(outcomes: Any = None, make: Any = risk_averse_kg, **options: Any) -> FrameExperiment:
    outcomes = {"rise": "maximize"} if outcomes is None else outcomes
    return FrameExperiment(TABLE, outcomes, make, **{**REPEATED, **options})


def rise(settings: pd.DataFrame, seed: int = 0) -> pd.Series:
    r"""A reading of each row, in percent."""
    code = settings["flour"].map({name: 3.0 * i for i, name in enumerate(FLOURS)})
    generator = np.random.default_rng(seed)
    noise = generator.normal(size=len(settings)) * (1 + (settings["heat"] > 200))
    return 40 + code - 0.003 * (settings["heat"] - 190) ** 2 + settings["trays"] + noise


def twice(settings: pd.DataFrame, seed: int = 0, name: str = "rise") -> pd.DataFrame:
    table = pd.concat([settings, settings], ignore_index=True)
    return table.assign(**{name: rise(table, seed)})


def cost(x: Any, w: Any) -> Any:
    return 10 + (x - 0.3) ** 2 + 2 * x * (w - 0.5) ** 2


def told(experiment: FrameExperiment, table: pd.DataFrame) -> FrameExperiment:
    experiment.tell(table)
    return experiment
