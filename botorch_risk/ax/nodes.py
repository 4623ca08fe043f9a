r"""The nodes of a generation strategy: a Sobol sequence, and a generator of this package."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ax.adapter.registry import Generators
from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials, TransitionCriterion
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.transforms.outcome import Standardize

from botorch_risk.arguments import check_counts, check_integers
from botorch_risk.ax.generator import RiskGenerators


class KnownNames(TransitionCriterion):
    r"""Always met, once the experiment has every name that a strategy uses.

    A strategy is built before it sees the experiment. Ax evaluates the criteria of a node before
    each candidate, so a misspelt name fails the first request, not a trial.

    Args:
        transition_to: The node to move to.
        metrics: Names of objectives.
        contexts: Names of metrics that are observed with the outcome. Ax adds a tracking metric
            when a trial is completed with it, so the check starts with the first trial.
        parameters: Names of parameters.

    Example:
        >>> KnownNames("risk_averse", metrics=["purity"]).metrics
        ['purity']
    """

    def __init__(
        self,
        transition_to: str,
        metrics: Sequence[str] = (),
        contexts: Sequence[str] = (),
        parameters: Sequence[str] = (),
    ) -> None:
        super().__init__(transition_to=transition_to)
        self.metrics, self.contexts = list(metrics), list(contexts)
        self.parameters = list(parameters)

    def is_met(self, experiment: Experiment, curr_node: GenerationNode) -> bool:
        r"""True.

        Raises:
            UserInputError: If the experiment does not have a name.
        """
        self.check(experiment)
        return True

    def check(self, experiment: Experiment) -> None:
        r"""Raises UserInputError if the experiment does not have a name."""
        config = experiment.optimization_config
        if config is not None:
            _check("a metric", self.metrics, "objective", config.objective.metric_names)
        _check("a parameter", self.parameters, "parameters", experiment.parameters)
        if not experiment.lookup_data().df.empty:
            _check("a context", self.contexts, "metrics", experiment.metrics)


def check_names(experiment: Experiment, generation_strategy: GenerationStrategy) -> None:
    r"""Raise UserInputError if the experiment lacks a name that a strategy uses.

    Args:
        experiment: Of Ax.
        generation_strategy: A strategy of this package, or any other.
    """
    for node in generation_strategy._nodes:
        for criterion in node.transition_criteria:
            if isinstance(criterion, KnownNames):
                criterion.check(experiment)


def _check(what: str, named: Sequence[str], where: str, known: Iterable[str]) -> None:
    for name in named:
        if name not in known:
            raise UserInputError(
                f"Expected {what} of the experiment, whose {where} "
                f"{'is' if where == 'objective' else 'are'} {list(known)}. Got {name!r}."
            )


def after_sobol(
    name: str, spec: GeneratorSpec, num_initial: int, seed: int, **names: list[str]
) -> GenerationStrategy:
    r"""Trials of a Sobol sequence, then of a generator.

    If you request trials ahead, the sequence goes on until half of its trials are completed.

    Args:
        name: The name of the strategy and of its second node.
        spec: The generator.
        num_initial: The number of trials of the sequence, at least 1.
        seed: Seed of the Sobol sequence.
        names: `metrics`, `contexts` and `parameters` that the experiment has to have; otherwise a
            request for a candidate raises an error. See `KnownNames`.

    Raises:
        ValueError: If there is no initial trial, or the seed is not an integer.

    Example:
        >>> spec = GeneratorSpec(RiskGenerators.RISK)
        >>> after_sobol("mine", spec, num_initial=3, seed=0).nodes_by_name.keys()
        dict_keys(['Sobol', 'mine'])
    """
    check_counts(num_initial=num_initial)
    check_integers(seed=seed)
    sobol = GenerationNode(
        name="Sobol",
        generator_specs=[GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": seed})],
        transition_criteria=[
            KnownNames(name, **names),
            MinTrials(threshold=num_initial, transition_to=name, use_all_trials_in_exp=True),
            MinTrials(
                threshold=-(-num_initial // 2),
                transition_to=name,
                only_in_statuses=[TrialStatus.COMPLETED],
                use_all_trials_in_exp=True,
            ),
        ],
    )
    return GenerationStrategy(
        name=name, nodes=[sobol, GenerationNode(name=name, generator_specs=[spec])]
    )


def generator_spec(
    models: Mapping[str, list[ModelConfig]],
    acquisition: type[AcquisitionFunction],
    options: Mapping[str, Any],
    seed: int,
    default: ModelConfig | None = None,
    **more: Any,
) -> GeneratorSpec:
    r"""Our generator; metrics without a named model get the default, or Ax's own model."""
    default = default or ModelConfig(outcome_transform_classes=[Standardize], name="default")
    return GeneratorSpec(
        RiskGenerators.RISK,
        generator_kwargs={
            "surrogate_spec": SurrogateSpec(
                model_configs=[default], metric_to_model_configs=dict(models)
            ),
            "botorch_acqf_class": acquisition,
            "botorch_acqf_options": dict(options),
            "seed": seed,
            **more,
        },
    )
