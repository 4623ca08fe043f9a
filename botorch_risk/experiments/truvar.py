r"""The experiments of TRUVAR (Bogunovic et al. 2016, Sec. 4), on public data.

The lake of the paper and its "SVM on grid" are not public: a coastline and a support vector
machine on handwritten digits stand in. All experiments run on a finite domain. What is said of
kernels is known to every method alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.settings import validate_input_scaling
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_risk.acquisition import LevelSet, Maximize, NoiseLevels
from botorch_risk.experiments.finite_domain import LevelSetProblem, RegretProblem
from botorch_risk.experiments.registry import ExperimentDefinition, register
from botorch_risk.fit import fit_exact_gp
from botorch_risk.strategies import (
    GCHK,
    ExpectedImprovementSearch,
    LevelSetSearch,
    MaximumVarianceSearch,
    MaxValueEntropySearch,
    MinimumRegretSearch,
    TruVaR,
    UpperConfidenceBoundSearch,
)
from botorch_risk.strategies.finite_domain import ModelBuilder
from botorch_risk.test_functions import (
    CoastalTerrain,
    FiniteDomainProblem,
    GaussianProcessSample,
    PosteriorMeanFunctions,
    SurveyCost,
    SVMValidationError,
    unit_grid,
)
from botorch_risk.test_functions.gaussian_process_samples import JITTER, LENGTHSCALE

# Maximum likelihood of a Matern-5/2 kernel and a constant mean on every fourth point of the
# map's east half, as the paper takes those of its second data set: km, km, km^2, km.
COAST_LENGTHSCALE, COAST_OUTPUTSCALE, COAST_MEAN = (24.52, 24.56), 0.2008, 0.4283
NEXT_TO_NOTHING = 1e-6  # the noise variance of the models where there is none
LEVELS = NoiseLevels((1e-6, 1e-3, 0.05), costs=(15.0, 10.0, 2.0))
NOISE_THRESHOLD = 2.25
# The first seed whose function is above the threshold on 2.5 % of the grid, twice what is expected
# of a standard normal. A third of the seeds are hardly above it anywhere.
NOISE_FUNCTION_SEED = 5


class SyntheticFunctions:
    r"""A function for each seed: the posterior means of 200 values on a 50 x 50 grid."""

    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)

    def of_seeds(self, seeds: list[int]) -> RegretProblem:
        r"""The functions of some seeds."""
        return RegretProblem(PosteriorMeanFunctions(seeds).on_grid())


def known_process(
    kernel: Kernel, mean: float, X: Tensor, Y: Tensor, noise: Tensor | None
) -> SingleTaskGP:
    r"""A GP with known hyperparameters, of batch shape `[R]` for `R x n x d` points.

    Args:
        kernel: The kernel, without batch shape.
        mean: The prior mean.
        X: `R x n x d`.
        Y: `R x n x 1`.
        noise: `R x n x 1` variances.
    """
    with validate_input_scaling(False):  # the kernel is in the units of the data
        model = SingleTaskGP(
            X, Y, noise, covar_module=kernel.expand_batch(X.shape[:-2]), outcome_transform=None
        ).to(X)
    model.mean_module.initialize(constant=mean)
    return model.requires_grad_(False)


def squared_exponential(lengthscale: float = LENGTHSCALE) -> ModelBuilder:
    r"""The builder of zero-mean processes with a unit-variance kernel."""
    kernel = RBFKernel().double()
    kernel.lengthscale = lengthscale
    return partial(known_process, kernel, 0.0)


def coastal_process() -> ModelBuilder:
    r"""The builder of processes with the hyperparameters of the map's other half."""
    kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)).double()
    kernel.base_kernel.lengthscale = torch.tensor(COAST_LENGTHSCALE, dtype=torch.double)
    kernel.outputscale = COAST_OUTPUTSCALE
    return partial(known_process, kernel, COAST_MEAN)


def learnt_process(X: Tensor, Y: Tensor, noise: Tensor | None) -> SingleTaskGP:
    r"""A Matern-5/2 ARD process with hyperparameters fitted to its data.

    By maximum a posteriori with BoTorch's priors: the likelihood that the paper maximises has no
    maximum for the first three points.
    """
    kernel = get_covar_module_with_dim_scaled_prior(
        ard_num_dims=X.shape[-1], batch_shape=X.shape[:-2], use_rbf_kernel=False
    )
    model = SingleTaskGP(X, Y, noise, covar_module=kernel)
    fit_exact_gp(model)
    return model


@cache
def coast() -> FiniteDomainProblem:
    r"""The west half of the map; its east half is the second data set."""
    return CoastalTerrain()


@cache
def noise_function() -> FiniteDomainProblem:
    r"""The function of the experiment on noise levels, the same in all replicates."""
    return GaussianProcessSample(NOISE_FUNCTION_SEED, LEVELS.variances)


