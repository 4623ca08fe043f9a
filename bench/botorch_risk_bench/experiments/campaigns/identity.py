r"""What distinguishes a campaign from any other."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from botorch_risk_bench.experiments.campaigns.description import Campaign
from botorch_risk_bench.experiments.campaigns.worker import versions
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.experiment_run import identity_of as experiment_identity
from botorch_risk_bench.experiments.experiment_run import problem_of
from botorch_risk_bench.experiments.problem import decision_space


def identity_of(campaign: Campaign, device: str) -> dict[str, Any]:
    r"""What distinguishes a campaign from any other, as JSON values.

    Every experiment is built once in each setting, and every strategy, so that what cannot run is
    found before anything has.

    Raises:
        ValueError: If an experiment, a strategy or one of its arguments is unknown.
    """
    experiments: dict[str, dict[str, Any]] = {}
    blocks = campaign.blocks()
    for name, settings in campaign.settings().items():
        for setting, changes in settings.items():
            own = [block for block in blocks if block.series[::2] == (name, setting)]
            seeds = sorted({seed for block in own for seed in block.seeds})
            definition = campaign.definition(name, changes)
            problem = problem_of(definition, seeds)
            for label in dict.fromkeys(block.strategy for block in own):
                _check_built(definition, label, decision_space(problem), seeds[:1], setting)
            identity = experiment_identity(definition, problem, seeds, device)
            for name_of_all in ("seeds", "device", "package_version"):  # of the campaign
                del identity[name_of_all]
            experiments.setdefault(name, {})[setting] = identity
    return {
        "campaign": campaign.to_json(),
        "device": device,
        "experiments": experiments,
        "spelled_out": [
            json.loads(json.dumps(dataclasses.asdict(each))) for each in campaign.spelled_out()
        ],
        "versions": versions(),
    }


def _check_built(
    definition: ExperimentDefinition, label: str, space: Any, seeds: list[int], setting: str
) -> None:
    try:
        definition.build(label, space, seeds)
    except TypeError as error:
        raise ValueError(
            f"Expected {label!r} of {definition.name!r} to take the arguments of the setting "
            f"{setting!r}. Got {error}."
        ) from error
