r"""Names that a generation strategy was built with, checked against the experiment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ax.core.experiment import Experiment
from ax.exceptions.core import UserInputError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.transition_criterion import TransitionCriterion


class KnownNames(TransitionCriterion):
    r"""Always met, once the experiment has what a strategy names.

    A strategy is built before it sees the experiment. Ax asks the criteria of a node before each
    candidate, so that a misspelt name ends the first request and not a trial.

    Args:
        transition_to: The node to move to.
        metrics: Names of objectives.
        contexts: Names of metrics that are observed beside the outcome. Ax adds a tracking metric
            when a trial is completed with it, so that they are looked for from the first trial on.
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
    r"""Raises UserInputError if the experiment lacks what a strategy names.

    Args:
        experiment: Of Ax.
        generation_strategy: Of this package, or any other.
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
