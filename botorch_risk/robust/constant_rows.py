r"""Find points that are the same for a whole t-batch and that no gradient flows to."""

from typing import Any

import torch
from torch import Tensor


def constant_rows(X: Tensor) -> int:
    r"""How many leading points of every entry of a t-batch are constants that all entries share.

    BoTorch's noisy acquisition functions put the evaluated points in front of the candidates.
    What depends on these points alone need not be computed again for each entry and each step.
    The number is below `q`: of a single entry without gradient, all points but the last.
    """
    most = X.shape[-2] - 1
    if X.requires_grad:
        most = min(most, rows_without_gradient(X))
    if most < 1 or 0 in X.shape:
        return 0
    rows = X.detach()[..., :most, :].reshape(-1, most, X.shape[-1])
    shared = (rows == rows[:1]).all(dim=-1).all(dim=0)
    return int(shared.long().cumprod(dim=0).sum())


def rows_without_gradient(X: Tensor) -> int:
    r"""How many leading points a concatenation took from a tensor without gradient.

    The node that made the tensor shows it: its first input has no gradient, and its backward pass
    says how wide that input is. For any other tensor with a gradient the answer is 0.
    """
    node: Any = X.grad_fn
    if node is None or node.name() != "CatBackward0" or node.next_functions[0][0] is not None:
        return 0
    with torch.no_grad():
        first = node(X.detach())[0]
    if first is None or first.shape != (*X.shape[:-2], first.shape[-2], X.shape[-1]):
        return 0
    return int(first.shape[-2])
