r"""The experiments of UHE-BO [Ha2023uhe]_, Sec. 7 and Appendix C.

All methods use GP-UCB, the only acquisition function that the paper's text names, with its width
1.96 as the multiplier of the standard deviation; a Matern-5/2 ARD kernel with Gamma(1e-3, 10)
priors; M_t = 2 |D|. The paper leaves the following open; these are our choices: budgets; an initial
design of three points per input; no noise; two inputs for Deceptive; [-25, 25]^2 for h1, since
[-100, 100]^2 has some sixty ripples per side; 10 as the scale of the priors, which are densities of
the logarithms: as a rate it holds lengthscales near zero in four inputs and more
(`bench/reproduction/uhe/recovery.md`). The tables of the two tuning problems come with no package:
scikit-learn's digits and breast-cancer data stand in, and `logistic` takes the paper's table of
vehicles. MCMC samples under BoTorch's priors, which its fully Bayesian model has built in, in every
fifth round. A-GP-UCB's schedule is a function of t alone; the paper's is a prediction of one step,
in a form of our own as A-GP-UCB-one-step. The other three names with more than the paper's are
trials of rewards for what an arm gained.
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from os import PathLike
from typing import Any

from botorch.test_functions import Branin, Hartmann

from botorch_risk.fit import PseudoData
from botorch_risk.papers import uhe_bo
from botorch_risk.strategies import random_search
from botorch_risk.test_functions import H1, ConstantNoiseProblem, Deceptive, MaximizedTestFunction
from botorch_risk_bench.baselines import (
    a_gp_ucb,
    fully_bayesian_gp_ucb,
    gp_ucb,
    portfolio_exp3,
    pseudo_data_gp_ucb,
    ra_bo,
    random_exp3,
    wang_de_freitas_gp_ucb,
)
from botorch_risk_bench.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk_bench.experiments.papers.models import matern_process
from botorch_risk_bench.problems import (
    BoostedTreesTuning,
    LogisticRegressionTuning,
    LunarLanding,
    vehicle_silhouettes,
)

H1_HALF_WIDTH = 25.0
PROBLEMS = "botorch-risk-bench[problems]"
SAMPLER = (("numpyro", "botorch_risk[bayesian]"), ("jax", "botorch_risk[bayesian]"))
MCMC_EVERY = 5  # rounds: 3 s to 5 s a seed, and some 10 s to compile

STRATEGIES: dict[str, StrategyFactory] = {
    "UHE-BO": partial(uhe_bo, model=matern_process),
    "MAP": partial(gp_ucb, model=matern_process),
    "pseudo-data": partial(pseudo_data_gp_ucb, model=matern_process),
    "RA-BO": partial(ra_bo, model=matern_process),
    "Random+EXP3": partial(random_exp3, model=matern_process),
    "UHE-BO-gain": partial(
        random_exp3, estimator=PseudoData(), gain="amount", model=matern_process
    ),
    "UHE-BO-improved": partial(
        random_exp3, estimator=PseudoData(), gain="sign", model=matern_process
    ),
    "Random+EXP3-improved": partial(random_exp3, gain="sign", model=matern_process),
    "A-GP-UCB": partial(a_gp_ucb, model=matern_process),
    "A-GP-UCB-one-step": partial(a_gp_ucb, one_step=True, model=matern_process),
    "Wang-de-Freitas": partial(wang_de_freitas_gp_ucb, model=matern_process),
    "Portfolio": partial(portfolio_exp3, model=matern_process),
    "Random": random_search,
    "MCMC": partial(fully_bayesian_gp_ucb, sample_every=MCMC_EVERY),
}


def _definition(
    name: str,
    description: str,
    problem: Callable[[], ConstantNoiseProblem],
    dim: int,
    num_rounds: int,
    optimal_value: Callable[[Any], float] | None = attrgetter("optimal_value"),
    extras: Sequence[tuple[str, str]] = (),
) -> ExperimentDefinition:
    return ExperimentDefinition(
        name=f"uhe-{name}",
        description=f"{description}, hyperparameters unknown (UHE-BO, Fig. 2)",
        problem=problem,
        strategies=STRATEGIES,
        num_initial=3 * dim,
        num_rounds=num_rounds,
        num_repeats=1,
        objective="f(x)",
        optimal_value=optimal_value,
        settings={"rounds from one sampling of MCMC to the next": MCMC_EVERY},
        extras={"problem": extras, "MCMC": SAMPLER},
    )


def _on_vehicles(table: str | PathLike[str]) -> LogisticRegressionTuning:
    return LogisticRegressionTuning(*vehicle_silhouettes(table), num_epochs=1_000)


def logistic(table: str | PathLike[str]) -> ExperimentDefinition:
    r"""Logistic regression on the paper's table, as in HPOBench: Appendix C."""
    problem = partial(_on_vehicles, table)
    description = "Tuning of logistic regression on Vehicle Silhouettes"
    return _definition("logistic-vehicle", description, problem, 2, 60, None)


EXPERIMENTS = (
    _definition("branin", "Branin", lambda: MaximizedTestFunction(Branin()), 2, 60),
    _definition("deceptive", "Deceptive (2 inputs)", partial(Deceptive, 2), 2, 100),
    _definition("h1", "h1", partial(H1, H1_HALF_WIDTH), 2, 100),
    _definition("hartmann3", "Hartmann3", lambda: MaximizedTestFunction(Hartmann(3)), 3, 60),
    _definition("hartmann6", "Hartmann6", lambda: MaximizedTestFunction(Hartmann(6)), 6, 100),
    _definition("logistic", "Tuning of logistic regression", LogisticRegressionTuning, 2, 60, None),
    _definition(
        "boosting",
        "Tuning of boosted trees",
        BoostedTreesTuning,
        4,
        60,
        None,
        extras=[("xgboost", PROBLEMS)],
    ),
    _definition(
        "lunar",
        "Lunar landing (12 parameters)",
        LunarLanding,
        12,
        100,
        None,
        extras=[("gymnasium", PROBLEMS), ("Box2D", PROBLEMS)],
    ),
)
