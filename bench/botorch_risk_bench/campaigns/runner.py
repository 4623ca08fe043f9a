r"""Run campaigns: send blocks to workers, commit their reports, replace dead workers."""

import dataclasses
import json
import shutil
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from botorch_risk.arguments import check_counts, check_fields, check_nonnegative, check_positive
from botorch_risk_bench.campaigns.claims import claim
from botorch_risk_bench.campaigns.database import StoreError, checksum, has_begun, without_optima
from botorch_risk_bench.campaigns.description import Block, Campaign, Series, Setting
from botorch_risk_bench.campaigns.engines import Engine, Processes, Serial
from botorch_risk_bench.campaigns.extras import check_extras
from botorch_risk_bench.campaigns.progress import Bar
from botorch_risk_bench.campaigns.store import CampaignStore
from botorch_risk_bench.campaigns.worker import Failure, Report, Task, advance, versions
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.printed import printable

_POLL_SECONDS = 0.5
_REOPEN_SECONDS = 60.0  # to wait for a scheduler that has been started again
_MAX_BROKEN = 10
_OFTEN_SECONDS = 0.2  # between the reports of an experiment on its own
MAX_DEATHS = 3


@dataclass(frozen=True)
class Options:
    r"""How a campaign is run; only the kind of device changes the results.

    Args:
        report_seconds: How often a worker reports, at the end of a round. What it had played
            since is played again if it dies, unless there are journals.
        journals: A folder that this process and the workers share, in which workers keep every
            round, so that none is evaluated twice.
        devices: Where workers compute, all of one kind. With more workers than devices, several
            share one, and its memory in equal parts.
        memory_limit: The most bytes of data of a worker, on Linux; beyond it a block fails.
        round_seconds: The most seconds of a round; beyond it a block fails. A round that no
            exception can interrupt ends its worker, and the block is named after three such ends.
        only_failed: Whether to run just the blocks that have failed.
        retry_failed: Whether to run them again with the others.
        progress: Whether to show how far the campaign is.

    Example:
        >>> Options(devices=["cuda:0", "cuda:1"]).report_seconds
        30.0
    """

    report_seconds: float = 30.0
    journals: Path | None = None
    devices: Sequence[str] = ("cpu",)
    memory_limit: int | None = None
    round_seconds: float | None = None
    only_failed: bool = False
    retry_failed: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_nonnegative(report_seconds=self.report_seconds)
        if self.memory_limit is not None:
            check_counts(memory_limit=self.memory_limit)
        if self.round_seconds is not None:
            check_positive(round_seconds=self.round_seconds)
        if len({torch.device(name).type for name in self.devices}) != 1:
            raise ValueError(f"Expected devices of one kind. Got {self.devices=}.")

    @property
    def kind_of_device(self) -> str:
        return torch.device(self.devices[0]).type


def available_devices() -> list[str]:
    r"""The devices on which a strategy can compute in double precision."""
    return ["cpu"] + [f"cuda:{index}" for index in range(torch.cuda.device_count())]


