r"""Pieces of the package, evaluated on small, plain data."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import qSimpleRegret
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from botorch_risk.acquisition import (
    MeanVarianceObjective,
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
    RiskUpperConfidenceBound,
    qRiskAverseUpperConfidenceBound,
)
from botorch_risk.acquisition.mean_variance import NoisePosteriorStandardDeviation
from botorch_risk.engine import Belief, DomainPosterior, fit_exact_gp, optimize_acqf_replicates
from botorch_risk.environments import DiscreteEnvironment, KernelDensityEnvironment
from botorch_risk.fit import PseudoDataMarginalLogLikelihood
from botorch_risk.level_sets import Straddle
from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.papers import LevelSet, TruncatedVarianceReduction, TruncatedVarianceState
from botorch_risk.recommend import recommend
from botorch_risk.repeats import repeat_advice
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)

UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.double)


@dataclass(frozen=True)
class Data:
    r"""Data of an experiment, and the units that its outcomes are in."""

    X: Tensor
    Y: Tensor
    x: Tensor
    scale: float = 1.0
    shift: float = 0.0
    mode: Callable[[], AbstractContextManager] = nullcontext

    @property
    def means(self) -> Tensor:
        return self.Y.nanmean(dim=-1, keepdim=True) if self.Y.dim() > 1 else self.Y


def plain() -> Data:
    generator = torch.Generator().manual_seed(0)
    draw = {"generator": generator, "dtype": torch.double}
    X = torch.rand(9, 2, **draw)
    noise = (0.1 + 0.3 * X[:, 1:]) * torch.randn(9, 4, **draw)
    return Data(X, (4 * X).sin().sum(dim=-1, keepdim=True) + noise, torch.rand(5, 2, **draw))


def model(data: Data) -> MeanVarianceGP:
    return MeanVarianceGP(data.X, data.Y)


def gp(data: Data) -> Any:
    return standardized_gp(data.X, data.means)


def mean(data: Data) -> Tensor:
    return model(data).mean_marginals(data.x).mean - data.shift


def noise(data: Data) -> Tensor:
    return model(data).predicted_noise(data.x).squeeze(-1).sqrt()


def noise_bounds(data: Data) -> Tensor:
    return torch.cat(model(data).noise_confidence_bounds(data.x, 4.0)).sqrt()


def posterior(data: Data) -> Tensor:
    return model(data).posterior(data.x).mean.squeeze(-1) - data.shift


def risk_averse(cls: type) -> Callable[[Data], Tensor]:
    def piece(data: Data) -> Tensor:
        acqf = cls(model(data), risk_aversion=1 / data.scale)
        return acqf(data.x.unsqueeze(-2)) - data.shift

    return piece


def noise_uncertainty(data: Data) -> Tensor:
    return data.scale * NoisePosteriorStandardDeviation(model(data))(data.x.unsqueeze(-2))


def objective(data: Data) -> Tensor:
    built = model(data)
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=0)
    weighed = MeanVarianceObjective(built, 1 / data.scale)
    acqf = qSimpleRegret(built, objective=weighed, sampler=sampler)
    return acqf(data.x.unsqueeze(-2)) - data.shift


def marginals(data: Data) -> Tensor:
    return Belief(gp(data))(data.x).mean - data.shift


def straddle(data: Data) -> Tensor:
    return Straddle(gp(data), threshold=data.scale + data.shift)(data.x.unsqueeze(-2))


def risk_bound(measure: Any) -> Callable[[Data], Tensor]:
    def piece(data: Data) -> Tensor:
        environment = DiscreteEnvironment(torch.tensor([[0.2], [0.5], [0.9]]).to(data.x))
        acqf = RiskUpperConfidenceBound(gp(data), environment, measure, 4.0)
        return acqf(data.x[..., :-1].unsqueeze(-2)) - data.shift

    return piece


def risk_bound_of_a_density(data: Data) -> Tensor:
    environment = KernelDensityEnvironment(data.X[..., 1:], UNIT.to(data.X), n_w=8, seeds=0)
    acqf = RiskUpperConfidenceBound(gp(data), environment, Expectation(), 4.0)
    return acqf(data.x[..., :-1].unsqueeze(-2)) - data.shift


def domain(data: Data) -> Tensor:
    return DomainPosterior(gp(data), data.x).mean - data.shift


def truncated_variance(data: Data) -> Tensor:
    observed = DomainPosterior(gp(data), data.x)
    state = TruncatedVarianceState.initial(data.x, LevelSet(data.scale + data.shift)).update(
        observed
    )
    noise = 1e-2 * data.scale**2
    return TruncatedVarianceReduction(observed, state, noise=noise).evaluate_domain() / data.scale


def fit(data: Data) -> Tensor:
    fitted = gp(data)
    fit_exact_gp(fitted)
    return data.scale * fitted.covar_module.lengthscale.flatten()


def pseudo_data(data: Data) -> Tensor:
    built = gp(data)
    bounds = UNIT.expand(2, built.train_inputs[0].shape[-1]).to(data.X)
    mll = PseudoDataMarginalLogLikelihood(built.likelihood, built, bounds, seeds=0)
    built.train()
    return data.scale * mll(built(*built.train_inputs), built.train_targets).reshape(1)


def optimise(data: Data) -> Tensor:
    acqf = RiskAverseUpperConfidenceBound(model(data), risk_aversion=1 / data.scale)
    box = UNIT.expand(2, data.x.shape[-1]).to(data.x)
    _, value = optimize_acqf_replicates(acqf, box, seeds=0, num_restarts=2, raw_samples=32)
    return value - data.shift


def report(data: Data) -> Tensor:
    bound = RiskAverseLowerConfidenceBound(model(data), risk_aversion=1 / data.scale)
    chosen = recommend(bound, data.x, "lower_confidence_bound")
    return chosen.value.reshape(1) - data.shift


def advice(data: Data) -> Tensor:
    return repeat_advice(model(data), data.x, risk_aversion=1 / data.scale).rate


PIECES: dict[str, Callable[[Data], Tensor]] = {
    "mean": mean,
    "noise": noise,
    "noise_bounds": noise_bounds,
    "posterior": posterior,
    "risk_averse_ucb": risk_averse(RiskAverseUpperConfidenceBound),
    "risk_averse_lcb": risk_averse(RiskAverseLowerConfidenceBound),
    "joint_risk_averse_ucb": risk_averse(qRiskAverseUpperConfidenceBound),
    "noise_uncertainty": noise_uncertainty,
    "objective": objective,
    "marginals": marginals,
    "straddle": straddle,
    "expectation": risk_bound(Expectation()),
    "value_at_risk": risk_bound(ValueAtRisk(0.4)),
    "conditional_value_at_risk": risk_bound(ConditionalValueAtRisk(0.4)),
    "worst_case": risk_bound(WorstCase()),
    "total_variation": risk_bound(TotalVariationBall(0.3)),
    "kernel_density": risk_bound_of_a_density,
    "domain": domain,
    "truncated_variance": truncated_variance,
    "fit": fit,
    "pseudo_data": pseudo_data,
    "optimise": optimise,
    "recommend": report,
    "repeat_advice": advice,
}
LEARNS_NOISE = {
    "mean", "noise", "noise_bounds", "posterior", "risk_averse_ucb", "risk_averse_lcb",
    "joint_risk_averse_ucb", "noise_uncertainty", "objective", "optimise", "recommend",
    "repeat_advice",
}  # fmt: skip
OF_DATA_ALONE = {"fit", "pseudo_data"}  # no query points
