r"""The experiments of SBO-KDE and DRBO-KDE [Huang2024kde]_ on synthetic problems.

The authors' program differs from their text in three methods, which run in both forms:

- it draws the contexts of StableOpt as `sobol * (lower - upper) + lower`, hence from
  [mean - 3 sd, mean - sd];
- it draws the contexts of DRBO-KDE's infimum in the same way, from [-1, 0], where no context lies;
- its GP-UCB has the width sqrt(b) while all others have b.

Two further arms follow the program on points that the text leaves open: `-Matern` has the model
that was BoTorch's default in 2023, and `-fitted-kernel` measures discrepancy by the kernel of the
fitted process, whose amplitude and lengthscale are learnt.
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from os import PathLike
from typing import Any

import torch
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound, risk_bound
from botorch_risk.environments import (
    DiscreteEnvironment,
    KernelDensityEnvironment,
    ObservedContexts,
    StandardDeviationBox,
)
from botorch_risk.papers import drbo_kde, drbo_mmd, sbo_kde
from botorch_risk.papers.kde import (
    PAPER_BETA,
    discrepancy_schedule,
    empirical_grid,
    total_variation_schedule,
)
from botorch_risk.risk import WorstCase
from botorch_risk.strategies import (
    DecisionThenValue,
    EnvironmentRisk,
    EnvironmentSpace,
    Strategy,
    largest_bound,
    largest_reduction,
    risk_search,
)
from botorch_risk.strategies.risk_search import AS_IN_PAPERS
from botorch_risk.strategies.space import decision_box
from botorch_risk_bench.baselines import context_free_gp_ucb, stable_opt
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.papers.models import default_of_2023
from botorch_risk_bench.problems import (
    EnvironmentalAckley,
    EnvironmentalBranin,
    EnvironmentalHartmann,
    ExpectationTestProblem,
    Newsvendor,
    PortfolioOptimization,
)

N_W = 256


def below_the_mean(
    observed: Tensor, *, bounds: Tensor, seeds: int | Sequence[int]
) -> StandardDeviationBox:
    r"""The box of the program's StableOpt, from three deviations below the mean to one."""
    deviation = observed.std(dim=-2, correction=0, keepdim=True)
    return StandardDeviationBox(observed - 2 * deviation, N_W, seeds)


def ball_below_the_bounds(
    observed: Tensor, *, bounds: Tensor, seeds: int | Sequence[int]
) -> DiscreteEnvironment:
    r"""The density of the program's DRBO-KDE, whose ball reaches below the bounds of W only."""
    density = KernelDensityEnvironment(observed, bounds, n_w=N_W, seeds=seeds, n_ball=N_W)
    points = density.points.clone()
    points[..., N_W:, :] -= bounds[1] - bounds[0]
    return DiscreteEnvironment(points, density.weights)


def _released(
    bounds: Tensor,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    learn: Any,
    risk_measure: Any,
    **options: Any,
) -> Strategy:
    contexts = ObservedContexts(context_bounds, learn)
    known = {"environment": contexts, "risk_measure": risk_measure, "beta": PAPER_BETA}
    return risk_search(bounds, seeds, **known, **{**AS_IN_PAPERS, **options})


def fitted_discrepancy(
    model: SingleTaskGP, environment: DiscreteEnvironment, t: int, **options: Any
) -> RiskUpperConfidenceBound:
    r"""DRBO-MMD's minimax approximation, with the kernel of the fitted process.

    It compares points with the same x, which a stationary kernel does not see.
    """
    d_x = model.train_inputs[0].shape[-1] - environment.points.shape[-1]

    def kernel(first: Tensor, second: Tensor) -> Tensor:
        ends = (torch.nn.functional.pad(w, (d_x, 0)) for w in (first, second))
        return model.covar_module(*map(model.transform_inputs, ends)).to_dense().detach()

    ball = partial(discrepancy_schedule, kernel=kernel, minimax=True)
    return risk_bound(model, environment, t, risk_measure=ball, beta=PAPER_BETA, **options)


