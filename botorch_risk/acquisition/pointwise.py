r"""Acquisition functions of one point at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import UnsupportedError
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor


class PointwiseAcquisitionFunction(AcquisitionFunction, ABC):
    r"""An acquisition function that scores points independently of each other.

    A subclass defines `evaluate`; `forward`, what BoTorch's optimisers call, is its face for
    q = 1. A batch of q points is built with `optimize_acqf(..., sequential=True)`, where
    each point sees its predecessors through `X_pending`.
    """

    _q_twin: ClassVar[str | None] = None

    @abstractmethod
    def evaluate(self, X: Tensor) -> Tensor:
        r"""Values at points that do not interact.

        Args:
            X: `batch_shape x m x d` points, where `batch_shape` broadcasts with that of the
                model.

        Returns:
            `batch_shape x m` values.
        """

    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""Values of single candidates.

        Args:
            X: `batch_shape x 1 x d` candidates.

        Returns:
            `batch_shape` values.

        Raises:
            UnsupportedError: If q is not 1.
        """
        if X.shape[-2] != 1:
            twin = f", or use {self._q_twin} for a joint batch" if self._q_twin else ""
            raise UnsupportedError(
                f"Expected q = 1 in {type(self).__name__}. Got {X.shape[-2]} points; pass "
                f"`sequential=True` to `optimize_acqf`{twin}."
            )
        return self.evaluate(X).squeeze(-1)
