r"""Seeded draws of several noisy outcomes at each point."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Generator, Tensor


def draw_outcomes(
    values: Tensor,
    noise_std: Sequence[float],
    num_repeats: int,
    generator: Generator | Sequence[Generator],
) -> Tensor:
    r"""Repeats of several outcomes with Gaussian noise of a known standard deviation each.

        outcome_i = values_i + noise_std_i * N(0, 1)

    Args:
        values: The outcomes without noise, `batch_shape x q x m`.
        noise_std: The standard deviation of each outcome, `m` numbers.
        num_repeats: The number of repeats, `k >= 1`.
        generator: One CPU generator, or one for each entry of the leading batch dimension; see
            `RepeatedTestProblem.sample_repeats`.

    Returns:
        `batch_shape x q x k x m`.

    Raises:
        BotorchTensorDimensionError: If the generators do not fit.
        ValueError: If `num_repeats` is less than 1.

    Example:
        >>> values = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> draw_outcomes(values, [0.0, 0.1], 5, torch.Generator()).shape
        torch.Size([2, 5, 2])
    """
    if num_repeats < 1:
        raise ValueError(f"Expected at least one repeat. Got {num_repeats=}.")
    shape = (*values.shape[:-1], num_repeats, values.shape[-1])
    if isinstance(generator, Generator):
        draws = torch.randn(shape, generator=generator, dtype=torch.double)
    elif values.dim() < 3 or len(generator) != len(values):
        raise BotorchTensorDimensionError(
            "Expected one generator for each entry of the leading batch dimension of "
            f"`R x q x d` points. Got {tuple(values.shape[:-1])} and {len(generator)} generators."
        )
    else:
        each = [torch.randn(shape[1:], generator=g, dtype=torch.double) for g in generator]
        draws = torch.stack(each)
    return values.unsqueeze(-2) + values.new_tensor(list(noise_std)) * draws.to(values)
