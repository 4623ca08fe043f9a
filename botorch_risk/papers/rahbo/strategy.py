r"""RAHBO: maximise mean minus noise variance, both learnt from repeats [Makarova2021rahbo]_."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from botorch_risk.acquisition.mean_variance import (
    NoisePosteriorStandardDeviation,
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
)
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction, as_nonnegative
from botorch_risk.arguments import check_arguments, check_counts, check_fields, check_positive
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.mean_variance_samples import MeanVarianceSamples
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.recommend import Rule, recommend
from botorch_risk.strategies.method import Method, State, View, rows_at
from botorch_risk.strategies.prediction import (
    INTERVAL_BETA,
    NUM_HYPERPARAMETERS,
    Interval,
    Prediction,
    check_num_samples,
    normal_interval,
)
from botorch_risk.strategies.running import expect_running
from botorch_risk.strategies.space import Box, decision_box
from botorch_risk.strategies.strategy import Strategy

NoiseFunction = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Weights:
    r"""The weights of `RiskAverseUpperConfidenceBound`, Algorithm 1 of [Makarova2021rahbo]_.

    Args:
        risk_aversion: Weight of the variance, >= 0, the paper's alpha.
        beta: Squared width of the bound of f, beta_t squared.
        noise_beta: Squared width of the bound of the noise, beta^var_t squared; None for the
            predicted noise.
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

    Inputs are scaled to the unit cube. The noise is learnt from the spread of the repeats, as in
    the paper, or from all readings. Models are fitted for all replicates at once. The method
    recommends the best evaluated point by a reporting rule, as in the paper, or the best of all
    points by the posterior mean. It records the lower bound of each point under the model that
    chose it; the initial design uses the first model (Corollary 1.1 needs some bound).

    Args:
        weights: The weights for choosing and reporting points.
        acquisition: Maps the model, the round (from 1) and the weights to the acquisition function;
            RAHBO's if omitted.
        num_repeats: The number k of repeats at each point, at least 2 if the noise is learnt.
        rule: The reporting rule of `recommend`, or `"posterior_mean_everywhere"` for any point,
            evaluated or not.
        refit_every: The number of rounds between fits of the hyperparameters; `None` keeps those of
            the initial design, as in the paper's experiments.
        variance_link: The scale of the noise process; see `MeanVarianceGP`.
        noise_evidence: The evidence for the noise; see `MeanVarianceGP`. All readings are used as
            long as no point has repeats.
        known_noise: The noise variance `... x d -> ... x 1` in the units of the bounds, if it is
            known (Eq. 9).
        min_noise_variance: Lower limit of the noise variance.
        max_noise_variance: Upper limit of the noise variance.
        num_restarts: Starts of the acquisition optimiser.
        raw_samples: Raw samples of the acquisition optimiser.
        num_samples: Number of samples of both processes' hyperparameters for predictions and
            intervals. They use the evidence of all readings, whatever the choices use
            (`MeanVarianceSamples`), and are drawn for the first interval. 0 is for the model that
            chooses, whose upper bound of the noise may be far too low (`docs/coverage.md`).

    Example:
        >>> from botorch_risk.examples import unit
        >>> from botorch_risk.strategies import Box, Strategy
        >>> method = MeanVarianceSearch(Weights(risk_aversion=1.0), num_repeats=3)
        >>> strategy = Strategy(Box(unit), method, seeds=0, num_initial=8)
        >>> X = strategy.ask()
        >>> strategy.tell(X, X + 2 * X * torch.tensor([-1.0, 0.0, 1.0]))  # mean x, variance 4 x^2
        >>> bool(strategy.recommend() < 0.3)
        True
    """

    weights: Weights
    acquisition: MeanVarianceAcquisition = risk_averse
    num_repeats: int = 2
    rule: Literal[Rule, "posterior_mean_everywhere"] = "lower_confidence_bound"
    refit_every: int | None = 1
    variance_link: Literal["log", "identity"] = "log"
    noise_evidence: Literal["readings", "spread"] = "spread"
    known_noise: NoiseFunction | None = None
    min_noise_variance: float | None = None
    max_noise_variance: float | None = None
    num_restarts: int = 10
    raw_samples: int = 256
    num_samples: int = NUM_HYPERPARAMETERS

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(num_repeats=self.num_repeats, num_restarts=self.num_restarts)
        check_counts(raw_samples=self.raw_samples)
        check_num_samples(self.num_samples)
        for name in ("min_noise_variance", "max_noise_variance"):
            if getattr(self, name) is not None:
                check_positive(**{name: getattr(self, name)})
        if self.num_repeats < (1 if self.known_noise is not None else 2):
            raise ValueError(
                "Expected `num_repeats` to be at least 2, or 1 if the noise is known. "
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

    def believe_intervals(self, view: View) -> MeanVarianceGP | MeanVarianceSamples:
        X, Y = view.complete
        return self.sampled(view, X, RepeatedOutcomes.from_repeats(Y, allow_missing=True))

    def sampled(
        self, view: View, X: Tensor, outcomes: RepeatedOutcomes
    ) -> MeanVarianceGP | MeanVarianceSamples:
        r"""The model of decisions `R x n x d`, with sampled hyperparameters if there are any."""
        if not self.num_samples:
            return view.belief
        return MeanVarianceSamples(
            view.space.unit(X),
            outcomes,
            num_samples=self.num_samples,
            seeds=view.history.streams("hyperparameters"),
            **self._limits(view),
        )

    def fitted(self, view: View, X: Tensor, outcomes: RepeatedOutcomes) -> MeanVarianceGP:
        r"""The model of decisions `R x n x d`, fitted or with the hyperparameters of the state.

        If only rows of the data are new, it is the previous model with these data.
        """
        before, repeated = view.previous, self._are_repeated(outcomes)
        if not (
            isinstance(before, MeanVarianceGP)
            and before.noise.fits_with_mean == (self.noise_evidence == "readings" or not repeated)
            and before.renew(view.space.unit(X), outcomes)
        ):
            before = self.model(view, X, outcomes)
        model = before
        if self._fits_in(view.round) or not view.state:
            if model.noise.fits_with_mean:
                view.fit("both", model)
            else:
                model.fit_processes(
                    lambda part: view.fit("noise" if part is model.noise_model else "f", part)
                )
        else:
            known = model.state_dict()
            model.load_state_dict({name: view.state.get(name, known[name]) for name in known})
        return model.eval()

    def propose(self, view: View) -> Tensor:
        acquisition = self.acquisition(view.belief, view.round, self.weights)
        if view.running is not None:
            decisions = view.running[..., : view.decisions.shape[-1]]
            expect_running(acquisition, view.space.unit(decisions))
        return view.space.maximize(
            acquisition,
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
        return self.best_of(view, view.decisions, view.recorded)

    def best_of(self, view: View, measured: Tensor, recorded: Tensor | None = None) -> Tensor:
        r"""The best of measured decisions `R x n x d` by the reporting rule, or of any."""
        bound, rule = self.weights.lower(view.belief), self.rule
        if rule == "posterior_mean_everywhere":
            objective = replace(self.weights, beta=0.0, noise_beta=None)
            highest = view.space.maximize(
                risk_averse(view.belief, view.round, objective),
                view.history.streams("recommendation"),
                1,
                self.num_restarts,
                self.raw_samples,
            )
            measured, rule = torch.cat([measured, highest], dim=-2), "posterior_mean"
        chosen = recommend(bound, view.space.unit(measured), rule, recorded)
        return rows_at(measured, chosen.row)

    def predict(self, view: View, X: Tensor) -> Prediction:
        r"""Predict by the processes of the mean and of the noise."""
        model, inputs = view.interval_belief, view.space.unit(X)
        with torch.no_grad():
            outcome = normal_interval(*model.mean_marginals(inputs))
            noise = model.predicted_noise(inputs).clamp_min(0.0).sqrt()
            ends = model.noise_confidence_bounds(inputs, INTERVAL_BETA)
        lower, upper = (end.clamp_min(0.0).sqrt().unsqueeze(-1) for end in ends)
        outcome = Interval(*(each.unsqueeze(-1) for each in outcome))
        return Prediction(outcome, noise, None if self.known_noise else (lower, upper))

    def predict_risk(self, view: View, X: Tensor) -> Interval:
        r"""Mean minus weighted variance, with bounds that hold if those of both processes do."""
        model, inputs = view.interval_belief, view.space.unit(X)
        with torch.no_grad():
            mean, _ = model.mean_marginals(inputs)
            noise = model.predicted_noise(inputs).squeeze(-1)
            lower, upper = model.confidence_bounds(inputs, INTERVAL_BETA)
            least, most = model.noise_confidence_bounds(inputs, INTERVAL_BETA)
        ends = ((mean, noise), (lower, most), (upper, least))
        aversion = self.weights.risk_aversion
        return Interval(*((f - aversion * variance).unsqueeze(-1) for f, variance in ends))

    def model(self, view: View, X: Tensor, outcomes: RepeatedOutcomes) -> MeanVarianceGP:
        r"""A model of decisions `... x n x d` before it is fitted."""
        return MeanVarianceGP(
            view.space.unit(X),
            outcomes,
            noise_evidence=self.noise_evidence if self._are_repeated(outcomes) else None,
            variance_link=self.variance_link,
            noise_beta=self.weights.noise_beta or 0.0,
            **self._limits(view),
        )

    @staticmethod
    def _are_repeated(outcomes: RepeatedOutcomes) -> bool:
        return bool((outcomes.counts > 1).any())

    def _limits(self, view: View) -> dict[str, Any]:
        r"""What is known about the noise, as arguments of `MeanVarianceGP`."""
        noise = self.known_noise
        return {
            "known_noise": None if noise is None else lambda X: noise(view.space.from_unit(X)),
            "min_noise_variance": self.min_noise_variance,
            "max_noise_variance": self.max_noise_variance,
        }

    def _fits_in(self, round: int) -> bool:
        return round == 1 if self.refit_every is None else (round - 1) % self.refit_every == 0


def rahbo(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    num_repeats: int,
    risk_aversion: float,
    beta: float = 4.0,
    noise_beta: float = 4.0,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""RAHBO, Algorithm 1 of [Makarova2021rahbo]_; with `known_noise`, Eq. (9).

    Each round maximises `ucb_f(x) - risk_aversion * lcb_var(x)` and observes k repeats there.

    Args:
        bounds: The lower and the upper bounds of the box, `2 x d`, or a `Box`.
        seeds: One seed per replicate.
        num_repeats: The number k of repeats at each point.
        risk_aversion: Weight of the variance, >= 0 (the paper's alpha); it is also the weight by
            which points are reported.
        beta: Squared width of the bound of f (the paper's beta_t = 2, squared).
        noise_beta: Squared width of the bound of the noise (beta^var_t, squared).
        num_initial: The number of points in the initial design.
        batch_size: The number `q` of points in each later round.
        options: Further arguments of `MeanVarianceSearch`.

    Example:
        >>> import torch
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = rahbo(bounds, [0, 1], num_repeats=4, risk_aversion=1.0, num_initial=5)
        >>> X = strategy.ask()
        >>> noise = 0.1 * torch.randn(2, 5, 4, dtype=torch.double)
        >>> strategy.tell(X, (3 * X).sin() + noise)
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """
    check_arguments(rahbo, locals())
    weights = Weights(risk_aversion, beta, noise_beta)
    method = MeanVarianceSearch(weights, num_repeats=num_repeats, **options)
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )


