r"""UHE-BO, its ablations, and the methods it was compared with.

All are GP-UCB with the same model and the same constant width; they differ in how they estimate the
hyperparameters and in when they sample at random. `RandomSearch` is the last of the comparison.

.. [Ha2023uhe]
    H. Ha, V. Nguyen, H. Zhang, A. van den Hengel. Provably Efficient Bayesian Optimization with
    Unbiased Gaussian Process Hyperparameter Estimation. arXiv:2306.06844, 2023.

.. [Hoffman2011portfolio]
    M. Hoffman, E. Brochu, N. de Freitas. Portfolio Allocation for Bayesian Optimization.
    Conference on Uncertainty in Artificial Intelligence, 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound
from torch import Tensor

from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.environments import InputPerturbation
from botorch_risk.fit.estimators import FullyBayesian, MaximumAPosteriori, PseudoData
from botorch_risk.risk import Expectation
from botorch_risk.strategies.random_or_acquire import RandomOrAcquire

BETA = 1.96**2


def gp_ucb(model: Any, beta: float) -> RiskUpperConfidenceBound:
    r"""`mean + sqrt(beta) sigma` of a model of replicates: the bound of the risk without risk."""
    X = model.train_inputs[0]
    return RiskUpperConfidenceBound(
        model, InputPerturbation(X.new_zeros(1, X.shape[-1])), Expectation(), beta
    )


class GPUCB(RandomOrAcquire):
    r"""GP-UCB with hyperparameters at their maximum a posteriori, and no random points."""

    _estimator: ClassVar[type] = MaximumAPosteriori
    _defaults: ClassVar[dict[str, Any]] = {"arms": "acquisition"}

    def __init__(
        self, bounds: Tensor, seeds: int | Sequence[int], *, beta: float = BETA, **options: Any
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the box, `2 x d`.
            seeds: One seed per replicate.
            beta: Squared width of the bound, >= 0.
            options: Further arguments of `RandomOrAcquire`, such as `num_initial`, `model`,
                `estimator` and `reward_scale`.
        """
        self.beta = float(as_nonnegative("beta", beta))
        chosen = {"batched": True, "estimator": self._estimator(), **self._defaults, **options}
        super().__init__(partial(gp_ucb, beta=self.beta), bounds, seeds, **chosen)


class UHEBO(GPUCB):
    r"""UHE-BO: EXP3 decides when to sample at random, pseudo-data fit the model [Ha2023uhe]_.

    The paper's constant beta_t = 1.96 is read as the multiplier of sigma, so that `beta` is its
    square; `beta=1.96` is the other reading. The model is BoTorch's `SingleTaskGP` with its priors
    on the unit cube and standardised outcomes; `model` takes any other, such as the paper's Matern
    5/2 kernel with the priors of `botorch_risk.fit.set_gamma_priors`.

    Example:
        >>> import torch
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = UHEBO(bounds, seeds=[0, 1], num_initial=5)
        >>> for _ in range(2):
        ...     X = strategy.ask()
        ...     strategy.tell(X, (3 * X).sin())
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """

    _estimator = PseudoData
    _defaults: ClassVar[dict[str, Any]] = {"arms": "exp3"}


class PseudoDataGPUCB(GPUCB):
    r"""Pseudo-data without random points: an ablation."""

    _estimator = PseudoData


class RandomEXP3(GPUCB):
    r"""Random points by EXP3 without pseudo-data: the ablation of Fig. 4 of [Ha2023uhe]_."""

    _defaults: ClassVar[dict[str, Any]] = {"arms": "exp3"}


class RABO(GPUCB):
    r"""RA-BO: a random point and the acquisition's in turn, Sec. 6 of [Ha2023uhe]_.

    With pseudo-data, as in its Theorem 6.4.
    """

    _estimator = PseudoData
    _defaults: ClassVar[dict[str, Any]] = {"arms": "random"}


class PortfolioEXP3(GPUCB):
    r"""EXP3 over random sampling and GP-UCB, one evaluation an arm [Hoffman2011portfolio]_.

    As [Ha2023uhe]_ ran it, with the reward that it does not state: the scaled outcome itself.
    """

    _defaults: ClassVar[dict[str, Any]] = {"arms": "exp3", "steps": 1}


class FullyBayesianGPUCB(GPUCB):
    r"""GP-UCB averaged over hyperparameters that MCMC has sampled, seed by seed.

    Needs NumPyro, the extra `bayesian`; see `botorch_risk.fit.FullyBayesian`. One point a round.
    """

    _estimator = FullyBayesian
    _defaults: ClassVar[dict[str, Any]] = {"arms": "acquisition", "batched": False}

    def __init__(
        self, bounds: Tensor, seeds: int | Sequence[int], *, sample_every: int = 1, **options: Any
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the box, `2 x d`.
            seeds: One seed per replicate.
            sample_every: Rounds from one sampling to the next. In between the samples stay, and
                the process of each is conditioned on what has been told since.
            options: Further arguments of `GPUCB`.

        Raises:
            ValueError: If a number is out of its range or a seed repeats.
        """
        if sample_every < 1:
            raise ValueError(f"Expected `sample_every` to be at least 1. Got {sample_every}.")
        super().__init__(bounds, seeds, **options)
        self.sample_every = sample_every
        self._num_sampled = 0  # rows that hyperparameters are sampled from
        self._samples: dict[int, tuple[int, Any]] = {}  # replicate: rows, model

    def tell(self, X: Tensor, Y: Tensor) -> None:  # noqa: D102
        super().tell(X, Y)
        if (self._round - 1) % self.sample_every == 0:
            self._num_sampled = self._X.shape[-2]

    def state_dict(self) -> dict[str, Any]:  # noqa: D102
        return {**super().state_dict(), "num_sampled": self._num_sampled}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: D102
        super().load_state_dict(state)
        self._num_sampled, self._samples = state["num_sampled"], {}

    def _fit(self, replicates: list[int]) -> Any:
        (replicate,) = replicates
        X, Y, observed = (data.squeeze(0) for data in self._unit_data(replicates))
        sampled = observed.clone()
        sampled[self._num_sampled :] = False
        num_rows, model = self._samples.get(replicate, (0, None))
        if num_rows != self._num_sampled:
            t = self._round - (self._round - 1) % self.sample_every
            model = self.estimator(self.model(X[sampled], Y[sampled]), [self.seeds[replicate]], t)
            self._samples[replicate] = self._num_sampled, model
        since = observed & ~sampled
        if model is None or not since.any():
            return model
        with torch.no_grad():
            model.posterior(X[:1])  # its caches are what is conditioned
        return model.condition_on_observations(X[since], Y[since])

    def _acquisition(self, model: Any) -> AcquisitionFunction:
        return UpperConfidenceBound(model, beta=self.beta)
