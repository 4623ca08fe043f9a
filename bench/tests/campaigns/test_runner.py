import dataclasses
import functools
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botorch_risk_bench.campaigns import (
    Campaign,
    CampaignStore,
    Options,
    Processes,
    StoreError,
    progress,
    run_campaign,
    runner,
)
from botorch_risk_bench.campaigns.claims import claim
from botorch_risk_bench.campaigns.progress import Bar
from botorch_risk_bench.campaigns.worker import Failure, Report, Task

from bench.tests.campaigns.small import QUIET, run_here, small
from bench.tests.experiments.noisy_quadratic import (
    QUADRATIC,
    SLOW,
    NoisyQuadratic,
    Slow,
    SlowQuadratic,
)
from bench.tests.played import bytes_of, records_in
from bench.tests.played import play as experiment_run

Outcome = Callable[[Task, Callable[[Task], Report]], Any]


@dataclasses.dataclass
class Troubled:
    r"""Workers of this process that do what a test wants, task by task."""

    outcome: Outcome
    num_workers: int = 2
    opened: int = 0
    tasks: list[Task] = dataclasses.field(default_factory=list)
    alive: Callable[[], bool] = lambda: True

    def open(self) -> Executor:
        self.opened += 1
        return _Executor(self)

    def is_alive(self, executor: Executor) -> bool:
        return self.alive()


class _Executor(Executor):
    r"""Futures end when the next task comes, or two are there, so that two are in work."""

    def __init__(self, owner: Troubled) -> None:
        self.owner, self.is_broken = owner, False

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.is_broken:
            raise BrokenExecutor("it is broken")
        self.owner.tasks.append(args[0])
        future: Future[Any] = Future()
        try:
            result = self.owner.outcome(args[0], fn)
            if result is not None:
                future.set_result(result)
        except Exception as error:
            self.is_broken = isinstance(error, BrokenExecutor)
            future.set_exception(error)
        return future


def play(task: Task, advance: Callable[[Task], Report]) -> Report:
    return advance(task)


def one_series() -> Campaign:
    return small(strategies="averse", settings={"default": {}})


@pytest.fixture
def serial(tmp_path: Path) -> list[tuple[Any, ...]]:
    run_here(one_series(), tmp_path / "serial.sqlite")
    return bytes_of(tmp_path / "serial.sqlite")


def test_all_is_run_once_and_nothing_again(tmp_path: Path, serial: list[Any]) -> None:
    engine, path = Troubled(play), tmp_path / "a.sqlite"
    assert run_campaign(one_series(), path, engine, QUIET) == 0
    assert len(engine.tasks) == 3 and engine.opened == 1
    assert bytes_of(path) == serial
    assert run_campaign(one_series(), path, engine, QUIET) == 0
    assert len(engine.tasks) == 3 and engine.opened == 1


def test_tasks_that_are_lost_are_submitted_again(tmp_path: Path, serial: list[Any]) -> None:
    deaths = iter([BrokenExecutor("killed"), OSError("cut off"), None, BrokenExecutor("killed")])

    def outcome(task: Task, advance: Callable[[Task], Report]) -> Report:
        if (error := next(deaths, None)) is not None:
            raise error
        return advance(task)

    engine = Troubled(outcome)
    assert run_campaign(one_series(), tmp_path / "a.sqlite", engine, QUIET) == 0
    assert bytes_of(tmp_path / "a.sqlite") == serial
    assert engine.opened == 3


def test_a_block_that_kills_its_workers_is_given_up_and_the_others_are_not(
    tmp_path: Path, serial: list[Any]
) -> None:
    def outcome(task: Task, advance: Callable[[Task], Report]) -> Report:
        if task.block.seeds == (5, 6):
            raise BrokenExecutor("out of memory")
        return advance(task)

    path, engine = tmp_path / "a.sqlite", Troubled(outcome)
    assert run_campaign(one_series(), path, engine, QUIET) == 1
    with CampaignStore(path) as store:
        states = [store.progress(block) for block in one_series().blocks()]
    assert [state.last_round for state in states] == [3, -1, 3]
    assert states[1].failure is not None and states[1].failure.round == 0
    assert "died 4 times in one round, the last time alone" in states[1].failure.cause
    assert "BrokenExecutor: out of memory" in states[1].failure.cause
    before = len(engine.tasks)
    assert run_campaign(one_series(), path, engine, QUIET) == 1  # it is not tried again
    assert len(engine.tasks) == before
    retry = dataclasses.replace(QUIET, only_failed=True)
    assert run_campaign(one_series(), path, Troubled(play), retry) == 0
    assert bytes_of(path) == serial


