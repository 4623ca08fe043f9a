r"""BoTorch's noisy expected improvement as an outside baseline, seed by seed."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.sampling import manual_seed
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from botorch_risk.acquisition.mean_variance_objective import MeanVarianceObjective
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.seeding import derive_seed
from botorch_risk.strategies.mean_variance import MeanVarianceStrategy
from botorch_risk.strategies.value_at_risk_botorch import BoTorchValueAtRisk


class MeanVarianceLogNEI(MeanVarianceStrategy):
    r"""qLogNEI of mean minus weighted variance, as a BoTorch user would write it.

    Each seed has its own unbatched model, fitted by `fit_gpytorch_mll`, and its own call of
    `optimize_acqf`: nothing here is batched over replicates, so the time grows with their
    number. It reports by the same rule as the others. The arguments are those of
    `MeanVarianceStrategy`.

    Example:
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> strategy = MeanVarianceLogNEI(
        ...     bounds, num_repeats=4, risk_aversion=1.0, seeds=0, num_initial=5,
        ...     num_restarts=2, raw_samples=16,
        ... )
        >>> X = strategy.ask()
        >>> strategy.tell(X, (3 * X).sin() + 0.1 * torch.randn(1, 5, 4, dtype=torch.double))
        >>> strategy.ask().shape
        torch.Size([1, 1, 1])
    """

    def _acquisition(self, model: MeanVarianceGP) -> PointwiseAcquisitionFunction:
        raise NotImplementedError("The acquisition function is built for each seed in `_propose`.")

    def _propose(self) -> Tensor:
        X, Y = self._observed()
        proposals = []
        for seed, inputs, repeats in zip(self.seeds, self._unit(X), Y, strict=True):
            told = ~repeats.isnan().all(dim=-1)
            stream = derive_seed(seed, "acquisition", self._round) % 2**31
            with manual_seed(stream), warnings.catch_warnings():
                # Near-duplicate points make qLogNEI's joint covariance singular to rounding.
                warnings.simplefilter("ignore", NumericalWarning)
                proposals.append(self._propose_one(inputs[told], repeats[told], stream))
        lower, upper = self.bounds
        return (lower + (upper - lower) * torch.stack(proposals)).clamp(lower, upper)

    def _propose_one(self, X: Tensor, Y: Tensor, seed: int) -> Tensor:
        known_noise: Any = None if self.known_noise is None else self._known_noise_on_unit_cube
        outcomes = RepeatedOutcomes.from_repeats(Y)
        model = MeanVarianceGP(X, outcomes, known_noise=known_noise, **self.model_options)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acqf = qLogNoisyExpectedImprovement(
            model,
            X_baseline=model.train_X,
            sampler=SobolQMCNormalSampler(torch.Size([128]), seed=seed),
            objective=MeanVarianceObjective(model, self.risk_aversion),
        )
        candidate, _ = optimize_acqf(
            acqf,
            self._unit_cube(),
            q=self.batch_size,
            num_restarts=self.num_restarts,
            raw_samples=self.raw_samples,
            options={"seed": seed},
        )
        return candidate


class ValueAtRiskLogNEI(BoTorchValueAtRisk):
    r"""qLogNEI of the value-at-risk over decisions, w from its law: as a BoTorch user would.

    `qLogNoisyExpectedImprovement` of decisions with BoTorch's `VaR` as the objective, against the
    decisions that were queried (pruned); it has no opinion on w. The arguments are those of
    `RhoKnowledgeGradient` but `inner_solutions` and `num_fantasies`.

    Example:
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> law = DiscreteEnvironment(torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1))
        >>> strategy = ValueAtRiskLogNEI(
        ...     bounds, law, risk_level=0.1, seeds=0, num_initial=4, n_w=4, num_restarts=1,
        ...     raw_samples=4,
        ... )
        >>> pairs = strategy.ask()
        >>> strategy.tell(pairs, (4 * pairs).sin().sum(dim=-1, keepdim=True))
        >>> strategy.ask().shape
        torch.Size([1, 1, 2])
    """

    def _optimize(self, model: SingleTaskGP, visited: Tensor, pending: Tensor | None) -> Tensor:
        acqf = qLogNoisyExpectedImprovement(
            model,
            X_baseline=visited,
            sampler=self._sampler(self.num_samples),
            objective=self.objective,
            prune_baseline=True,
            X_pending=None if pending is None else pending[:, : visited.shape[-1]],
        )
        return self._maximizer(acqf, self.bounds)
