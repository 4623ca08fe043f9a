r"""Functions that are asked for the same points again and again."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


class RememberedFunction:
    r"""A deterministic function that is evaluated once at each point.

    A recommendation is most often a point that was queried before, and stays the same for many
    rounds.

    Args:
        function: From points `n x d` to values `n`.

    Example:
        >>> import torch
        >>> squared_norm = RememberedFunction(lambda X: X.square().sum(dim=-1))
        >>> squared_norm(torch.tensor([[[1.0, 2.0]], [[1.0, 2.0]]]))
        tensor([[5.],
                [5.]])
    """

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        r"""Takes the function."""
        self.function = function
        self._values: dict[tuple[float, ...], float] = {}

    def __call__(self, X: Tensor) -> Tensor:
        r"""Values of shape `...` at points `... x d`."""
        rows = [tuple(row) for row in X.reshape(-1, X.shape[-1]).tolist()]
        new = [row for row in dict.fromkeys(rows) if row not in self._values]
        if new:
            self._values.update(zip(new, self.function(X.new_tensor(new)).tolist(), strict=True))
        return X.new_tensor([self._values[row] for row in rows]).view(X.shape[:-1])
