r"""Readings of a trial, as Ax takes them: a mean with its standard error, and their number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from botorch_risk.arguments import as_floating
from botorch_risk.ax.observed import count_name


def readings(
    values: Mapping[str, float | Sequence[float]],
) -> dict[str, float | tuple[float, float]]:
    r"""What `Client.complete_trial` takes for trials of several readings.

    The number of readings is a tracking metric, `purity_count` for `purity`, from which our models
    learn the noise: the sample variance is `count * sem**2`. Name it once,
    `client.configure_tracking_metrics(["purity_count"])`.

    Args:
        values: The readings of each metric; a single number is passed on as it is. NaN is a reading
            that failed.

    Returns:
        Means with standard errors, and counts.

    Raises:
        ValueError: If a metric has no reading left.

    Example:
        >>> readings({"purity": [1.0, 3.0], "cost": 4.0})
        {'purity': (2.0, 1.0), 'purity_count': 2, 'cost': 4.0}
    """
    found: dict[str, float | tuple[float, float]] = {}
    for name, value in values.items():
        if isinstance(value, float | int):
            found[name] = value
            continue
        given = as_floating(value, name)
        if given.dim() != 1:
            raise ValueError(f"Expected a list of the readings of {name!r}. Got {value!r}.")
        known = [each for each in given.tolist() if not math.isnan(each)]
        if any(map(math.isinf, known)):
            raise ValueError(f"Expected finite readings of {name!r}. Got {known}.")
        if not known:
            raise ValueError(f"Expected a reading of {name!r}. Got {list(value)}.")
        count = len(known)
        mean = math.fsum(each / count for each in known)  # of which no sum overflows
        found[name] = mean if count == 1 else (mean, _standard_error(known, mean))
        found[count_name(name)] = count
    return found


def _standard_error(known: Sequence[float], mean: float) -> float:
    r"""The standard error of a mean, in units in which no square overflows."""
    unit = max(abs(each - mean) for each in known) or 1.0
    squares = math.fsum(((each - mean) / unit) ** 2 for each in known)
    return unit * math.sqrt(squares / (len(known) - 1) / len(known))
