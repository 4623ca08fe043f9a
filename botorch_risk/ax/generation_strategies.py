r"""Generation strategies for Ax, from its own nodes."""

from __future__ import annotations

from typing import Any

from ax.adapter.registry import Generators
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.transforms.outcome import Standardize
from botorch.utils.types import DEFAULT

from botorch_risk.acquisition import RiskAverseUpperConfidenceBound
from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.ax.generator import RiskGenerators
from botorch_risk.models import MeanVarianceGP


def risk_averse(
    metric: str,
    *,
    risk_aversion: float = 1.0,
    num_initial: int = 5,
    seed: int = 0,
    acquisition: type[AcquisitionFunction] = RiskAverseUpperConfidenceBound,
    acquisition_options: dict[str, Any] | None = None,
    model_options: dict[str, Any] | None = None,
) -> GenerationStrategy:
    r"""RAHBO in Ax [Makarova2021rahbo]_: mean less risk aversion times the noise variance.

    Trials of a Sobol sequence, then those that maximise a bound of `mean - risk_aversion * noise
    variance` (of a metric that is minimised, `mean + ...`, in Ax's direction). The noise is learnt
    from trials of several readings; see `readings`. Other metrics of the optimisation, such as
    those of outcome constraints, have Ax's own model.

    Args:
        metric: The objective, which is read several times.
        risk_aversion: Weight of the noise variance, >= 0.
        num_initial: The number of trials of the Sobol sequence.
        seed: Of the sequence and of all draws.
        acquisition: The acquisition function, which takes `risk_aversion`.
        acquisition_options: Its further arguments.
        model_options: Further arguments of `MeanVarianceGP`.

    Raises:
        ValueError: If `risk_aversion` is negative or not finite, or there is no initial trial.

    Example:
        >>> risk_averse("purity", risk_aversion=2.0).name
        'risk_averse'
    """
    as_nonnegative("risk_aversion", risk_aversion)
    model = ModelConfig(
        botorch_model_class=MeanVarianceGP,
        model_options=model_options or {},
        input_transform_classes=DEFAULT,
        outcome_transform_classes=[Standardize],
        name="MeanVarianceGP",
    )
    spec = GeneratorSpec(
        RiskGenerators.RISK,
        generator_kwargs={
            "surrogate_spec": SurrogateSpec(
                model_configs=[
                    ModelConfig(outcome_transform_classes=[Standardize], name="default")
                ],
                metric_to_model_configs={metric: [model]},
            ),
            "botorch_acqf_class": acquisition,
            "botorch_acqf_options": {"risk_aversion": risk_aversion, **(acquisition_options or {})},
            "seed": seed,
        },
    )
    return after_sobol("risk_averse", spec, num_initial, seed)


def after_sobol(name: str, spec: GeneratorSpec, num_initial: int, seed: int) -> GenerationStrategy:
    r"""Trials of a Sobol sequence, then those of a generator.

    Args:
        name: Of the strategy and of its second node.
        spec: The generator.
        num_initial: The number of trials of the sequence, at least 1.
        seed: Of the sequence.

    Raises:
        ValueError: If there is no initial trial.

    Example:
        >>> spec = GeneratorSpec(RiskGenerators.RISK)
        >>> after_sobol("mine", spec, num_initial=3, seed=0).nodes_by_name.keys()
        dict_keys(['Sobol', 'mine'])
    """
    if num_initial < 1:
        raise ValueError(f"Expected at least 1 initial trial. Got {num_initial=}.")
    sobol = GenerationNode(
        name="Sobol",
        generator_specs=[GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": seed})],
        transition_criteria=[
            MinTrials(threshold=num_initial, transition_to=name, use_all_trials_in_exp=True)
        ],
    )
    return GenerationStrategy(
        name=name, nodes=[sobol, GenerationNode(name=name, generator_specs=[spec])]
    )
