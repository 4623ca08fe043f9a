r"""Six tasks of a newcomer: few clicks from the first page, and code that runs unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from botorch_risk.models import MeanVarianceGP
from botorch_risk.risk import ConditionalValueAtRisk
from tests.doc_pages import DOCS, clicks, names_after

MAX_CLICKS = 3
# At kinks of a risk a line search may end early; BoTorch tries again.
pytestmark = pytest.mark.filterwarnings("ignore:Optimization failed:RuntimeWarning")


@dataclass(frozen=True)
class Task:
    r"""What a newcomer wants.

    Args:
        page: The page that shows it.
        done: Asserts from the names that its blocks leave that it was done.
        first: How many blocks it takes; the whole page by default.
    """

    page: str
    done: Callable[[SimpleNamespace], None]
    first: int | None = None


def three_readings(names: SimpleNamespace) -> None:
    assert names.model.num_repeats == 3 or names.model.train_counts.flatten().tolist() == 12 * [3]
    assert isinstance(names.model, MeanVarianceGP)
    assert names.experiment.ask().shape == (1, 2)


def tail_of_a_context(names: SimpleNamespace) -> None:
    belief = names.strategy.belief
    assert belief.risk_measure == ConditionalValueAtRisk(0.2)
    assert names.experiment.recommend().shape == (1,)


def limit_on_95_percent(names: SimpleNamespace) -> None:
    assert names.held >= 0.95
    assert names.candidate.shape == (1, 1)


def cheap_level_set(names: SimpleNamespace) -> None:
    for found in (names.found, names.state):  # of the strategy, and of one's own loop
        high, low = found.high.reshape(-1), found.low.reshape(-1)
        assert (~high & ~low).sum() < 40
        assert not (high & ~names.above | low & names.above).any()
    assert names.spent["seen"] < names.spent["ignored"]  # travel was paid for


def in_ax(names: SimpleNamespace) -> None:
    trials = names.client.summarize()
    assert len(trials) == 8 and "risk_averse" in set(trials["generation_node"])


def two_methods(names: SimpleNamespace) -> None:
    assert names.averse.shape == names.neutral.shape == (16,)
    assert torch.isfinite(names.gain.standard_error)


TASKS = {
    "own CSV with three readings": Task("own_csv", three_readings),
    "CVaR under an observed context": Task("contexts", tail_of_a_context, first=1),
    "a constraint that holds 95 % of the time": Task("constraints", limit_on_95_percent),
    "level set at a cost": Task("level_sets", cheap_level_set),
    "in Ax": Task("ax", in_ax, first=1),
    "compare two methods on a function of one's own": Task("compare", two_methods),
}
PAGES = {task.page for task in TASKS.values()}
each = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


@each
def test_the_way_there_is_short(task: Task) -> None:
    assert clicks(DOCS / "index.md")[(DOCS / f"{task.page}.md").resolve()] <= MAX_CLICKS


@each
def test_its_code_runs_unchanged(task: Task, tmp_path: Path) -> None:
    task.done(names_after(DOCS / f"{task.page}.md", tmp_path, task.first))
