r"""The loop of one strategy on one problem: ask, evaluate, record, tell, record."""

import time
import warnings
from collections.abc import Iterator

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from torch import Generator, Tensor

from botorch_risk.arguments import check_counts
from botorch_risk.seeding import generators
from botorch_risk.strategies import Strategy
from botorch_risk_bench.campaigns.journal import Journal
from botorch_risk_bench.experiments.problem import (
    Problem,
    ProblemWithConstraints,
    ProblemWithContexts,
    ProblemWithObjective,
    ProblemWithOutcomes,
    ProblemWithParetoFront,
    decision_bounds,
)


class FailedOutcomesWarning(RuntimeWarning):
    r"""All repeats of a point failed; they are kept as NaN."""


def play_rounds(
    strategy: Strategy, problem: Problem, journal: Journal, num_rounds: int, num_repeats: int
) -> Iterator[int]:
    r"""Play the rounds that a journal does not have yet, one per step of the iterator.

    You may stop at any step: another iterator with the journal's folder and an equal strategy
    plays exactly what this one would have played. If `tell` raises, the journal already has the
    outcomes, and the next iterator passes them on without evaluating again. A strategy asks for
    nothing in a finished replicate by rows of NaN, which are passed on unchanged.

    The time of a round grows with the data, as the fit of the hyperparameters is of order n^3:
    from round 20 to round 240 by 2 to 3 times for `rahbo`, by 11 to 14 for `uhe_bo`
    (bench/speed/README.md). In a long loop fit less often: `refit_every`, where a strategy has it.

    Args:
        strategy: A fresh strategy; its state is loaded from the journal.
        journal: Where rounds are recorded.

    Returns:
        The number of each round that has been completed.

    Raises:
        BotorchTensorDimensionError: If the strategy or the problem returns other shapes
            than expected.
        UnsupportedError: If the strategy takes several outcomes and the problem has one.

    Example:
        >>> from botorch_risk.strategies import random_search
        >>> from botorch_risk.test_functions import HeteroscedasticSine
        >>> problem = HeteroscedasticSine()
        >>> strategy = random_search(problem.bounds, seeds=[0, 1], num_initial=3)
        >>> list(play_rounds(strategy, problem, Journal(), num_rounds=4, num_repeats=5))
        [0, 1, 2, 3, 4]
        >>> strategy.history.Y.shape
        torch.Size([2, 7, 5, 1])
    """
    check_counts(num_rounds=num_rounds, num_repeats=num_repeats)
    return _play(strategy, problem, journal, num_rounds, num_repeats)


def _play(
    strategy: Strategy, problem: Problem, journal: Journal, num_rounds: int, num_repeats: int
) -> Iterator[int]:
    journal.kind = type(strategy.method).__name__
    if (state := journal.state) is not None:
        strategy.load_state_dict(state)
    for index in range(journal.last_round + 1, num_rounds + 1):
        X, Y = _outcomes(strategy, problem, journal, index, num_repeats)
        start = time.perf_counter()
        strategy.tell(X, Y)
        recommendation = strategy.recommend()
        seconds = _seconds_since(start)
        truth = _value_of(problem, recommendation.cpu())
        journal.record_tell(index, recommendation, truth, strategy.state_dict(), seconds)
        yield index


def evaluate(
    problem: Problem,
    X: Tensor,
    seeds: list[int],
    num_repeats: int,
    index: int,
    num_outcomes: int = 1,
) -> tuple[Tensor, Tensor]:
    r"""Draw the contexts and outcomes of a round from the streams of its seeds and its number.

    Args:
        X: The points of the round, `R x q x d`; where the problem has contexts, decisions, or
            decisions with contexts that the strategy has chosen in the last columns.
        num_outcomes: The number `m` of outcomes that the strategy takes.

    Returns:
        The points, with the contexts that they met in the last columns where the problem has
        any, and the outcomes `R x q x k`, or `R x q x k x m` if there are several, on the CPU.
    """
    X, d_x = X.cpu(), decision_bounds(problem).shape[-1]
    contexts = X[..., :0]
    if isinstance(problem, ProblemWithContexts):
        contexts = problem.draw_contexts(X[..., :d_x], generators(seeds, "contexts", index)).to(X)
    columns = (d_x, d_x + contexts.shape[-1])
    if X.ndim != 3 or X.shape[0] != len(seeds) or X.shape[-1] not in columns:
        expected = " or ".join(str(number) for number in dict.fromkeys(columns))
        raise BotorchTensorDimensionError(
            f"Expected `X` to have shape `{len(seeds)} x q x {expected}`. Got {X.shape=}."
        )
    if X.shape[-1] == d_x:
        X = torch.cat([X, contexts], dim=-1)
    Y = _drawn(problem, X, num_repeats, generators(seeds, "observations", index), num_outcomes)
    requested = ~X.isnan().any(dim=-1)  # a finished replicate asks for nothing
    failed = (Y.isnan().flatten(2).all(dim=-1) & requested).any(dim=-1)  # R
    if failed.any():
        names = [seed for seed, fails in zip(seeds, failed.tolist(), strict=True) if fails]
        warnings.warn(
            f"Expected an outcome at every point. Got only NaN in round {index} of seeds={names}; "
            "the strategy receives them as NaN.",
            FailedOutcomesWarning,
            stacklevel=2,
        )
    return X, Y


