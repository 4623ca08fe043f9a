r"""What each part of the package must obey: one line and one oracle a class.

The laws that run over these lists are in the `test_contract.py` next to the tests of each
part.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition import (
    Ambiguity,
    MaximumVariance,
    NoisePosteriorStandardDeviation,
    RiskAverseLowerConfidenceBound,
    RiskAverseUpperConfidenceBound,
    RiskUpperConfidenceBound,
    Straddle,
    TargetedIntegratedVariance,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
    qRiskAverseUpperConfidenceBound,
)
from botorch_risk.environments import (
    ContinuousEnvironment,
    DiscreteEnvironment,
    EmpiricalGrid,
    Environment,
    InputPerturbation,
    KernelDensityEnvironment,
    StandardDeviationBox,
    regular_grid,
)
from botorch_risk.models import MeanVarianceGP
from botorch_risk.posterior import DomainPosterior
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MaximumMeanDiscrepancyBall,
    MeanVariance,
    MinimaxApproximation,
    RiskMeasure,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.test_functions import (
    H1,
    Deceptive,
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
    FiniteDomainProblem,
    ForestTuning,
    HeteroscedasticBranin,
    HeteroscedasticSine,
    Newsvendor,
    PortfolioOptimization,
    RobotPushing,
    ValueAtRiskBranin,
    ValueAtRiskGoldsteinPrice,
    ValueAtRiskHartmann,
    ValueAtRiskPortfolio,
)
from tests import oracles

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
DTYPES = [torch.float32, torch.float64]
BATCH_SHAPES: list[tuple[int, ...]] = [(), (2,), (2, 3)]
BOUNDS = [[0.0, 0.0], [1.0, 1.0]]


@dataclass(frozen=True)
class RepeatedData:
    r"""Inputs and repeats that tests build models from."""

    X: Tensor
    Y: Tensor

    @classmethod
    def make(
        cls,
        batch_shape: tuple[int, ...] = (),
        num_rows: int = 9,
        num_repeats: int = 4,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
    ) -> RepeatedData:
        generator = torch.Generator().manual_seed(seed)
        draw = {"generator": generator, "dtype": torch.float64}
        X = torch.rand(*batch_shape, num_rows, 2, **draw)
        noise = torch.randn(*batch_shape, num_rows, num_repeats, **draw)
        Y = (4 * X).sin().sum(dim=-1, keepdim=True) + (0.2 + X[..., :1]) * noise
        return cls(X.to(device, dtype), Y.to(device, dtype))


def mean_variance_gp(data: RepeatedData, **options: Any) -> MeanVarianceGP:
    r"""An unfitted model with hyperparameters that differ between replicates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)  # float32
        model = MeanVarianceGP(data.X, data.Y, **options)
    batch = data.X.shape[:-2]
    offset = torch.arange(batch.numel(), dtype=data.X.dtype).reshape(*batch, 1, 1) / 10
    model.mean_model.covar_module.lengthscale = (0.4 + offset).expand(*batch, 1, 2).to(data.X)
    if not hasattr(model.noise_model, "covar_module"):
        return model
    model.noise_model.covar_module.lengthscale = (0.7 + offset).expand(*batch, 1, 2).to(data.X)
    model.refresh_noise()
    return model


def gaussian_process(X: Tensor, Y: Tensor | None = None) -> SingleTaskGP:
    r"""An unfitted model with hyperparameters that differ between replicates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)  # float32
        model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True) if Y is None else Y)
    batch, d = X.shape[:-2], X.shape[-1]
    offset = torch.arange(batch.numel(), dtype=X.dtype).reshape(*batch, 1, 1) / 10
    model.covar_module.lengthscale = (0.4 + offset).expand(*batch, 1, d).to(X)
    model.likelihood.noise = 1e-2
    return model.eval()


def of_decision_and_context(data: RepeatedData) -> SingleTaskGP:
    r"""A model of both columns and of a context that each row happened to meet."""
    inputs = torch.cat([data.X, data.X.flip(-2)[..., :1]], dim=-1)
    return gaussian_process(inputs, data.Y.mean(dim=-1, keepdim=True))


def of_decision(data: RepeatedData) -> SingleTaskGP:
    return gaussian_process(data.X, data.Y.mean(dim=-1, keepdim=True))


@dataclass(frozen=True)
class AcquisitionCase:
    r"""An acquisition function, how to build it, and an independent value of it.

    Args:
        name: Names the case.
        build: From a model and further arguments to the acquisition function.
        oracle: From an unbatched model, its repeats and `m x d` points to `m` values.
        joint: Whether it scores q points jointly (then the oracle is for q = 1).
        model: From repeated data to the kind of model that it takes.
        arguments: What its input constructor cannot do without.
        batch_dims: How many batch dimensions its model may have.
    """

    name: str
    build: Callable[..., Any]
    oracle: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]
    joint: bool = False
    tolerance: float = 1e-7
    model: Callable[[RepeatedData], Any] = mean_variance_gp
    arguments: dict[str, Any] = field(default_factory=dict)
    batch_dims: int = 2

    def replicate(self, model: Any, data: RepeatedData, index: tuple[int, ...]) -> Any:
        r"""The model of one entry of a batch, with that entry's hyperparameters."""
        single = self.model(RepeatedData(data.X[index], data.Y[index]))
        for alone, together in zip(single.parameters(), model.parameters(), strict=True):
            alone.data.copy_(together[index])
        if isinstance(single, MeanVarianceGP):
            single.refresh_noise()
        return single