class _Runner:
    r"""The state of a campaign that is being run."""

    def __init__(
        self, store: CampaignStore, campaign: Campaign, engine: Engine, options: Options
    ) -> None:
        self.store, self.campaign, self.engine, self.options = store, campaign, engine, options
        self.settings = campaign.settings()
        self.name = checksum(json.dumps(without_optima(store.identity), sort_keys=True)).hex()
        # Without the strategies' states, which are read when a block is sent: all of them at once
        # would not fit into memory in a large campaign.
        found = {block: store.progress(block) for block in campaign.blocks()}
        self.last_rounds = {block: state.last_round for block, state in found.items()}
        failed = {block for block, state in found.items() if state.failure is not None}
        self.waiting: deque[Block] = deque(self._blocks_to_run(failed))
        self.running: dict[Future[Report], tuple[Block, str]] = {}
        self.deaths: Counter[Block] = Counter()  # of its workers, since it last came forward
        self.suspects: deque[Block] = deque()  # they run alone, as a neighbour may be the cause
        self.alone: Block | None = None
        self.sharing = -(-engine.num_workers // len(options.devices))
        self.devices = deque([*options.devices] * self.sharing)
        self.executor: Executor | None = None
        self.is_broken, self.num_broken = False, 0  # executors in turn, since the last report

    def _blocks_to_run(self, failed: set[Block]) -> list[Block]:
        only_failed = self.options.only_failed
        again = failed if only_failed or self.options.retry_failed else set()
        for block in again:
            self.store.forget_failure(block)
        return [
            block
            for block, last in self.last_rounds.items()
            if last < block.num_rounds
            and (block in again or (not only_failed and block not in failed))
        ]

    def run(self, bar: Bar) -> None:
        try:
            while self.waiting or self.running or self.suspects:
                if not self.is_broken:
                    self._submit()
                ended = wait(self.running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED).done
                for future in ended:
                    self._take(future, bar)
                if self.executor is not None and not self.engine.is_alive(self.executor):
                    self._lose_all()
                if self.is_broken and not self.running:
                    self._close()
        finally:
            self._close()

    def _submit(self) -> None:
        while self.waiting and len(self.running) < self.engine.num_workers and not self.is_broken:
            self._send(self.waiting.popleft())
        if self.suspects and not self.running and not self.is_broken:
            self.alone = self.suspects.popleft()
            self._send(self.alone)

    def _send(self, block: Block) -> None:
        if self.executor is None:
            self.executor = self._opened()
        device = self.devices.popleft()
        try:
            future = self.executor.submit(advance, self._task(block, device))
        except Exception as error:  # it has broken just now, and no task has said so yet
            self.devices.append(device)
            self.waiting.appendleft(block)
            self.alone = None
            self._note_broken(error)
        else:
            self.running[future] = block, device

    def _task(self, block: Block, device: str) -> Task:
        state, journals = self.store.progress(block), self.options.journals
        setting: Setting = self.settings[block.experiment][block.setting]
        return Task(
            block=block,
            setting=setting,
            modules=tuple(self.campaign.modules),
            last_round=state.last_round,
            state=state.state,
            campaign=self.name,
            versions=versions(),
            report_seconds=self.options.report_seconds,
            device=device,
            sharing=self.sharing,
            memory_limit=self.options.memory_limit,
            round_seconds=self.options.round_seconds,
            journals=None if journals is None else str(Path(journals) / self.name),
            own=self.campaign.own,
        )

    def _take(self, future: Future[Report], bar: Bar) -> None:
        block, device = self.running.pop(future)
        self.devices.append(device)
        try:
            report = future.result(timeout=0)
        except (Exception, SystemExit) as error:
            self._lose(block, error, bar)
            return
        if block == self.alone:
            self.alone = None
        self.num_broken = 0
        if report.refused is not None:
            raise StoreError(report.refused)
        bar.advance(self._commit(report) * len(block.seeds))
        if report.failure is not None:
            bar.fail(block, report.failure)
            return
        if report.rows:
            self.deaths[block] = 0
        if report.last_round < block.num_rounds:
            self.waiting.appendleft(block)  # soon, for the worker that still has its models
        elif self.options.journals is not None:
            folder = Path(self.options.journals) / self.name / block.folder_name
            shutil.rmtree(folder, ignore_errors=True)

    def _commit(self, report: Report) -> int:
        new = self.store.commit(report)
        last = self.last_rounds[report.block]
        self.last_rounds[report.block] = max(last, report.last_round)
        return new

    def _lose(self, block: Block, error: BaseException, bar: Bar) -> None:
        if isinstance(error, BrokenExecutor):
            self._note_broken(error)
        self.deaths[block] += 1
        if block == self.alone:
            self.alone = None
            cause = (
                f"its worker died {self.deaths[block]} times in one round, the last time alone "
                f"({type(error).__name__}: {error})"
            )
            if (limit := self.options.round_seconds) is not None:
                cause += f"; a round has at most {limit:g} s"
            failure = Failure(self.last_rounds[block] + 1, cause)
            self._commit(Report(block, failure=failure))
            bar.fail(block, failure)
        elif self.deaths[block] >= MAX_DEATHS:
            self.suspects.append(block)
        else:
            self.waiting.appendleft(block)

    def _note_broken(self, error: BaseException) -> None:
        if not self.is_broken:
            self.is_broken, self.num_broken = True, self.num_broken + 1
        if self.num_broken > _MAX_BROKEN:
            raise RuntimeError(
                f"Expected workers that run. Got {self.num_broken} sets of them that died before "
                "any reported; a script has to run its campaign under `if __name__ == "
                f"'__main__':`. The last error: {error}"
            ) from error

    def _lose_all(self) -> None:
        r"""Give up all tasks of an executor that died without a message."""
        for block, device in self.running.values():
            self.devices.append(device)
            self.waiting.appendleft(block)
        self.running, self.alone = {}, None
        self._close()

    def _opened(self) -> Executor:
        deadline = time.monotonic() + _REOPEN_SECONDS
        while True:
            try:
                return self.engine.open()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)

    def _close(self) -> None:
        if self.executor is not None:
            with suppress(Exception):
                self.executor.shutdown(wait=False, cancel_futures=True)
        self.executor, self.is_broken = None, False


