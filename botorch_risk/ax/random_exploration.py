r"""Mix random trials into a generation strategy, as often as EXP3 finds them useful."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import torch
from ax.adapter.registry import Generators
from ax.core.experiment import Experiment
from ax.exceptions.core import UnsupportedError
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import TransitionCriterion
from ax.utils.common.serialization import serialize_init_args
from torch import Tensor

from botorch_risk.arguments import check_integers, check_kind, check_positive, in_short
from botorch_risk.ax.trials import STORED_DECIMALS, settled_data, single_objective
from botorch_risk.bandits import Exp3, RewardScale, exploration_rate, scale_reward
from botorch_risk.bandits.exp3 import draw_arms
from botorch_risk.seeding import derive_seed

RANDOM, INNER = 0, 1  # the arms of the bandit


class Exp3Criterion(TransitionCriterion):
    r"""A criterion that is met if EXP3 draws another node, Algorithm 1 of [Ha2023uhe]_.

    The weights of the bandit are not stored: they follow from the experiment's trials. A draw knows
    the rewards of pairs completed before it, to the second, the resolution of Ax's SQL storage.

    Args:
        transition_to: The node to move to.
        random_node: The name of the node of random trials.
        inner_node: The name of the node that makes the other trials.
        reward_scale: The scale of rewards.
        exploration: A constant rate of EXP3; Algorithm 1's schedule if omitted.
        seed: Seed of EXP3's draws.
    """

    def __init__(
        self,
        transition_to: str,
        random_node: str,
        inner_node: str,
        reward_scale: RewardScale = "min_max",
        exploration: float | None = None,
        seed: int = 0,
    ) -> None:
        check_kind(RewardScale, reward_scale=reward_scale)
        if exploration is not None:
            check_positive(exploration=exploration)
        check_integers(seed=seed)
        super().__init__(transition_to=transition_to)
        self.random_node = random_node
        self.inner_node = inner_node
        self.reward_scale = reward_scale
        self.exploration = exploration
        self.seed = seed

    def is_met(self, experiment: Experiment, curr_node: GenerationNode) -> bool:
        r"""Whether the next trial comes from the node to which this criterion leads."""
        return self.next_node(experiment) == self.transition_to

    def next_node(self, experiment: Experiment) -> str:
        r"""The node of the next trial: drawn for the first of a pair, else `inner_node`."""
        initial, trials = self._evaluations(experiment)
        if len(trials) % 2:
            return self.inner_node  # Alg. 1, line 11
        probabilities = self._probabilities(initial, trials)[-1]
        (arm,) = draw_arms(probabilities, self.seed, "arm", len(trials) + 1).tolist()
        return self.random_node if arm == RANDOM else self.inner_node

    def _evaluations(self, experiment: Experiment) -> tuple[list[_Evaluation], list[_Evaluation]]:
        r"""The trials before the first of the two nodes, and the trials of these nodes."""
        outcomes = _best_outcomes(experiment)
        initial: list[_Evaluation] = []
        drawn: list[_Evaluation] = []
        for index, trial in sorted(experiment.trials.items()):
            nodes = {run._generation_node_name for run in trial.generator_runs}
            evaluation = _Evaluation(
                is_random=self.random_node in nodes,
                created=_seconds(trial.time_created),
                completed=_seconds(trial.time_completed),
                outcome=outcomes.get(index, math.nan),
            )
            if nodes & {self.random_node, self.inner_node}:
                drawn.append(evaluation)
            elif not drawn:
                initial.append(evaluation)
        return initial, drawn

    def _probabilities(self, initial: list[_Evaluation], drawn: list[_Evaluation]) -> list[Tensor]:
        r"""The probabilities of the arms in each draw so far and in the next one, `1 x 2` each."""
        pairs = list(zip(drawn[::2], drawn[1::2], strict=False))
        found: list[Tensor] = []
        gains: list[tuple[float, Tensor]] = []  # of the log weights, and when they were known
        for now in [*(first.created for first, _ in pairs), math.inf]:
            start = Exp3.start(num_replicates=1, num_arms=2).log_weights
            known = sum((gain for done, gain in gains if done <= now), start)
            found.append(Exp3(known).probabilities(self._rate(2 * len(found) + 1)))  # line 7
            if len(gains) < len(pairs):
                before = [*initial, *drawn[: 2 * len(gains) + 2]]
                gains.append(self._gain(pairs[len(gains)], found[-1], initial, before))
        return found

    def _gain(
        self,
        pair: tuple[_Evaluation, _Evaluation],
        probabilities: Tensor,
        initial: list[_Evaluation],
        before: list[_Evaluation],
    ) -> tuple[float, Tensor]:
        r"""The time at which a pair is complete, NaN before, and its change of the log weights."""
        done = float(np.max([each.completed for each in pair]))
        outcomes, scale, so_far = (
            torch.tensor(
                [[each.outcome if each.completed <= done else math.nan for each in some]],
                dtype=torch.double,
            )
            for some in (pair, initial, before)
        )
        reward = outcomes.nan_to_num(nan=-torch.inf).amax(dim=-1)  # Alg. 1, line 19
        reward = reward.masked_fill(reward == -torch.inf, torch.nan)
        value = scale_reward(reward, scale, so_far, self.reward_scale).value
        arm = torch.tensor([RANDOM if pair[0].is_random else INNER])
        bandit = Exp3.start(num_replicates=1, num_arms=2).update(  # Alg. 1, line 20
            arm, value, probabilities, self._rate(len(before) - len(initial)), value.isfinite()
        )
        return done, bandit.log_weights

    def _rate(self, t: int) -> float:
        return self.exploration or exploration_rate(t / 2, num_arms=2)  # Alg. 1, line 5


@dataclass(frozen=True)
class _Evaluation:
    r"""The bandit's record of a trial; times in seconds, NaN while it is running."""

    is_random: bool
    created: float
    completed: float
    outcome: float


