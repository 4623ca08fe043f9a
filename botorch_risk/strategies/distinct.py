r"""The first rows of sequences, none of which comes again while another is left."""

from collections.abc import Callable

import torch
from torch import Tensor


def distinct_first(draw: Callable[[int], Tensor], num_points: int, num_settings: int) -> Tensor:
    r"""The first rows of each sequence, `R x num_points x d`: each once before one comes again.

    Args:
        draw: Returns as many first rows of each sequence, `R x count x d`, in which every setting
            comes sooner or later.
        num_points: The number of rows.
        num_settings: The number of different rows.
    """
    count, wanted = num_points, min(num_points, num_settings)
    while True:
        X = draw(count)
        again = _come_again(X)
        if count - int(again.sum(dim=-1).max()) >= wanted:
            break
        count *= 2
    first = again.to(torch.uint8).argsort(dim=-1, stable=True)[:, :num_points]
    return X.gather(-2, first.unsqueeze(-1).expand(*first.shape, X.shape[-1]))


def _come_again(X: Tensor) -> Tensor:
    r"""Which rows of `R x n x d` equal an earlier one of their sequence, `R x n`."""
    codes = X.flatten(0, 1).unique(dim=0, return_inverse=True)[1].reshape(X.shape[:-1])
    ordered, order = codes.sort(dim=-1, stable=True)
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.zeros_like(again).scatter(-1, order, again)
