r"""Seeded draws of several noisy outcomes at each point."""

from collections.abc import Sequence

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Generator, Tensor

from botorch_risk.arguments import check_counts


def draw_outcomes(
    values: Tensor,
    noise_std: Sequence[float],
    num_repeats: int,
    generator: Generator | Sequence[Generator],
) -> Tensor:
    r"""Repeats of several outcomes with Gaussian noise of a known standard deviation each.

        outcome_i = values_i + noise_std_i * N(0, 1)

    `batch_shape x q x k x m`, of `batch_shape x q x m` values and `m` standard deviations. The
    other arguments, and the errors, are those of `RepeatedTestProblem.sample_repeats`.
    """
    check_counts(num_repeats=num_repeats)
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