_WEIGHTS = {"beta": 3.0, "noise_beta": 2.0, "risk_aversion": 0.7}


def _bound(optimistic: bool) -> Callable[[Any, np.ndarray, np.ndarray], np.ndarray]:
    return lambda model, repeats, X: oracles.risk_averse_bound(
        model, repeats, X, optimistic=optimistic, **_WEIGHTS
    )


_CONTEXTS = torch.tensor([[0.1], [0.35], [0.5], [0.9]], dtype=torch.float64)
_SHIFTS = 0.1 * torch.tensor([[-1.0, 0.5], [0.0, 0.0], [0.7, 1.0]], dtype=torch.float64)


def risk_bound(
    name: str,
    model: Callable[[RepeatedData], Any],
    environment: Environment,
    risk_measure: RiskMeasure,
    risk: Callable[[np.ndarray, np.ndarray], float],
) -> AcquisitionCase:
    r"""`RiskUpperConfidenceBound` of a measure whose independent value is `risk`."""
    arguments = {"environment": environment, "risk_measure": risk_measure, "beta": 2.25}

    def build(model: Any, **options: Any) -> RiskUpperConfidenceBound:
        return RiskUpperConfidenceBound(model, **arguments, **options)

    def oracle(model: Any, repeats: np.ndarray, X: np.ndarray) -> np.ndarray:
        inputs, weights = environment.expand(torch.from_numpy(X).double())
        law = oracles.to_numpy(weights.expand(inputs.shape[:-1])[0])
        each = map(oracles.to_numpy, inputs)
        return np.array([risk(oracles.upper_bound(model, repeats, x, 2.25), law) for x in each])

    return AcquisitionCase(name, build, oracle, model=model, arguments=arguments)


_GRID = torch.cartesian_prod(*[torch.linspace(0, 1, 4, dtype=torch.float64)] * 2)
_STATE = partial(TruncatedVarianceState.initial, _GRID, "maximize", eta=0.2)


def targeted(model: Any, **options: Any) -> TargetedIntegratedVariance:
    return TargetedIntegratedVariance(model, 1.2, _GRID.to(model.train_targets), **options)


def truncated(model: Any, **options: Any) -> TruncatedVarianceReduction:
    domain = _GRID.to(model.train_targets)
    state = TruncatedVarianceState.initial(
        domain, "maximize", eta=0.2, batch_shape=model.batch_shape
    )
    return TruncatedVarianceReduction(DomainPosterior(model, domain), state, **options)


