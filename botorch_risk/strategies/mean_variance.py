r"""Maximises an acquisition function of mean and noise, both learnt from repeats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from botorch_risk.acquisition.mean_variance import (
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
)
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction, as_nonnegative
from botorch_risk.arguments import check_counts, check_fields, check_positive
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.recommend import Rule, recommend
from botorch_risk.strategies.method import Method, State, View, rows_at

NoiseFunction = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Weights:
    r"""The weights of `RiskAverseUpperConfidenceBound`, Algorithm 1 of [Makarova2021rahbo]_.

    Args:
        risk_aversion: Weight of the variance, >= 0, the paper's alpha.
        beta: Squared width of the bound of f, beta_t squared.
        noise_beta: Squared width of the bound of the noise, beta^var_t squared; None for the
            predicted noise.

    Raises:
        ValueError: If a weight is negative or not finite.
    """

    risk_aversion: float
    beta: float = 4.0
    noise_beta: float | None = 4.0

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("risk_aversion", "beta", "noise_beta"):
            if getattr(self, name) is not None:
                as_nonnegative(name, getattr(self, name))

    def lower(self, model: MeanVarianceGP) -> RiskAverseLowerConfidenceBound:
        r"""The lower bound of the objective."""
        return RiskAverseLowerConfidenceBound(model, **vars(self))


MeanVarianceAcquisition = Callable[[MeanVarianceGP, int, Weights], PointwiseAcquisitionFunction]


def risk_averse(model: MeanVarianceGP, t: int, weights: Weights) -> PointwiseAcquisitionFunction:
    r"""RAHBO's acquisition function, the same in every round."""
    return RiskAverseUpperConfidenceBound(model, **vars(weights))


@dataclass(frozen=True)
class MeanVarianceSearch(Method):
    r"""A method on a `MeanVarianceGP` of all data so far, Algorithm 1 of [Makarova2021rahbo]_.

    Inputs are scaled to the unit cube. Both processes are fitted in closed form, all replicates at
    once. It recommends the best evaluated point by a reporting rule, and records the lower bound of
    each point in the model that chose it; the initial design is bounded by the first model
    (Corollary 1.1 needs some bound).

    Args:
        weights: How points are chosen and reported.
        acquisition: From the model, the round from 1 and the weights to the acquisition function;
            RAHBO's if omitted.
        num_repeats: The number k of repeats at each point, at least 2 where the noise is learnt.
        rule: The reporting rule of `recommend`.
        refit_every: After how many rounds the hyperparameters are fitted again; `None` keeps those
            of the initial design, as in the paper's experiments.
        variance_link: The scale of the noise process; see `MeanVarianceGP`.
        known_noise: The noise variance `... x d -> ... x 1` in the units of the bounds, if it is
            known (Eq. 9).
        min_noise_variance: Lower limit of the noise variance.
        max_noise_variance: Upper limit of the noise variance.
        num_restarts: Starts of the acquisition optimiser.
        raw_samples: Raw points of the acquisition optimiser.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        >>> from botorch_risk.strategies import Box, Strategy
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> method = MeanVarianceSearch(Weights(risk_aversion=1.0), num_repeats=3)
        >>> strategy = Strategy(Box(bounds), method, seeds=0, num_initial=8)
        >>> X = strategy.ask()
        >>> strategy.tell(X, X + 2 * X * torch.tensor([-1.0, 0.0, 1.0]))  # mean x, variance 4 x^2
        >>> bool(strategy.recommend() < 0.3)
        True
    """

    weights: Weights
    acquisition: MeanVarianceAcquisition = risk_averse
    num_repeats: int = 2
    rule: Rule = "lower_confidence_bound"
    refit_every: int | None = 1
    variance_link: Literal["log", "identity"] = "log"
    known_noise: NoiseFunction | None = None
    min_noise_variance: float | None = None
    max_noise_variance: float | None = None
    num_restarts: int = 10
    raw_samples: int = 256

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(num_repeats=self.num_repeats, num_restarts=self.num_restarts)
        check_counts(raw_samples=self.raw_samples)
        for name in ("min_noise_variance", "max_noise_variance"):
            if getattr(self, name) is not None:
                check_positive(**{name: getattr(self, name)})
        if self.num_repeats < (1 if self.known_noise is not None else 2):
            raise ValueError(
                "Expected `num_repeats` to be at least 2, or 1 where the noise is known. "
                f"Got {self.num_repeats=}."
            )
        if self.refit_every is not None:
            check_counts(refit_every=self.refit_every)

    @property
    def keeps_fits(self) -> bool:
        return True

    def believe(self, view: View) -> MeanVarianceGP:
        r"""The model of all data so far, on the unit cube."""
        X, Y = view.complete
        return self.fitted(view, X, RepeatedOutcomes.from_repeats(Y, allow_missing=True))

    def fitted(self, view: View, X: Tensor, outcomes: RepeatedOutcomes) -> MeanVarianceGP:
        r"""The model of decisions `R x n x d`, fitted or with the hyperparameters of the state."""
        model = self.model(view, X, outcomes)
        if self._fits_in(view.round) or not view.state:
            model.fit_processes(
                lambda process: view.fit("noise" if process is model.noise_model else "f", process)
            )
        else:
            known = model.state_dict()
            model.load_state_dict({name: view.state.get(name, known[name]) for name in known})
        return model.eval()

    def propose(self, view: View) -> Tensor:
        r"""Where the acquisition function is largest."""
        return view.space.maximize(
            self.acquisition(view.belief, view.round, self.weights),
            view.history.streams("acquisition"),
            view.batch_size,
            self.num_restarts,
            self.raw_samples,
        )

    def record(self, view: View, rows: Tensor) -> Tensor:
        r"""The lower bound of the objective at new rows."""
        missing = rows.isnan().any(dim=-1)
        X = view.space.unit(rows).nan_to_num(nan=0.5)
        with torch.no_grad():
            return self.weights.lower(view.belief).lower(X).masked_fill(missing, torch.nan)

    def learn(self, view: View) -> State:
        if self.refit_every == 1 or not self._fits_in(view.round):
            return view.state
        # Fixed noise is a level for each row and comes with the data; an inferred level is kept.
        return {
            name: value.clone()
            for name, value in view.belief.state_dict().items()
            if value.dim() and not name.endswith("noise_covar.noise")
        }

    def recommend(self, view: View) -> Tensor:
        r"""The best evaluated point by the reporting rule."""
        recorded = view.recorded
        bound = self.weights.lower(view.belief)
        chosen = recommend(bound, view.space.unit(view.X), self.rule, recorded)
        return rows_at(view.decisions, chosen.row)

    def model(self, view: View, X: Tensor, outcomes: RepeatedOutcomes) -> MeanVarianceGP:
        r"""A model that is not fitted, of decisions `... x n x d`."""
        noise = self.known_noise
        return MeanVarianceGP(
            view.space.unit(X),
            outcomes,
            known_noise=None if noise is None else lambda X: noise(view.space.from_unit(X)),
            variance_link=self.variance_link,
            noise_beta=self.weights.noise_beta or 0.0,
            min_noise_variance=self.min_noise_variance,
            max_noise_variance=self.max_noise_variance,
        )

    def _fits_in(self, round: int) -> bool:
        return round == 1 if self.refit_every is None else (round - 1) % self.refit_every == 0
