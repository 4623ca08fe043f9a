r"""Distances, inverses, pivots and sums, computed in the best way for each device.

If a covariance of outcomes at given points has no Cholesky factor, `safe_root` adds `jitter_of` the
prior variance to the diagonal of that entry of the batch, 1e-8 in float64 and 1e-5 in float32; then
linear_operator's `psd_safe_cholesky` adds 1e-8, 1e-7 and at last 1e-6. The covariance of training
data, which contains their noise, goes to `psd_safe_cholesky` directly, as in GPyTorch. In a fit,
hyperparameters without a factor have no finite likelihood: the line search turns back.
"""

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor


def squared_differences(first: Tensor, second: Tensor) -> Tensor:
    r"""Squared distances of points, `batch_shape x m x n`, exact even for close points.

    A single matrix product, as in `squared_distance`, would have an error of 1e-16, which a square
    root turns into 1e-8: too much for a Matern kernel.
    """
    if first.device.type == "cpu":
        if first.shape[:-2] != second.shape[:-2]:
            shape = torch.broadcast_shapes(first.shape[:-2], second.shape[:-2])
            first, second = (value.expand(*shape, *value.shape[-2:]) for value in (first, second))
        return torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist").square_()
    # On a GPU `cdist` uses a block of threads for each pair: at n = 1,000 it takes three times as
    # long as the factorisation.
    columns = zip(first.unbind(-1), second.unbind(-1), strict=True)
    differences = (one.unsqueeze(-1) - other.unsqueeze(-2) for one, other in columns)
    total = next(differences).square_()
    for difference in differences:
        total.addcmul_(difference, difference)
    return total


def inverse_of_factored(factor: Tensor) -> Tensor:
    r"""`(L L')^-1` of lower triangular `L`, `batch_shape x n x n`."""
    if factor.device.type == "cpu":
        return torch.cholesky_inverse(factor)
    # On a GPU a batch would go to a library that waits for the device, or one matrix at a time.
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    root = torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=False)
    return root.mT @ root


def sums_at(index: Tensor, values: Tensor, size: int) -> Tensor:
    r"""Sums of `values: ... x m` at the positions `index: ... x m`, `... x size`.

    The order of addition is fixed, which `scatter_add` and `index_add` do not promise on a GPU.
    """
    total = values.new_zeros(*values.shape[:-1], size)
    if values.device.type == "cpu":
        return total.scatter_add(-1, index, values)
    rows = torch.arange(values.shape[:-1].numel(), device=index.device).unsqueeze(-1)
    position = torch.add(index.reshape(len(rows), -1), rows, alpha=size).flatten()
    return total.flatten().index_put((position,), values.flatten(), accumulate=True).view_as(total)


def jitter_of(like: Tensor) -> float:
    r"""The relative variance below which other points determine a point, up to rounding."""
    return 1e-8 if like.dtype == torch.float64 else 1e-5


def safe_root(covariance: Tensor, scale: Tensor) -> Tensor:
    r"""Cholesky factors `batch_shape x Q x Q`; with a jitter only for entries that need it.

    The jitter is relative to `scale`, the prior variance. The factor is meant for samples: it has
    no small pivot, but a small singular value may amplify rounding errors in a solve.
    """
    jitter = jitter_of(covariance) * scale
    factor, info = torch.linalg.cholesky_ex(covariance)
    smallest = factor.detach().diagonal(dim1=-2, dim2=-1).square().amin(dim=-1)
    weak = (info > 0) | ~(smallest >= jitter)
    is_on_host = covariance.device.type == "cpu"
    if is_on_host and not weak.any():
        return factor
    identity = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    raised = covariance + (weak * jitter)[..., None, None] * identity
    if not is_on_host:  # a second factor takes less time there than a second look
        root, info = torch.linalg.cholesky_ex(raised)
        if not info.any():
            return root
    safe: Tensor = psd_safe_cholesky(raised)
    return safe


def variances_in_sequence(covariance: Tensor, noise: Tensor) -> Tensor:
    r"""The variance of each point given those before it, `batch_shape x q`.

    The covariance of the points is `batch_shape x q x q`, the noise `batch_shape x q`, > 0.
    """
    noise = noise.expand(covariance.shape[:-1])
    # The squared pivot of a point is its variance given those before it, with its own noise.
    factor = psd_safe_cholesky(covariance + torch.diag_embed(noise))
    pivots = factor.diagonal(dim1=-2, dim2=-1).square()
    # Rounding may leave a pivot below the noise, and a root of a negative number is NaN.
    return (pivots - noise).clamp_min(torch.finfo(noise.dtype).tiny)


def padded_index(mask: Tensor) -> tuple[Tensor, Tensor]:
    r"""The true entries of a `B x n` mask in order, `B x a`, and which of them are not padding."""
    if len(mask) == 1:
        order = mask.nonzero()[:, 1:].mT
        return order, torch.ones_like(order, dtype=torch.bool)
    count = mask.sum(dim=-1, keepdim=True)
    size = int(count.max())
    # A stable sort of what is false puts the true entries in front in their order, for all
    # replicates at once; `nonzero` would return lists of different lengths.
    order = torch.argsort((~mask).to(torch.uint8), dim=-1, stable=True)[:, :size]
    valid = torch.arange(size, device=mask.device) < count
    return order, valid