ACQUISITIONS = [
    AcquisitionCase(
        "risk_averse_ucb",
        lambda model, **kwargs: RiskAverseUpperConfidenceBound(model, **_WEIGHTS, **kwargs),
        _bound(optimistic=True),
    ),
    AcquisitionCase(
        "risk_averse_lcb",
        lambda model, **kwargs: RiskAverseLowerConfidenceBound(model, **_WEIGHTS, **kwargs),
        _bound(optimistic=False),
    ),
    AcquisitionCase(
        "noise_uncertainty",
        NoisePosteriorStandardDeviation,
        lambda model, repeats, X: np.sqrt(oracles.rahbo_moments(model, repeats, X)["log_variance"]),
    ),
    AcquisitionCase(
        "straddle",
        lambda model, **kwargs: Straddle(model, 1.2, **kwargs),
        lambda model, repeats, X: oracles.straddle(model, repeats, X, 1.2, 1.96),
        arguments={"threshold": 1.2},
    ),
    AcquisitionCase(
        "ambiguity",
        lambda model, **kwargs: Ambiguity(model, 1.2, **kwargs),
        lambda model, repeats, X: oracles.straddle(model, repeats, X, 1.2, 3.0),
        arguments={"threshold": 1.2},
    ),
    AcquisitionCase(
        "maximum_variance",
        MaximumVariance,
        lambda model, repeats, X: np.sqrt(oracles.rahbo_moments(model, repeats, X)["variance"]),
    ),
    AcquisitionCase(
        "q_risk_averse_ucb",
        lambda model, **kwargs: qRiskAverseUpperConfidenceBound(model, **_WEIGHTS, **kwargs),
        _bound(optimistic=True),
        joint=True,
    ),
    risk_bound(
        "risk_ucb",
        of_decision_and_context,
        DiscreteEnvironment(_CONTEXTS),
        ConditionalValueAtRisk(0.4),
        lambda values, law: oracles.conditional_value_at_risk(values, law, level=0.4),
    ),
    AcquisitionCase(
        "targeted_variance",
        targeted,
        lambda model, repeats, X: oracles.targeted_reduction(
            model, repeats, X, oracles.to_numpy(_GRID), 1.2
        ),
        model=of_decision,
        arguments={"threshold": 1.2, "points": _GRID},
        batch_dims=1,
    ),
    AcquisitionCase(
        "truncated_variance",
        truncated,
        lambda model, repeats, X: oracles.truncated_reduction(
            model, repeats, X, oracles.to_numpy(_GRID), beta=_STATE().beta.item(), eta=0.2
        ),
        model=of_decision,
        arguments={"state": _STATE(), "domain": _GRID},
        batch_dims=1,
    ),
    risk_bound(
        "risk_ucb_of_perturbations",
        of_decision,
        InputPerturbation(_SHIFTS),
        Expectation(),
        oracles.expectation,
    ),
]


@dataclass(frozen=True)
class RiskMeasureCase:
    r"""A measure of risk and an independent value of it.

    Args:
        name: Names the case.
        measure: The measure, not bound to any points.
        oracle: From `n_w` values, their weights and their points to a number.
        sees_weight_zero: Whether points of weight 0 matter.
        sees_copies: Whether it matters that one point is given as two, with half the weight each.
        gradient: The step and the tolerance of the check of the gradient.
    """

    name: str
    measure: RiskMeasure
    oracle: Callable[[np.ndarray, np.ndarray, np.ndarray], float]
    sees_weight_zero: bool = False
    sees_copies: bool = False
    gradient: tuple[float, float] = (1e-6, 1e-6)

    def bind(self, points: Tensor) -> RiskMeasure:
        return self.measure.bind(SimpleNamespace(points=points))


def risk_kernel(v: Tensor, w: Tensor) -> Tensor:
    r"""A squared-exponential kernel of lengthscale 0.2 on any device."""
    squares = (v.unsqueeze(-2) - w.unsqueeze(-3)).square().sum(dim=-1)
    return torch.exp(-0.5 * squares / 0.2**2)


def without_points(
    oracle: Callable[..., float], **options: Any
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], float]:
    return lambda values, weights, points: oracle(values, weights, **options)


def with_kernel_matrix(
    oracle: Callable[..., float], **options: Any
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], float]:
    return lambda values, weights, points: oracle(
        values, weights, oracles.squared_exponential(points, 0.2), **options
    )


def _minimax(sensitivity: Any) -> dict[str, Any]:
    options = {"radius": 0.2, "sensitivity": sensitivity}
    return {
        "measure": MinimaxApproximation(kernel=risk_kernel, **options),
        "oracle": with_kernel_matrix(oracles.minimax_approximation, **options),
        "sees_weight_zero": True,
    }


