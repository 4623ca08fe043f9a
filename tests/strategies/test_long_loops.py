r"""Three hundred rounds: every candidate is one, and nothing is kept that has had its use."""

import gc
import resource
import time
from typing import Any, NamedTuple

import pytest
from torch import Tensor

from botorch_risk.papers import drbo_kde, rahbo, sbo_kde, truvar, uhe_bo, v_ucb
from tests.strategies.cases import DOMAIN, NUM_INITIAL, STRATEGIES, StrategyCase
from tests.strategies.loops import evaluate, meet

NUM_ROUNDS, MILESTONES = 300, (20, 60, 120, 180, 240, 300)
SEEDS = (0, 1)
KINDS = (rahbo, sbo_kde, drbo_kde, v_ucb, truvar, uhe_bo)
CASES = [case for case in STRATEGIES if case.make in KINDS and not case.name.endswith("-mixed")]
# What a finite domain's posterior keeps of an observation, to be built again: four numbers for each
# replicate, and the tensors that they are views of.
KEPT_PER_ROUND = {truvar: 8}


class Memory(NamedTuple):
    r"""The tensors that are alive: how many, their bytes, and how many have a graph."""

    count: int
    bytes: int
    graphs: int


def live_tensors() -> Memory:
    gc.collect()
    tensors = [each for each in gc.get_objects() if issubclass(type(each), Tensor)]
    tensors = [each for each in tensors if each.device.type == "cpu"]  # the second has no storage
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage() for each in tensors}
    return Memory(
        len(tensors),
        sum(each.nbytes() for each in storages.values()),
        sum(each.grad_fn is not None for each in tensors),
    )


def check_candidates(case: StrategyCase, X: Tensor) -> None:
    lower, upper = case.problem.bounds
    if case.problem is DOMAIN:  # a replicate that has finished asks for nothing
        X = X[X.isfinite().all(dim=-1)]
    assert X.isfinite().all()
    assert ((X[..., :1] >= lower) & (X[..., :1] <= upper)).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of fits that reach their limit, and of finished epochs
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_three_hundred_rounds(case: StrategyCase, capsys: pytest.CaptureFixture[str]) -> None:
    others = live_tensors()  # of tests before this one
    strategy: Any = case.build(SEEDS)
    seconds, memory = [], {}
    for index in range(NUM_ROUNDS + 1):
        start = time.process_time()
        X = strategy.ask()
        asked = time.process_time() - start
        check_candidates(case, X)
        rows = meet(strategy, X, index, case.problem)
        Y = evaluate(strategy, rows, index, case.problem)
        start = time.process_time()
        strategy.tell(rows, Y)
        seconds.append(asked + time.process_time() - start)
        del X, rows, Y
        if index in MILESTONES:
            strategy.ask()  # as much is cached as a round caches
            memory[index] = live_tensors()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            with capsys.disabled():
                print(  # noqa: T201
                    f"\n{case.name}, round {index}: {1e3 * sum(seconds[-10:]) / 10:.0f} ms, "
                    f"{memory[index].count} tensors of {memory[index].bytes / 1e6:.2f} MB "
                    f"({memory[index].graphs} with a graph), peak {peak:.0f} MB",
                    end="",
                )
    assert strategy.recommend().isfinite().all()
    first, last = memory[MILESTONES[2]], memory[MILESTONES[-1]]
    num_rounds = MILESTONES[-1] - MILESTONES[2]
    allowed = KEPT_PER_ROUND.get(case.make, 0) * num_rounds
    assert last.count <= first.count + allowed + 8
    assert last.graphs <= others.graphs
    num_rows = NUM_INITIAL + NUM_ROUNDS
    # Two processes, each of this round and of the one before, and the rows of the history.
    assert last.bytes - others.bytes <= 8 * len(SEEDS) * num_rows * (4 * num_rows + 64)
