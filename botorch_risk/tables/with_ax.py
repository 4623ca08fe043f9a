r"""A finite table in Ax: conditions x contexts, both made of choice parameters."""

from botorch_risk.extras import require_extra

require_extra("ax", "botorch_risk[ax]")

import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from ax.api.client import Client
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.parameter import ChoiceParameter, FixedParameter
from ax.core.types import TParameterization
from ax.exceptions.core import SearchSpaceExhausted, UnsupportedError, UserInputError
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.registry import (
    CORE_CLASS_DECODER_REGISTRY,
    CORE_DECODER_REGISTRY,
    CORE_ENCODER_REGISTRY,
)
from botorch.exceptions.warnings import InputDataWarning

from botorch_risk.arguments import check_counts, check_integers, check_numbers, in_short
from botorch_risk.ax.trials import (
    as_stored,
    is_inside,
    pending_features,
    present_config,
    settled_data,
    single_objective,
)
from botorch_risk.models.botorch_parts import check_risk_measure
from botorch_risk.risk import Expectation, RiskMeasure
from botorch_risk.tables import TABLE_RULES, TableRule
from botorch_risk.tables.table_search import Pair, TableSearch, table_search

__all__ = ["FiniteTableNode", "filled_table", "finite_table"]


class FiniteTableNode(ExternalGenerationNode):
    r"""A node that runs `table_search` inside Ax, over choice parameters.

    Only the arguments are remembered between candidates: the table is filled from the experiment
    each time, so a saved and loaded experiment continues unchanged.

    Args:
        conditions: Names of the parameters that make a condition.
        contexts: Names of those that make a context.
        risk_measure: The measure over the contexts; larger is better.
        weights: Weights of the contexts, in the order of the product of the parameters' values.
        rule: As in `table_search`.
        num_initial: As in `table_search`.
        noise_share: As in `table_search`.
        seed: Seed of every random draw.
    """

    def __init__(
        self,
        conditions: Sequence[str],
        contexts: Sequence[str],
        risk_measure: RiskMeasure | None = None,
        weights: Sequence[float] | None = None,
        rule: TableRule | None = None,
        num_initial: int = 10,
        noise_share: float = 0.1,
        seed: int = 0,
    ) -> None:
        check_counts(num_initial=num_initial)
        check_integers(seed=seed)
        if risk_measure is not None:
            check_risk_measure(risk_measure)
        for name, each in (("conditions", conditions), ("contexts", contexts)):
            if not each or isinstance(each, str):
                raise ValueError(f"Expected `{name}` to be a list of parameters. Got {each!r}.")
        if rule is not None and rule not in TABLE_RULES:
            raise ValueError(
                f"Expected `rule` to be one of {list(TABLE_RULES)}. Got {in_short(rule)}."
            )
        check_numbers(noise_share=noise_share)
        if not 0 <= noise_share <= 1:
            raise ValueError(f"Expected `noise_share` in [0, 1]. Got {noise_share}.")
        super().__init__(name="finite_table", should_deduplicate=False)
        self.conditions, self.contexts = list(conditions), list(contexts)
        self.risk_measure = Expectation() if risk_measure is None else risk_measure
        if hasattr(weights, "keys"):  # the order of a Series or a dict may be another
            raise TypeError(f"Expected `weights` to be a list. Got {type(weights).__name__}.")
        self.weights = None if weights is None else list(weights)
        self.rule, self.seed = rule, seed
        self.num_initial, self.noise_share = num_initial, noise_share
        self._search: TableSearch | None = None

    def arguments(self) -> dict[str, Any]:
        r"""The arguments of the node, for storage."""
        names = ("conditions", "contexts", "risk_measure", "weights", "rule", "num_initial")
        return {name: getattr(self, name) for name in (*names, "noise_share", "seed")}

    @classmethod
    def deserialize_init_args(
        cls, args: dict[str, Any], decoder_registry: Any = None, class_decoder_registry: Any = None
    ) -> dict[str, Any]:
        r"""The arguments of a stored node; Ax leaves the risk measure in its stored form."""
        registries = (
            decoder_registry or CORE_DECODER_REGISTRY,
            class_decoder_registry or CORE_CLASS_DECODER_REGISTRY,
        )
        return {name: object_from_json(value, *registries) for name, value in args.items()}

    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        r"""Fills the table with the data so far."""
        self._search = self.filled(experiment, data)

    def get_next_candidate(self, pending_parameters: list[TParameterization]) -> TParameterization:
        r"""The next pair, chosen as if the pending ones had been tried.

        Raises:
            SearchSpaceExhausted: If every pair was tried or is pending.
        """
        assert self._search is not None  # Ax updates the state before
        # Ax resets it to an integer, which its SQL store does not take for the same as a float.
        self.fit_time_since_gen = float(self.fit_time_since_gen)
        asked = self._search.ask(1, pending=[self._pair(each) for each in pending_parameters])
        if not asked:
            raise SearchSpaceExhausted("Every pair of the table was tried, or is pending.")
        (pair,) = asked
        return {
            **dict(zip(self.conditions, pair.condition, strict=True)),
            **dict(zip(self.contexts, pair.context, strict=True)),
        }

    def filled(self, experiment: Experiment, data: Data) -> TableSearch:
        r"""The search with the outcomes of an experiment.

        Raises:
            UnsupportedError: If there are several objectives, or an outcome constraint.
            UserInputError: If the parameters do not match, or are not choice parameters.
        """
        metric, sign = _objective(experiment)
        conditions, contexts = self._factors(experiment)
        weights = None if self.weights is None else torch.tensor(self.weights, dtype=torch.double)
        search = table_search(
            conditions,
            contexts,
            risk_measure=self.risk_measure,
            weights=weights,
            allowed=self._allowed(experiment, conditions, contexts),
            rule=self.rule,
            seed=self.seed,
            num_initial=self.num_initial,
            noise_share=self.noise_share,
        )
        table = settled_data(experiment, data).df
        rows = table[table["metric_name"] == metric].sort_values("trial_index", kind="stable")
        outcomes = sign * as_stored(rows[["mean"]].rename(columns={"mean": metric}))[metric]
        arms = experiment.arms_by_name
        told = [
            (int(index), arms[name], outcome)
            for index, name, outcome in zip(
                rows["trial_index"], rows["arm_name"], outcomes, strict=True
            )
        ]
        for index, trial in experiment.trials.items():
            if trial.status.is_abandoned:  # not asked for again
                told += [(index, arm, math.nan) for arm in trial.arms]
        inside = [each for each in told if is_inside(experiment, each[1])]
        if strangers := sorted({index for index, *_ in told} - {index for index, *_ in inside}):
            warnings.warn(
                f"Expected pairs of the table. Got other pairs in the trials {strangers}: these "
                "pairs are left out.",
                InputDataWarning,
                stacklevel=2,
            )
        if inside:
            pairs = [self._pair(arm.parameters) for _, arm, _ in inside]
            values = [outcome for *_, outcome in inside]
            search.tell(pairs, torch.tensor(values, dtype=torch.double))
        waiting = pending_features(experiment)[metric]
        search.start([self._pair(each.parameters) for each in waiting])
        return search

    def _pair(self, parameters: TParameterization) -> Pair:
        return Pair(
            tuple(parameters[name] for name in self.conditions),
            tuple(parameters[name] for name in self.contexts),
        )

    def _factors(self, experiment: Experiment) -> tuple[pd.DataFrame, pd.DataFrame]:
        r"""The rows and the columns of the table, each named by the values of its parameters."""
        parameters = experiment.search_space.parameters
        if experiment.search_space.is_hierarchical:
            raise UserInputError("Expected independent parameters. Got a hierarchical space.")
        named = [*self.conditions, *self.contexts]
        if sorted(named) != sorted(parameters):
            raise UserInputError(
                f"Expected conditions and contexts to use all parameters of the experiment, "
                f"{list(parameters)}, each once. Got {named}."
            )
        values = {}
        for name, parameter in parameters.items():
            if isinstance(parameter, FixedParameter):
                values[name] = [parameter.value]
            elif isinstance(parameter, ChoiceParameter):
                values[name] = list(parameter.values)
            else:
                raise UserInputError(
                    f"Expected choice parameters. Got {name!r}, a {type(parameter).__name__}."
                )

        def product(names: list[str]) -> pd.DataFrame:
            rows = list(itertools.product(*(values[name] for name in names)))
            frame = pd.DataFrame(rows, columns=names)
            frame.index = pd.Index(rows, tupleize_cols=False)
            numbers = [name for name in names if getattr(parameters[name], "is_ordered", False)]
            categories = [name for name in names if name not in numbers]
            return frame.astype(dict.fromkeys(categories, str))

        return product(self.conditions), product(self.contexts)

    def _allowed(
        self, experiment: Experiment, conditions: pd.DataFrame, contexts: pd.DataFrame
    ) -> torch.Tensor | None:
        r"""The pairs that satisfy the parameter constraints."""
        space = experiment.search_space
        if not space.parameter_constraints:
            return None
        names = [*self.conditions, *self.contexts]
        met = [
            [
                space.check_membership(dict(zip(names, (*x, *w), strict=True)))
                for w in contexts.index
            ]
            for x in conditions.index
        ]
        return torch.tensor(met)