RISK_MEASURES = [
    RiskMeasureCase("expectation", Expectation(), without_points(oracles.expectation)),
    RiskMeasureCase(
        "value_at_risk", ValueAtRisk(0.3), without_points(oracles.value_at_risk, risk_level=0.3)
    ),
    RiskMeasureCase(
        "conditional_value_at_risk",
        ConditionalValueAtRisk(0.3),
        without_points(oracles.conditional_value_at_risk, level=0.3),
    ),
    RiskMeasureCase(
        "worst_case_of_the_support",
        WorstCase(),
        lambda values, weights, points: values[weights > 0].min(),
    ),
    RiskMeasureCase(
        "worst_case_of_the_points",
        WorstCase(over="points"),
        lambda values, weights, points: values.min(),
        sees_weight_zero=True,
    ),
    RiskMeasureCase(
        "mean_variance",
        MeanVariance(risk_aversion=0.7),
        without_points(oracles.mean_variance, risk_aversion=0.7),
    ),
    RiskMeasureCase(
        "total_variation_ball",
        TotalVariationBall(radius=0.5),
        without_points(oracles.total_variation_worst_case, radius=0.5),
        sees_weight_zero=True,
    ),
    RiskMeasureCase(
        "mmd_ball",
        MaximumMeanDiscrepancyBall(radius=0.2, kernel=risk_kernel),
        with_kernel_matrix(oracles.mmd_worst_case, radius=0.2),
        sees_weight_zero=True,
        gradient=(1e-5, 2e-3),
    ),
    RiskMeasureCase("minimax_approximation", **_minimax("kernel")),
    RiskMeasureCase("minimax_approximation_identity", **_minimax("identity"), sees_copies=True),
]


@dataclass(frozen=True)
class EnvironmentCase:
    r"""A law of a two-dimensional W, how to build it, and an independent expectation under it.

    Args:
        name: Names the case.
        build: From values `batch_shape x t x 2` in the unit square, of which a law may be learnt
            or taken, one seed for each of the batch, and the number of points.
        oracle: From the `t x 2` values of one law and two rates, `E exp(i rates . w)`.
        tolerance: Of the points, against this exact expectation.
        size: The number of points that this takes.
        few: A number of points for what need not be exact.
    """

    name: str
    build: Callable[[Tensor, list[int], int], Environment]
    oracle: Callable[[np.ndarray, np.ndarray], complex]
    tolerance: float = 1e-9
    size: int = 256
    few: int = 16

    def law(
        self, observed: Tensor, seeds: list[int] | None = None, n_w: int | None = None
    ) -> Environment:
        r"""The law of these values, with seeds 0, 1, ... and the exact size unless given."""
        listed = list(range(observed.shape[:-2].numel())) if seeds is None else seeds
        return self.build(observed, listed, self.size if n_w is None else n_w)


NORMAL = torch.distributions.Normal(torch.tensor([0.5, 0.3]), torch.tensor([0.125, 0.2]))
_SEVEN = [0.1, 0.0, 0.3, 0.2, 0.15, 0.05, 0.2]


def unit_square(like: Tensor) -> Tensor:
    return torch.tensor(BOUNDS).to(like)


def continuous(observed: Tensor, seeds: list[int], **options: Any) -> ContinuousEnvironment:
    r"""One law for each replicate; a single one, shared, for other batch shapes."""
    return ContinuousEnvironment(
        NORMAL, unit_square(observed), seeds=seeds if observed.dim() == 3 else 0, **options
    )


def kernel_density(observed: Tensor, seeds: list[int], **options: Any) -> Environment:
    return KernelDensityEnvironment(observed, unit_square(observed), seeds=seeds, **options)


def first_of_seven(n_w: int) -> Tensor:
    r"""The probabilities of the first values, of which the second is not in the support."""
    return torch.tensor(_SEVEN[:n_w], dtype=torch.float64) / sum(_SEVEN[:n_w])


