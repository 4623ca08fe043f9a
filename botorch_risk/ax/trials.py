r"""What an experiment of Ax knows now: the one way from its trials to data.

Generators, recommendations, tables, the bandit and the analyses read an experiment here. Trials
count if they have ended with data inside the present search space, under the present objective and
constraints. Data of trials that failed, were abandoned or are still running do not count.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import DataRequiredError, UnsupportedError, UserInputError
from botorch.exceptions.warnings import BotorchWarning

SETTLED = (TrialStatus.COMPLETED, TrialStatus.EARLY_STOPPED)
STORED_DECIMALS = 10  # of outcomes, in Ax's JSON and SQL stores alike


def settled_data(experiment: Experiment, data: Data | None = None) -> Data:
    r"""The data of trials that have ended with data; abandoned arms do not count."""
    data = experiment.lookup_data() if data is None else data
    settled = {
        index: {arm.name for arm in trial.arms} - {arm.name for arm in trial.abandoned_arms}
        for index, trial in experiment.trials.items()
        if trial.status in SETTLED
    }
    table = data.full_df
    pairs = zip(table["trial_index"], table["arm_name"], strict=True)
    kept = [name in settled.get(index, ()) for index, name in pairs]
    return data if all(kept) else type(data)(df=table[kept].reset_index(drop=True))


def measured_arms(experiment: Experiment) -> list[tuple[int, Arm]]:
    r"""The arms that may be recommended, each with the first trial that measured it.

    They were measured in every metric of the present objective, and lie in the present search
    space.

    Raises:
        DataRequiredError: If no arm may be recommended.
    """
    needed = set(present_config(experiment).objective.metric_names)
    table = settled_data(experiment).df.dropna(subset=["mean"])
    found: dict[str, tuple[int, Arm]] = {}
    for (index, name), metrics in table.groupby(["trial_index", "arm_name"])["metric_name"]:
        arm = experiment.arms_by_name[name]
        if needed <= set(metrics) and is_inside(experiment, arm):
            found.setdefault(arm.signature, (int(index), arm))
    if not found:
        raise DataRequiredError(
            f"Expected a completed trial inside the search space with {sorted(needed)}. Got none."
        )
    return list(found.values())


def pending_features(
    experiment: Experiment, known: Mapping[str, list[ObservationFeatures]] | None = None
) -> dict[str, list[ObservationFeatures]]:
    r"""Arms that must not be suggested again, for each metric: pending or abandoned ones.

    Ax leaves out metrics of which a trial has data, even if these do not count yet or any longer.

    Args:
        known: What Ax has found, which may include arms of the present request.
    """
    found = {name: list((known or {}).get(name, [])) for name in experiment.metrics}
    for index, trial in experiment.trials.items():
        status = trial.status
        if not (status.is_candidate or status.is_deployed or status.is_abandoned):
            continue
        for arm in trial.arms:
            if is_inside(experiment, arm):
                metadata = trial._get_candidate_metadata(arm.name)
                own = ObservationFeatures.from_arm(arm, trial_index=index, metadata=metadata)
                for features in found.values():
                    there = [each.parameters for each in features if each.trial_index == index]
                    if own.parameters not in there:
                        features.append(own)
    return found


def is_inside(experiment: Experiment, arm: Arm) -> bool:
    r"""Whether an arm lies in the present search space, its constraints included."""
    space = experiment.search_space
    known = arm.parameters.keys() <= space.parameters.keys()
    return known and space.check_membership(arm.parameters)


def present_config(experiment: Experiment) -> OptimizationConfig:
    r"""The present objective and outcome constraints.

    Raises:
        UserInputError: If the experiment has no objective.
    """
    config = experiment.optimization_config
    if config is None:
        raise UserInputError("Expected an experiment with an objective. Got none.")
    return config


def single_objective(experiment: Experiment, user: str) -> tuple[str, float]:
    r"""The metric of the present objective, and the sign that makes it larger-is-better.

    Raises:
        UnsupportedError: If the objective has several metrics.
        UserInputError: If the experiment has no objective.
    """
    objective = present_config(experiment).objective
    if not objective.is_single_objective:
        raise UnsupportedError(
            f"Expected an objective of one metric for {user}. Got {objective.expression!r}."
        )
    (metric,) = objective.metric_names
    return metric, -1.0 if objective.minimize else 1.0


def as_stored(exact: Any) -> Any:
    r"""Metrics with the decimals that Ax stores, so that a saved experiment goes on unchanged.

    Args:
        exact: A DataFrame with a column for each metric.

    Warns:
        BotorchWarning: If a metric is so small that it loses digits that models need.
    """
    stored = exact.round(STORED_DECIMALS)
    lost, spread = (exact - stored).abs().max(), exact.std()
    if small := [name for name in exact if lost[name] > 1e-6 * spread[name] > 0]:
        warnings.warn(
            f"Expected metrics in units in which {STORED_DECIMALS} decimals are enough, since Ax "
            f"stores ten. Got standard deviations of { {name: spread[name] for name in small} }"
            "; scale them, for example to one.",
            BotorchWarning,
            stacklevel=2,
        )
    return stored
