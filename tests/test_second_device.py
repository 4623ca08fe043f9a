r"""The second device of the tests: it refuses what CUDA refuses, and counts what a GPU would do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.devices import DEVICES, at, available_devices, home, mark_most_of_the_second_device_slow
from tests.second_device import SIM, Count, SimTensor, counted, only_without_gpu

pytestmark = only_without_gpu


def there(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double, device=SIM)


def count_of(program: Callable[[], object]) -> Count:
    with counted() as count:
        program()
    return count


@pytest.mark.parametrize(
    "mix",
    [
        lambda here, there: there + here,
        lambda here, there: here + there,
        lambda here, there: here + there.sum(),
        lambda here, there: torch.cat([there, here]),
        lambda here, there: torch.stack([there.sum(), here.sum()]),
        lambda here, there: there @ here,
        lambda here, there: here[there.long()],
        lambda here, there: there.index_put_((there.long(),), here),
        lambda here, there: there.where(there > 0, here),
        lambda here, there: there.gather(0, here.long()),
        lambda here, there: torch.rand(2, device=SIM, generator=torch.Generator()),
        lambda here, there: np.asarray(there),
        lambda here, there: there.numpy(),
    ],
)
def test_mixing_devices_is_refused_as_by_cuda(mix: Callable[[Tensor, Tensor], object]) -> None:
    with pytest.raises((RuntimeError, TypeError), match=r"same device|'sim' device|to numpy"):
        mix(torch.tensor([1.0, 0.0], dtype=torch.double), there(0.0, 1.0))


@pytest.mark.parametrize(
    ("take", "expected"),
    [
        (lambda x: x + torch.tensor(2.0), [2.0, 3.0, 4.0]),
        (lambda x: torch.where(x > 0, x, torch.tensor(-1.0)), [-1.0, 1.0, 2.0]),
        (lambda x: x[torch.tensor([2, 0])], [2.0, 0.0]),
        (lambda x: x[[2, 0]], [2.0, 0.0]),
        (lambda x: x[torch.tensor([True, False, True])], [0.0, 2.0]),
        (lambda x: x.masked_fill(x > 1, torch.tensor(9.0)), [0.0, 1.0, 9.0]),
        (lambda x: x.new_tensor([3.0]), [3.0]),
        (lambda x: torch.as_tensor(np.arange(2.0), device=SIM), [0.0, 1.0]),
        (lambda x: torch.tensor(list(x), device=SIM), [0.0, 1.0, 2.0]),
    ],
)
def test_what_cuda_takes_of_the_host_is_taken(
    take: Callable[[Tensor], Tensor], expected: list[float]
) -> None:
    taken = take(there(0.0, 1.0, 2.0))
    assert taken.device == SIM and taken.tolist() == expected


def test_forked_draws_leave_no_trace_there_nor_on_the_cpu() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with torch.random.fork_rng():
        torch.rand(5), torch.rand(5, device=SIM)
    assert torch.equal(torch.rand(2), expected)


def test_control_flow_and_gradients_are_real() -> None:
    x = there(1.0, -2.0, 3.0).requires_grad_()
    (gradient,) = torch.autograd.grad(x.square().sum() if (x > 0).any() else x.sum(), x)
    assert gradient.device == SIM and gradient.tolist() == [2.0, -4.0, 6.0]


def test_views_share_their_numbers_and_changes_in_place_are_seen() -> None:
    x = torch.zeros(2, 2, dtype=torch.double, device=SIM)
    x[0] += 1
    x.diagonal().add_(2.0)
    x[x == 2] = 5.0
    assert x.tolist() == [[3.0, 1.0], [0.0, 5.0]]
    assert torch.eye(2, 3, device=SIM).shape == (2, 3)  # filled by an operation that resizes


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_modules_move_there_and_are_copied_with_their_parameters(
    copied: Callable[[torch.nn.Module], torch.nn.Module],
) -> None:
    module = copied(torch.nn.Linear(2, 1).double().to(SIM))
    assert isinstance(module.weight, torch.nn.Parameter)
    assert isinstance(module.weight, SimTensor)
    module(there(1.0, 2.0)).backward()
    assert module.weight.grad.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("program", "launches", "waits"),
    [
        (lambda x: x + x, 1, {}),
        (lambda x: x.unsqueeze(-1).expand(3, 3).mT, 0, {}),
        (lambda x: (x + x).sum().item(), 2, {"item": 1}),
        (lambda x: x.cpu(), 0, {"download": 1}),
        (lambda x: x.add_(torch.ones(3).to(x)), 1, {"upload": 1}),
        (lambda x: x.add_(torch.ones(3).double().to(SIM, non_blocking=True)), 2, {}),
        (lambda x: x.tolist(), 0, {"download": 1}),
        (lambda x: bool(x.any()), 1, {"item": 1}),
        (lambda x: x[x > 0], 2, {"mask": 1}),
        (lambda x: x.nonzero(), 4, {"nonzero": 1}),
        (lambda x: torch.equal(x, x), 3, {"equal": 1}),
        (lambda x: torch.linalg.cholesky_ex(x.diag_embed()), 5, {}),
    ],
)
def test_launches_and_synchronisations_are_counted(
    program: Callable[[Tensor], object], launches: int, waits: dict[str, int]
) -> None:
    x = there(1.0, 2.0, 3.0)
    count = count_of(lambda: program(x))
    assert (count.launches, dict(count.synchronisations)) == (launches, waits)
    kinds = [kind for kind, _ in count.sites.elements()]
    assert sorted(kinds) == sorted(count.synchronisations.elements())


@pytest.mark.parametrize(
    "add", [lambda x, i, y: x.scatter_add(-1, i, y), lambda x, i, y: x.index_add(-1, i, y)]
)
def test_sums_whose_order_cuda_leaves_open_differ_from_call_to_call(
    add: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> None:
    values = torch.rand(1_000, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    zero, index = there(0.0), torch.zeros(1_000, dtype=torch.long, device=SIM)
    sums = [add(zero, index, values.to(SIM)).item() for _ in range(10)]
    assert len({*sums}) > 1 and max(sums) - min(sums) < 1e-9


def test_bytes_of_transfers_are_counted_and_where_the_host_waits() -> None:
    x = there(1.0, 2.0, 3.0)
    count = count_of(lambda: x.add_(torch.ones(3, dtype=torch.double).to(SIM)).float().cpu())
    assert (count.bytes_to_device, count.bytes_to_host) == (3 * 8, 3 * 4)
    assert all("test_second_device.py" in site for _, site in count.sites)
    assert count_of(lambda: None) == Count()


def test_every_device_that_is_there_is_tested_and_a_gpu_under_its_mark() -> None:
    assert DEVICES == available_devices(gpu=False) == [torch.device("cpu"), SIM]
    cpu, gpu = available_devices(gpu=True)
    assert (cpu, gpu.values) == (torch.device("cpu"), (torch.device("cuda:0"),))
    assert [mark.name for mark in gpu.marks] == ["gpu"]


def test_home_is_the_device_of_the_block() -> None:
    assert home() == torch.device("cpu")
    with at(SIM):
        assert home() == SIM
    assert home() == torch.device("cpu")


def test_a_test_that_asks_runs_there(device: torch.device) -> None:
    assert home() == device


@pytest.mark.every_device
def test_a_test_that_is_marked_runs_there() -> None:
    assert home() in (torch.device("cpu"), SIM, torch.device("cuda:0"))


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("*/test_*contract.py")), ids=str)
def test_contracts_run_on_every_device(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("every_device") == 1


def test_thinning_leaves_every_case_and_every_test_once() -> None:
    @dataclass
    class SomeCase:
        name: str

    @dataclass
    class Item:
        nodeid: str
        case: SomeCase
        device: torch.device = SIM
        marks: list[str] = field(default_factory=list)

        @property
        def callspec(self) -> SimpleNamespace:
            return SimpleNamespace(params={"case": self.case, "device": self.device})

        def get_closest_marker(self, name: str) -> str | None:
            return name if name in self.marks else None

        def add_marker(self, mark: pytest.MarkDecorator) -> None:
            self.marks.append(mark.name)

    cases = [SomeCase("a"), SomeCase("b"), SomeCase("c")]
    items = [Item(f"{test}[{case.name}]", case) for test in "xy" for case in cases]
    elsewhere = Item("y[a]", cases[0], torch.device("cpu"))
    mark_most_of_the_second_device_slow([*items, elsewhere])  # type: ignore[list-item]
    kept = [each.nodeid for each in items if not each.marks]
    assert sorted(name[2] for name in kept) == ["a", "b", "c"]
    assert not elsewhere.marks
