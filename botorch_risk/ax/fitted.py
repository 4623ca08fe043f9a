r"""The models of a strategy of this package, fitted to all data so far."""

from collections.abc import Mapping, Sequence
from typing import Any

from ax.adapter.base import Adapter
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.ax.generator import RiskGenerator
from botorch_risk.ax.nodes import check_names
from botorch_risk.ax.observed import ObservedAdapter


def fitted_adapter(
    experiment: Experiment,
    generation_strategy: GenerationStrategy | None,
    adapter: Adapter | None = None,
) -> ObservedAdapter:
    r"""The adapter of the last node of a strategy, fitted to all data so far.

    Nothing is refitted if the data are the same.

    Args:
        adapter: A fitted adapter, which is then returned.

    Raises:
        DataRequiredError: If no trial is completed.
        UnsupportedError: If the strategy or the adapter is not of this package.
        UserInputError: If neither a strategy nor an adapter is given.
    """
    if adapter is not None:
        source = f"an adapter of {type(adapter.generator).__name__}"
    elif generation_strategy is None:
        raise UserInputError("Expected a generation strategy or an adapter. Got none.")
    else:
        check_names(experiment, generation_strategy)
        (*_, node) = generation_strategy._nodes
        if isinstance(node, ExternalGenerationNode):
            raise UnsupportedError(
                f"Expected a strategy with a model of arms. Got a strategy with the last node "
                f"{node.name!r}, which recommends by itself, as in `filled_table`."
            )
        node._fit(experiment=experiment, data=experiment.lookup_data())
        adapter, source = node._fitted_adapter, f"a last node {node.name!r}"
    if not (isinstance(adapter, ObservedAdapter) and isinstance(adapter.generator, RiskGenerator)):
        raise UnsupportedError(f"Expected a strategy of `botorch_risk.ax`. Got {source}.")
    return adapter


def encoded(adapter: ObservedAdapter, parameters: Sequence[Mapping[str, Any]]) -> Tensor:
    r"""Points of the search space as the models take them, `n x d`."""
    features = [ObservationFeatures(parameters=dict(point)) for point in parameters]
    for transform in adapter.transforms.values():
        features = transform.transform_observation_features(features)
    return adapter._transform_observation_features(features)


def model_of(adapter: ObservedAdapter, metric: str) -> Model:
    r"""The model of one metric.

    Raises:
        UserInputError: If the metric has no model.
    """
    generator: Any = adapter.generator
    surrogate = generator.surrogate
    if metric not in surrogate.outcomes:
        raise UserInputError(f"Expected a metric in {surrogate.outcomes}. Got {metric!r}.")
    if len(surrogate.outcomes) == 1:
        return surrogate.model
    return surrogate.model.subset_output([surrogate.outcomes.index(metric)])


def confidence_bound(adapter: ObservedAdapter) -> Any:
    r"""The confidence bound that the strategy maximises, with `lower`, `mean` and `upper`.

    Raises:
        UnsupportedError: If the acquisition function has no such bounds.
    """
    made = adapter._get_transformed_gen_args(search_space=adapter._search_space.clone())
    digest, config = adapter._get_transformed_model_gen_args(
        search_space=made.search_space,
        pending_observations={},
        fixed_features=made.fixed_features,
        optimization_config=made.optimization_config,
    )
    generator: Any = adapter.generator
    bound = generator.acquisition_function(digest, config)
    if not all(callable(getattr(bound, side, None)) for side in ("lower", "mean", "upper")):
        raise UnsupportedError(
            "Expected a strategy that maximises a confidence bound of a risk. Got "
            f"{type(bound).__name__}."
        )
    return bound
