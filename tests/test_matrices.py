r"""Sums at positions, on every device; distances and inverses are tested where they are used."""

import pytest
import torch

from botorch_risk.matrices import safe_root, sums_at
from tests.devices import home

pytestmark = pytest.mark.every_device


@pytest.mark.parametrize("batch_shape", [(), (3,), (2, 3)])
def test_sums_are_those_of_a_loop_and_always_the_same(batch_shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(*batch_shape, 200, dtype=torch.double, generator=generator).to(home())
    index = torch.randint(5, values.shape, generator=generator).to(home())
    found = sums_at(index, values, 6)
    expected = torch.stack([(values * (index == i)).sum(dim=-1) for i in range(6)], dim=-1)
    torch.testing.assert_close(found, expected)
    assert all(torch.equal(sums_at(index, values, 6), found) for _ in range(10))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_only_weak_entries_get_a_jitter(dtype: torch.dtype) -> None:
    good = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=dtype)
    covariance = torch.stack([good, torch.ones(2, 2, dtype=dtype)])
    root = safe_root(covariance, torch.ones((), dtype=dtype))
    assert torch.equal(root[0], torch.linalg.cholesky(good))
    assert (root @ root.mT - covariance).abs().max() < 1e-3
    assert torch.equal(safe_root(good, torch.ones((), dtype=dtype)), root[0])
