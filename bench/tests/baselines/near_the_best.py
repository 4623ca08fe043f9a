r"""An optimiser of no package, for `ask_tell`."""

import torch
from torch import Tensor

from botorch_risk.strategies import Box


class NearTheBest:
    r"""Uniform points, half way to the best one."""

    def __init__(self, box: Box, seed: int) -> None:
        self.box, self.stream = box, torch.Generator().manual_seed(seed)

    def tell(self, X: Tensor, Y: Tensor) -> None:
        self.best = X[Y.nanmean(dim=-1).argmax(), : self.box.bounds.shape[-1]]

    def ask(self, num_points: int) -> Tensor:
        lower, upper = self.box.bounds
        shape = (num_points, len(lower))
        uniform = torch.rand(shape, generator=self.stream, dtype=torch.double)
        X = (self.best + lower + (upper - lower) * uniform) / 2
        X[:, self.box.discrete] = X[:, self.box.discrete].round()
        return X
