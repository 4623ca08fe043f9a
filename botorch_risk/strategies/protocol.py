r"""What a loop asks of a strategy, whether it drives one experiment or many replicates."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Strategy(Protocol):
    r"""A sequential method that proposes points and learns from what comes back.

    All `R` replicates advance together, one per seed; a single experiment is `R = 1`.
    A strategy draws nothing that is not a function of its seeds and its data, so that
    `load_state_dict(state_dict())` on a fresh strategy continues bit for bit.
    """

    @property
    def seeds(self) -> list[int]:
        r"""The seeds, one per replicate."""
        ...

    def ask(self) -> Tensor:
        r"""The next points to evaluate, an `R x q x d` tensor in the units of the bounds.

        Asking twice without telling in between gives the same points. The initial design
        comes first, as one batch of `q = num_initial` points.
        """
        ...

    def tell(self, X: Tensor, Y: Tensor) -> None:
        r"""Records outcomes.

        Args:
            X: The evaluated points, `R x q x d`.
            Y: Their repeats, `R x q x k`. NaN marks a missing repeat.
        """
        ...

    def recommend(self) -> Tensor:
        r"""The point of each replicate to hand over if the experiment ended now, `R x d`."""
        ...

    def state_dict(self) -> dict[str, Any]:
        r"""All that is needed to continue, as tensors and plain Python values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        r"""Continues from `state_dict()` of a strategy that was built with the same arguments."""
        ...
