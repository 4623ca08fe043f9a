r"""Baselines of RAHBO: risk-neutral GP-UCB, and qLogNEI of BoTorch."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.exceptions.errors import UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.sampling import manual_seed
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from botorch_risk.acquisition.mean_variance import MeanVarianceObjective
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.papers.rahbo import MeanVarianceSearch, Weights, rahbo
from botorch_risk.papers.rahbo.strategy import risk_averse
from botorch_risk.strategies.method import ReportedMethod, View
from botorch_risk.strategies.space import Box, unit_cube
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.documented import documented


@documented(
    "num_repeats=4, risk_aversion=1.0, num_initial=4", 1, options="Further arguments of `rahbo`."
)
def heteroscedastic_gp_ucb(
    bounds: Tensor | Box, seeds: int | Sequence[int], **options: Any
) -> Strategy:
    r"""GP-UCB on the heteroscedastic model: the risk-neutral baseline.

    Eq. (7) of [Makarova2021rahbo]_.

    It explores as if `risk_aversion` were 0, and reports by the same rule and the same
    `risk_aversion` as RAHBO, so that a comparison shows what the acquisition gains.
    """
    return rahbo(bounds, seeds, acquisition=risk_neutral, **options)


def risk_neutral(model: MeanVarianceGP, t: int, weights: Weights) -> PointwiseAcquisitionFunction:
    r"""The upper confidence bound of the mean."""
    return risk_averse(model, t, replace(weights, risk_aversion=0.0))


@documented(
    "num_repeats=4, risk_aversion=1.0, num_initial=4", 1, options="Further arguments of `rahbo`."
)
def mean_variance_log_nei(
    bounds: Tensor | Box, seeds: int | Sequence[int], **options: Any
) -> Strategy:
    r"""Mean minus weighted variance by qLogNEI, as a BoTorch user would maximise it.

    Each seed has its own unbatched model, fitted by `fit_gpytorch_mll`, and its own call of
    `optimize_acqf`: the time grows with the number of seeds. It reports by the same rule as RAHBO.

    LogNEI is from [Ament2023logei]_.
    """
    like: Any = rahbo(bounds, seeds, **options)
    require_continuous(like.space, "qLogNEI")
    return Strategy(
        like.space,
        MeanVarianceLogNEI(like.method),
        seeds,
        num_initial=like.history.num_initial,
        batch_size=like.batch_size,
    )


def require_continuous(box: Any, name: str) -> None:
    r"""Raise an `UnsupportedError` if a box has integers or categories."""
    if box.discrete:
        raise UnsupportedError(
            f"Expected a box without integers and categories for {name}, which BoTorch's "
            f"`optimize_acqf` maximises. Got {box.integers=}, {box.categories=}."
        )


@dataclass(frozen=True)
class MeanVarianceLogNEI(ReportedMethod):
    r"""Proposes by qLogNEI, and reports as `MeanVarianceSearch` does."""

    report: MeanVarianceSearch

    def propose(self, view: View) -> Tensor:
        r"""The maximiser of qLogNEI, seed by seed."""
        proposals = []
        X, Y = view.complete
        for x, y, stream in zip(X, Y, view.history.streams("acquisition"), strict=True):
            seed = stream % 2**31  # BoTorch takes 31 bits
            with manual_seed(seed), warnings.catch_warnings():
                # Near-duplicate points make qLogNEI's joint covariance singular to rounding.
                warnings.simplefilter("ignore", NumericalWarning)
                proposals.append(self._propose_one(view, x, y, seed))
        return view.space.from_unit(torch.stack(proposals))

    def _propose_one(self, view: View, X: Tensor, Y: Tensor, seed: int) -> Tensor:
        model = self.report.model(view, X, RepeatedOutcomes.from_repeats(Y))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acqf = qLogNoisyExpectedImprovement(
            model,
            X_baseline=model.train_X,
            sampler=SobolQMCNormalSampler(torch.Size([128]), seed=seed),
            objective=MeanVarianceObjective(model, self.report.weights.risk_aversion),
        )
        candidate, _ = optimize_acqf(
            acqf,
            unit_cube(view.space.bounds),
            q=view.batch_size,
            num_restarts=self.report.num_restarts,
            raw_samples=self.report.raw_samples,
            options={"seed": seed},
        )
        return candidate
