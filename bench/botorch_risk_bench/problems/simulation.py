r"""Base class for functions that a program computes one point at a time."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from botorch_risk.test_functions.repeats import ConstantNoiseProblem


class SimulatedTestProblem(ConstantNoiseProblem, ABC):
    r"""A maximised function that is expensive, has no gradient and is simulated once at a point.

    In a loop the same point is evaluated several times: for its outcome, for its true objective,
    and for as many rounds as it is recommended. A subclass defines `_simulate`.

    Example:
        >>> class Oven(SimulatedTestProblem):
        ...     dim, continuous_inds, _bounds = 1, [0], [(150.0, 250.0)]
        ...     def _simulate(self, x):
        ...         print(f"bakes at {x[0]:g} C")
        ...         return -abs(x[0] - 180.0)
        >>> problem, X = Oven(), torch.tensor([[170.0]])
        >>> problem(X), problem.objective(X)
        bakes at 170 C
        (tensor([-10.]), tensor([-10.]))
    """

    def __init__(self, noise_std: float | None = None, dtype: torch.dtype = torch.double) -> None:
        super().__init__(noise_std=noise_std, dtype=dtype)
        self._simulated: dict[tuple[float, ...], float] = {}

    def _evaluate_true(self, X: Tensor) -> Tensor:
        rows = [tuple(row) for row in X.detach().reshape(-1, self.dim).tolist()]
        for row in rows:
            if row not in self._simulated:
                self._simulated[row] = self._simulate(row)
        return X.new_tensor([self._simulated[row] for row in rows]).view(X.shape[:-1])

    @abstractmethod
    def _simulate(self, x: tuple[float, ...]) -> float:
        r"""The value at one point, a function of nothing else."""
