r"""The first rows of sequences, without repeating a setting while a new one is left."""

from collections.abc import Callable

import torch
from torch import Tensor

from botorch_risk.points import come_again


def distinct_first(draw: Callable[[int], Tensor], num_points: int, num_settings: int) -> Tensor:
    r"""The first rows of each sequence, `R x num_points x d`, none repeated until all have come.

    Args:
        draw: Returns the given number of first rows of each sequence, `R x count x d`; every
            setting occurs sooner or later.
    """
    count, wanted = num_points, min(num_points, num_settings)
    while True:
        X = draw(count)
        again = come_again(X)
        if count - int(again.sum(dim=-1).max()) >= wanted:
            break
        count *= 2
    first = again.to(torch.uint8).argsort(dim=-1, stable=True)[:, :num_points]
    return X.gather(-2, first.unsqueeze(-1).expand(*first.shape, X.shape[-1]))
