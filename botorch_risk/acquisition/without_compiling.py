r"""Build BoTorch's acquisition functions without compiling code for this machine."""

from collections.abc import Iterator
from contextlib import contextmanager

from botorch.acquisition.multi_objective import logei


@contextmanager
def without_compiling() -> Iterator[None]:
    r"""A context, or a decorator, in which BoTorch compiles nothing.

    Otherwise the first hypervolume improvement of a process compiles a C++ kernel, for a minute and
    without a message. If that process is killed, PyTorch's lock stays behind, and every later
    process waits for it for ever. BoTorch has the same formulas in PyTorch. A kernel that the
    process has already loaded is used; it makes a decision of `pareto_search` about 1.1 times as
    fast.
    """
    before = logei._load_attempted
    logei._load_attempted = True
    try:
        yield
    finally:
        logei._load_attempted = before
