r"""Search a table of conditions x contexts: pairs to try next, and the condition to recommend."""

import math
import reprlib
import warnings
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

from botorch_risk.arguments import as_floating, check_arguments, check_counts, in_order
from botorch_risk.environments import DiscreteEnvironment, Environment
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.far_readings import FAR, far_positions
from botorch_risk.risk import RiskMeasure
from botorch_risk.seeding import generators
from botorch_risk.strategies.built_with import describe
from botorch_risk.strategies.states import opened, sealed
from botorch_risk.tables.factors import Factors
from botorch_risk.tables.kernel import TableReadings, fit_table
from botorch_risk.tables.memory import check_memory
from botorch_risk.tables.posterior import TablePosterior
from botorch_risk.tables.report import report_risks
from botorch_risk.tables.rules import TableBelief, TableRule, check_rule, choose_plate, rule_for


class Pair(NamedTuple):
    r"""A condition and the context with which to try it, by their names."""

    condition: Any
    context: Any


class RankedCondition(NamedTuple):
    r"""The estimate for a condition.

    Attributes:
        condition: The name of the condition.
        risk: The expected risk, in the units of the outcomes, or a probability for a share.
        interval: A nominal 95 % interval of the risk; see `TableSearch.ranking`.
        probability_best: The probability that no other condition has a better risk. If several are
            certain to tie for the best, as often for a share, each has probability 1.
    """

    condition: Any
    risk: float
    interval: tuple[float, float]
    probability_best: float


