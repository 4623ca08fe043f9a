r"""Tables that would not fit into memory are refused at once, with their size."""

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError

from botorch_risk.risk import Expectation
from botorch_risk.tables import Factors, table_search
from botorch_risk.tables.memory import check_memory


@pytest.mark.parametrize(
    ("num_conditions", "num_contexts", "got"),
    [
        (100_000, 10, r"100,000 conditions, which take 1,192\.1 GiB"),
        (10, 20_000, r"20,000 contexts, which take 47\.7 GiB"),
        (2000, 2000, r"2,000 conditions and 2,000 contexts, which take 12\.9 GiB"),
        pytest.param(
            *(5700, 40, r"5,700 conditions and 40 contexts, which take 4\.6 GiB"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_large_table_is_refused_before_anything_is_computed(
    num_conditions: int, num_contexts: int, got: str
) -> None:
    with pytest.raises(UnsupportedError, match=rf"at most 4 GiB\. Got {got}\. List fewer"):
        table_search(range(num_conditions), range(num_contexts), risk_measure=Expectation())


def test_rows_alone_may_be_too_many() -> None:
    for rows in (list(range(50_000)), torch.rand(50_000, 2)):
        with pytest.raises(UnsupportedError, match=r"Got 50,000 rows, which take 298\.0 GiB"):
            Factors.of(rows)


def test_tables_of_the_usual_size_pass() -> None:
    for conditions, contexts in ((4000, 25), (300, 300), (1000, 1000), (96, 384)):
        check_memory(conditions=conditions, contexts=contexts)