def run_campaign(
    campaign: Campaign,
    path: str | Path,
    engine: Engine | None = None,
    options: Options | None = None,
    extend: bool = False,
    part: Campaign | None = None,
) -> int:
    r"""Run or resume a campaign until all blocks are done or have failed.

    You can stop it, and any worker, at any moment: the next run resumes from the last committed
    round. With the same versions on the same kind of processor, the results do not depend on the
    engine, the number of workers or interruptions.

    Args:
        path: The store, on a disk of this machine; created or resumed.
        engine: Where blocks run; two processes of this machine by default.
        extend: Whether an existing store may belong to a campaign that this one extends.
        part: The part to run now; all by default.

    Returns:
        The number of these blocks that have failed, also in runs before this.

    Raises:
        StoreError: If the store is another campaign's, cannot be written, or another process
            writes to it; if a worker has other versions, or two workers disagree.
        ValueError: If the campaign has something that is unknown.
        MissingExtraError: If a problem or a strategy needs an extra that is not installed.
    """
    engine, options = engine or Processes(), options or Options()
    check_extras(part or campaign)
    with claim(Path(path)):
        return _run_claimed(campaign, path, engine, options, extend, part)


def _run_claimed(
    campaign: Campaign,
    path: str | Path,
    engine: Engine,
    options: Options,
    extend: bool,
    part: Campaign | None,
) -> int:
    r"""Run a campaign while no other process opens, extends or writes its store."""
    with ExitStack() as stack:
        device = options.kind_of_device
        store = stack.enter_context(CampaignStore(path, campaign, extend, device))
        if not options.only_failed:
            _mend(store, options.progress)
        runner = _Runner(store, part or campaign, engine, options)
        blocks = runner.last_rounds
        bar = stack.enter_context(
            Bar(
                campaign.name,
                total=sum((block.num_rounds + 1) * len(block.seeds) for block in blocks),
                done=sum((last + 1) * len(block.seeds) for block, last in blocks.items()),
                show=options.progress,
            )
        )
        runner.run(bar)
        return sum(store.progress(block).failure is not None for block in blocks)


def _mend(store: CampaignStore, show: bool) -> None:
    r"""Forget what is damaged in a store, and say so."""
    found = store.mend()
    if show and found.damages:
        for each in found.damages:
            print(printable(f"damaged: {each}"), file=sys.stderr)
        again = "; ".join(map(str, found.to_play_again)) or "nothing"
        print(printable(f"Played again: {again}."), file=sys.stderr)