def rahbo_us(
    bounds: Tensor | Box, seeds: int | Sequence[int], *, num_uncertainty: int = 10, **options: Any
) -> Strategy:
    r"""RAHBO-US: first learn the noise by uncertainty sampling, then treat its mean as known.

    The second baseline of [Makarova2021rahbo]_, Sec. 4.

    For `num_uncertainty` rounds it samples where the noise is least known; after that it maximises
    `ucb_f(x) - risk_aversion * mean_var(x)`. The noise model still learns from every point, as in
    the paper. Its first stage costs evaluations: count their regret, or report it both ways.

    Args:
        num_uncertainty: Rounds of the first stage (10 in the paper's Branin).
        options: The arguments of `rahbo` except `known_noise`.

    Raises:
        ValueError: If the noise is known.

    Example:
        >>> import torch
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> options = {"num_repeats": 4, "risk_aversion": 1.0, "num_initial": 5}
        >>> rahbo_us(bounds, [0, 1], num_uncertainty=3, **options).ask().shape
        torch.Size([2, 5, 1])
    """
    check_arguments(rahbo_us, locals())
    check_counts(0, num_uncertainty=num_uncertainty)
    if options.get("known_noise") is not None:
        raise ValueError(
            f"Expected noise that is not known. Got known_noise={options.get('known_noise')}."
        )
    return rahbo(bounds, seeds, acquisition=NoiseFirst(num_uncertainty), **options)


@dataclass(frozen=True)
class NoiseFirst:
    r"""Uncertainty sampling of the noise for some rounds, then a bound that trusts its mean."""

    num_uncertainty: int

    def __call__(
        self, model: MeanVarianceGP, t: int, weights: Weights
    ) -> PointwiseAcquisitionFunction:
        if t <= self.num_uncertainty:
            return NoisePosteriorStandardDeviation(model)
        return risk_averse(model, t, replace(weights, noise_beta=None))
