r"""Datasets of Ax with what was observed beside an outcome."""

from __future__ import annotations

from typing import Any

import torch
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor


class ObservedDataset(SupervisedDataset):
    r"""Outcomes of arms, with the number of readings behind each or the contexts that they met.

    Args:
        X: `n x d`, the arms.
        Y: `n x 1` means.
        counts: `n x 1` numbers of readings; no arm is there twice then.
        contexts: `n x d_w`, what each arm met.
        every_context: `t x d_w`, all contexts so far, also where the evaluation failed.
        options: `Yvar`, squared standard errors of the means, NaN where there is a single reading;
            `feature_names`, `outcome_names` and the like of BoTorch's dataset.

    Example:
        >>> names = {"feature_names": ["x"], "outcome_names": ["y"]}
        >>> column = torch.ones(2, 1)
        >>> data = ObservedDataset(column, column, counts=3 * column, Yvar=column, **names)
        >>> data.clone(mask=torch.tensor([True, False])).counts
        tensor([[3.]])
    """

    def __init__(
        self,
        X: Any,
        Y: Any,
        *,
        counts: Tensor | None = None,
        contexts: Tensor | None = None,
        every_context: Tensor | None = None,
        **options: Any,
    ) -> None:
        super().__init__(X, Y, **options)
        self.counts, self.contexts, self.every_context = counts, contexts, every_context

    def __eq__(self, other: Any) -> bool:
        return super().__eq__(other) and all(
            _equal(getattr(self, name), getattr(other, name))
            for name in ("counts", "contexts", "every_context")
        )

    __hash__ = None  # type: ignore[assignment]  # as the base class

    def clone(self, deepcopy: bool = False, mask: Tensor | None = None) -> ObservedDataset:
        r"""A copy, perhaps of some rows; of the distribution of contexts all stays known."""

        def part(values: Tensor | None, rows: Tensor | None) -> Tensor | None:
            if values is None:
                return None
            values = values if rows is None else values[..., rows, :]
            return values.clone() if deepcopy else values

        return type(self)(
            part(self.X, mask),
            part(self.Y, mask),
            Yvar=part(self.Yvar, mask),
            counts=part(self.counts, mask),
            contexts=part(self.contexts, mask),
            every_context=part(self.every_context, None),
            feature_names=self.feature_names,
            outcome_names=self.outcome_names,
        )


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other is None or (
        one is not None and other is not None and torch.equal(one, other)
    )