def run_experiment(
    name: str,
    path: str | Path,
    num_seeds: int,
    first_seed: int = 0,
    strategies: Sequence[str] = (),
    num_rounds: int | None = None,
    device: str = "cpu",
    num_jobs: int = 1,
    own: Sequence[ExperimentDefinition] = (),
    progress: bool = True,
) -> None:
    r"""Run or resume strategies of one experiment: a campaign with one block per strategy.

    All strategies start from the same initial designs and see the same noise streams, so that
    differences between them are paired by seed. The store keeps its other strategies and further
    rounds. Each round is on disk before the next begins, in a folder next to the store until the
    run ends. A strategy that has failed before is tried again.

    Args:
        name: The experiment.
        path: The store, created or resumed.
        num_seeds: The number of replicates.
        first_seed: Seeds are `first_seed, first_seed + 1, ...`.
        strategies: Their labels; all of the experiment's by default.
        num_rounds: The number of rounds after the initial design; the experiment's own by default.
        device: Where the strategies compute. The problem stays on the CPU.
        num_jobs: The number of processes, each with one strategy at a time.
        own: Further experiments, in addition to the package's.

    Raises:
        RuntimeError: If a strategy fails; the message has the cause.
        StoreError: If the store is another experiment's, or another process runs it and does not
            end within ten seconds.
        MissingExtraError: If the problem or a strategy needs an extra that is not installed.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from botorch_risk_bench.campaigns import CampaignStore, ExperimentRecords
        >>> with TemporaryDirectory() as folder:
        ...     path = f"{folder}/a.sqlite"
        ...     run_experiment("sine", path, 2, strategies=["GP-UCB"], num_rounds=1, progress=False)
        ...     with CampaignStore(path) as store:
        ...         ExperimentRecords(store, "sine").rounds("GP-UCB")[1].Y.shape
        torch.Size([2, 1, 10])
    """
    path, journals = Path(path), Path(f"{path}-rounds")
    check_counts(num_seeds=num_seeds, num_jobs=num_jobs)
    devices = available_devices()
    if device not in [*devices, *(["cuda"] if len(devices) > 1 else [])]:
        raise ValueError(f"Device {device!r} is not available; available: {', '.join(devices)}.")
    series = Series(name, strategies, num_seeds, first_seed, num_rounds)
    asked = Campaign(name, [series], num_seeds, own=own)
    options = Options(_OFTEN_SECONDS, journals, (device,), retry_failed=True, progress=progress)
    engine = Serial() if num_jobs == 1 else Processes(num_jobs)
    check_extras(asked)
    with claim(path):
        campaign = _extended(asked, path)
        if not _run_claimed(campaign, path, engine, options, extend=True, part=asked):
            shutil.rmtree(journals, ignore_errors=True)
            return
        # The outcomes that a strategy has failed with are kept.
        with CampaignStore(path) as store:
            states = {block: store.progress(block).failure for block in asked.blocks()}
    causes = [f"{block}, round {why.round}: {why.cause}" for block, why in states.items() if why]
    raise RuntimeError(f"Expected all strategies to run. Got {'; '.join(causes)}.")


def _extended(asked: Campaign, path: Path) -> Campaign:
    r"""The campaign with what its store has, of one series each: its strategies and rounds."""
    blocks = asked.blocks()
    if has_begun(path):
        with CampaignStore(path) as store:
            blocks = [*store.blocks(), *blocks]
    rounds: dict[str, int] = {}
    for block in blocks:
        rounds[block.strategy] = max(block.num_rounds, rounds.get(block.strategy, 0))
    (series,) = asked.series
    whole = [dataclasses.replace(series, strategies=k, num_rounds=n) for k, n in rounds.items()]
    return dataclasses.replace(asked, series=whole)
