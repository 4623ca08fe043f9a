r"""A real coastline to be mapped by a boat whose trips have a cost."""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from botorch_risk.arguments import check_nonnegative, check_positive
from botorch_risk.test_functions.finite_domain import FiniteDomainProblem

Half = Literal["west", "east"]
KM_PER_DEGREE = 6371.0 * math.pi / 180


class CoastalTerrain(FiniteDomainProblem):
    r"""Mean altitude in km along the coast of Vancouver Island, negative below the sea.

    The stand-in for the lake of [Bogunovic2016truvar]_, Sec. 4, whose measurements are not public:
    a real field with a level that matters, here the coastline at 0. The map is `topobathy.npz`,
    which comes with Matplotlib. Its west half, every second row of it, is the domain, 60 x 46
    points about 2.4 km by 4.9 km apart; its east half is the second data set, from which the paper
    learns the hyperparameters. As the paper takes the smooth posterior of its measurements for the
    truth, the map is averaged over a normal distribution of 5 km: mountains are too rough for any
    method that samples one point in ten.

    Coordinates are km east of the west edge and km north of the south edge of the half, for which
    the earth is a cylinder that touches the map's middle latitude.

    Matplotlib brings it.

    Example:
        >>> terrain = CoastalTerrain()
        >>> terrain.domain.shape, terrain.shape
        (torch.Size([2760, 2]), (60, 46))
        >>> round((terrain.values >= 0).double().mean().item(), 2)  # land
        0.59
    """

    def __init__(self, half: Half = "west", noise: float = 0.0, smoothing: float = 5.0) -> None:
        r"""Reads the map.

        Args:
            half: "west" or "east".
            noise: The noise variance of a measurement in km^2.
            smoothing: The standard deviation in km of the normal distribution over which the map
                is averaged; 0 for the map as it is.
        """
        if half not in get_args(Half):
            raise ValueError(f"Expected `half` to be one of {get_args(Half)}. Got {half=}.")
        check_nonnegative(smoothing=smoothing)
        longitude, latitude, altitude = _read()
        scale = KM_PER_DEGREE * math.cos(math.radians(latitude.mean()))
        east, north = (longitude - longitude[0]) * scale, (latitude - latitude[0]) * KM_PER_DEGREE
        height = _averages(east, smoothing) @ altitude.T @ _averages(north, smoothing).T / 1000
        middle = len(east) // 2
        columns = slice(None, middle) if half == "west" else slice(middle, None)
        height, east, north = height[columns, ::2], east[columns] - east[columns][0], north[::2]
        self.shape = len(east), len(north)
        domain = torch.cartesian_prod(torch.from_numpy(east), torch.from_numpy(north.copy()))
        super().__init__(domain, torch.from_numpy(height.flatten()), noise)


@dataclass(frozen=True)
class SurveyCost:
    r"""The cost of a measurement after a trip, after Sec. 4 of [Bogunovic2016truvar]_.

        c(x) = travel |x_1 - x_1'| + depth (|x_2| / unit + 1)

    with the paper's factors, 0.25 and 4, but for `unit`: the paper does not divide `|x_2|`. There,
    `x_1` is the position of the vessel on the lake and `x_2` the depth of the measurement, in units
    that are not given. Here both are km, and `|x_2|` is divided by 50, lest the second term be
    everything: with the default unit a trip across the domain costs 36, and the second term is
    between 4 and 22. There is no trip before the first measurement.

    Attributes:
        travel: Cost for each km along the first coordinate.
        depth: Cost of a measurement at `x_2 = 0`.
        unit: The km along the second coordinate that add another `depth`.

    Raises:
        ValueError: If a cost is negative, the unit not positive, or one of them not finite.

    Example:
        >>> cost = SurveyCost()
        >>> there, here = torch.tensor([[20.0, 50.0]]), torch.tensor([[0.0, 0.0]])
        >>> cost(there, here, None), cost(there, None, None)
        (tensor([13.]), tensor([8.]))
    """

    travel: float = 0.25
    depth: float = 4.0
    unit: float = 50.0

    def __post_init__(self) -> None:
        check_nonnegative(travel=self.travel, depth=self.depth)
        check_positive(unit=self.unit)

    def __call__(self, X: Tensor, previous: Tensor | None, level: int | None) -> Tensor:
        r"""Costs `... x m` of `... x m x 2` points after `... x 1 x 2` ones."""
        measurement = self.depth * (X[..., 1].abs() / self.unit + 1)
        if previous is None:
            return measurement
        return measurement + self.travel * (X[..., 0] - previous[..., 0]).abs()


def _averages(positions: np.ndarray, deviation: float) -> np.ndarray:
    r"""Weights of a moving average along an axis, `n x n`, rows that sum to 1."""
    if deviation == 0:
        return np.eye(len(positions))
    weights = np.exp(-0.5 * ((positions[:, None] - positions) / deviation) ** 2)
    return weights / weights.sum(axis=1, keepdims=True)


def _read() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Longitudes, latitudes in degrees and altitudes in metres, `latitude x longitude`."""
    from matplotlib import cbook

    source: Any = cbook.get_sample_data("topobathy.npz")
    with source as data:
        longitude, latitude, altitude = (
            data[name].astype(np.float64) for name in ("longitude", "latitude", "topo")
        )
    return longitude, latitude, altitude
