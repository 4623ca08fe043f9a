r"""Strategies for decisions under an environment whose law is known."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, get_args

import torch
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models.transforms.input import Normalize
from torch import Tensor

from botorch_risk.acquisition.pointwise import as_nonnegative
from botorch_risk.acquisition.risk_ucb import RiskUpperConfidenceBound
from botorch_risk.acquisition.widths import bayesian_beta
from botorch_risk.environments import Environment, IndependentEnvironment, InputPerturbation
from botorch_risk.environments.environment import choose
from botorch_risk.environments.uniforms import draw_uniforms
from botorch_risk.fit.exact_gp import fit_exact_gp
from botorch_risk.models.hallucination import condition_on_mean
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.recommend import maximize_risk_of_mean, recommend
from botorch_risk.risk import RiskMeasure
from botorch_risk.seeding import derive_seed, generators
from botorch_risk.strategies.replicated import ReplicatedStrategy, as_data

Reporting = Literal[
    "posterior_mean",
    "lower_confidence_bound",
    "recorded_lower_confidence_bound",
    "posterior_mean_everywhere",
]
Beta = float | Callable[[int], float]
KnownLaw = IndependentEnvironment | InputPerturbation


class KnownLawStrategy(ReplicatedStrategy):
    r"""A strategy that asks for a decision and a value of W, whose law it knows.

    `ask` returns pairs `R x q x (d_x + d_w)` with w in the last columns, and `tell` takes pairs;
    if w cannot be chosen, `ask` returns decisions `R x q x d_x` and `tell` takes them with the w
    that they met. Each round fits a Gaussian process of (x, w) with BoTorch's default kernel and
    priors (V-UCB's authors: maximum likelihood, every third round). A row without an outcome is
    replaced by the first row of its replicate that has one.

    Later points of a batch are chosen with the earlier ones pending: the model is conditioned on
    its own mean at them. The decisions of the initial design are Sobol points; each of their w
    is any of the law's points of positive weight, all with the same probability.

    Where the law perturbs the decision (an `InputPerturbation`), `ask` returns `x + w`, `R x q x
    d_x`, the Gaussian process is of that alone, and `tell` takes it in the order of asking. The
    decision, which `recommend` reports, is kept: a row of the data is `(x, w)` or `(x, x + w)`.

    A subclass chooses the next pair in `_choose`, and names the kinds of law that it takes.
    """

    environment: KnownLaw
    _laws: ClassVar[tuple[type[KnownLaw], ...]] = (IndependentEnvironment,)

    def __init__(
        self,
        bounds: Tensor,
        environment: Environment,
        risk_measure: RiskMeasure,
        seeds: int | Sequence[int],
        *,
        beta: Beta | None = None,
        w_is_chosen: bool = True,
        reporting: Reporting = "posterior_mean",
        num_initial: int = 10,
        batch_size: int = 1,
        num_restarts: int = 10,
        raw_samples: int = 256,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
            environment: The law of W, in the units of W; one, or one for each replicate.
            risk_measure: What is to be maximised over decisions.
            seeds: One seed per replicate.
            beta: Squared width of the bound, or a function of the round from 1. Default: the
                schedule of V-UCB's experiments, `2 log(t^2 pi^2 / 0.6)`.
            w_is_chosen: Whether w can be chosen; otherwise the environment draws it.
            reporting: The rule of `recommend`, one of `recommend`, or
                `"posterior_mean_everywhere"` for `maximize_risk_of_mean`. Lower bounds are
                recorded in the round of the query; for the initial design, by the first model.
            num_initial: The number of pairs of the initial design.
            batch_size: The number `q` of pairs of each later round.
            num_restarts: Starts of the acquisition optimiser.
            raw_samples: Raw points of the acquisition optimiser.

        Raises:
            BotorchTensorDimensionError: If the bounds are not `2 x d_x`, or there are laws for
                another number of replicates.
            UnsupportedError: If the law depends on the decision and the strategy takes no such law.
            ValueError: If the bounds are reversed or not finite, a number is out of its range, or
                the reporting rule is unknown.
        """
        if not isinstance(environment, self._laws):
            names = [law.__name__ for law in self._laws]
            raise UnsupportedError(f"Expected one of {names}. Got {type(environment).__name__}.")
        if reporting not in get_args(Reporting):
            raise ValueError(f"Expected `reporting` in {get_args(Reporting)}. Got {reporting!r}.")
        self.environment = environment
        super().__init__(bounds, seeds, num_initial, batch_size)
        if environment.weights.shape[:-1] not in ((), (len(self.seeds),)):
            raise BotorchTensorDimensionError(
                f"Expected one law, or one for each of {len(self.seeds)} replicates. "
                f"Got weights of {environment.weights.shape}."
            )
        self.risk_measure = risk_measure
        self.beta: Beta = bayesian_beta if beta is None else beta
        if not callable(self.beta):
            self.beta = float(as_nonnegative("beta", self.beta))
        self.w_is_chosen, self.reporting = w_is_chosen, reporting
        self.num_restarts, self.raw_samples = num_restarts, raw_samples
        self._acquisition: tuple[int, RiskUpperConfidenceBound] | None = None
        self._recorded = self.bounds.new_empty(len(self.seeds), 0)  # R x n

    @property
    def acquisition(self) -> RiskUpperConfidenceBound:
        r"""The confidence bound of this round; built when asked for."""
        if self._acquisition is None or self._acquisition[0] != self._round:
            X, Y = self._complete()
            X = self._queries(X)
            transform = Normalize(X.shape[-1], bounds=self._box())
            outcomes = Y.nanmean(dim=-1, keepdim=True)
            model = standardized_gp(X, outcomes, input_transform=transform)
            fit_exact_gp(model, observed=~self._missing())
            bound = RiskUpperConfidenceBound(
                model, self.environment, self.risk_measure, self._current_beta()
            )
            self._acquisition = self._round, bound
        return self._acquisition[1]

    def ask(self) -> Tensor:
        r"""Pairs, or decisions if w is not chosen; the initial design first."""
        asked = self._asked()
        return self._queries(asked) if self.w_is_chosen else asked

    def tell(self, X: Tensor, Y: Tensor) -> None:
        r"""Records outcomes of pairs `R x q x (d_x + d_w)`; see `ReplicatedStrategy.tell`.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit.
            InputDataError: If a value is infinite, an outcome comes without its point, or a w is
                outside the support of its law.
        """
        rows = self._as_rows(as_data(X))
        self._validate(rows, Y)
        if self._round:
            self._recorded = self._bounds_of_round(rows.to(self.bounds))
        super().tell(rows, Y)

    def recommend(self) -> Tensor:
        r"""The decision of each replicate by the reporting rule, `R x d_x`."""
        X = self._complete()[0][..., : self.bounds.shape[-1]]
        if self.reporting == "posterior_mean_everywhere":
            return maximize_risk_of_mean(
                self.acquisition,
                self.bounds,
                seeds=[derive_seed(seed, "recommendation", self._round) for seed in self.seeds],
                num_restarts=self.num_restarts,
                raw_samples=self.raw_samples,
            )[0]
        recorded = None
        if self.reporting == "recorded_lower_confidence_bound":
            known = self._recorded if self._round > 1 else self._bounds_of_round(X[:, :0])
            recorded = known.masked_fill(self._missing(), -torch.inf)
        return recommend(self.acquisition, X, self.reporting, recorded).point

    def state_dict(self) -> dict[str, Any]:
        r"""The data, the number of rounds and the lower bounds of the rounds of the queries."""
        return {**super().state_dict(), "recorded": self._recorded}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        r"""Continues from `state_dict()` of a strategy built with the same arguments."""
        super().load_state_dict(state)
        self._recorded = state["recorded"].to(self.bounds)
        self._acquisition = None

    @abstractmethod
    def _choose(self, pick: int, pending: Tensor | None) -> Tensor:
        r"""The next row of a round, `R x 1 x d`, or decision if w is not chosen, `R x 1 x d_x`.

        Args:
            pick: Its number within the batch, from 0.
            pending: What was chosen before it, `R x pick x d`; None for the first.
        """

    @property
    def _num_inputs(self) -> int:
        d_x = self.bounds.shape[-1]
        return self.environment.num_inputs(d_x) + d_x * self._perturbs

    @property
    def _perturbs(self) -> bool:
        r"""Whether the law perturbs the decision, so that a row is `(x, x + w)`."""
        d_x = self.bounds.shape[-1]
        return self.environment.num_inputs(d_x) == d_x

    def _queries(self, rows: Tensor) -> Tensor:
        r"""What is evaluated, and what the model is of."""
        return rows[..., self.bounds.shape[-1] :] if self._perturbs else rows

    def _row(self, X: Tensor, query: Tensor) -> Tensor:
        r"""A decision and its query as a row."""
        return torch.cat([X, query], dim=-1) if self._perturbs else query

    def _asked(self) -> Tensor:
        r"""What `ask` asks for as rows, or decisions if w is not chosen."""
        decisions = super().ask()
        if self._round or not self.w_is_chosen:
            return decisions
        inputs, weights = self.environment.expand(decisions)  # R x n x n_w x d
        even = (weights > 0).to(inputs)
        even = (even / even.sum(dim=-1, keepdim=True)).expand(inputs.shape[:-1])
        draws = generators(self.seeds, "initial environment")
        uniforms = draw_uniforms((self.num_initial, 1, 1), draws).to(inputs.device)
        return self._row(decisions, choose(inputs, even, uniforms).squeeze(-2))

    def _as_rows(self, X: Tensor) -> Tensor:
        r"""Told queries as rows: of perturbed decisions, those that were asked for."""
        if not self._perturbs:
            return X
        decisions = self._asked()[..., : self.bounds.shape[-1]]
        if X.shape != decisions.shape:
            message = f"Expected {decisions.shape=}, as asked. Got {X.shape=}."
            raise BotorchTensorDimensionError(message)
        return torch.cat([decisions, X.to(decisions)], dim=-1)

    def _propose(self) -> Tensor:
        chosen: list[Tensor] = []
        for pick in range(self.batch_size):
            pending = torch.cat(chosen, dim=-2) if chosen else None
            chosen.append(self._choose(pick, pending))
        return torch.cat(chosen, dim=-2)

    def _given(
        self,
        pending: Tensor | None,
        environment: Environment | None = None,
        risk_measure: RiskMeasure | None = None,
    ) -> RiskUpperConfidenceBound:
        r"""The bound of this round, of another risk if wanted, given the pending queries."""
        if pending is None and environment is None:
            return self.acquisition
        model, decisions = self.acquisition.model, None
        if pending is not None and pending.shape[-1] == self._num_inputs:
            model = condition_on_mean(model, self._queries(pending))
        else:
            decisions = pending
        return RiskUpperConfidenceBound(
            model,
            environment or self.environment,
            risk_measure or self.risk_measure,
            self._current_beta(),
            X_pending=decisions,
        )

    def _streams(self, purpose: str, pick: int) -> list[int]:
        r"""A seed for each replicate, of this round and this place in the batch."""
        return [derive_seed(seed, purpose, self._round, pick) for seed in self.seeds]

    def _current_beta(self) -> float:
        return self.beta(self._round) if callable(self.beta) else self.beta

    def _bounds_of_round(self, X: Tensor) -> Tensor:
        r"""The recorded bounds with those of this round's model at `R x q x d` added, `R x n`."""
        if not self._recorded.shape[-1]:
            X = torch.cat([self._X[..., : X.shape[-1]], X], dim=-2)
        missing = X.isnan().any(dim=-1)
        decisions = X[..., : self.bounds.shape[-1]]
        decisions = decisions.where(~missing.unsqueeze(-1), self.bounds[0])
        with torch.no_grad():
            lower = self.acquisition.lower(decisions).masked_fill(missing, -torch.inf)
        return torch.cat([self._recorded, lower], dim=-1)

    def _box(self) -> Tensor:
        r"""The range of what may be queried, `2 x d`."""
        lower, upper = self.environment.range(self.bounds)
        upper = upper.where(upper > lower, lower + 1)  # a single value
        return torch.stack([lower, upper])

    def _validate(self, X: Tensor, Y: Tensor) -> None:
        super()._validate(X, Y)
        W = X[..., self.bounds.shape[-1] :]
        supported = self.environment.contains(X[..., : self.bounds.shape[-1]], W)
        outside = W.isfinite().all(dim=-1) & ~supported
        if outside.any():
            index = tuple(outside.nonzero()[0].tolist())
            raise InputDataError(
                f"Expected every w in the support of its law. Got {W[index].tolist()} at {index}."
            )
