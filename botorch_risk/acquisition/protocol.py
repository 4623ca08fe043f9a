r"""What a batched optimiser asks of an acquisition function."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class PointwiseAcquisition(Protocol):
    r"""An acquisition function that values many points that do not interact at once.

    Ordinary acquisition functions value `m` points as `m x batch_shape x 1 x d`, which repeats the
    model's training data `m` times. This is the shape in which it is not repeated.

    Example:
        >>> class Height:
        ...     def evaluate(self, X):
        ...         return X.sum(dim=-1)
        >>> isinstance(Height(), PointwiseAcquisition)
        True
    """

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The value of each point by itself.

        Args:
            X: Points, `batch_shape x m x d`, where `batch_shape` is that of the model.

        Returns:
            Values, `batch_shape x m`.
        """
        ...