def _drawn(
    problem: Problem, X: Tensor, num_repeats: int, streams: list[Generator], num_outcomes: int
) -> Tensor:
    r"""The outcomes of a round, `R x q x k`, or `R x q x k x m` of several."""
    shape: tuple[int, ...] = (*X.shape[:-1], num_repeats)
    if num_outcomes == 1:
        Y = problem.sample_repeats(X, num_repeats, streams)
    elif isinstance(problem, ProblemWithOutcomes):
        Y, shape = problem.sample_outcomes(X, num_repeats, streams), (*shape, num_outcomes)
    else:
        raise UnsupportedError(
            f"Expected a problem with {num_outcomes} outcomes, by `sample_outcomes`. "
            f"Got {type(problem).__name__}."
        )
    if Y.shape != shape:
        expected = " x ".join(map(str, shape))
        raise BotorchTensorDimensionError(
            f"Expected the outcomes to have shape `{expected}`. Got {Y.shape=}."
        )
    return Y


def _outcomes(
    strategy: Strategy, problem: Problem, journal: Journal, index: int, num_repeats: int
) -> tuple[Tensor, Tensor]:
    r"""Take the points of a round and their outcomes from the journal, or evaluate new ones."""
    start = time.perf_counter()
    X = strategy.ask()
    ask_seconds, evaluation_start = _seconds_since(start), time.perf_counter()
    stored = journal.pending
    if stored is None:
        num_outcomes = strategy.method.num_outcomes
        points, Y = evaluate(problem, X, strategy.seeds, num_repeats, index, num_outcomes)
        seconds = ask_seconds, _seconds_since(evaluation_start)
        journal.record_outcomes(index, points, Y, _objective(problem, X.cpu()), seconds)
        return points.to(X), Y.to(X)
    if not _same(stored.X[..., : X.shape[-1]], X.cpu()):
        warnings.warn(
            f"Expected the strategy to ask for the points of round {index} that have been "
            "evaluated already. Got others; the strategy receives the points that were evaluated.",
            RuntimeWarning,
            stacklevel=3,
        )
    return stored.X.to(X), stored.Y.to(X)


def _seconds_since(start: float) -> float:
    r"""The time since `start`; 0 if the clock has gone back, as clocks of virtual machines may."""
    return max(0.0, time.perf_counter() - start)


def _same(left: Tensor, right: Tensor) -> bool:
    r"""Whether two tensors are equal, NaN to NaN."""
    nan = left.isnan()
    return torch.equal(nan, right.isnan()) and torch.equal(left[~nan], right[~nan])


def _objective(problem: Problem, X: Tensor) -> Tensor | None:
    if not isinstance(problem, ProblemWithObjective):
        return None
    decisions = X[..., : decision_bounds(problem).shape[-1]]  # no chosen contexts
    values = problem.objective(decisions)
    if isinstance(problem, ProblemWithConstraints):
        fails = ~problem.is_feasible_decision(decisions) & values.isfinite()
        values = values.masked_fill(fails, problem.worst_feasible_value)
    return values


def _value_of(problem: Problem, recommendation: Tensor) -> Tensor | None:
    r"""The true objective of recommendations, `R`: of a decision `R x d`, or a set `R x p x d`."""
    if recommendation.dim() == 3:
        if not isinstance(problem, ProblemWithParetoFront):
            return None
        return problem.hypervolume_of(recommendation)
    values = _objective(problem, recommendation.unsqueeze(-2))  # R x 1
    return None if values is None else values.squeeze(-1)
