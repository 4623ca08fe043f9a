r"""What the strategies of RAHBO's comparison share: the model, its fit, the reporting rule."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from botorch_risk.acquisition.mean_variance import RiskAverseLowerConfidenceBound
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction, as_nonnegative
from botorch_risk.fit.exact_gp import fit_exact_gp
from botorch_risk.fit.results import warn_of_failed_fits
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.optim.multistart import optimize_acqf_replicates
from botorch_risk.recommend import Rule, recommend
from botorch_risk.seeding import derive_seed
from botorch_risk.strategies.replicated import ReplicatedStrategy, as_data


class MeanVarianceStrategy(ReplicatedStrategy):
    r"""A strategy on a `MeanVarianceGP` that is built anew from all data in each round.

    Inputs are scaled to the unit cube. Both processes are fitted in closed form, all
    replicates at once. A subclass chooses the acquisition function of a round.
    """

    def __init__(
        self,
        bounds: Tensor,
        num_repeats: int,
        risk_aversion: float,
        seeds: int | Sequence[int],
        *,
        num_initial: int = 10,
        batch_size: int = 1,
        beta: float = 4.0,
        noise_beta: float = 4.0,
        rule: Rule = "lower_confidence_bound",
        refit_every: int | None = 1,
        variance_link: Literal["log", "identity"] = "log",
        known_noise: Callable[[Tensor], Tensor] | None = None,
        min_noise_variance: float | None = None,
        max_noise_variance: float | None = None,
        num_restarts: int = 10,
        raw_samples: int = 256,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the box, `2 x d`.
            num_repeats: The number k of repeats at each point, at least 2 where the noise is
                to be learnt.
            risk_aversion: Weight of the variance, >= 0 (the paper's alpha); it is also the
                weight by which points are reported.
            seeds: One seed per replicate.
            num_initial: The number of points of the initial design.
            batch_size: The number `q` of points of each later round.
            beta: Squared width of the bound of f (the paper's beta_t = 2, squared).
            noise_beta: Squared width of the bound of the noise (beta^var_t, squared).
            rule: The reporting rule of `recommend`.
            refit_every: After how many rounds the hyperparameters are fitted anew; `None` keeps
                those of the initial design, as in the paper's experiments.
            variance_link: The scale of the noise process; see `MeanVarianceGP`.
            known_noise: The noise variance `... x d -> ... x 1` in the units of the bounds, if
                it is known (Eq. 9).
            min_noise_variance: Lower limit of the noise variance.
            max_noise_variance: Upper limit of the noise variance.
            num_restarts: Starts of the acquisition optimiser.
            raw_samples: Raw points of the acquisition optimiser.

        Raises:
            ValueError: If a number is out of its range.
        """
        super().__init__(bounds, seeds, num_initial, batch_size)
        if num_repeats < (1 if known_noise is not None else 2):
            raise ValueError(
                "Expected `num_repeats` to be at least 2, or 1 where the noise is known. "
                f"Got {num_repeats=}."
            )
        if refit_every is not None and refit_every < 1:
            raise ValueError(f"Expected `refit_every` to be at least 1 or None. Got {refit_every}.")
        self.refit_every = refit_every
        self.num_repeats = num_repeats
        self.risk_aversion = float(as_nonnegative("risk_aversion", risk_aversion))
        self.beta = float(as_nonnegative("beta", beta))
        self.noise_beta = float(as_nonnegative("noise_beta", noise_beta))
        self.rule: Rule = rule
        self.known_noise = known_noise
        self.model_options: dict[str, Any] = {
            "variance_link": variance_link,
            "noise_beta": noise_beta,
            "min_noise_variance": min_noise_variance,
            "max_noise_variance": max_noise_variance,
        }
        self.num_restarts, self.raw_samples = num_restarts, raw_samples
        self._model: MeanVarianceGP | None = None
        self._hyperparameters: dict[str, Tensor] | None = None
        self._recorded = self.bounds.new_empty(len(self.seeds), 0)  # R x n

    @property
    def model(self) -> MeanVarianceGP:
        r"""The model of all data so far, on the unit cube; fitted when first asked for."""
        if self._model is None:
            self._model = self._fit()
        return self._model

    def tell(self, X: Tensor, Y: Tensor) -> None:
        r"""Records outcomes, and the lower bound at each point in the model that chose it.

        The initial design is bounded by the first model (Corollary 1.1 needs some bound).

        Args:
            X: The evaluated points, `R x q x d`; NaN in a replicate that took no part.
            Y: Their repeats, `R x q x k`. NaN marks a missing repeat.
        """
        self._validate(X, Y)
        chosen_by = self.model if self._round else None
        super().tell(X, Y)
        self._model = None
        bound = RiskAverseLowerConfidenceBound(chosen_by or self.model, **self._weights())
        with torch.no_grad():
            recorded = bound.lower(self._unit(as_data(X).to(self.bounds)))
        self._recorded = torch.cat([self._recorded, recorded], dim=-1)

    def recommend(self) -> Tensor:
        r"""The best evaluated point by the reporting rule, `R x d`."""
        X, Y = self._observed()
        missing = Y.isnan().all(dim=-1)  # R x n
        rows = torch.arange(X.shape[-2], device=X.device).expand(missing.shape)
        rows = rows.where(~missing, missing.to(torch.uint8).argmin(dim=-1, keepdim=True))
        X = X.gather(-2, rows.unsqueeze(-1).expand(X.shape))  # never a row without an outcome
        chosen = recommend(
            RiskAverseLowerConfidenceBound(self.model, **self._weights()),
            self._unit(X),
            self.rule,
            self._recorded.masked_fill(missing, -torch.inf),
        )
        return X[torch.arange(len(X), device=X.device), chosen.row]

    def state_dict(self) -> dict[str, Any]:  # noqa: D102
        return {
            **super().state_dict(),
            "recorded": self._recorded,
            "hyperparameters": self._hyperparameters,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: D102
        super().load_state_dict(state)
        self._recorded = state["recorded"].to(self.bounds)
        self._hyperparameters = state["hyperparameters"]
        self._model = None

    @abstractmethod
    def _acquisition(self, model: MeanVarianceGP) -> PointwiseAcquisitionFunction:
        r"""The acquisition function of this round."""

    def _propose(self) -> Tensor:
        X, _ = optimize_acqf_replicates(
            self._acquisition(self.model),
            self._unit_cube(),
            q=self.batch_size,
            seeds=[derive_seed(seed, "acquisition", self._round) for seed in self.seeds],
            num_restarts=self.num_restarts,
            raw_samples=self.raw_samples,
        )
        lower, upper = self.bounds
        return (lower + (upper - lower) * X).clamp(lower, upper)

    def _fit(self) -> MeanVarianceGP:
        X, Y = self._observed()
        model = MeanVarianceGP(
            self._unit(X),
            RepeatedOutcomes.from_repeats(Y, allow_missing=True),
            known_noise=None if self.known_noise is None else self._known_noise_on_unit_cube,
            **self.model_options,
        )
        refit = self.refit_every and (self._round - 1) % self.refit_every == 0
        if self._hyperparameters is None or refit:
            model.fit_processes(self._fit_process)
            self._hyperparameters = self._worth_keeping(model)
        else:
            model.load_state_dict(self._hyperparameters)
        return model.eval()

    def _worth_keeping(self, model: MeanVarianceGP) -> dict[str, Tensor] | None:
        r"""The state that rounds without a fit start from; none if every round fits."""
        if self.refit_every == 1:
            return None
        return {key: value.clone() for key, value in model.state_dict().items()}

    def _fit_process(self, process: Any) -> bool:
        result = fit_exact_gp(process)
        warn_of_failed_fits(result, self.seeds, stacklevel=2)
        return not result.has_failed

    def _known_noise_on_unit_cube(self, X: Tensor) -> Tensor:
        lower, upper = self.bounds
        return self.known_noise(lower + (upper - lower) * X)  # type: ignore[misc]

    def _unit(self, X: Tensor) -> Tensor:
        r"""Points of the box on the unit cube; its centre where a replicate took no part."""
        lower, upper = self.bounds
        return ((X - lower) / (upper - lower)).nan_to_num(nan=0.5)

    def _unit_cube(self) -> Tensor:
        return torch.stack([torch.zeros_like(self.bounds[0]), torch.ones_like(self.bounds[0])])

    def _weights(self) -> dict[str, Any]:
        return {
            "beta": self.beta,
            "noise_beta": self.noise_beta,
            "risk_aversion": self.risk_aversion,
        }
