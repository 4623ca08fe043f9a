r"""Readings absurdly far from all others, such as -9999 for a failure."""

import warnings
from collections.abc import Sequence

import torch
from botorch.exceptions.errors import InputDataError
from botorch.exceptions.warnings import InputDataWarning
from torch import Tensor

# Multiples of the distance from the median within which two thirds of the readings are. Percents
# that spread evenly are 300 times nearer than -9999; of 100 readings whose logarithm has a standard
# deviation of 2, the largest is typically 100 times as far.
FAR = 200.0
# The others then differ by less than the least noise of a model.
HOPELESS = 1e8
# Fewer readings have no scale.
_FEWEST = 5


def ratios_to_others(readings: Tensor) -> Tensor:
    r"""How far readings are from the median, in units of the distance that two thirds stay within.

    Readings are `batch_shape x n x k`, NaN for a missing one. The ratio of a missing reading is 0;
    all are 0 if there are fewer than five readings, or if two thirds equal the median.
    """
    values = readings.flatten(-2)
    if values.shape[-1] < _FEWEST:
        return torch.zeros_like(readings)
    count = values.isfinite().sum(dim=-1, keepdim=True)
    away = (values - values.nanmedian(dim=-1, keepdim=True).values).abs()
    ordered = away.nan_to_num(torch.inf, posinf=torch.inf).sort(dim=-1).values
    scale = ordered.gather(-1, (2 * count // 3 - 1).clamp_min(0))
    known = (count >= _FEWEST) & (scale > 0) & away.isfinite()
    return torch.where(known, away / scale, 0.0).reshape(readings.shape)


def far_positions(readings: Sequence[float]) -> list[int]:
    r"""The positions of the readings (NaN if missing) whose ratio in `ratios_to_others` > `FAR`."""
    table = torch.tensor(readings, dtype=torch.double).unsqueeze(-1)
    positions: list[int] = (ratios_to_others(table).flatten() > FAR).nonzero().flatten().tolist()
    return positions


def check_far_readings(readings: Tensor, origin: Tensor, num_columns: int) -> None:
    r"""Warn about readings that are absurdly far from all others, and refuse hopeless ones.

    Args:
        readings: As in `ratios_to_others`.
        origin: The position of each reading in a replicate's flattened user table, `n x k`.
        num_columns: The number of columns of that table.
    """
    ratios = ratios_to_others(readings)
    far = (ratios > FAR).nonzero().tolist()
    if not far:
        return
    *replicate, row, column = max(far, key=lambda index: ratios[tuple(index)].item())
    worst = (*replicate, row, column)
    place, repeat = divmod(int(origin[row, column]), num_columns)
    where = f"row {place}" + (f", repeat {repeat}" if num_columns > 1 else "")
    where += f" of replicate {tuple(replicate)}" if replicate else ""
    more = f" and {len(far) - 1} more" if len(far) > 1 else ""
    said = (
        f"Expected readings on one scale. Got {readings[worst].item():g} in {where}{more}, "
        f"at {ratios[worst].item():.1g} times the distance from the median that two thirds of the "
        "readings do not exceed: mark failures as NaN"
    )
    if ratios[worst] > HOPELESS:
        raise InputDataError(f"{said}.")
    warnings.warn(
        f"{said}, or leave out wrong readings by `trim=5.0`.", InputDataWarning, stacklevel=4
    )
