r"""Workers do not outlive the process that they work for."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.bench.experiments.noisy_quadratic import SLOW_PAIR
from tests.bench.experiments.processes import (
    DEADLINE_SECONDS,
    count_rounds,
    finish,
    holders,
    is_running,
    start,
    uninterrupted,
    until,
)
from tests.bench.experiments.table import table


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "terminate"])
def test_workers_end_with_their_parent_and_a_resumed_run_goes_on_at_once(
    how: signal.Signals, tmp_path: Path
) -> None:
    path, whole = tmp_path / "killed.sqlite", tmp_path / "whole.sqlite"
    parent = start(path, 10_000, "--jobs", "2")
    assert until(lambda: len(holders(path)) == 2 and count_rounds(path) > 20)
    workers = holders(path)
    assert parent.pid not in workers
    parent.send_signal(how)
    assert parent.wait(DEADLINE_SECONDS) == -how
    parent.stderr.close()  # type: ignore[union-attr]
    done = count_rounds(path)
    # Immediately, while the workers may still be there; with more rounds than they can have done.
    resumed = start(path, done + 100, "--jobs", "2")
    assert until(lambda: not any(map(is_running, workers)))
    code, errors = finish(resumed)
    assert code == 0, errors
    assert count_rounds(path) == 2 * (done + 101)  # the orphans did not get further
    assert table(path) == uninterrupted(whole, done + 100, SLOW_PAIR)
    assert set(tmp_path.iterdir()) == {path, whole}
