r"""Show the progress of a campaign: a bar in a terminal, otherwise an occasional line."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from tqdm import tqdm

from botorch_risk_bench.campaigns.description import Block
from botorch_risk_bench.campaigns.worker import Failure
from botorch_risk_bench.printed import printable

_LINE_SECONDS = 30.0


class Bar:
    r"""Progress in rounds of seeds, with the time that is left; a context manager.

    Args:
        total: The number of rounds of all seeds.
        done: How many of them are there already.
    """

    def __init__(self, name: str, total: int, done: int, show: bool = True) -> None:
        self._name, self._total, self._first, self._done = name, total, done, done
        self._failed, self._started, self._shown = 0, time.monotonic(), -float("inf")
        self._show, self._bar, self._is_said = show, None, False
        if show and sys.stderr.isatty():
            self._bar = tqdm(desc=printable(name), total=total, initial=done, unit="round")

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._show and not self._is_said:
            self._line()

    def advance(self, rounds: int) -> None:
        self._done, self._is_said = self._done + rounds, False
        if self._bar is not None:
            self._bar.update(rounds)
        elif self._show and time.monotonic() - self._shown >= _LINE_SECONDS:
            self._line()

    def fail(self, block: Block, failure: Failure) -> None:
        self._failed += 1
        if self._show:
            text = f"failed: {block}, round {failure.round}: {failure.cause}"
            tqdm.write(printable(text), sys.stderr)

    def _line(self) -> None:
        self._shown, self._is_said = time.monotonic(), True
        new, seconds = self._done - self._first, self._shown - self._started
        left = "?"
        if new:
            left = tqdm.format_interval(seconds / new * (self._total - self._done))
        share = self._done / self._total if self._total else 1.0
        failed = f", {self._failed} blocks failed" if self._failed else ""
        print(
            f"{time.strftime('%H:%M:%S')} {printable(self._name)}: {share:.0%}, {self._done:,} of "
            f"{self._total:,} rounds{failed}, {left} left",
            file=sys.stderr,
            flush=True,
        )
