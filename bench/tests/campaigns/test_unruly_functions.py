r"""Functions of users that end the process or never end: the others go on, and these are named."""

import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from botorch_risk_bench.campaigns import (
    Campaign,
    CampaignStore,
    Dask,
    Options,
    Processes,
    Serial,
    Series,
    run_campaign,
)
from botorch_risk_bench.campaigns.engines import Engine
from botorch_risk_bench.campaigns.worker import advance
from botorch_risk_bench.experiments import ExperimentDefinition
from torch import Tensor

from bench.tests.campaigns.processes import is_running, until
from bench.tests.campaigns.small import QUIET, task
from bench.tests.experiments.noisy_quadratic import QUADRATIC, NoisyQuadratic
from bench.tests.played import bytes_of

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
ROOT = Path(__file__).parents[3]


class Leaves(NoisyQuadratic):
    def sample_repeats(self, X: Tensor, *others: Any) -> Tensor:
        if self.num_evaluations == 2:
            sys.exit(3)
        return super().sample_repeats(X, *others)


class Sleeps(NoisyQuadratic):
    def sample_repeats(self, X: Tensor, *others: Any) -> Tensor:
        if self.num_evaluations == 2:
            time.sleep(10_000)
        return super().sample_repeats(X, *others)


class TakesHalfASecond(NoisyQuadratic):
    def sample_repeats(self, X: Tensor, *others: Any) -> Tensor:
        time.sleep(0.5)
        return super().sample_repeats(X, *others)


SLOWER = dataclasses.replace(QUADRATIC, problem=TakesHalfASecond)


class HangsInC(NoisyQuadratic):
    def sample_repeats(self, X: Tensor, *others: Any) -> Tensor:
        sqlite3.connect(":memory:").execute(ENDLESS).fetchall()
        raise AssertionError("not reached")


def unruly(problem: type[NoisyQuadratic]) -> ExperimentDefinition:
    strategies = {"neutral": QUADRATIC.strategies["neutral"]}
    return dataclasses.replace(QUADRATIC, name="unruly", problem=problem, strategies=strategies)


def next_to_a_healthy_one(problem: type[NoisyQuadratic]) -> Campaign:
    r"""A healthy experiment after one that is not."""
    series = [Series(name, "neutral", 2, num_rounds=3) for name in ("unruly", "quadratic")]
    return Campaign("next to a healthy one", series, own=[unruly(problem), QUADRATIC])


ENGINES = [
    pytest.param(Serial(), id="serial"),
    pytest.param(Processes(2), id="processes"),
    pytest.param(Dask(2), id="dask", marks=pytest.mark.slow),
]


def check(
    problem: type[NoisyQuadratic], engine: Engine, folder: Path, options: Options = QUIET
) -> str:
    r"""Run both; the cause that is stored of the unruly one."""
    path, alone = folder / "a.sqlite", folder / "alone.sqlite"
    assert run_campaign(next_to_a_healthy_one(problem), path, engine, options) == 1
    healthy = Campaign("alone", [Series("quadratic", "neutral", 2, num_rounds=3)], own=[QUADRATIC])
    run_campaign(healthy, alone, Serial(), QUIET)
    assert [row for row in bytes_of(path) if row[0] == "quadratic"] == bytes_of(alone)
    with CampaignStore(path) as store:
        failure = store.progress(store.blocks()[0]).failure
    assert failure is not None
    return f"round {failure.round}: {failure.cause}"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_that_leaves_has_failed_and_the_others_go_on(
    engine: Engine, tmp_path: Path
) -> None:
    pytest.importorskip("distributed" if isinstance(engine, Dask) else "torch")
    assert check(Leaves, engine, tmp_path) == "round 2: SystemExit: 3"


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("engine", ENGINES[:2])
def test_a_round_that_takes_too_long_has_failed_and_the_others_go_on(
    engine: Engine, tmp_path: Path
) -> None:
    before = signal.getsignal(signal.SIGALRM)
    options = dataclasses.replace(QUIET, round_seconds=2.0)
    found = check(Sleeps, engine, tmp_path, options)
    assert found == "round 2: RoundTooLongError: the round took longer than 2 s"
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.slow
def test_a_round_that_nothing_interrupts_ends_its_worker(tmp_path: Path) -> None:
    options = dataclasses.replace(QUIET, round_seconds=1.0)
    found = check(HangsInC, Processes(2), tmp_path, options)
    assert "its worker died" in found and found.endswith("a round has at most 1 s")


def test_rounds_are_limited_one_by_one() -> None:
    r"""Not all of a report together: four rounds of half of the limit each."""
    limited = task(
        Campaign("slow", [Series("quadratic", "neutral", 2, num_rounds=3)], own=[SLOWER])
    )
    report = advance(dataclasses.replace(limited, own=(SLOWER,), modules=(), round_seconds=1.0))
    assert report.failure is None and report.last_round == 3


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), "2"])
def test_a_limit_is_a_positive_number(seconds: Any) -> None:
    error = TypeError if isinstance(seconds, str) else ValueError
    with pytest.raises(error, match="`round_seconds` to be"):
        Options(round_seconds=seconds)


@pytest.mark.skipif(os.name != "posix", reason="signals of a terminal")
def test_an_interruption_ends_all_with_one_line(tmp_path: Path) -> None:
    words = ["-m", "botorch_risk_bench.cli", "campaign", "run", "sleeps.json", "--out", "a.sqlite"]
    (tmp_path / "sleeping.py").write_text(
        "import dataclasses, time\n"
        "from bench.tests.experiments.noisy_quadratic import SLOW, SlowQuadratic\n"
        "class Sleeps(SlowQuadratic):\n"
        "    def sample_repeats(self, *others):\n"
        "        open('begun', 'w').close()\n"
        "        time.sleep(10_000)\n"
        "EXPERIMENTS = [dataclasses.replace(SLOW, name='sleeps', problem=Sleeps)]\n"
    )
    (tmp_path / "sleeps.json").write_text(
        '{"name": "s", "modules": ["sleeping.py"], "series": '
        '[{"experiments": "sleeps", "num_seeds": 2}]}'
    )
    # A shell ignores Ctrl-C in what it runs in the background, and so would what is started here.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'bench'}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert until((tmp_path / "begun").exists)
    workers = [each.pid for each in psutil.Process(process.pid).children(recursive=True)]
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends Ctrl-C
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == (
        "Interrupted. Go on with: botorch-risk campaign resume a.sqlite"
    )
    assert "Traceback" not in errors
    assert until(lambda: not any(map(is_running, workers)))
