r"""Finitely many values of W with known probabilities."""

from __future__ import annotations

from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor
from botorch_risk.environments.environment import (
    IndependentEnvironment,
    check_values,
    choose,
)

SUM_TOLERANCE = 1e-5  # of probabilities, which may come in float32; they are divided by their sum


class DiscreteEnvironment(IndependentEnvironment):
    r"""W takes the value `points[j]` with probability `probabilities[j]`.

    Example:
        >>> import torch
        >>> w = torch.tensor([[0.0], [0.5], [1.0]])
        >>> environment = DiscreteEnvironment(w, torch.tensor([0.5, 0.3, 0.2]))
        >>> inputs, weights = environment.expand(torch.rand(4, 2))
        >>> inputs.shape, weights.shape
        (torch.Size([4, 3, 3]), torch.Size([1, 3]))
    """

    def __init__(self, points: Tensor, probabilities: Tensor | None = None) -> None:
        r"""Builds the distribution.

        Args:
            points: Values of W, `batch_shape x n_w x d_w`; integers count as float64, here and in
                every distribution.
            probabilities: `batch_shape x n_w`, or `n_w` for all of the batch. Default: equal. A
                point of probability 0 marks where a ball may put mass.

        Raises:
            BotorchTensorDimensionError: If the shapes do not match or are empty.
            InputDataError: If a value is not finite.
            ValueError: If a probability is negative, or they do not sum to 1.
        """
        points = as_floating(points, "points")
        check_values("points", points)
        super().__init__(points, checked_probabilities(probabilities, points))

    @property
    def _num_uniforms(self) -> int:
        return 1

    def _from_uniforms(self, uniforms: Tensor) -> Tensor:
        return choose(self.points, self.weights, uniforms)


def checked_probabilities(probabilities: Tensor | None, points: Tensor) -> Tensor:
    r"""Probabilities of `points`, equal if None, that sum to 1 as closely as the dtype allows."""
    shape = points.shape[:-1]
    probabilities = as_tensor("probabilities", probabilities)
    if probabilities is None:
        return points.new_full(shape, 1 / shape[-1])
    if probabilities.shape not in (shape, shape[-1:]):
        raise BotorchTensorDimensionError(
            f"Expected `probabilities` to have shape `batch_shape x n_w`, here {tuple(shape)}. "
            f"Got {tuple(probabilities.shape)}."
        )
    probabilities = probabilities.detach()
    total = probabilities.double().sum(dim=-1, keepdim=True)
    if not ((probabilities >= 0).all() and ((total - 1).abs() <= SUM_TOLERANCE).all()):
        raise ValueError(
            "Expected probabilities of at least 0 that sum to 1. "
            f"Got a smallest of {probabilities.min().item()} and sums {total.squeeze(-1).tolist()}."
        )
    return (probabilities.double() / total).to(points).expand(shape)