def test_only_what_has_failed_is_run_again(tmp_path: Path) -> None:
    r"""Blocks that were never begun stay so."""

    def outcome(task: Task, advance: Callable[[Task], Report]) -> Report:
        if len(engine.tasks) == 2:
            raise KeyboardInterrupt
        broken = dataclasses.replace(task, setting={"num_repeats": "three"})
        return advance(broken)

    engine = Troubled(outcome, num_workers=1)
    with pytest.raises(KeyboardInterrupt):
        run_campaign(one_series(), tmp_path / "a.sqlite", engine, QUIET)
    retry = dataclasses.replace(QUIET, only_failed=True)
    assert run_campaign(one_series(), tmp_path / "a.sqlite", Troubled(play), retry) == 0
    with CampaignStore(tmp_path / "a.sqlite") as store:
        last = [store.progress(block).last_round for block in one_series().blocks()]
    assert last == [3, -1, -1]


def test_executors_that_die_without_a_word_are_replaced(tmp_path: Path, serial: list[Any]) -> None:
    silent = iter([True, True])

    def outcome(task: Task, advance: Callable[[Task], Report]) -> Report | None:
        return None if next(silent, False) else advance(task)

    engine = Troubled(outcome)
    engine.alive = lambda: engine.opened > 1
    assert run_campaign(one_series(), tmp_path / "a.sqlite", engine, QUIET) == 0
    assert bytes_of(tmp_path / "a.sqlite") == serial
    assert engine.opened == 2 and len(engine.tasks) == 5


