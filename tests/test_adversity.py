r"""Every public piece under every kind of hard input: the figure it gives, or how it refuses.

A piece maps data (inputs `n x 2`, repeats `n x 4`, query points `m x 2`) to numbers in the units of
the outcome. A hardship changes the data. Where the numbers must follow the change (units, copies,
layout in memory, modes of PyTorch) they are compared with those of the plain data; where nothing
sensible can be said the message is compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from botorch.acquisition import qSimpleRegret
from botorch.exceptions.errors import BotorchError
from botorch.exceptions.warnings import InputDataWarning
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.utils.warnings import NumericalWarning
from torch import Tensor

from botorch_risk.acquisition import (
    LevelSet,
    MeanVarianceObjective,
    NoisePosteriorStandardDeviation,
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
    RiskUpperConfidenceBound,
    Straddle,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
    qRiskAverseUpperConfidenceBound,
)
from botorch_risk.environments import DiscreteEnvironment, KernelDensityEnvironment
from botorch_risk.fit import PseudoDataMarginalLogLikelihood, fit_exact_gp
from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.optim import optimize_acqf_replicates
from botorch_risk.posterior import DomainPosterior, MarginalPredictor
from botorch_risk.recommend import recommend
from botorch_risk.repeat_advice import repeat_advice
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)

REFUSALS = (BotorchError, ValueError)
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


# What is asked of each piece


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
    return MarginalPredictor(gp(data))(data.x).mean - data.shift


def straddle(data: Data) -> Tensor:
    return Straddle(gp(data), threshold=data.scale + data.shift)(data.x.unsqueeze(-2))


def risk_bound(measure: Any) -> Callable[[Data], Tensor]:
    def piece(data: Data) -> Tensor:
        law = DiscreteEnvironment(torch.tensor([[0.2], [0.5], [0.9]]).to(data.x))
        acqf = RiskUpperConfidenceBound(gp(data), law, measure, 4.0)
        return acqf(data.x[..., :-1].unsqueeze(-2)) - data.shift

    return piece


def risk_bound_of_a_density(data: Data) -> Tensor:
    law = KernelDensityEnvironment(data.X[..., 1:], UNIT.to(data.X), n_w=8, seeds=0)
    acqf = RiskUpperConfidenceBound(gp(data), law, Expectation(), 4.0)
    return acqf(data.x[..., :-1].unsqueeze(-2)) - data.shift


def domain(data: Data) -> Tensor:
    return DomainPosterior(gp(data), data.x).mean - data.shift


def truncated_variance(data: Data) -> Tensor:
    told = DomainPosterior(gp(data), data.x)
    state = TruncatedVarianceState.initial(data.x, LevelSet(data.scale + data.shift)).update(told)
    noise = 1e-2 * data.scale**2
    return TruncatedVarianceReduction(told, state, noise=noise).evaluate_domain() / data.scale


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
RISK_BOUNDS = {
    "expectation", "value_at_risk", "conditional_value_at_risk", "worst_case", "total_variation",
    "kernel_density",
}  # fmt: skip


# Hardships


@dataclass(frozen=True)
class Hardship:
    r"""A change of the data, and what every piece makes of it.

    Args:
        name: Names it.
        change: Makes the hard data.
        refused: What a refusal says; `None` where the figures are those of the plain data.
        tolerance: Of the figures, relative to the scale of the outcome.
        exceptions: Pieces that make something else of it: what they say, or `None` for figures.
        finite: Pieces whose figures need only be finite, since other data have other figures.
    """

    name: str
    change: Callable[[Data], Data]
    refused: str | None = None
    tolerance: float = 1e-6
    exceptions: dict[str, str | None] = field(default_factory=dict)
    finite: frozenset[str] | set[str] = frozenset()


def only(pieces: Any, value: str | None) -> dict[str, str | None]:
    return dict.fromkeys(pieces, value)


EVERY = frozenset(PIECES)
SINGLE_GPS = EVERY - LEARNS_NOISE
COLUMNS = "column|shape|inputs of the model|environment"


def with_item(tensor: Tensor, index: Any, value: float) -> Tensor:
    tensor = tensor.clone()
    tensor[index] = value
    return tensor


def rescaled(scale: float, shift: float = 0.0) -> Callable[[Data], Data]:
    return lambda data: replace(data, Y=scale * data.Y + shift, scale=scale, shift=shift)


HARDSHIPS = [
    # Units
    Hardship("outcomes x 1e-12", rescaled(1e-12)),
    Hardship("outcomes x 1e8", rescaled(1e8)),
    Hardship("outcomes x -1e3 + 1e5", rescaled(1e3, 1e5), tolerance=1e-5),
    # Copies
    Hardship(
        "rows in another order",
        lambda data: replace(data, X=data.X.flip(0), Y=data.Y.flip(0)),
        exceptions=only({"pseudo_data"}, None),
        finite={"kernel_density", "pseudo_data"},
    ),
    Hardship(
        "long format",
        lambda data: replace(data, X=data.X.repeat_interleave(4, dim=0), Y=data.Y.reshape(-1, 1)),
        finite=SINGLE_GPS,  # one reading a row is other data to a model without repeats
    ),
    Hardship("repeats in another order", lambda data: replace(data, Y=data.Y[:, [2, 0, 3, 1]])),
    Hardship(
        "a column of missing repeats",
        lambda data: replace(data, Y=torch.cat([data.Y, data.Y[:, :1] * torch.nan], dim=-1)),
    ),
    Hardship(
        "query points twice",
        lambda data: replace(data, x=data.x[[0, 0, 1, 1, 2]]),
        finite=EVERY,
    ),
    # Layout in memory
    Hardship(
        "not contiguous",
        lambda data: replace(
            data,
            X=data.X.mT.contiguous().mT,
            Y=data.Y.mT.contiguous().mT,
            x=data.x.mT.contiguous().mT,
        ),
    ),
    Hardship(
        "views with gaps",
        lambda data: replace(
            data,
            X=torch.stack([data.X, data.X], dim=-1)[..., 0],
            x=torch.stack([data.x, data.x], dim=-1)[..., 0],
        ),
    ),
    # Modes
    Hardship(
        "data with a history of gradients",
        lambda data: replace(
            data, X=data.X.clone().requires_grad_(), Y=data.Y.clone().requires_grad_()
        ),
    ),
    Hardship("without gradients", lambda data: replace(data, mode=torch.no_grad)),
    Hardship(
        "in inference mode",
        lambda data: replace(data, mode=torch.inference_mode),
        exceptions=only({"fit", "optimise"}, "Expected gradients, which .* needs"),
    ),
    Hardship(
        "single precision",
        lambda data: replace(data, X=data.X.float(), Y=data.Y.float(), x=data.x.float()),
        tolerance=2e-2,
        finite={"fit", "optimise", "pseudo_data", "kernel_density"},
    ),
    # Sizes
    Hardship("two rows", lambda data: replace(data, X=data.X[:2], Y=data.Y[:2]), finite=EVERY),
    Hardship("two repeats", lambda data: replace(data, Y=data.Y[:, :2]), finite=EVERY),
    Hardship("one query point", lambda data: replace(data, x=data.x[:1]), finite=EVERY),
    Hardship(
        "no rows",
        lambda data: replace(data, X=data.X[:0], Y=data.Y[:0]),
        refused="at least one row|no observations|at least one|non-zero|empty",
    ),
    Hardship(
        "no columns",
        lambda data: replace(data, X=data.X[:, :0], x=data.x[:, :0]),
        refused="row and column|at least one|column|environment|empty",
    ),
    Hardship(
        "one reading a row",
        lambda data: replace(data, Y=data.Y[:, :1]),
        refused="two repeats or more",
        exceptions=only(SINGLE_GPS, None),
        finite=SINGLE_GPS,
    ),
    # Values
    Hardship(
        "equal repeats in a row",
        lambda data: replace(data, Y=with_item(data.Y, 2, 0.1)),
        finite=EVERY,
    ),
    Hardship(
        "readings rounded to one decimal",
        lambda data: replace(data, Y=(10 * data.Y).round() / 10),
        finite=EVERY,
    ),
    Hardship(
        "two inputs a rounding apart",
        lambda data: replace(
            data, X=torch.cat([data.X, data.X[:1] + 1e-15]), Y=torch.cat([data.Y, data.Y[:1]])
        ),
        finite=EVERY,
    ),
    Hardship(
        "missing input",
        lambda data: replace(data, X=with_item(data.X, (2, 1), torch.nan)),
        refused="finite",
    ),
    Hardship(
        "infinite input",
        lambda data: replace(data, X=with_item(data.X, (2, 1), torch.inf)),
        refused="finite|inf",
    ),
    Hardship(
        "infinite reading",
        lambda data: replace(data, Y=with_item(data.Y, (2, 1), torch.inf)),
        refused="finite|inf",
    ),
    Hardship(
        "a row without a reading",
        lambda data: replace(data, Y=with_item(data.Y, 2, torch.nan)),
        refused="at least one repeat|NaN values",
    ),
    # Shapes and types
    Hardship(
        "inputs in one dimension",
        lambda data: replace(data, X=data.X[:, 0]),
        refused="shape|dim",
    ),
    Hardship(
        "fewer outcomes than inputs",
        lambda data: replace(data, Y=data.Y[:5]),
        refused="shape|row|dim",
    ),
    Hardship(
        "a query column too few",
        lambda data: replace(data, x=data.x[:, :1]),
        refused=COLUMNS,
        exceptions=only(OF_DATA_ALONE, None),
    ),
    Hardship(
        "a query column too many",
        lambda data: replace(data, x=torch.cat([data.x, data.x[:, :1]], dim=-1)),
        refused=COLUMNS,
        exceptions=only(OF_DATA_ALONE, None),
    ),
    Hardship(
        "whole numbers as inputs",
        lambda data: replace(data, X=(10 * data.X).long()),
        refused="dtype|floating|float|within the bounds",
    ),
    Hardship(
        "inputs and outcomes of two precisions",
        lambda data: replace(data, Y=data.Y.float()),
        refused="dtype",
    ),
]


def evaluate(piece: Callable[[Data], Tensor], data: Data) -> Tensor:
    with warnings.catch_warnings(), data.mode():
        # Small outcomes and single precision are named by warnings, which have their own tests.
        warnings.simplefilter("ignore", InputDataWarning)
        warnings.simplefilter("ignore", NumericalWarning)
        return piece(data).detach().double() / data.scale


@pytest.mark.parametrize("name", PIECES)
@pytest.mark.parametrize("hardship", HARDSHIPS, ids=lambda hardship: hardship.name)
def test_figure_or_refusal(hardship: Hardship, name: str) -> None:
    piece, data = PIECES[name], hardship.change(plain())
    refused = hardship.exceptions.get(name, hardship.refused)
    if refused is not None:
        with pytest.raises(REFUSALS, match=refused):
            evaluate(piece, data)
        return
    values = evaluate(piece, data)
    assert values.isfinite().all()
    if name in hardship.finite:
        return
    expected = evaluate(piece, plain())
    torch.testing.assert_close(values, expected, rtol=hardship.tolerance, atol=hardship.tolerance)


def test_plain_figures_are_finite() -> None:
    for piece in PIECES.values():
        assert evaluate(piece, plain()).isfinite().all()