def _objective(experiment: Experiment) -> tuple[str, float]:
    r"""The metric of the objective, and the sign that makes it larger-is-better."""
    if constraints := present_config(experiment).outcome_constraints:
        raise UnsupportedError(
            "Expected no outcome constraint for a finite table. Got "
            f"{[each.expression for each in constraints]}."
        )
    return single_objective(experiment, "a finite table")


def finite_table(
    conditions: Sequence[str],
    contexts: Sequence[str],
    *,
    risk_measure: RiskMeasure | None = None,
    weights: Sequence[float] | None = None,
    rule: TableRule | None = None,
    num_initial: int = 10,
    noise_share: float = 0.1,
    seed: int = 0,
) -> GenerationStrategy:
    r"""A generation strategy of Ax for conditions x contexts, both made of choice parameters.

    It is the counterpart of `tables.table_search`: it looks for the condition with the best risk
    over the contexts, a trial tries one pair, and no pair is suggested twice. Several parameters
    may make a condition, and several a context; the values of ordered ones are numbers. In a batch,
    each pair is chosen as if those before it had been read. `filled_table` gives the
    recommendation. A minimised objective is negated first.

    Args:
        conditions: Names of the choice parameters that make a condition.
        contexts: Names of those that make a context.
        risk_measure: The measure over the contexts; larger is better. By default `Expectation()`.
        weights: Probabilities of the contexts, in the order of the product of the values of their
            parameters, the last one fastest; equal by default.
        rule: The rule that chooses pairs, as in `table_search`; the default depends on the risk.
        num_initial: The number of pairs that are first chosen at random.
        noise_share: The share of noise in a pair's unexplained variance, as in `table_search`.
        seed: Seed of every random draw.

    Example:
        >>> finite_table(["base", "solvent"], ["alcohol"]).name
        'finite_table'
    """
    node = FiniteTableNode(
        conditions, contexts, risk_measure, weights, rule, num_initial, noise_share, seed
    )
    return GenerationStrategy(name="finite_table", nodes=[node])