def test_a_scheduler_that_is_started_again_is_waited_for(
    tmp_path: Path, serial: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(Troubled):
        def open(self) -> Executor:
            if self.opened < 2:
                self.opened += 1
                raise ConnectionRefusedError("no answer")
            return super().open()

    monkeypatch.setattr(runner, "_POLL_SECONDS", 0.01)
    assert run_campaign(one_series(), tmp_path / "a.sqlite", Late(play), QUIET) == 0
    assert bytes_of(tmp_path / "a.sqlite") == serial
    monkeypatch.setattr(runner, "_REOPEN_SECONDS", 0.0)
    with pytest.raises(ConnectionRefusedError, match="no answer"):
        run_campaign(one_series(), tmp_path / "b.sqlite", Late(play), QUIET)


def test_workers_that_never_run_end_the_campaign(tmp_path: Path) -> None:
    def outcome(task: Task, advance: Callable[[Task], Report]) -> Report:
        raise BrokenExecutor("no __main__")

    engine = Troubled(outcome, num_workers=40)
    with pytest.raises(RuntimeError, match=r"11 sets of them that died .* '__main__'"):
        run_campaign(dataclasses.replace(one_series(), block_size=1), tmp_path / "a", engine, QUIET)


def test_workers_with_other_versions_end_the_campaign(tmp_path: Path) -> None:
    def outcome(task: Task, advance: Callable[[Task], Report]) -> Report:
        return advance(dataclasses.replace(task, versions={**task.versions, "torch": "1.0"}))

    with pytest.raises(StoreError, match=r"Expected the versions .*'torch': '1\.0'"):
        run_campaign(one_series(), tmp_path / "a.sqlite", Troubled(outcome), QUIET)


def test_each_device_has_as_many_tasks_as_the_others(tmp_path: Path) -> None:
    r"""Four in work on two devices: each device has two of them at any time."""
    seen: list[str] = []

    def outcome(task: Task, advance: Callable[[Task], Report]) -> Report:
        seen.append(task.device)
        assert task.sharing == 2
        return advance(dataclasses.replace(task, device="cpu"))

    options = Options(devices=("cuda:0", "cuda:1"), progress=False)
    engine = Troubled(outcome, num_workers=4)
    campaign = dataclasses.replace(small(), block_size=1)
    run_campaign(campaign, tmp_path / "a.sqlite", engine, options)
    with pytest.raises(StoreError, match="device='cuda' there, 'cpu' here"):
        run_campaign(campaign, tmp_path / "a.sqlite", engine, QUIET)
    assert seen[:4] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    assert set(seen) == {"cuda:0", "cuda:1"} and len(seen) == 20


def test_devices_of_several_kinds_would_be_several_results() -> None:
    for devices in (("cpu", "cuda:0"), ()):
        with pytest.raises(ValueError, match="devices of one kind"):
            Options(devices=devices)


def test_journals_are_of_one_campaign(tmp_path: Path) -> None:
    r"""Another campaign with the same blocks does not read them."""
    journals: list[str | None] = []

    def outcome(task: Task, advance: Callable[[Task], Report]) -> Report:
        journals.append(task.journals)
        return advance(task)

    options = Options(journals=tmp_path / "journals", progress=False)
    for name in ("one", "other"):
        campaign = dataclasses.replace(one_series(), name=name)
        run_campaign(campaign, tmp_path / f"{name}.sqlite", Troubled(outcome), options)
    assert len(set(journals)) == 2 and None not in journals


def play_or_die(path: Path, advance: Callable[[Task], Report], task: Task) -> Report:
    r"""The first task that is begun ends its process, as if its machine had no memory left."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return advance(task)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("not reached")


class Killed(Processes):
    r"""A pool whose first task dies."""

    path: Path

    def open(self) -> Executor:
        executor = super().open()
        submit = executor.submit
        executor.submit = functools.partial(submit, play_or_die, self.path)  # type: ignore
        return executor


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
@pytest.mark.slow
def test_a_pool_goes_on_after_a_kill(tmp_path: Path, serial: list[Any]) -> None:
    r"""A small form of test_kills.py."""
    Killed.path = tmp_path / "killed"
    assert run_campaign(one_series(), tmp_path / "a.sqlite", Killed(2), QUIET) == 0
    assert Killed.path.exists()
    assert bytes_of(tmp_path / "a.sqlite") == serial


def test_strategies_of_one_experiment_are_paired_by_seed(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    experiment_run(QUADRATIC, path, 3, num_rounds=1)
    with records_in(path) as records:
        neutral, averse = (records.rounds(label)[0] for label in ("neutral", "averse"))
    assert neutral.X.equal(averse.X) and neutral.Y.equal(averse.Y)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_two_processes_write_what_one_writes(tmp_path: Path) -> None:
    r"""The lambda has no name by which another process could import it."""
    unnamed = dataclasses.replace(QUADRATIC, name="unnamed", problem=lambda: NoisyQuadratic(0))
    one, two = tmp_path / "one.sqlite", tmp_path / "two.sqlite"
    experiment_run(unnamed, one, 3)
    experiment_run(unnamed, two, 3, num_jobs=2)
    assert bytes_of(one) == bytes_of(two)


def test_a_file_that_was_only_created_becomes_a_store(tmp_path: Path) -> None:
    empty, new = tmp_path / "empty.sqlite", tmp_path / "new.sqlite"
    empty.touch()
    for path in (empty, new):
        experiment_run(QUADRATIC, path, 2)
    assert bytes_of(empty) == bytes_of(new)


def test_who_comes_second_waits_while_the_first_creates_the_store(tmp_path: Path) -> None:
    shared, whole = tmp_path / "shared.sqlite", tmp_path / "whole.sqlite"
    with ThreadPoolExecutor(1) as second:
        with claim(shared):
            shared.touch()  # as SQLite does before a store has its tables
            result = second.submit(experiment_run, QUADRATIC, shared, 2, num_rounds=3)
            with pytest.raises(TimeoutError):
                result.result(timeout=0.2)
        result.result()
    experiment_run(QUADRATIC, whole, 2, num_rounds=3)
    assert bytes_of(shared) == bytes_of(whole)


def test_journals_are_removed_while_nobody_else_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, removed = tmp_path / "a.sqlite", []

    def remove(journals: Path, **_: Any) -> None:
        with pytest.raises(StoreError, match="no other process"), claim(path, wait_seconds=0.0):
            pass
        removed.append(journals)

    monkeypatch.setattr(shutil, "rmtree", remove)
    experiment_run(QUADRATIC, path, 2)
    assert removed[-1] == tmp_path / "a.sqlite-rounds"  # after those of its blocks


def test_strategies_can_be_added_and_rounds_extended(tmp_path: Path) -> None:
    one, two = tmp_path / "one.sqlite", tmp_path / "two.sqlite"
    experiment_run(QUADRATIC, one, 3)
    for labels, num_rounds in ((["neutral"], 2), (["averse"], None), ([], 1), (["neutral"], None)):
        experiment_run(QUADRATIC, two, 3, labels, num_rounds)
    assert bytes_of(one) == bytes_of(two)


def test_a_strategy_that_failed_is_tried_again_with_what_was_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise FloatingPointError("Cholesky")

    path, whole = tmp_path / "a.sqlite", tmp_path / "whole.sqlite"
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(Slow, "learn", fail)
            with pytest.raises(RuntimeError, match=r"random, .* round 0: FloatingPointError: Chol"):
                experiment_run(SLOW, path, 2, num_rounds=2)
    with monkeypatch.context() as patched:
        patched.setattr(SlowQuadratic, "sample_repeats", fail)  # not for the initial design
        with pytest.raises(RuntimeError, match="round 1: FloatingPointError"):
            experiment_run(SLOW, path, 2, num_rounds=2)
    experiment_run(SLOW, path, 2, num_rounds=2)
    experiment_run(SLOW, whole, 2, num_rounds=2)
    assert bytes_of(path) == bytes_of(whole)
    assert set(tmp_path.iterdir()) == {path, whole}


def test_what_an_experiment_cannot_be_run_with(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    for message, num_seeds, options in (
        (r"\(neutral, averse\)\. Got \['bold'\]", 3, {"strategies": ["bold"]}),
        ("`num_seeds` to be at least 1", 0, {}),
        ("num_rounds=0", 3, {"num_rounds": 0}),
        ("'cuda:99' is not available; available: cpu", 3, {"device": "cuda:99"}),
        ("`num_jobs` to be at least 1", 3, {"num_jobs": 0}),
    ):
        with pytest.raises(ValueError, match=message):
            experiment_run(QUADRATIC, path, num_seeds, **options)
    assert not path.exists()


def test_lines_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with Bar("night", total=100, done=20) as bar:
        for clock[0] in (10.0, 20.0, 45.0, 60.0):
            bar.advance(10)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ", 1)[1].rpartition(",")[0] for line in lines] == [
        "night: 30%, 30 of 100 rounds",  # at once
        "night: 50%, 50 of 100 rounds",  # half a minute later
        "night: 60%, 60 of 100 rounds",  # at the end
    ]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", line.partition(" ")[0]) for line in lines)


def test_the_time_left_is_that_of_the_rounds_of_this_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with Bar("night", total=100, done=40) as bar:
        clock[0] = 60.0
        bar.advance(20)  # 20 a minute, 40 are left
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" night: 60%, 60 of 100 rounds, 02:00 left")


def test_a_bar_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Bar("night", total=10, done=3) as bar:
        bar.advance(2)
        bar.fail(small().blocks()[0], Failure(4, "no convergence"))
    shown = capsys.readouterr().err
    assert re.search(r"night:  50%.* 5/10 ", shown)
    assert "failed: quadratic, averse, default, seeds 3 to 4, round 4: no convergence" in shown


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("night", total=10, done=0, show=False) as bar:
        bar.advance(2)
        bar.fail(small().blocks()[0], Failure(4, "no convergence"))
    assert capsys.readouterr().err == ""
