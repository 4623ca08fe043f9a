r"""A plugin of pytest: a skip for want of anything but a GPU or the papers' table is a failure.

`make test-all`, which installs every extra, runs with `-p tests.only_known_skips`.
"""

import pytest

KNOWN_REASONS = ("needs a GPU", "needs the second device", "needs the papers' table")


class SkipCounter:
    r"""Collects the reasons of skips from the reports of tests and of their collection."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not hasattr(report, "wasxfail"):  # an expected failure counts as skipped, too
            self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._count(report)

    def _count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            if not reason.startswith(KNOWN_REASONS):
                self.unknown.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        passed = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if self.unknown and session.exitstatus in passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unknown:
            number = f"{len(self.unknown)} skips for other reasons than {KNOWN_REASONS}"
            terminalreporter.section(number, red=True)
            for line in self.unknown:
                terminalreporter.line(line)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # reports of all workers arrive here
        config.pluginmanager.register(SkipCounter(), "only_known_skips")