def filled_table(client: Client) -> TableSearch:
    r"""The table of a client with all its outcomes, for `recommend()` and `ranking()`.

    Args:
        client: The client of an experiment whose strategy is `finite_table`.

    Raises:
        AssertionError: Ax's own error, if the client has no experiment or no generation strategy.
        UnsupportedError: If the strategy is not a `finite_table`.

    Example:
        >>> from ax.api.configs import ChoiceParameterConfig
        >>> client = Client()
        >>> bases, alcohols = ["DBU", "BTMG", "MTBD"], list("uvwxyz")
        >>> client.configure_experiment([
        ...     ChoiceParameterConfig("base", bases, "str", is_ordered=False),
        ...     ChoiceParameterConfig("alcohol", alcohols, "str", is_ordered=False),
        ... ])
        >>> client.configure_optimization("conversion")
        >>> client.set_generation_strategy(finite_table(["base"], ["alcohol"], num_initial=4))
        >>> for _ in range(2):
        ...     for index, pair in client.get_next_trials(max_trials=4).items():
        ...         outcome = {"DBU": 0.2, "BTMG": 0.9, "MTBD": 0.5}[pair["base"]]
        ...         _ = client.complete_trial(index, {"conversion": outcome})
        >>> filled_table(client).recommend().condition
        ('BTMG',)
    """
    experiment, strategy = client._experiment, client._generation_strategy
    (*_, node) = strategy._nodes
    if not isinstance(node, FiniteTableNode):
        raise UnsupportedError(f"Expected a strategy `finite_table`. Got {strategy.name!r}.")
    return node.filled(experiment, experiment.lookup_data())


def _stored(node: FiniteTableNode) -> dict[str, Any]:
    return {"__type": type(node).__name__, **node.arguments()}


CORE_DECODER_REGISTRY[FiniteTableNode.__name__] = FiniteTableNode
CORE_ENCODER_REGISTRY[FiniteTableNode] = _stored