ENVIRONMENTS = [
    EnvironmentCase(
        "discrete",
        lambda observed, seeds, n_w: DiscreteEnvironment(
            observed[..., :n_w, :], first_of_seven(n_w)
        ),
        lambda w, rates: oracles.discrete_wave(w, _SEVEN, rates),
        size=7,
        few=7,
    ),
    EnvironmentCase(
        "continuous_sobol",
        lambda observed, seeds, n_w: continuous(observed, seeds, n_w=n_w, n_ball=n_w // 8),
        lambda w, rates: oracles.normal_wave(NORMAL.loc, NORMAL.scale, rates),
        tolerance=5e-3,
    ),
    EnvironmentCase(
        "continuous_midpoints",
        lambda observed, seeds, n_w: continuous(observed, seeds, n_w=n_w, rule="midpoints"),
        lambda w, rates: oracles.normal_wave(NORMAL.loc, NORMAL.scale, rates),
        tolerance=4e-3,
        size=32**2,
        few=4**2,
    ),
    EnvironmentCase(
        "continuous_clipped_quadrature",
        lambda observed, seeds, n_w: continuous(
            observed, seeds, n_w=n_w, rule="quadrature", beyond="clip"
        ),
        lambda w, rates: oracles.normal_wave(NORMAL.loc, NORMAL.scale, rates, clipped=True),
        tolerance=1e-7,  # of the parameters, which are given in float32
        size=26**2,
        few=11**2,
    ),
    EnvironmentCase(
        "kernel_density_sobol",
        lambda observed, seeds, n_w: kernel_density(observed, seeds, n_w=n_w, n_ball=n_w // 8),
        oracles.kernel_density_wave,
        tolerance=4e-2,
    ),
    EnvironmentCase(
        "kernel_density_monte_carlo",
        lambda observed, seeds, n_w: kernel_density(observed, seeds, n_w=n_w, rule="monte_carlo"),
        oracles.kernel_density_wave,
        tolerance=1e-1,
        size=1024,
    ),
    EnvironmentCase(
        "kernel_density_quadrature",
        lambda observed, seeds, n_w: kernel_density(observed, seeds, n_w=n_w, rule="quadrature"),
        oracles.kernel_density_wave,
        tolerance=1e-7,
        size=32**2,
        few=8**2,
    ),
    EnvironmentCase(
        "empirical_grid",
        lambda observed, seeds, n_w: EmpiricalGrid(
            observed, regular_grid(unit_square(observed), n_w)
        ),
        lambda w, rates: oracles.discrete_wave(np.round(4 * w) / 4, [1 / 7] * 7, rates),
        size=5**2,
        few=4**2,
    ),
    EnvironmentCase(
        "standard_deviation_box",
        lambda observed, seeds, n_w: StandardDeviationBox(observed, n_w, seeds),
        oracles.box_wave,
        tolerance=1e-2,
    ),
]

PERTURBATIONS = EnvironmentCase(
    "input_perturbation",
    lambda observed, seeds, n_w: InputPerturbation(observed[..., :n_w, :], first_of_seven(n_w)),
    lambda w, rates: oracles.discrete_wave(w, _SEVEN, rates),
    size=7,
    few=7,
)


@dataclass(frozen=True)
class ProblemCase:
    r"""A problem, its objective under risk, and how to draw from it.

    Args:
        name: Names the case.
        build: From a dtype to the problem.
        decision: The number of decision variables, the first columns of the inputs.
        sample: From the problem, the outcomes or contexts that one generator, or a list of them,
            draws; `R x ...` for a list. None if it draws nothing.
        objective: From the problem and decisions `... x d_x` to a `...` tensor, if its optimum is
            known.
        optimum: From the problem to the best decision, a `d_x`-tensor, and its stated value.
        num_points: How many points are compared with the optimum.
        marks: Of pytest.
    """

    name: str
    build: Callable[[torch.dtype], Any]
    decision: int
    sample: Callable[[Any, Any], Tensor] | None = None
    objective: Callable[[Any, Tensor], Tensor] | None = None
    optimum: Callable[[Any], tuple[Tensor, float]] | None = None
    num_points: int = 512
    marks: tuple[Any, ...] = ()


def heteroscedastic(name: str, kind: Any, dim: int, **options: Any) -> ProblemCase:
    return ProblemCase(
        name,
        lambda dtype: kind(**options).to(dtype=dtype),
        dim,
        lambda problem, streams: repeats_of(problem, problem.optimizers[:1], streams),
        lambda problem, X: problem.mean_variance(X, risk_aversion=1.0),
        lambda problem: problem.optimal_mean_variance(1.0),
    )


def environmental(name: str, build: Any, decision: int, **options: Any) -> ProblemCase:
    return ProblemCase(
        name,
        lambda dtype: build(dtype=dtype),
        decision,
        lambda problem, streams: problem.sample_environment(5, streams),
        lambda problem, X: problem.objective(X),
        lambda problem: (problem.optimal_decision, problem.optimal_expectation),
        **options,
    )


def value_at_risk(name: str, build: Any, decision: int, **options: Any) -> ProblemCase:
    return ProblemCase(
        name,
        lambda dtype: build(dtype=dtype),
        decision,
        lambda problem, streams: problem.environment.sample(5, streams),
        lambda problem, X: problem.objective(X),
        lambda problem: (problem.optimal_decision, problem.optimal_value_at_risk),
        **options,
    )


def without_noise(name: str, kind: Any, dim: int) -> ProblemCase:
    return ProblemCase(
        name,
        lambda dtype: kind(dtype=dtype),
        dim,
        objective=lambda problem, X: problem(X, noise=False),
        optimum=lambda problem: (problem.optimizers[0], problem.optimal_value),
    )


def repeats_of(problem: Any, X: Tensor, streams: Any) -> Tensor:
    if not isinstance(streams, torch.Generator):
        X = X.expand(len(streams), *X.shape)
    return problem.sample_repeats(X, 3, streams)


def small_forest(dtype: torch.dtype) -> ForestTuning:
    rows = np.random.default_rng(0)
    labels = np.arange(60) % 2
    return ForestTuning(rows.normal(size=(60, 6)) + labels[:, None], labels, dtype=dtype)


# The path of the papers' back-tests, which are not part of the project.
PORTFOLIO_TABLE = os.environ.get("BOTORCH_RISK_PORTFOLIO_TABLE")
needs_table = pytest.mark.skipif(
    PORTFOLIO_TABLE is None,
    reason="needs the papers' table of back-tests: its path in BOTORCH_RISK_PORTFOLIO_TABLE",
)
# Tables of back-tests: the bundled one and the papers'.
portfolio_tables = pytest.mark.parametrize(
    "portfolio_table",
    [
        pytest.param(None, id="bundled"),
        pytest.param(PORTFOLIO_TABLE, marks=needs_table, id="papers"),
    ],
)

PROBLEMS = [
    heteroscedastic("sine", HeteroscedasticSine, 1),
    heteroscedastic("sine_of_variance", HeteroscedasticSine, 1, sigmoid_is="variance"),
    heteroscedastic("heteroscedastic_branin", HeteroscedasticBranin, 2, noise_scale=2.0),
    environmental("ackley_1", partial(EnvironmentalAckley, 1), 2),
    environmental("ackley_4", partial(EnvironmentalAckley, 4), 2),
    environmental("branin", EnvironmentalBranin, 2),
    environmental("hartmann", EnvironmentalHartmann, 5),
    environmental("complicated_hartmann", partial(EnvironmentalHartmann, "complicated"), 5),
    environmental("newsvendor", Newsvendor, 1),
    *(
        environmental(
            f"portfolio_{law}{name}",
            partial(PortfolioOptimization, table, law),
            3,
            num_points=64,
            marks=(*marks, pytest.mark.slow),
        )
        for name, table, marks in (
            ("", None, ()),
            ("_of_the_papers", PORTFOLIO_TABLE, (needs_table,)),
        )
        for law in ("uniform", "normal")
    ),
    ProblemCase(
        "forest",
        small_forest,
        3,
        lambda problem, streams: repeats_of(
            problem, torch.tensor([[3.0, 5.0, 2.0]]).to(problem.bounds), streams
        ),
    ),
    without_noise("deceptive", Deceptive, 2),
    without_noise("h1", H1, 2),
    ProblemCase(
        "finite_domain",
        lambda dtype: FiniteDomainProblem(torch.eye(2, dtype=dtype), torch.ones(2), noise=0.1),
        2,
        lambda problem, streams: repeats_of(problem, problem.domain, streams),
    ),
    ProblemCase("robot_pushing", lambda dtype: RobotPushing(dtype=dtype), 3),
    *(
        value_at_risk(f"{name}_{law}", partial(build, law=law), decision, num_points=64)
        for law in ("discrete", "continuous")
        for name, build, decision in (
            ("branin_1_1", ValueAtRiskBranin, 1),
            ("goldstein_price_1_1", ValueAtRiskGoldsteinPrice, 1),
            ("hartmann_2_1", partial(ValueAtRiskHartmann, 2), 2),
        )
    ),
    value_at_risk("hartmann_1_2", partial(ValueAtRiskHartmann, 1), 1),
    value_at_risk(
        "portfolio_3_2", ValueAtRiskPortfolio, 3, num_points=64, marks=(pytest.mark.slow,)
    ),
    value_at_risk(
        "portfolio_3_2_of_the_papers",
        partial(ValueAtRiskPortfolio, PORTFOLIO_TABLE),
        3,
        num_points=64,
        marks=(needs_table, pytest.mark.slow),
    ),
]
