r"""Laws that every part of one kind obeys, and the checks that name broken ones."""

from __future__ import annotations

import inspect
import itertools
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

DTYPES = (torch.float32, torch.float64)
BATCH_SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 3))  # not (2,): inputs have 2 columns
SEEDS = range(25)


@dataclass(frozen=True, kw_only=True)
class Case:
    r"""A part under test.

    Args:
        name: What failures call it.
        device: The device of its tensors.
        batch_dims: The maximum number of batch dimensions.
    """

    name: str = "the part"
    device: torch.device | str = "cpu"
    batch_dims: int = 2

    def random(self, *shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
        r"""Uniform numbers, the same in every dtype and on every device."""
        generator = torch.Generator().manual_seed(seed)
        return torch.rand(*shape, generator=generator, dtype=torch.float64).to(self.device, dtype)

    @property
    def values_of(self) -> dict[str, Any]:
        r"""The parameters of a law, by the names of its arguments."""
        batches = [each for each in BATCH_SHAPES if len(each) <= self.batch_dims]
        return {"dtype": DTYPES, "batch_shape": batches, "seed": SEEDS}


@dataclass(frozen=True)
class Law:
    r"""A statement about every part of one kind, and the check of it.

    Args:
        name: The name of the function that checks it.
        statement: Its docstring.
        function: Takes a case and the parameters it runs over: `dtype`, `batch_shape`, `seed`.
        applies: Whether the law says anything about a case.
    """

    name: str
    statement: str
    function: Callable[..., None]
    applies: Callable[[Any], bool]

    def check(self, case: Case) -> None:
        r"""Raises an AssertionError that says what was expected and found, and for which values."""
        names = [*inspect.signature(self.function).parameters][1:]
        for values in itertools.product(*(case.values_of[name] for name in names)):
            try:
                with warnings.catch_warnings():  # float32 is on purpose
                    warnings.simplefilter("ignore", InputDataWarning)
                    self.function(case, *values)
            except Exception as error:
                found = str(error).strip() or repr(error)
                if not isinstance(error, AssertionError):
                    found = f"Expected no error. Got {type(error).__name__}: {found}"
                at = ", ".join(map("{}={}".format, names, values))
                raise AssertionError(
                    f"{case.name} breaks `{self.name}`{f' at {at}' if at else ''}. "
                    f"{self.statement}\n{found}"
                ) from error


class Laws:
    r"""The laws of one kind of parts, in the order in which they were written.

    An instance decorates the functions that check them.
    """

    def __init__(self) -> None:
        self._laws: list[Law] = []

    def __iter__(self) -> Iterator[Law]:
        return iter(self._laws)

    def __call__(
        self, applies: Callable[[Any], bool] = lambda case: True
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        r"""Adds a law.

        Args:
            applies: Whether it says anything about a case.
        """

        def add(function: Callable[..., None]) -> Callable[..., None]:
            statement = " ".join((function.__doc__ or "").split())
            self._laws.append(Law(function.__name__, statement, function, applies))
            return function

        return add

    def check(self, case: Case, skip: Mapping[str, str] | None = None) -> Report:
        r"""Checks every law that applies.

        Args:
            case: The part.
            skip: Laws that are known to be broken, and why.

        Returns:
            The laws that hold, and those that were skipped.

        Raises:
            LawsBrokenError: If one does not hold.
            ValueError: If a law to skip is not found.
        """
        laws, skip = {law.name: law for law in self}, dict(skip or {})
        if unknown := skip.keys() - laws:
            raise ValueError(f"Laws not found: {sorted(unknown)}. There are {sorted(laws)}.")
        held, broken = [], {}
        for law in laws.values():
            if law.name in skip or not law.applies(case):
                continue
            try:
                law.check(case)
                held.append(law.name)
            except AssertionError as error:
                broken[law.name] = str(error)
        report = Report(tuple(held), broken, skip)
        if broken:
            raise LawsBrokenError(report)
        return report


@dataclass(frozen=True)
class Report:
    r"""Which laws a part obeys.

    Attributes:
        held: The laws that hold.
        broken: The expected and found values, by the name of the law.
        skipped: Why a law was not checked, by its name.
    """

    held: tuple[str, ...]
    broken: Mapping[str, str]
    skipped: Mapping[str, str]


class LawsBrokenError(AssertionError):
    r"""Says which laws a part breaks, each with what was expected and found.

    Attributes:
        report: The laws that hold as well.
    """

    def __init__(self, report: Report) -> None:
        total = len(report.held) + len(report.broken)
        head = f"Expected {total} laws to hold. Got {len(report.broken)} broken:"
        super().__init__("\n\n".join([head, *report.broken.values()]))
        self.report = report

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.report,)


def expect(holds: object, wanted: str, got: object) -> None:
    r"""Raises an AssertionError `Expected ... Got ...` unless a condition holds."""
    if not bool(holds):
        got = got.tolist() if isinstance(got, Tensor) else got
        raise AssertionError(f"Expected {wanted}. Got {got}.")


def expect_close(
    wanted: str, found: Tensor, expected: Tensor, tolerance: float | None = None
) -> None:
    r"""Raises unless two tensors agree, of the same shape, dtype and device.

    Args:
        wanted: The expectation about `found`, for the message.
        found: A tensor of any shape.
        expected: A tensor of any shape.
        tolerance: Relative and absolute tolerance; default: the usual values for the dtype.
    """
    try:
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    except AssertionError as error:
        if found.shape != expected.shape or found.dtype != expected.dtype:
            kinds = [f"shape {tuple(each.shape)}, {each.dtype}" for each in (found, expected)]
            raise AssertionError(f"Expected {wanted}: {kinds[1]}. Got {kinds[0]}.") from error
        found, expected = found.detach().flatten(), expected.detach().flatten()
        gaps = (found.double() - expected.double()).abs().cpu()
        worst = int(gaps.nan_to_num(nan=torch.inf).argmax())
        raise AssertionError(
            f"Expected {wanted}: {expected[worst].item():.6g}. Got {found[worst].item():.6g}, "
            f"the worst of {len(found)} values."
        ) from error


def expect_same(wanted: str, found: Tensor, expected: Tensor) -> None:
    r"""Raises unless two tensors are equal to the last bit."""
    expect_close(wanted, found, expected, tolerance=0.0)


def expect_kind(
    what: str, found: Tensor, shape: tuple[int, ...], dtype: torch.dtype, like: Tensor
) -> None:
    r"""Raises unless a tensor has this shape, this dtype and the device of another."""
    wanted = (tuple(shape), dtype, like.device)
    got = (tuple(found.shape), found.dtype, found.device)
    expect(got == wanted, f"{what} to have shape, dtype and device {wanted}", got)


def expect_gradient(
    function: Callable[[Tensor], Any], X: Tensor, step: float = 1e-6, tolerance: float | None = None
) -> None:
    r"""Raises unless the gradients of a function are its finite differences, in float64."""
    X = X.detach().requires_grad_()
    atol, rtol = (1e-5, 1e-3) if tolerance is None else (tolerance, tolerance)
    if not torch.autograd.gradcheck(
        function, X, eps=step, atol=atol, rtol=rtol, raise_exception=False
    ):
        raise AssertionError(_wrong_gradient(function, X, step))


def _wrong_gradient(function: Callable[[Tensor], Any], X: Tensor, step: float) -> str:
    r"""The entry of the gradient of the sum that is furthest off, for the message."""

    def total(X: Tensor) -> Tensor:
        values = function(X)
        return sum(each.sum() for each in (values if isinstance(values, tuple) else (values,)))

    (gradient,) = torch.autograd.grad(total(X), X, allow_unused=True)
    if gradient is None:
        return "Expected a gradient. Got values that do not depend on the points."
    steps = step * torch.eye(X.numel()).to(X).reshape(-1, *X.shape)
    with torch.no_grad():
        slopes = torch.stack([total(X + each) - total(X - each) for each in steps]) / (2 * step)
    gaps = (gradient.flatten() - slopes).abs().cpu()
    worst = int(gaps.nan_to_num(nan=torch.inf).argmax())
    got = gradient.flatten()[worst].item()
    return f"Expected the gradient {slopes[worst].item():.6g} of finite differences. Got {got:.6g}."


def expect_error(
    what: str, kind: type[Exception], pattern: str, call: Callable[[], object]
) -> None:
    r"""Raises unless a call raises an error of a kind, whose message matches a pattern."""
    try:
        call()
    except kind as error:
        expect(re.search(pattern, str(error)), f"an error `{pattern}` for {what}", repr(error))
    else:
        expect(False, f"{kind.__name__} for {what}", "no error")


def each_entry(batch_shape: tuple[int, ...], single: Callable[[tuple[int, ...]], Any]) -> Tensor:
    r"""A value for each entry of a batch, by a loop: `batch_shape x ...` in float64 on the CPU."""
    indices = itertools.product(*map(range, batch_shape))
    values = [torch.as_tensor(single(index)).detach().double().cpu() for index in indices]
    return torch.stack(values).reshape((*batch_shape, *values[0].shape))


def by_pickle(value: Any) -> Any:
    r"""A copy of a value, made by pickle as for another process."""
    return pickle.loads(pickle.dumps(value))


def numpy(*tensors: Tensor) -> Any:
    r"""Tensors as float64 arrays for an oracle, one by itself."""
    arrays = [each.detach().double().cpu().numpy() for each in tensors]
    return arrays[0] if len(arrays) == 1 else arrays