class TableSearch:
    r"""A search in a finite table of conditions x contexts; see `table_search`.

    It is not a `Strategy`: its rows are named pairs, which may be told in any order, even if they
    were not asked for. It remembers only the data, and every belief is fitted to all of them, so
    the state is the list of outcomes.
    """

    def __init__(
        self,
        conditions: Factors,
        contexts: Factors,
        risk_measure: RiskMeasure,
        environment: Environment,
        allowed: Tensor,
        rule: TableRule,
        seed: int,
        num_initial: int,
        noise_share: float,
    ) -> None:
        self.conditions, self.contexts = conditions, contexts
        self.risk_measure, self.rule = risk_measure, rule
        self._weights = environment.expand(torch.zeros(1, 0, dtype=torch.double))[1].flatten()
        self._allowed = allowed
        self._seed, self._num_initial, self._noise_share = seed, num_initial, noise_share
        self._condition_of = {name: i for i, name in enumerate(conditions.names)}
        self._context_of = {name: i for i, name in enumerate(contexts.names)}
        self._outcomes: dict[int, list[float]] = {}
        self._running: list[int] = []
        self._far: set[tuple[int, float]] = set()  # of which a warning told
        self._known: tuple[TableReadings, Any] | None = None

    @property
    def running(self) -> list[Pair]:
        r"""Pairs that were asked for, or started by somebody else, and are not told yet."""
        return [self._pair(each) for each in self._running]

    @property
    def num_outcomes(self) -> int:
        r"""The number of pairs with an outcome."""
        return len(self._read)

    def ask(self, q: int = 8, pending: Sequence[tuple[Any, Any]] = ()) -> list[Pair]:
        r"""The next pairs to try: allowed ones that were never tried and are not running.

        Pairs are random until `num_initial` have been asked for or told and two have an outcome.
        Then the rule chooses them, each as if earlier and running pairs had been tried.

        Args:
            q: The number of pairs on the plate; fewer if fewer are left.
            pending: Pairs that somebody else has started, as in `start`.
        """
        check_counts(q=q)
        self.start(pending)
        free = self._free()
        q = min(q, int(free.sum()))
        num_started = len(self._outcomes) + len(self._running)
        at_random = q if len(self._read) < 2 else min(q, max(0, self._num_initial - num_started))
        left = free.nonzero().squeeze(-1)
        order = torch.randperm(len(left), generator=self._stream("initial pairs"))
        chosen = left[order[:at_random]].tolist()
        if q > at_random:
            tried = torch.tensor([[*self._running, *chosen]], dtype=torch.long)
            streams = [self._stream("pairs")]
            plate = choose_plate(self._belief(), self.rule, q - at_random, streams, tried)
            chosen += plate[0].tolist()
        self._running += chosen
        return [self._pair(each) for each in chosen]

    def tell(self, pairs: Sequence[tuple[Any, Any]], Y: Tensor) -> None:
        r"""Record outcomes; if they are refused, nothing is changed.

        Args:
            pairs: The pairs, from `ask` or as `(condition, context)` by name. They may include
                pairs that were not asked for and further readings of a pair, each of which counts.
            Y: One outcome each; NaN for a failed experiment, which is not tried again.

        Warns:
            InputDataWarning: If an outcome is absurdly far from all others, as -9999 is.
        """
        listed, outcomes = self._with_outcomes(pairs, Y)
        for pair, outcome in zip(listed, outcomes, strict=True):
            self._outcomes.setdefault(pair, []).append(outcome)
        self._after_telling()

    def _with_outcomes(
        self, pairs: Sequence[tuple[Any, Any]], Y: Tensor
    ) -> tuple[list[int], list[float]]:
        r"""The numbers of pairs, and one outcome each."""
        outcomes = as_floating(Y, "Y").double()
        listed = [self._index(pair) for pair in pairs]
        if outcomes.shape != (len(listed),):
            raise BotorchTensorDimensionError(
                f"Expected one outcome for each pair. Got {len(listed)} pairs, "
                f"{' x '.join(map(str, outcomes.shape)) or 1} outcomes."
            )
        if outcomes.isinf().any():
            raise InputDataError("Expected finite `Y`, NaN where missing. Got infinity.")
        return listed, outcomes.tolist()

    def tell_matrix(self, Y: Any) -> None:
        r"""Record the whole table so far, replacing everything told before.

        Args:
            Y: Outcomes `conditions x contexts`, NaN where a pair was not tried. The rows and the
                columns of a DataFrame are found by their names, in any order.

        Warns:
            InputDataWarning: As `tell`.
        """
        values = as_floating(
            in_order("Y", Y, *(each.names for each in self._factors)), "Y"
        ).double()
        shape = len(self.conditions), len(self.contexts)
        if values.shape != shape:
            raise BotorchTensorDimensionError(
                f"Expected `Y` to have shape `{shape[0]} x {shape[1]}`. Got {tuple(values.shape)}."
            )
        if values.isinf().any():
            raise InputDataError("Expected finite `Y`, NaN where missing. Got infinity.")
        self._outcomes = {pair: [y] for pair, y in enumerate(values.flatten().tolist()) if y == y}
        self._after_telling()

    def _after_telling(self) -> None:
        self._running = [pair for pair in self._running if pair not in self._outcomes]
        self._known = None
        before, self._far = self._far, self._far_outcomes()
        if new := sorted(self._far - before):
            warnings.warn(
                f"Expected outcomes on one scale. Got {new[0][1]:g} of the pairs "
                f"{[tuple(self._pair(pair)) for pair, _ in new]}, more than {FAR:g} times as far "
                "from the median as two thirds of the outcomes: mark failures as NaN.",
                InputDataWarning,
                stacklevel=3,
            )

    def _far_outcomes(self) -> set[tuple[int, float]]:
        r"""Pairs with an outcome that is absurdly far from all others, such as -9999."""
        told = [(pair, y) for pair, each in self._outcomes.items() for y in each]
        return {told[index] for index in far_positions([y for _, y in told])}

    def start(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        r"""Count pairs that somebody else has started as running.

        Args:
            pairs: Pairs by name; those with an outcome are ignored.
        """
        started = dict.fromkeys(self._index(pair) for pair in pairs)
        known = {*self._outcomes, *self._running}
        self._running += [pair for pair in started if pair not in known]

    def cancel(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        r"""Give up running pairs, as if they had not been asked for; they may be proposed again.

        Raises:
            ValueError: If a pair is not running.
        """
        cancelled = self._among(self._running, "that run", pairs)
        self._running = [pair for pair in self._running if pair not in cancelled]

    def correct(self, pairs: Sequence[tuple[Any, Any]], Y: Tensor) -> None:
        r"""Replace all outcomes of pairs; if they are refused, nothing is changed.

        Args:
            pairs: Told pairs, by name; a pair is repeated if it has several readings.
            Y: One outcome each; NaN for a failed experiment.
        """
        listed, outcomes = self._with_outcomes(pairs, Y)
        corrected: dict[int, list[float]] = {
            pair: [] for pair in self._among(self._outcomes, "that were told", pairs)
        }
        for pair, outcome in zip(listed, outcomes, strict=True):
            corrected[pair].append(outcome)
        self._outcomes |= corrected
        self._after_telling()

    def withdraw(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        r"""Remove all outcomes of pairs, as if never told; the pairs may be proposed again."""
        for pair in self._among(self._outcomes, "that were told", pairs):
            del self._outcomes[pair]
        self._after_telling()

    def _among(
        self, known: Collection[int], what: str, pairs: Sequence[tuple[Any, Any]]
    ) -> list[int]:
        r"""The numbers of pairs, each once, all of which are known."""
        listed = list(dict.fromkeys(self._index(pair) for pair in pairs))
        for pair in listed:
            if pair not in known:
                raise ValueError(f"Expected pairs {what}. Got {tuple(self._pair(pair))}.")
        return listed

    def recommend(self) -> RankedCondition:
        r"""The condition with the best expected risk, tried or not.

        Raises:
            ValueError: If fewer than two pairs have an outcome.
        """
        return self.ranking(1)[0]

    def ranking(self, num: int | None = None) -> list[RankedCondition]:
        r"""Conditions by expected risk, best first; at most the 48 most promising ones.

        Risks and intervals exclude the noise of a reading. They come from samples of the outcomes
        under hyperparameters drawn around their maximum. `bench/studies/reaction_tables` reports
        the coverage of the intervals of recommended conditions on tables of reactions, and where it
        is lowest.

        Args:
            num: The number of conditions; all by default.

        Raises:
            ValueError: If fewer than two pairs have an outcome.
        """
        if num is not None:
            check_counts(num=num)
        belief, (readings, fitted) = self._belief(), self._fitted()
        (chances,) = belief.promising()
        stream = self._stream("report")
        report = report_risks(readings, fitted, self.risk_measure, self._weights, chances, stream)
        names = [self.conditions.names[condition] for condition in chances.tolist()]
        risk, lower, upper, best = (each.tolist() for each in report)
        ranked = [
            RankedCondition(names[i], risk[i], (lower[i], upper[i]), best[i])
            for i in report.risk.argsort(descending=True).tolist()
        ]
        return ranked[:num]

    def state_dict(self) -> dict[str, Any]:
        r"""The state needed to continue, together with the arguments of the search, as JSON."""
        return sealed(
            {
                "arguments": self._arguments(),
                "outcomes": [
                    [pair, [None if y != y else y for y in outcomes]]
                    for pair, outcomes in self._outcomes.items()
                ],
                "running": list(self._running),
            }
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        r"""Continue from the `state_dict()` of a search with the same arguments.

        Raises:
            ValueError: If it is not a state, was damaged, has other arguments, or has pairs that
                are not in the table; then nothing is changed.
        """
        told, running = opened(state, self._arguments(), "outcomes", "running")
        if not isinstance(running, list) or not isinstance(told, list):
            raise ValueError(f"Expected lists of pairs. Got {reprlib.repr([told, running])}.")
        outcomes = [_told(each) for each in told]
        seen, number = set(), len(self._allowed)
        for pair in [*(pair for pair, _ in outcomes), *running]:
            if type(pair) is not int or not 0 <= pair < number or pair in seen:
                raise ValueError(f"Expected each pair once, from 0 to {number - 1}. Got {pair!r}.")
            seen.add(pair)
        self._outcomes, self._running, self._known = dict(outcomes), [*running], None
        self._far = self._far_outcomes()

    def _arguments(self) -> dict[str, Any]:
        # Distances of equal rows differ in their last bits between processors.
        distances = [each.distances.round(decimals=9) + 0.0 for each in self._factors]
        return {
            "conditions": [_described(name) for name in self.conditions.names],
            "contexts": [_described(name) for name in self.contexts.names],
            "distances": describe(distances),
            "risk_measure": describe(self.risk_measure),
            "weights": self._weights.tolist(),
            "allowed": self._allowed.nonzero().squeeze(-1).tolist(),
            "rule": self.rule,
            "seed": self._seed,
            "num_initial": self._num_initial,
            "noise_share": self._noise_share,
        }

    @property
    def _factors(self) -> tuple[Factors, Factors]:
        return self.conditions, self.contexts

    @property
    def _read(self) -> dict[int, list[float]]:
        r"""The readings of each pair that has one."""
        kept = {pair: [y for y in each if y == y] for pair, each in self._outcomes.items()}
        return {pair: each for pair, each in kept.items() if each}

    def _fitted(self) -> tuple[TableReadings, Any]:
        read = self._read
        if len(read) < 2:
            raise ValueError(
                f"Expected outcomes of at least two pairs before that. Got {len(read)}."
            )
        if self._known is None:
            pairs = torch.tensor([[pair for pair, each in read.items() for _ in each]])
            Y = torch.tensor([[y for each in read.values() for y in each]], dtype=torch.double)
            readings = TableReadings(*self._factors, pairs, Y, self._noise_share).averaged()
            self._known = readings, fit_table(readings)
        return self._known

    def _belief(self) -> TableBelief:
        readings, fitted = self._fitted()
        posterior = TablePosterior.of(readings, fitted.hyperparameters)
        free = self._free().reshape(1, len(self.conditions), len(self.contexts))
        return TableBelief(posterior, self.risk_measure, self._weights, free)

    def _free(self) -> Tensor:
        free = self._allowed.clone()
        free[[*self._outcomes, *self._running]] = False
        return free

    def _stream(self, purpose: str) -> torch.Generator:
        started = len(self._outcomes) + len(self._running)
        return generators(self._seed, purpose, started)[0]

    def _pair(self, pair: int) -> Pair:
        x, w = divmod(pair, len(self.contexts))
        return Pair(self.conditions.names[x], self.contexts.names[w])

    def _index(self, pair: tuple[Any, Any]) -> int:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputDataError(f"Expected pairs (condition, context). Got {pair!r}.")
        condition, context = pair
        return self._condition(condition) * len(self.contexts) + self._context(context)

    def _condition(self, name: Hashable) -> int:
        return _position(self._condition_of, name, "conditions")

    def _context(self, name: Hashable) -> int:
        return _position(self._context_of, name, "contexts")


def _described(name: Hashable) -> Any:
    r"""A name in terms of JSON; 1 is not "1"."""
    name = name.item() if isinstance(name, np.generic) else name
    if isinstance(name, tuple):
        return [_described(each) for each in name]
    return name if isinstance(name, str | bool | int | float) else repr(name)


def _told(stored: Any) -> tuple[Any, list[float]]:
    r"""A pair and its readings from a state."""
    if not isinstance(stored, list) or len(stored) != 2 or not isinstance(stored[1], list):
        raise ValueError(f"Expected a pair with its outcomes. Got {reprlib.repr(stored)}.")
    pair, outcomes = stored
    for each in outcomes:
        if each is not None and not (type(each) in (int, float) and math.isfinite(each)):
            raise ValueError(f"Expected finite outcomes of pair {pair}. Got {each!r}.")
    return pair, [math.nan if each is None else float(each) for each in outcomes]


def _position(positions: Mapping[Hashable, int], name: Any, among: str) -> int:
    name = tuple(name) if isinstance(name, list) else name
    if name not in positions:
        raise InputDataError(f"Expected a name of the {among}. Got {name!r}.")
    return positions[name]


def table_search(
    conditions: Any,
    contexts: Any,
    *,
    risk_measure: RiskMeasure,
    weights: Mapping[Any, float] | Tensor | None = None,
    allowed: Tensor | None = None,
    rule: TableRule | None = None,
    seed: int = 0,
    num_initial: int = 10,
    noise_share: float = 0.1,
) -> TableSearch:
    r"""Find the condition with the best risk over contexts, in a finite table of pairs.

    Examples are reaction conditions x substrates, recipes x ovens, or settings x patients: an
    experiment tries one pair, and the objective is a risk of a condition over all contexts. The
    outcome of a pair is a Gaussian process with terms for the condition, the context, both, and the
    pair alone (`botorch_risk.tables`). Everything is maximised.

    Args:
        conditions: The conditions: a list of names, or of tuples of them with one category in each
            entry; a DataFrame, whose columns of numbers are descriptors, whose other columns are
            categories, and whose index has the names; a tensor of descriptors `n_x x d`, whose
            names are the row numbers; or `Factors.with_distances`, for example of fingerprints.
        contexts: The contexts, in the same forms.
        risk_measure: The measure over the contexts, such as `ShareAbove(0.5)`.
        weights: `n_w` probabilities of the contexts, in their order, or by name in any order as a
            Series or a dict. Default: equal.
        allowed: Which pairs can be tried, `n_x x n_w` booleans; an array, or a DataFrame by names.
            Default: all. The risk is still taken over all contexts.
        rule: How pairs are chosen: `"knowledge_gradient"`, `"risk_variance"`, `"lacing"`,
            `"outcome_variance"`, `"random_context"` or `"random_pair"`. The default depends on the
            risk (`rule_for`): the knowledge gradient for the expectation, lacing for the worst
            case, and otherwise the reduction of the risk's variance.
        seed: Seed of every random draw.
        num_initial: The number of pairs that are first chosen at random, from untried pairs.
        noise_share: The share, in [0, 1], of a pair's unexplained variance that is noise of a
            reading; a second reading would show the rest again.

    Raises:
        UnsupportedError: If the rule does not support the risk, or the table takes more than 4 GiB,
            about 5,500 conditions.

    Example:
        >>> import torch
        >>> from botorch_risk.risk import Expectation
        >>> search = table_search(["P", "Q", "R"], list("uvwxyz"), risk_measure=Expectation(),
        ...                       num_initial=4)
        >>> yields = {"P": 0.2, "Q": 0.5, "R": 0.9}
        >>> for _ in range(3):
        ...     pairs = search.ask(q=4)  # such as Pair(condition='Q', context='v')
        ...     search.tell(pairs, [yields[pair.condition] for pair in pairs])
        >>> search.recommend().condition
        'R'
    """
    check_arguments(table_search, locals())
    check_counts(num_initial=num_initial)
    if not 0 <= noise_share <= 1:
        raise ValueError(f"Expected `noise_share` in [0, 1]. Got {noise_share}.")
    rows, columns = Factors.of(conditions, "conditions"), Factors.of(contexts, "contexts")
    shares = in_order("weights", weights, columns.names)
    check_memory(conditions=len(rows), contexts=len(columns))
    environment, measure = parts_of(DiscreteEnvironment(columns.features, shares), risk_measure)
    rule = rule_for(measure) if rule is None else rule
    check_rule(rule, measure)
    return TableSearch(
        rows,
        columns,
        measure.bind(environment),
        environment,
        _allowed(allowed, rows, columns),
        rule,
        seed,
        num_initial,
        float(noise_share),
    )


def _allowed(allowed: Any, conditions: Factors, contexts: Factors) -> Tensor:
    r"""Which pairs may be tried, `n_x n_w`."""
    shape = len(conditions), len(contexts)
    if allowed is None:
        return torch.ones(shape, dtype=torch.bool).flatten()
    values = in_order("allowed", allowed, conditions.names, contexts.names)
    mask = torch.tensor(np.array(values, order="C"))
    if mask.shape != shape or mask.dtype != torch.bool:
        raise BotorchTensorDimensionError(
            f"Expected `allowed` to have shape `{shape[0]} x {shape[1]}` and booleans. "
            f"Got {tuple(mask.shape)}, {mask.dtype}."
        )
    return mask.flatten().clone()
