r"""The outcomes of decisions at all values of the environment, a few decisions at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.chunks import ChunkSize, evaluate_in_chunks
from botorch_risk.engine import Belief
from botorch_risk.environments import Environment
from botorch_risk.points import TBatch, as_points, check_made_inputs, input_widths, joint_shape
from botorch_risk.steady import moved

# Bounds and weights of each decision to the one that counts and its index.
Pick = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
# Values of the environment, all candidates counted, whose marginals are held at once.
_CHUNK_VALUES = ChunkSize(cpu=2**18, gpu=2**24)


@dataclass(frozen=True)
class OutcomesOverW:
    r"""Maps decisions to the moments of the outcome over the environment, and its weights.

    Attributes:
        belief: Of a model with one output.
        environment: The distribution of w, or of a perturbation of the decision.
        pairs: The moments at all (x, w_j), if every decision meets the same w_j.
    """

    belief: Belief
    environment: Environment
    pairs: Any

    @classmethod
    def of(cls, belief: Belief, environment: Environment) -> OutcomesOverW:
        points: Any = environment.points if environment.independent else None
        return cls(belief, environment, None if points is None else belief.pairs(points))

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Mean and variance, `batch_shape x m x n_w` each, and the weights, of `... x m x d_x`."""
        if self.pairs is not None:
            return (*self.pairs(X), self._weights(X))
        inputs, weights = self.environment.expand(X)  # batch_shape x m x n_w x d
        moments = self.belief(inputs.flatten(-3, -2))
        mean, variance = (moment.unflatten(-1, inputs.shape[-3:-1]) for moment in moments)
        return mean, variance, weights

    def mean(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The mean alone, and the weights."""
        if self.pairs is not None:
            return self.pairs.mean(X), self._weights(X)
        inputs, weights = self.environment.expand(X)
        mean = self.belief.mean(inputs.flatten(-3, -2))
        return mean.unflatten(-1, inputs.shape[-3:-1]), weights

    def picked(self, X: Tensor, width: Tensor, pick: Pick) -> Tensor:
        r"""The bound `mean + width * deviation` that `pick` chooses for each decision.

        `batch_shape x m`. Only the chosen value gets a gradient: whole decisions of V-UCB take 1.2
        to 1.3 times as long without (R = 1 and 32, n_w = 16 to 512, on one thread).
        """
        if self.pairs is not None:
            return self.pairs.picked(X, width, lambda values: pick(values, self._weights(X)))
        inputs, weights = self.environment.expand(X)
        return self.belief.picked(inputs, width, lambda values: pick(values, weights))

    def joint(self) -> Any:
        r"""Joint moments of the outcomes at all values of W."""
        return self.belief.joint()

    def in_chunks(
        self,
        X: Tensor,
        of_chunk: Callable[[Tensor], Tensor],
        entries_of: Callable[[int], int] = lambda n_w: n_w,
    ) -> Tensor:
        r"""Evaluate decisions `... x m x d_x` in chunks to bound memory, `... x m`.

        Args:
            X: The decisions, where `...` broadcasts with the batch shapes of model and environment.
            of_chunk: Maps `batch_shape x m x d_x` decisions to `batch_shape x m` values.
            entries_of: The number of entries per decision with `n_w` values of W.
        """
        X = as_points(X, self.belief.model)
        of_environment, n_w = self.sizes(X)
        t_batch = TBatch.of(X, joint_shape(self.belief.batch_shape, of_environment))
        entries = _CHUNK_VALUES.entries(X.device)
        size = entries // (entries_of(n_w) * t_batch.shape[t_batch.dims :].numel())
        X = t_batch.fold(X)
        if X.shape[-2] > size:
            return t_batch.unfold(evaluate_in_chunks(of_chunk, X, max(1, size)))
        return t_batch.unfold(of_chunk(X))

    def sizes(self, X: Tensor) -> tuple[torch.Size, int]:
        r"""The batch shape of the environment, and the number of values of W.

        Raises:
            BotorchTensorDimensionError: Unless `X` are decisions that make inputs of the model.
        """
        if X.dim() < 2 or X.shape[-1] == 0:
            raise BotorchTensorDimensionError(
                "Expected decisions `batch_shape x m x d_x` with at least one column. "
                f"Got {X.shape=}."
            )
        if self.environment.independent:  # of any decision, so that none has to be expanded
            points: Any = self.environment.points
            check_made_inputs(self._widths, X.shape[-1] + points.shape[-1])
            return points.shape[:-2], points.shape[-2]
        inputs, _ = self.environment.expand(X.detach().reshape(-1, X.shape[-1])[:1])
        check_made_inputs(self._widths, inputs.shape[-1])
        return inputs.shape[:-3], inputs.shape[-2]

    @cached_property
    def _widths(self) -> tuple[int, ...] | None:
        return input_widths(self.belief.model)

    def _weights(self, X: Tensor) -> Tensor:
        weights: Any = self.environment.weights
        return moved(weights, X).unsqueeze(-2)
