r"""The nodes of a generation strategy: a Sobol sequence, and a generator of this package."""

import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ax.adapter.registry import Generators
from ax.core.experiment import Experiment
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import (
    ChoiceParameter,
    DerivedParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials, TransitionCriterion
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.transforms.outcome import Standardize

from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.arguments import check_counts, check_integers, in_short
from botorch_risk.ax.contextual import MIN_SPREAD
from botorch_risk.ax.generator import RiskGenerators
from botorch_risk.ax.trials import present_config, settled_data

Constraints = Literal["any", "absolute", "none"]


class KnownNames(TransitionCriterion):
    r"""A criterion that is met once an experiment suits a strategy and has the names that it uses.

    A strategy is built before it sees the experiment. Ax evaluates the criteria of a node before
    each candidate, so a mistake in the description makes the first request fail, before a trial is
    evaluated. An outcome constraint on several metrics is always refused: Ax 1.3.1 would constrain
    the first of them alone. With contexts, only trials that have them count among those for which
    the node waits, since trials of an earlier strategy have none.

    Args:
        transition_to: The node to move to.
        metrics: Names of objectives.
        contexts: Names of metrics that are observed with the outcome. Ax adds a tracking metric
            when a trial is completed with it, so the check starts with the first trial.
        parameters: Names of parameters.
        chosen: The values of each context that the strategy sets, by name. These are the last
            parameters, in this order, and are numbers without a log or logit scale.
        perturbed: Names of parameters with a continuous range.
        num_with_contexts: The number of completed trials with all contexts that is waited for.
        one_objective: Whether the strategy has one objective, which may be a sum of metrics.
        one_metric: Whether the objective must not be a sum.
        constraints: The outcome constraints that the strategy supports: any, only those with an
            absolute limit, or none.
    """

    def __init__(
        self,
        transition_to: str,
        metrics: Sequence[str] = (),
        contexts: Sequence[str] = (),
        parameters: Sequence[str] = (),
        chosen: Mapping[str, Sequence[float]] | None = None,
        perturbed: Sequence[str] = (),
        one_objective: bool = False,
        constraints: Constraints = "any",
        num_with_contexts: int = 1,
        one_metric: bool = False,
    ) -> None:
        super().__init__(transition_to=transition_to)
        self.metrics, self.contexts = list(metrics), list(contexts)
        self.parameters, self.perturbed = list(parameters), list(perturbed)
        self.chosen = {name: list(map(float, values)) for name, values in (chosen or {}).items()}
        self.one_objective, self.constraints = one_objective, constraints
        self.num_with_contexts, self.one_metric = num_with_contexts, one_metric

    def is_met(self, experiment: Experiment, curr_node: GenerationNode) -> bool:
        r"""Whether enough completed trials have contexts, if the strategy uses any.

        Raises:
            UserInputError: If the experiment lacks a name, or a parameter does not fit.
            UnsupportedError: If the strategy does not support the objective or a constraint.
        """
        self.check(experiment)
        if not self.contexts:
            return True
        table = settled_data(experiment).df
        needed = {*self.contexts, *present_config(experiment).objective.metric_names}
        found = table[table["metric_name"].isin(needed)].dropna(subset=["mean"])
        seen = found.groupby(["trial_index", "arm_name"])["metric_name"].nunique()
        count = int((seen == len(needed)).sum())
        completed = len(experiment.trials_by_status[TrialStatus.COMPLETED])
        if count < self.num_with_contexts <= completed:
            warnings.warn(
                f"Expected the contexts {self.contexts} next to the objective in "
                f"{self.num_with_contexts} completed trials or more. Got contexts in {count} of "
                f"{completed}, so the initial design goes on.",
                InputDataWarning,
                stacklevel=2,
            )
        return count >= self.num_with_contexts

    def check(self, experiment: Experiment) -> None:
        r"""Raises what `is_met` raises."""
        config = experiment.optimization_config
        if config is not None:
            _check("a metric", self.metrics, "objective", config.objective.metric_names)
            self._check_optimization(config)
            self._check_contexts(config)
        named = [*self.parameters, *self.chosen, *self.perturbed]
        _check("a parameter", named, "parameters", experiment.parameters)
        _check_chosen(self.chosen, experiment.search_space)
        self._check_constraints(experiment.search_space)
        _check_perturbed(self.perturbed, experiment.search_space)
        if not experiment.lookup_data().df.empty:
            _check("a context", self.contexts, "metrics", experiment.metrics)

    def _check_optimization(self, config: OptimizationConfig) -> None:
        r"""Raises UnsupportedError unless the objective and the constraints are supported."""
        objective = config.objective
        if self.one_objective and objective.is_multi_objective:
            raise UnsupportedError(
                f"Expected one objective for {self.transition_to!r}. Got "
                f"{len(objective.metric_names)}: {objective.expression!r}."
            )
        if self.one_metric and not objective.is_single_objective:
            raise UnsupportedError(
                f"Expected an objective of one metric for {self.transition_to!r}, which learns the "
                f"noise. Got {objective.expression!r}."
            )
        for constraint in config.outcome_constraints:
            if len(constraint.metric_names) > 1:
                raise UnsupportedError(
                    "Expected outcome constraints of one metric each. Got "
                    f"{constraint.expression!r}."
                )
            if self.constraints == "none":
                raise UnsupportedError(
                    "Expected no outcome constraint: the acquisition function of "
                    f"{self.transition_to!r} would ignore the constraint. Got "
                    f"{constraint.expression!r}."
                )
            if self.constraints == "absolute" and constraint.relative:
                raise UnsupportedError(
                    f"Expected outcome constraints with an absolute limit for "
                    f"{self.transition_to!r}, which hold under a risk. Got "
                    f"{constraint.expression!r}, relative to the baseline."
                )

    def _check_contexts(self, config: OptimizationConfig) -> None:
        r"""Raises UserInputError if a context is optimised or constrained."""
        if optimised := sorted(config.metric_names & {*self.contexts}):
            raise UserInputError(
                f"Expected contexts {self.contexts} that are neither the objective nor constrained."
                f" Got {optimised}."
            )

    def _check_constraints(self, space: SearchSpace) -> None:
        r"""Raises UserInputError if a constraint of parameters has a context that is chosen."""
        for constraint in space.parameter_constraints if self.chosen else []:
            if linked := sorted(constraint.constraint_dict.keys() & self.chosen.keys()):
                raise UserInputError(
                    f"Expected parameter constraints on decisions only for {self.transition_to!r}, "
                    "because a risk is over all values of the contexts. "
                    f"Got {constraint!r} with {linked}."
                )


def check_names(experiment: Experiment, generation_strategy: GenerationStrategy) -> None:
    r"""Raise UserInputError or UnsupportedError if the experiment does not fit a strategy."""
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


def _check_chosen(chosen: Mapping[str, Sequence[float]], space: SearchSpace) -> None:
    r"""Raise UserInputError unless a strategy can set parameters to these values."""
    names = list(chosen)
    order = [
        name
        for name, parameter in space.parameters.items()
        if not isinstance(parameter, (FixedParameter, DerivedParameter))
    ]
    if names and order[-len(names) :] != names:
        raise UserInputError(
            f"Expected the contexts {names} to be the last parameters, in this order. Got {order}."
        )
    if names and order == names:
        raise UserInputError(f"Expected parameters other than the contexts {names}. Got none.")
    for name, values in chosen.items():
        parameter = space[name]
        if (reason := _no_numbers(parameter)) is not None:
            raise UserInputError(
                f"Expected the context {name!r} to be a range on a linear scale or ordered numbers "
                f"to choose from. Got {reason}."
            )
        for value in values:
            if not parameter.validate(value):
                raise UserInputError(
                    f"Expected the context {name!r} to take {_described(parameter)}. Got {value:g}."
                )


def _no_numbers(parameter: Parameter) -> str | None:
    r"""Why the models do not see a parameter as the user's own numbers, if so."""
    if isinstance(parameter, RangeParameter):
        scales = {"log": parameter.log_scale, "logit": parameter.logit_scale}
        return next((f"a {scale} scale" for scale, is_used in scales.items() if is_used), None)
    assert isinstance(parameter, ChoiceParameter)
    if not parameter.is_numeric:
        return f"a choice of {parameter.values}"
    return None if parameter.is_ordered else f"an unordered choice of {parameter.values}"


def _described(parameter: Parameter) -> str:
    if isinstance(parameter, ChoiceParameter):
        return f"values among {parameter.values}"
    assert isinstance(parameter, RangeParameter)
    kind = "whole numbers" if parameter.parameter_type == ParameterType.INT else "values"
    return f"{kind} within its bounds [{parameter.lower:g}, {parameter.upper:g}]"


def _check_perturbed(names: Sequence[str], space: SearchSpace) -> None:
    ranges = [
        name
        for name, parameter in space.parameters.items()
        if isinstance(parameter, RangeParameter) and parameter.parameter_type == ParameterType.FLOAT
    ]
    if wrong := [name for name in names if name not in ranges]:
        raise UserInputError(
            f"Expected perturbed parameters among those with a continuous range, {ranges}. Got "
            f"{wrong}."
        )


def after_sobol(
    name: str, spec: GeneratorSpec, num_initial: int, seed: int, **known: Any
) -> GenerationStrategy:
    r"""Trials of a Sobol sequence, then of a generator.

    If you request trials ahead, the sequence goes on until half of its trials are completed.

    Args:
        known: What the experiment has to have, such as `metrics`, `contexts` and `parameters`;
            otherwise a request for a candidate raises an error. See `KnownNames`.
    """
    check_counts(num_initial=num_initial)
    check_integers(seed=seed)
    half = -(-num_initial // 2)
    sobol = GenerationNode(
        name="Sobol",
        generator_specs=[GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": seed})],
        transition_criteria=[
            KnownNames(name, num_with_contexts=half, **known),
            MinTrials(threshold=num_initial, transition_to=name, use_all_trials_in_exp=True),
            MinTrials(
                threshold=half,
                transition_to=name,
                only_in_statuses=[TrialStatus.COMPLETED],
                use_all_trials_in_exp=True,
            ),
        ],
    )
    return GenerationStrategy(
        name=name, nodes=[sobol, GenerationNode(name=name, generator_specs=[spec])]
    )


def check_options(acquisition: type[AcquisitionFunction], options: Mapping[str, Any]) -> None:
    r"""Raise TypeError unless Ax can build an acquisition function with these options."""
    if not (isinstance(acquisition, type) and issubclass(acquisition, AcquisitionFunction)):
        raise TypeError(f"Expected `acquisition` to be a class. Got {in_short(acquisition)}.")
    constructor: Any = get_acqf_input_constructor(acquisition)
    # BoTorch wraps the function whose arguments these are, without saying so to `inspect`.
    wrapped = [cell.cell_contents for cell in constructor.__closure__ or ()]
    parts = [acquisition, constructor, *filter(callable, wrapped)]
    known = {name for part in parts for name in inspect.signature(part).parameters}
    if wrong := [name for name in options if name not in known]:
        own = sorted(inspect.signature(acquisition).parameters.keys() - {"model"})
        raise TypeError(f"Expected arguments of {acquisition.__name__}: {own}. Got {wrong}.")


def standardized(name: str, **options: Any) -> ModelConfig:
    r"""A model of outcomes standardised at any scale; BoTorch does not scale spreads below 1e-8."""
    return ModelConfig(
        outcome_transform_classes=[Standardize],
        outcome_transform_options={"Standardize": {"min_stdv": MIN_SPREAD}},
        name=name,
        **options,
    )


def generator_spec(
    models: Mapping[str, list[ModelConfig]],
    acquisition: type[AcquisitionFunction],
    options: Mapping[str, Any],
    seed: int,
    default: ModelConfig | None = None,
    **more: Any,
) -> GeneratorSpec:
    r"""Specify our generator; metrics without a named model get the default, or Ax's own model."""
    check_options(acquisition, options)
    default = default or standardized("default")
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


def constraints_of(acquisition: type[AcquisitionFunction]) -> Constraints:
    r"""The outcome constraints that `RiskAcquisition` can build an acquisition function with."""
    if issubclass(acquisition, PointwiseAcquisitionFunction):
        return "any" if callable(getattr(acquisition, "lower", None)) else "none"
    return "any" if "constraints" in inspect.signature(acquisition).parameters else "none"
