r"""The operations that `bench/speed/floor.py` counts, against those that torch counts."""

from collections.abc import Callable

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bench.speed import floor, floor_counts


def operations_of(run: Callable[[], object]) -> float:
    r"""Of the matrix products of one run."""
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("R, m", [(1, 10), (1, 1024), (3, 7)])
@pytest.mark.parametrize("name", list(floor.PASSES))
@pytest.mark.parametrize("kernel", list(floor.KERNELS))
def test_matrix_products_of_marginals(kernel: str, name: str, R: int, m: int) -> None:
    predictor, X = floor.predictions(kernel, R, 40, m)
    predictor(X)  # the factor of the data is no part of a prediction
    count = floor_counts.marginals(R, 40, 2, m, kernel != "RBF", name != "forward")
    counted = operations_of(lambda: floor.PASSES[name](predictor, X))
    assert count.matrix_products == pytest.approx(counted, rel=0.2)


@pytest.mark.parametrize("R, n, d", [(1, 40, 2), (3, 100, 6)])
def test_matrix_products_of_the_likelihood(R: int, n: int, d: int) -> None:
    counted = operations_of(floor.evidence(R, n, d))
    assert floor_counts.likelihood(R, n, d).matrix_products == pytest.approx(counted, rel=0.2)


def test_every_term_has_a_rate() -> None:
    every = (
        floor_counts.marginals(2, 10, 2, 3, True, True),
        floor_counts.likelihood(2, 10, 2),
        floor_counts.total_variation(4, 10),
        floor_counts.discrepancy(12, 4, 10, 3),
        floor_counts.truncated_variance(20),
    )
    for term in (term for count in every for term in (*count.terms, count.memory)):
        call, work = floor.PROBES[term.probe](*term.shape)
        call()
        assert work > 0 and term.operations > 0, term


def test_a_part_is_measured() -> None:
    part = next(floor.marginals())
    with torch.no_grad():
        row = floor.measure(part, budget=0.0)
    assert min(row.floor, row.measured, row.calls, row.num_calls, row.smallest) > 0
    assert "calls take" in floor.sentence(row)
