import dataclasses
import json
import pickle
import sys
import warnings
from pathlib import Path

import pytest
import torch
from botorch_risk_bench.campaigns import Journal, play_rounds, worker
from botorch_risk_bench.campaigns.loop import FailedOutcomesWarning
from botorch_risk_bench.campaigns.worker import Report, Row, advance, rows_of

from bench.tests.campaigns.small import small, task
from bench.tests.experiments.noisy_quadratic import QUADRATIC


@pytest.fixture(autouse=True)
def no_live_block() -> None:
    worker._live.clear()


def rows(*reports: Report) -> list[Row]:
    return [row for report in reports for row in report.rows]


def test_a_block_is_what_the_loop_plays() -> None:
    report = advance(task(small()))
    assert report.failure is None and report.last_round == 3
    problem, journal = QUADRATIC.problem_of([3, 4]), Journal()
    strategy = QUADRATIC.build("averse", problem.bounds, [3, 4])
    assert list(play_rounds(strategy, problem, journal, 3, 3)) == [0, 1, 2, 3]
    records = journal.take()
    assert json.loads(report.state or "") == journal.state
    assert rows(report) == [row for record in records for row in rows_of(record, (3, 4))]
    assert set(report.seconds) == {0, 1, 2, 3}
    assert report.kind.endswith("RandomPoints") and report.peak_bytes > 2**20 and report.host


@pytest.mark.parametrize("stays", [True, False])
def test_reports_in_parts_are_the_whole(stays: bool) -> None:
    r"""Whether the worker still has the block's models, or another one goes on."""
    whole, first = advance(task(small())), task(small(), report_seconds=0.0)
    parts = [advance(first)]
    while (last := parts[-1].last_round) < 3:
        assert len(worker._live) == 1
        if not stays:
            worker._live.clear()
        parts.append(advance(dataclasses.replace(first, last_round=last, state=parts[-1].state)))
    assert [part.last_round for part in parts] == [0, 1, 2, 3]
    assert rows(*parts) == rows(whole)
    assert parts[-1].state == whole.state


def test_a_block_of_another_campaign_is_begun_afresh() -> None:
    advance(task(small(), report_seconds=0.0))
    other = dataclasses.replace(task(small()), campaign="other")
    assert advance(other).last_round == 3
    assert len(rows(advance(other))) == 8  # from round 0, as the task says


def test_settings_reach_the_problem() -> None:
    setting = {"num_repeats": 5, "problem": {"num_failing": 1}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FailedOutcomesWarning)
        report = advance(dataclasses.replace(task(small()), setting=setting))
    values = [json.loads(row.Y)[-1] for row in report.rows if row.round == 3]
    assert [len(each) for each in values] == [5, 5]
    assert all(value != value for value in values[0]) and values[1] == values[1]  # NaN of one seed


def test_failures_come_with_the_rounds_before_them() -> None:
    r"""The setting asks for an argument that the strategy refuses when it is built."""
    broken = dataclasses.replace(task(small()), setting={"strategy": {"risk_aversion": "much"}})
    report = advance(broken)
    assert report.failure is not None and report.rows == []
    assert report.failure.round == 0 and "Traceback" in report.failure.traceback
    assert pickle.loads(pickle.dumps(report)) == report


def test_the_rounds_before_a_failure_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.tests.experiments.noisy_quadratic import NoisyQuadratic

    def fail(self: NoisyQuadratic, X: torch.Tensor, *others: object) -> torch.Tensor:
        if self.num_evaluations == 2:
            raise FloatingPointError("no convergence")
        return sample(self, X, *others)  # type: ignore[arg-type]

    sample = NoisyQuadratic.sample_repeats
    monkeypatch.setattr(NoisyQuadratic, "sample_repeats", fail)
    report = advance(task(small()))
    assert report.last_round == 1 and {row.round for row in report.rows} == {0, 1}
    assert report.failure is not None and report.failure.round == 2
    assert report.failure.cause == "FloatingPointError: no convergence"
    assert report.state is not None


def test_other_versions_are_refused_before_anything_is_played() -> None:
    wrong = {"torch": "1.0", "botorch": "0.1"}
    report = advance(task(small(), versions=wrong))
    assert report.refused is not None and report.rows == []
    assert "Expected the versions {'torch': '1.0', 'botorch': '0.1'}" in report.refused


def test_journals_outlive_the_worker(tmp_path: Path) -> None:
    kept = task(small(), journals=str(tmp_path), report_seconds=0.0)
    first = advance(kept)  # whose report is lost, as the worker dies
    worker._live.clear()
    again = advance(dataclasses.replace(kept, report_seconds=100.0))
    assert rows(again) == rows(advance(task(small())))
    assert rows(again)[:2] == rows(first)
    assert again.seconds[0] == first.seconds[0]  # it was not played again


def test_threads_are_as_before() -> None:
    before = torch.get_num_threads()
    advance(task(small()))
    assert torch.get_num_threads() == before


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_a_limit_of_memory_is_a_failure_with_a_cause() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    hungry = dataclasses.replace(task(small()), setting={"num_repeats": 300_000_000})
    report = advance(dataclasses.replace(hungry, memory_limit=2**32))
    assert report.failure is not None
    assert "(limit: 4,294,967,296 bytes)" in report.failure.cause
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@pytest.mark.parametrize(("name", "number"), [("cuda", None), ("cuda:1", 1)])
def test_workers_share_the_memory_of_a_gpu(
    name: str, number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[tuple[float, int | None]] = []
    take = "torch.cuda.set_per_process_memory_fraction"
    monkeypatch.setattr(take, lambda share, number: shares.append((share, number)))
    there = dataclasses.replace(task(small()), device=name)
    for sharing in (1, 3):
        advance(dataclasses.replace(there, sharing=sharing))
    assert shares == [(pytest.approx(0.3), number)]