def _by_fitted_discrepancy(
    bounds: Tensor,
    seeds: int | Sequence[int],
    *,
    context_bounds: Tensor,
    num_initial: int,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    method = EnvironmentRisk(
        fitted_discrepancy, DecisionThenValue(largest_bound, largest_reduction), **options
    )
    space = EnvironmentSpace(decision_box(bounds), empirical_grid(context_bounds, N_W), False)
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)


_MATERN = {"model": default_of_2023}
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "SBO-KDE": (sbo_kde, {}),
    "DRBO-KDE": (drbo_kde, {}),
    "StableOpt": (stable_opt, {}),
    "GP-UCB": (context_free_gp_ucb, {}),
    "DRBO-MMD": (drbo_mmd, {}),
    "DRBO-MMD-minimax": (drbo_mmd, {"minimax": True, "num_points": 1024}),
    "StableOpt-released": (_released, {"learn": below_the_mean, "risk_measure": WorstCase()}),
    "DRBO-KDE-released": (
        _released,
        {"learn": ball_below_the_bounds, "risk_measure": total_variation_schedule},
    ),
    "GP-UCB-released": (context_free_gp_ucb, {"beta": PAPER_BETA**0.5}),
    "SBO-KDE-Matern": (sbo_kde, _MATERN),
    "DRBO-KDE-Matern": (drbo_kde, _MATERN),
    "GP-UCB-Matern": (context_free_gp_ucb, _MATERN),
    "StableOpt-Matern": (stable_opt, _MATERN),
    "DRBO-MMD-minimax-fitted-kernel": (_by_fitted_discrepancy, _MATERN),
}
# The paper's budget of the optimiser for its robust methods. Ours take it where the grid of the
# exact ball is largest: 256 points in four dimensions.
PAPER_BUDGET = {"DRBO-MMD": {"num_restarts": 5, "raw_samples": 32}}


def _definition(
    name: str,
    description: str,
    problem: Callable[[], ExpectationTestProblem],
    num_contexts: int,
    budget: dict[str, dict[str, Any]] | None = None,
) -> ExperimentDefinition:
    unit_cube = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, num_contexts)
    return ExperimentDefinition(
        name=name,
        description=f"{description}, distribution of the context unknown (SBO-KDE, Fig. 1)",
        problem=problem,
        strategies={
            label: partial(
                method, context_bounds=unit_cube, **options, **(budget or {}).get(label, {})
            )
            for label, (method, options) in METHODS.items()
        },
        num_initial=10,
        num_rounds=100,
        num_repeats=1,
        objective="expectation over the context",
        optimal_value=attrgetter("optimal_expectation"),
    )


def portfolio(table: str | PathLike[str]) -> tuple[ExperimentDefinition, ...]:
    r"""The experiments `portfolio-normal` and `portfolio-uniform` on the papers' back-tests."""
    return tuple(
        _definition(
            f"portfolio-{name}",
            f"Portfolio (3+2), {name} context",
            partial(PortfolioOptimization, table, name),
            2,
        )
        for name in ("normal", "uniform")
    )


EXPERIMENTS = (
    _definition("ackley-4", "Ackley (2+4)", partial(EnvironmentalAckley, 4), 4, PAPER_BUDGET),
    _definition("ackley", "Ackley (2+1)", partial(EnvironmentalAckley, 1), 1),
    _definition("branin-context", "Modified Branin (2+2)", EnvironmentalBranin, 2),
    _definition("hartmann", "Hartmann (5+1), normal context", EnvironmentalHartmann, 1),
    _definition(
        "hartmann-complicated",
        "Hartmann (5+1), complicated context",
        partial(EnvironmentalHartmann, "complicated"),
        1,
    ),
    _definition("newsvendor", "Newsvendor", Newsvendor, 1),
    *(
        _definition(
            f"bundled-portfolio-{name}",
            f"Portfolio (3+2), bundled back-tests, {name} context",
            partial(PortfolioOptimization, distribution=name),
            2,
        )
        for name in ("normal", "uniform")
    ),
)
