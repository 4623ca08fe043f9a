r"""What the outside baselines share where the law of W is known: BoTorch's parts, seed by seed."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.risk_measures import VaR
from botorch.exceptions.warnings import OptimizationWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import AppendFeatures, ChainedInputTransform, Normalize
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.sampling import manual_seed
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from botorch_risk.environments import IndependentEnvironment
from botorch_risk.environments.environment import choose
from botorch_risk.gradients import require_gradients
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.risk import ValueAtRisk
from botorch_risk.seeding import derive_seed, generators
from botorch_risk.strategies.known_law import KnownLawStrategy


class BoTorchValueAtRisk(KnownLawStrategy, ABC):
    r"""A strategy whose model, objective and optimiser are BoTorch's.

    Each seed has its own unbatched model, fitted by `fit_gpytorch_mll`, and its own call of
    `optimize_acqf`. The model appends a set of `n_w` values of W to each decision, over which
    BoTorch's `VaR` is taken. That knows no weights, so the set is drawn in proportion to them, anew
    for each query: the levels `(j + u) / n_w`, `u` uniform, of the points of the law in their own
    order (systematic resampling). Where `n_w` times the level is an integer, BoTorch's value is
    the next larger one than that of `ValueAtRisk`.

    Decisions are recommended as by the other strategies, by the batched model of these.
    """

    environment: IndependentEnvironment

    def __init__(
        self,
        bounds: Tensor,
        environment: IndependentEnvironment,
        risk_level: float,
        seeds: int | Sequence[int],
        *,
        n_w: int = 16,
        num_samples: int = 32,
        refit_every: int = 1,
        max_iterations: int = 50,
        num_restarts: int = 4,
        raw_samples: int = 32,
        **options: Any,
    ) -> None:
        r"""Builds the strategy.

        Args:
            bounds: The lower and the upper bounds of the decisions, `2 x d_x`.
            environment: The known law of W.
            risk_level: Lower-tail probability in (0, 1); BoTorch's `alpha` is 1 minus it.
            seeds: One seed per replicate.
            n_w: How many values of W stand for the law.
            num_samples: Samples of the outcomes at these values, jointly.
            refit_every: Rounds from one estimate of the hyperparameters to the next, which is from
                all data of its round; in between they stay.
            max_iterations: Iterations of the acquisition optimiser.
            num_restarts: Starts of the acquisition optimiser.
            raw_samples: Raw points of the acquisition optimiser.
            options: Further arguments of `KnownLawStrategy` but `w_is_chosen`.

        Raises:
            ValueError: If a number is below 1 or the level is not in (0, 1).
        """
        if min(n_w, num_samples, refit_every, max_iterations) < 1:
            raise ValueError(
                "Expected numbers of at least 1. "
                f"Got {n_w=}, {num_samples=}, {refit_every=}, {max_iterations=}."
            )
        super().__init__(
            bounds,
            environment,
            ValueAtRisk(risk_level),
            seeds,
            w_is_chosen=True,
            num_restarts=num_restarts,
            raw_samples=raw_samples,
            **options,
        )
        self.n_w, self.num_samples, self.refit_every = n_w, num_samples, refit_every
        self.max_iterations = max_iterations
        self.objective = VaR(alpha=1 - risk_level, n_w=n_w)
        self._fits: dict[int, tuple[int, SingleTaskGP]] = {}  # replicate: rows, model
        self._num_fitted = 0  # rows that hyperparameters are estimated from

    def tell(self, X: Tensor, Y: Tensor) -> None:
        r"""Records outcomes of pairs; see `KnownLawStrategy.tell`."""
        super().tell(X, Y)
        if (self._round - 1) % self.refit_every == 0:
            self._num_fitted = self._X.shape[-2]

    def state_dict(self) -> dict[str, Any]:
        r"""As `KnownLawStrategy.state_dict`, and how many rows hyperparameters are from."""
        return {**super().state_dict(), "num_fitted": self._num_fitted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        r"""Continues from `state_dict()` of a strategy built with the same arguments."""
        super().load_state_dict(state)
        self._num_fitted = state["num_fitted"]
        self._fits = {}

    @abstractmethod
    def _optimize(self, model: SingleTaskGP, visited: Tensor, pending: Tensor | None) -> Tensor:
        r"""The next decision `1 x d_x`, or pair `1 x d`, of one replicate.

        Args:
            model: Of decisions, `W` appended; or of pairs where it is conditioned.
            visited: The decisions with an outcome, `n x d_x`.
            pending: Pairs under evaluation, `pick x d`; None if there are none.
        """

    def _choose(self, pick: int, pending: Tensor | None) -> Tensor:
        w_sets = self._resampled(pick)
        pairs = []
        for row, stream in enumerate(self._streams("acquisition", pick)):
            with manual_seed(stream % 2**31), _without_numerical_warnings():
                model = self._model(row, w_sets[row])
                visited = self._told(row)[0][:, : self.bounds.shape[-1]]
                ahead = None if pending is None else pending[row]
                pairs.append(self._optimize(model, visited, ahead))
        return self._with_supported_w(torch.stack(pairs), pick)

    def _resampled(self, pick: int) -> Tensor:
        r"""Values of W in proportion to their weights, `R x n_w x d_w`."""
        draws = generators(self._streams("appended values", pick), "uniform")
        shifts = torch.stack([torch.rand(1, generator=each, dtype=torch.double) for each in draws])
        levels = (torch.arange(self.n_w, dtype=torch.double) + shifts) / self.n_w  # R x n_w
        environment = self.environment
        levels = levels.unsqueeze(-1).to(environment.points.device)
        return choose(environment.points, environment.weights, levels).to(self.bounds)

    def _with_supported_w(self, chosen: Tensor, pick: int) -> Tensor:
        r"""Pairs `R x 1 x d` with w in the support: the nearest point of it, or a draw if none."""
        X, W = chosen.tensor_split([self.bounds.shape[-1]], dim=-1)
        environment = self.environment
        if W.shape[-1] == 0:
            draws = generators(self._streams("context", pick), "environment")
            return torch.cat([X, environment.sample(1, draws).to(X)], dim=-1)
        lower, upper = self._box()[:, X.shape[-1] :]
        gaps = (W.unsqueeze(-2) - environment.points.to(W).unsqueeze(-3)) / (upper - lower)
        distance = gaps.square().sum(dim=-1)  # R x 1 x n_w
        distance = distance.masked_fill((environment.weights <= 0).unsqueeze(-2), torch.inf)
        index = distance.argmin(dim=-1, keepdim=True).expand(*W.shape)
        nearest = environment.points.to(W).expand(len(W), -1, -1).gather(-2, index)
        kept = environment.supports(W).unsqueeze(-1)
        return torch.cat([X, W.where(kept, nearest)], dim=-1)

    def _told(self, row: int, num_rows: int | None = None) -> tuple[Tensor, Tensor]:
        r"""The pairs of one replicate with an outcome, `n x d`, and these, `n x 1`."""
        X, Y = self._observed()
        told = ~self._missing()[row, :num_rows]
        outcomes = Y[row, :num_rows].nanmean(dim=-1, keepdim=True)
        return X[row, :num_rows][told], outcomes[told]

    def _model(self, row: int, w_set: Tensor) -> SingleTaskGP:
        r"""The model of all data of one replicate, its hyperparameters of the last estimate."""
        fitted_rows, fitted = self._fits.get(row, (0, None))
        if fitted is None or fitted_rows != self._num_fitted:
            require_gradients("fit_gpytorch_mll")
            fitted = self._unfitted(w_set, *self._told(row, self._num_fitted))
            with manual_seed(derive_seed(self.seeds[row], "fit", self._num_fitted) % 2**31):
                fit_gpytorch_mll(ExactMarginalLogLikelihood(fitted.likelihood, fitted))
            self._fits[row] = self._num_fitted, fitted
        model = self._unfitted(w_set, *self._told(row))
        for parameter, estimate in zip(model.parameters(), fitted.parameters(), strict=True):
            parameter.data.copy_(estimate)
        return model.eval()

    def _unfitted(self, w_set: Tensor, X: Tensor, Y: Tensor) -> SingleTaskGP:
        transform = ChainedInputTransform(
            append=AppendFeatures(feature_set=w_set),
            normalize=Normalize(X.shape[-1], bounds=self._box()),
        )
        return standardized_gp(X, Y, input_transform=transform)

    def _sampler(self, num_samples: int) -> SobolQMCNormalSampler:
        seed = int(torch.randint(2**31, (1,)))  # of the stream of this query
        return SobolQMCNormalSampler(torch.Size([num_samples]), seed=seed)

    def _maximizer(self, acqf: AcquisitionFunction, bounds: Tensor) -> Tensor:
        r"""By `optimize_acqf`, in the pieces that keep the memory small, without a second try."""
        batch_limits = {"batch_limit": 4, "init_batch_limit": 16}
        return optimize_acqf(
            acqf,
            bounds,
            q=1,
            num_restarts=self.num_restarts,
            raw_samples=self.raw_samples,
            options={"maxiter": self.max_iterations, **batch_limits},
            retry_on_optimization_warning=False,
        )[0]


@contextmanager
def _without_numerical_warnings() -> Iterator[None]:
    r"""Silences what close values of w bring about: covariances that are singular to rounding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        warnings.simplefilter("ignore", OptimizationWarning)
        warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)
        yield