def _seconds(time: datetime | None) -> float:
    return math.nan if time is None else math.floor(time.timestamp())


def _best_outcomes(experiment: Experiment) -> dict[int, float]:
    r"""The best outcome of each trial that has one; larger is better."""
    metric, sign = single_objective(experiment, "random exploration")
    table = settled_data(experiment).df
    table = table[table["metric_name"] == metric].dropna(subset="mean")
    best = (sign * table["mean"]).groupby(table["trial_index"]).max()
    return {int(index): value for index, value in best.round(STORED_DECIMALS).items()}


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
    of the draw. Hyperparameters are then estimated from data of which their own model chose only a
    part.

    All trials of one request are of one kind. A trial that failed still takes its turn. Draws
    follow from `seed` and from the trials completed when the pair began, so a saved and loaded
    experiment continues unchanged.

    Args:
        strategy: A strategy of one objective, such as `risk_averse("purity")`; it is not changed.
        reward_scale: The scale of rewards; see `botorch_risk.bandits.scale_reward`.
        exploration: A constant rate of EXP3; Algorithm 1's schedule if omitted.
        seed: Seed of EXP3's draws and of the random trials.

    Returns:
        The strategy with a node `Random` before its last one.

    Raises:
        UnsupportedError: If the strategy's last node is its only one, or leads to others.

    Example:
        >>> from botorch_risk.ax import risk_averse
        >>> [node.name for node in with_random_exploration(risk_averse("purity"))._nodes]
        ['Sobol', 'Random', 'risk_averse']
    """
    if not isinstance(strategy, GenerationStrategy):
        raise TypeError(f"Expected a generation strategy. Got {in_short(strategy)}.")
    *initial, inner = strategy.clone_reset()._nodes
    if not initial or inner.transition_criteria:
        raise UnsupportedError(
            "Expected a strategy with an initial node and a last node without transitions. Got "
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
