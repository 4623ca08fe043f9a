r"""The first rows of sequences, none of which comes again while another is left."""

from collections.abc import Callable

import torch
from torch import Tensor

from botorch_risk.points import come_again


def distinct_first(draw: Callable[[int], Tensor], num_points: int, num_settings: int) -> Tensor:
    r"""The first rows of each sequence, `R x num_points x d`: each once before one comes again.

    Args:
        draw: Returns as many first rows of each sequence, `R x count x d`, in which every setting
            comes sooner or later.
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
