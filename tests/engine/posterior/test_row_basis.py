r"""The rows that span a matrix, by singular vectors and by pivoting."""

import pytest
import torch
from torch import Tensor

from botorch_risk.engine.posterior.row_basis import row_basis

pytestmark = pytest.mark.every_device


def kernel(batch: tuple[int, ...], n_w: int, n: int, scale: float, device: torch.device) -> Tensor:
    points = torch.rand(*batch, n_w + n, 1, dtype=torch.double)
    values = torch.exp(
        -0.5 * (torch.cdist(points[..., :n_w, :], points[..., n_w:, :]) / scale) ** 2
    )
    return values.to(device)


@pytest.mark.parametrize("num_chunks", [1, 3])
@pytest.mark.parametrize(("n_w", "n"), [(64, 12), (64, 40), (9, 30), (1, 3)])
def test_the_rows_are_orthonormal_and_span_the_matrix(
    n_w: int, n: int, num_chunks: int, device: torch.device
) -> None:
    K = kernel((5,), n_w, n, 0.4, device)
    basis = row_basis(iter(K.chunk(num_chunks, dim=-2)))
    exact = torch.linalg.svdvals(K.cpu())
    least = int((exact > 1e-12 * exact[:, :1]).sum(dim=-1).max())
    most = int((exact > 1e-15 * exact[:, :1]).sum(dim=-1).max())
    assert least <= basis.shape[-2] <= most
    gram = (basis @ basis.mT).cpu()
    lengths = gram.diagonal(dim1=-2, dim2=-1)
    assert ((lengths - 1).abs().minimum(lengths) < 1e-12).all()  # some replicates have fewer
    torch.testing.assert_close(gram, torch.diag_embed(lengths.round()), rtol=0, atol=1e-12)
    torch.testing.assert_close((K @ basis.mT) @ basis, K, rtol=0, atol=1e-11)


def test_ranks_differ_within_a_batch(device: torch.device) -> None:
    flat, sharp = (kernel((1,), 64, 20, scale, device) for scale in (5.0, 0.05))
    basis = row_basis(iter([torch.cat([flat, sharp])]))
    assert basis.shape[-2] == 20
    alone = row_basis(iter([flat]))
    assert alone.shape[-2] < 10
    torch.testing.assert_close((flat[0] @ basis[0].mT) @ basis[0], flat[0], rtol=0, atol=1e-11)
