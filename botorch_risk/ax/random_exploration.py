r"""Random trials among those of a generation strategy, as often as EXP3 finds that they pay."""

from __future__ import annotations

from ax.adapter.registry import Generators
from ax.exceptions.core import UnsupportedError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.utils.common.serialization import serialize_init_args

from botorch_risk.ax.exp3_criterion import Exp3Criterion
from botorch_risk.bandits import RewardScale
from botorch_risk.seeding import derive_seed


def with_random_exploration(
    strategy: GenerationStrategy,
    *,
    reward_scale: RewardScale = "min_max",
    exploration: float | None = None,
    seed: int = 0,
) -> GenerationStrategy:
    r"""The random exploration of UHE-BO in Ax, Algorithm 1 of [Ha2023uhe]_.

    Trials of the strategy's last node come in pairs. EXP3 draws the first of a pair: uniformly
    random, or the node's own; the second is the node's. The better outcome of the two is the reward
    of the draw. Hyperparameters are then estimated from data that were not all chosen by the model
    that they belong to.

    Trials that are asked for in one request are all of one kind. A trial that failed still takes
    its turn. Draws follow from `seed` and from what was completed when the pair began, so that an
    experiment that was saved and loaded goes on as it would have.

    Args:
        strategy: Of one objective, such as `risk_averse("purity")`; it is not changed.
        reward_scale: The scale of rewards; see `botorch_risk.bandits.scale_reward`.
        exploration: A constant rate of EXP3; Algorithm 1's schedule if omitted.
        seed: Of the draws and of the random trials.

    Returns:
        The strategy with a node `Random` before its last one.

    Raises:
        ValueError: If `reward_scale` is unknown or `exploration` is not positive.
        UnsupportedError: If the strategy's last node is its only one, or leads to others.

    Example:
        >>> from botorch_risk.ax import risk_averse
        >>> [node.name for node in with_random_exploration(risk_averse("purity"))._nodes]
        ['Sobol', 'Random', 'risk_averse']
    """
    *initial, inner = strategy.clone_reset()._nodes
    if not initial or inner.transition_criteria:
        raise UnsupportedError(
            "Expected a strategy with an initial node and a last one that leads to no other. Got "
            f"{strategy}."
        )

    def drawn(node: str) -> Exp3Criterion:
        return Exp3Criterion(node, "Random", inner.name, reward_scale, exploration, seed)

    for node in initial:
        last = [each for each in node.transition_criteria if each.transition_to == inner.name]
        if last:
            to_random = [
                type(each)(**{**serialize_init_args(each), "transition_to": "Random"})
                for each in last
            ]
            edges = [*to_random, drawn("Random"), drawn(inner.name)]
            node._transition_criteria = [*node.transition_criteria, *edges]
    inner._transition_criteria = [drawn("Random")]
    uniform = GeneratorSpec(
        Generators.UNIFORM, generator_kwargs={"seed": derive_seed(seed, "random trial") % 2**32}
    )
    random = GenerationNode(
        name="Random", generator_specs=[uniform], transition_criteria=[drawn(inner.name)]
    )
    return GenerationStrategy(
        name=f"{strategy.name} with random exploration", nodes=[*initial, random, inner]
    )
