r"""One thread per worker unless OMP_NUM_THREADS says otherwise; one random state for every test.

A test in which BoTorch would compile a kernel fails: whoever runs that code waits for a minute. A
file that imports an extra that is not installed is skipped as a whole.
"""

import os
from collections.abc import Generator

import pytest
import torch
from botorch.acquisition.multi_objective import logei

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
_load_kernel = logei._try_load_fused_kernel


def _refuse_to_compile() -> None:
    if not logei._load_attempted:
        pytest.fail("Expected `without_compiling` around a hypervolume improvement. Got none.")
    _load_kernel()


logei._try_load_fused_kernel = _refuse_to_compile


# What is never an extra: without it, an import is an error.
OWN = {"bench", "botorch_risk", "botorch_risk_bench", "botorch_risk_testing", "tests"}
NEEDED = OWN | {"botorch", "gpytorch", "torch"}


def missing_extra(error: BaseException | None) -> str | None:
    r"""The module of an extra whose absence ended an import, directly or on the way."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name:
            top = error.name.partition(".")[0]
            return None if top in NEEDED else top
        error = error.__cause__ or error.__context__
    return None


def pytest_configure(config: pytest.Config) -> None:
    r"""Says at once that `-m gpu` has nothing to run, which takes a minute to collect."""
    if config.getoption("markexpr") == "gpu" and not torch.cuda.is_available():
        raise pytest.UsageError("Expected a GPU for the tests marked `gpu`. Got none.")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    r"""Skips a file for want of an extra; a test that runs tells what it needs itself."""
    report = yield
    call = getattr(report, "call", None)
    name = missing_extra(call.excinfo.value) if call is not None and call.excinfo else None
    if report.failed and name is not None:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: needs `{name}`, of an extra")
    return report


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
