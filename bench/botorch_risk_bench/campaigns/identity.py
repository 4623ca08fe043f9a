r"""What distinguishes a campaign from any other."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from botorch_risk_bench.campaigns.description import Campaign, Series
from botorch_risk_bench.campaigns.worker import versions
from botorch_risk_bench.experiments.definition import ExperimentDefinition
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
            problem = definition.problem_of(seeds)
            for label in dict.fromkeys(block.strategy for block in own):
                _check_built(definition, label, decision_space(problem), seeds[:1], setting)
            experiments.setdefault(name, {})[setting] = definition.identity(problem)
    return described(campaign, campaign.spelled_out(), device, experiments)


def described(
    campaign: Campaign, spelled_out: Sequence[Series], device: str, experiments: dict[str, Any]
) -> dict[str, Any]:
    r"""The identity of a campaign with what distinguishes its experiments, by name and setting."""
    series = [dataclasses.asdict(each) for each in spelled_out]
    return {
        "campaign": campaign.to_json(),
        "device": device,
        "experiments": experiments,
        "spelled_out": json.loads(json.dumps(series)),
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