@cache
def svm() -> FiniteDomainProblem:
    r"""Minus the validation error of a support vector machine."""
    return SVMValidationError()


def _strategy(
    kind: Any,
    domain: Callable[[], Tensor],
    arguments: Sequence[Any],
    options: Mapping[str, Any],
    bounds: Tensor,
    seeds: Sequence[int],
    num_initial: int,
) -> Any:
    points = domain().to(bounds)
    return kind(points, seeds, *arguments, num_initial=num_initial, dense=False, **options)


def _strategies(
    domain: Callable[[], Tensor],
    task: Sequence[Any],
    truvar_task: Sequence[Any],
    kinds: Mapping[str, tuple[Any, Mapping[str, Any]]],
) -> dict[str, Any]:
    return {
        label: partial(_strategy, kind, domain, truvar_task if kind is TruVaR else task, options)
        for label, (kind, options) in kinds.items()
    }


def _level_sets(
    name: str,
    description: str,
    problem: Callable[[], FiniteDomainProblem],
    threshold: float,
    build: ModelBuilder,
    kinds: Mapping[str, tuple[Any, Mapping[str, Any]]],
) -> ExperimentDefinition:
    return ExperimentDefinition(
        name=name,
        description=f"{description} (TRUVAR, Fig. 2)",
        problem=lambda: LevelSetProblem(problem(), threshold),
        strategies=_strategies(
            lambda: problem().domain, (build, threshold), (build, LevelSet(threshold)), kinds
        ),
        num_initial=1,
        num_rounds=120,
        num_repeats=1,
        objective=f"F1 score of the set f >= {threshold:g}",
        settings={"threshold": threshold},
    )


def _maxima(
    name: str,
    description: str,
    problem: Callable[[], Any],
    domain: Callable[[], Tensor],
    build: ModelBuilder,
    kinds: Mapping[str, tuple[Any, Mapping[str, Any]]],
    num_initial: int,
) -> ExperimentDefinition:
    return ExperimentDefinition(
        name=name,
        description=f"{description} (TRUVAR, Fig. 3)",
        problem=problem,
        strategies=_strategies(domain, (build,), (build, Maximize()), kinds),
        num_initial=num_initial,
        num_rounds=100,
        num_repeats=1,
        objective="f(x) - max f over the domain",
        optimal_value=lambda problem: problem.optimal_value,
    )


_EXACT: dict[str, Any] = {"noise": NEXT_TO_NOTHING}
_TRAVEL = {**_EXACT, "cost": SurveyCost()}
_HEURISTICS = {"GCHK": GCHK, "straddle": LevelSetSearch, "variance": MaximumVarianceSearch}
# The marginal methods first, those that look ahead last.
_MARGINAL = {"EI": ExpectedImprovementSearch, "GP-UCB": UpperConfidenceBoundSearch}
_AHEAD = {"MRS": MinimumRegretSearch, "MES": MaxValueEntropySearch}
# The paper's sets may grow again, as the hyperparameters are learnt, after every third sample.
_LEARNING = {**_EXACT, "refit_every": 3}

register(
    _level_sets(
        "coast",
        "Coastline, unit cost",
        coast,
        0.0,
        coastal_process(),
        {
            "TRUVAR": (TruVaR, _EXACT),
            **{label: (kind, _EXACT) for label, kind in _HEURISTICS.items()},
        },
    )
)
register(
    _level_sets(
        "coast-travel",
        "Coastline, a boat that pays for distance",
        coast,
        0.0,
        coastal_process(),
        {"TRUVAR": (TruVaR, _TRAVEL), "GCHK": (GCHK, _TRAVEL)},
    )
)
register(
    _level_sets(
        "noise-levels",
        "Level set with three noise levels to choose from",
        noise_function,
        NOISE_THRESHOLD,
        squared_exponential(),
        {
            "TRUVAR": (TruVaR, {"levels": LEVELS, "initial_level": 2}),
            **{
                f"GCHK-{variance:g}": (GCHK, {"levels": LEVELS, "initial_level": level})
                for level, variance in enumerate(LEVELS.variances)
            },
        },
    )
)
register(
    _maxima(
        "synthetic-maximum",
        "Maximum of smooth functions, one for each seed",
        SyntheticFunctions,
        partial(unit_grid, 50),
        squared_exponential(),
        {
            "TRUVAR": (TruVaR, {"noise": JITTER}),
            **{label: (kind, {"noise": JITTER}) for label, kind in (_MARGINAL | _AHEAD).items()},
        },
        num_initial=1,
    )
)
register(
    _maxima(
        "svm",
        "Validation error of an SVM on a grid",
        lambda: RegretProblem(svm()),
        lambda: svm().domain,
        learnt_process,
        {
            "TRUVAR": (TruVaR, {**_LEARNING, "initial_state": {"monotone": False}}),
            **{label: (kind, _LEARNING) for label, kind in _MARGINAL.items()},
        },
        num_initial=3,
    )
)
