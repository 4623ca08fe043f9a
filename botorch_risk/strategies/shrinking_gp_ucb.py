r"""GP-UCB with lengthscales shorter than estimated: two methods with unknown hyperparameters.

.. [Berkenkamp2019agpucb]
    F. Berkenkamp, A. P. Schoellig, A. Krause. No-Regret Bayesian Optimization with Unknown
    Hyperparameters. Journal of Machine Learning Research 20, 2019.

.. [Wang2014unknown]
    Z. Wang, N. de Freitas. Theoretical Analysis of Bayesian Optimisation with Unknown Gaussian
    Process Hyper-Parameters. arXiv:1406.7758, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_risk.fit.shrinkage import divide_lengthscales, expansion_factor
from botorch_risk.strategies.uhebo import GPUCB, gp_ucb


class AGPUCB(GPUCB):
    r"""A-GP-UCB: the function class grows with every round [Berkenkamp2019agpucb]_.

    Lengthscales are the estimate over g(t), `botorch_risk.fit.shrinkage.expansion_factor`. In
    theory the bound on the norm, of which sqrt(beta) is a multiple, grows with them, as
    `g(t)^(d / 2)`; UHE-BO's comparison keeps the width constant, as does the default.
    """

    def __init__(
        self,
        bounds: Tensor,
        seeds: int | Sequence[int],
        *,
        regret_exponent: float = 0.9,
        widen: bool = False,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the box, `2 x d`.
            seeds: One seed per replicate.
            regret_exponent: Of the reference regret, which sets g.
            widen: Whether the bound grows with the norm.
            options: Further arguments of `GPUCB`.

        Raises:
            ValueError: If `regret_exponent` is not in [0.5, 1).
        """
        super().__init__(bounds, seeds, **options)
        expansion_factor(1, bounds.shape[-1], regret_exponent)
        self.regret_exponent, self.widen = regret_exponent, widen

    @property
    def _factor(self) -> float:
        return expansion_factor(self._round, self.bounds.shape[-1], self.regret_exponent)

    def _fit(self, replicates: list[int]) -> Any:
        return divide_lengthscales(super()._fit(replicates), self._factor)

    def _acquisition(self, model: Any) -> AcquisitionFunction:
        growth = self._factor ** self.bounds.shape[-1] if self.widen else 1.0
        return gp_ucb(model, self.beta * growth)


class WangDeFreitasGPUCB(GPUCB):
    r"""Halves lengthscales until the next point is uncertain enough, after [Wang2014unknown]_.

    In the form of UHE-BO's comparison: in each round, from the estimate on, while the posterior
    standard deviation at the maximiser is below `threshold` in units of the standardised outcome.
    """

    def __init__(
        self,
        bounds: Tensor,
        seeds: int | Sequence[int],
        *,
        threshold: float = 0.1,
        max_halvings: int = 8,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the box, `2 x d`.
            seeds: One seed per replicate.
            threshold: The least standard deviation at the next point, kappa.
            max_halvings: The most halvings in one round.
            options: Further arguments of `GPUCB`.

        Raises:
            ValueError: If `threshold` or `max_halvings` is negative.
        """
        super().__init__(bounds, seeds, **options)
        if not (threshold >= 0 and max_halvings >= 0):
            raise ValueError(
                f"Expected `threshold` and `max_halvings` >= 0. Got {threshold=}, {max_halvings=}."
            )
        self.threshold, self.max_halvings = threshold, max_halvings

    def _maximizer(self, model: Any, replicates: list[int]) -> Tensor:
        X = super()._maximizer(model, replicates)
        for _ in range(self.max_halvings):
            with torch.no_grad():
                deviation = model(X if model.batch_shape else X.squeeze(0)).variance.sqrt()
            small = deviation.reshape(len(replicates), -1).amin(dim=-1) < self.threshold
            if not small.any():
                break
            halves = torch.where(small, 2.0, 1.0).view(model.batch_shape)
            again = super()._maximizer(divide_lengthscales(model, halves), replicates)
            X = torch.where(small[:, None, None], again, X)
        return X
