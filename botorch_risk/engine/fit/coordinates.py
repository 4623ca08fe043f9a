r"""What a row of parameters holds: logarithms, and a constant in units of the data."""

from collections.abc import Sequence

import numpy as np
from numpy import ndarray

from botorch_risk.engine.fit.parameters import Hyperparameter, Units


class Coordinates:
    r"""Convert hyperparameters, in their order, to a row of parameters, and back.

    A positive hyperparameter is represented by its logarithm, the constant mean by its distance
    from the centre of the targets in units of their scale.

    Attributes:
        slices: The position of each hyperparameter in a row.
        positive: Which entries are logarithms, `p`.
    """

    def __init__(self, moved: Sequence[Hyperparameter], units: Units) -> None:
        self.moved, self.units = moved, units
        self.slices: list[slice] = []
        positive: list[bool] = []
        for hyperparameter in moved:
            self.slices.append(slice(len(positive), len(positive) + hyperparameter.size))
            positive += [hyperparameter.is_positive] * hyperparameter.size
        self.positive = np.array(positive, dtype=bool)

    def natural(self, theta: ndarray, replicates: ndarray) -> tuple[ndarray, ndarray]:
        r"""Natural values, the constant less the centre, and their derivatives, `rows x p`."""
        # An exponential that overflows makes the loss infinite or NaN: the step is then rejected.
        scale = self.units.scale[replicates, None]
        with np.errstate(all="ignore"):
            natural = np.where(self.positive, np.exp(theta), scale * theta)
        return natural, np.where(self.positive, natural, scale)

    def absolute(self, natural: ndarray, replicates: ndarray) -> ndarray:
        r"""Natural values with the constant itself instead of its distance from the centre."""
        return natural + np.where(self.positive, 0.0, self.units.centre[replicates, None])

    def of_natural(self, natural: ndarray) -> ndarray:
        r"""Parameters `R x p` for absolute natural values of each replicate."""
        scale, centre = self.units.scale[:, None], self.units.centre[:, None]
        # `where` takes the logarithm of constants too, which may be negative.
        with np.errstate(all="ignore"):
            return np.where(self.positive, np.log(natural), (natural - centre) / scale)

    def bounds(self, replicates: ndarray) -> tuple[ndarray, ndarray]:
        r"""Lower and upper bounds of the parameters of some replicates, `rows x p` each."""
        pairs = [one.bounds(self.units.unit_of(one.name, one.size)) for one in self.moved]
        lower, upper = (
            self.of_natural(np.concatenate(side, axis=1))[replicates]
            for side in zip(*pairs, strict=True)
        )
        return lower, upper
