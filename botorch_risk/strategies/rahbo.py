r"""Risk-averse heteroscedastic Bayesian optimisation and the methods it was compared with.

.. [Makarova2021rahbo]
    A. Makarova, I. Usmanova, I. Bogunovic, A. Krause. Risk-averse Heteroscedastic Bayesian
    Optimization. Advances in Neural Information Processing Systems 34, 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from botorch_risk.acquisition.mean_variance import RiskAverseUpperConfidenceBound
from botorch_risk.acquisition.noise_uncertainty import NoisePosteriorStandardDeviation
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.strategies.mean_variance import MeanVarianceStrategy


class RAHBO(MeanVarianceStrategy):
    r"""RAHBO, Algorithm 1 of [Makarova2021rahbo]_; with `known_noise`, Eq. (9).

    Each round maximises `ucb_f(x) - risk_aversion * lcb_var(x)` and observes k repeats there.
    The arguments are those of `MeanVarianceStrategy`.

    Example:
        >>> import torch
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = RAHBO(bounds, num_repeats=4, risk_aversion=1.0, seeds=[0, 1], num_initial=5)
        >>> X = strategy.ask()
        >>> noise = 0.1 * torch.randn(2, 5, 4, dtype=torch.double)
        >>> strategy.tell(X, (3 * X).sin() + noise)
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """

    def _acquisition(self, model: MeanVarianceGP) -> PointwiseAcquisitionFunction:
        return RiskAverseUpperConfidenceBound(model, **self._weights())


class HeteroscedasticGPUCB(MeanVarianceStrategy):
    r"""GP-UCB on the heteroscedastic model: the risk-neutral baseline (Eq. 7).

    It explores as if `risk_aversion` were 0, and reports by the same rule and the same
    `risk_aversion` as the others, so that a comparison shows what the acquisition gains.
    """

    def _acquisition(self, model: MeanVarianceGP) -> PointwiseAcquisitionFunction:
        return RiskAverseUpperConfidenceBound(model, **{**self._weights(), "risk_aversion": 0.0})


class RAHBOUS(MeanVarianceStrategy):
    r"""RAHBO-US: first learn the noise by uncertainty sampling, then trust its mean (Sec. 4).

    For `num_uncertainty` rounds the point is the one where the noise is known least; after
    that it maximises `ucb_f(x) - risk_aversion * mean_var(x)`. The noise model still learns
    from every point, as in the paper. Its first stage costs evaluations like any other:
    regret is to be charged for it, or shown both ways.
    """

    def __init__(
        self,
        bounds: Tensor,
        num_repeats: int,
        risk_aversion: float,
        seeds: int | Sequence[int],
        *,
        num_uncertainty: int = 10,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the box, `2 x d`.
            num_repeats: The number k of repeats at each point, at least 2.
            risk_aversion: Weight of the variance, >= 0 (the paper's alpha).
            seeds: One seed per replicate.
            num_uncertainty: Rounds of the first stage (10 in the paper's Branin).
            options: Further arguments of `MeanVarianceStrategy`.

        Raises:
            ValueError: If `num_uncertainty` is negative or the noise is known.
        """
        if num_uncertainty < 0 or options.get("known_noise") is not None:
            raise ValueError(
                "Expected `num_uncertainty` >= 0 and noise that is to be learnt. "
                f"Got {num_uncertainty=}, known_noise={options.get('known_noise')}."
            )
        super().__init__(bounds, num_repeats, risk_aversion, seeds, **options)
        self.num_uncertainty = num_uncertainty

    def _acquisition(self, model: MeanVarianceGP) -> PointwiseAcquisitionFunction:
        if self._round <= self.num_uncertainty:
            return NoisePosteriorStandardDeviation(model)
        return RiskAverseUpperConfidenceBound(model, **{**self._weights(), "noise_beta": None})
