from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_risk.ax.contextual import ObservedDataset

NAMES: dict[str, Any] = {"feature_names": ["a", "b"], "outcome_names": ["y"]}
X, Y = torch.eye(2, dtype=torch.double), torch.ones(2, 1, dtype=torch.double)
COLUMNS = {
    "counts": torch.tensor([[3.0], [2.0]]),
    "contexts": torch.tensor([[0.1], [0.2]]),
    "every_context": torch.tensor([[0.1], [0.2], [0.3]]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_datasets_are_equal_if_all_that_was_observed_is(name: str) -> None:
    whole = ObservedDataset(X, Y, Yvar=Y, **COLUMNS, **NAMES)
    assert whole == whole.clone(deepcopy=True)
    others: list[Tensor | None] = [COLUMNS[name] + 1, None]
    for other in others:
        assert whole != ObservedDataset(X, Y, Yvar=Y, **{**COLUMNS, name: other}, **NAMES)


def test_a_part_has_its_rows_and_the_whole_distribution() -> None:
    whole = ObservedDataset(X, Y, Yvar=Y, **COLUMNS, **NAMES)
    part = whole.clone(mask=torch.tensor([False, True]))
    assert part.counts is not None and part.counts.tolist() == [[2.0]]
    assert part.contexts is not None and part.contexts.shape == (1, 1)
    assert part.every_context is not None and part.every_context.shape == (3, 1)
    assert part.X.shape == (1, 2) and part.Yvar is not None and part.Yvar.shape == (1, 1)
    plain = ObservedDataset(X, Y, **NAMES).clone(deepcopy=True)
    assert plain.counts is plain.contexts is plain.every_context is plain.Yvar is None


def test_a_copy_is_one_of_its_own() -> None:
    whole = ObservedDataset(X, Y, Yvar=Y, **COLUMNS, **NAMES)
    copy = whole.clone(deepcopy=True)
    assert copy.every_context is not None
    copy.every_context += 1
    assert copy != whole and COLUMNS["every_context"][0, 0] == 0.1
