r"""The experiments of UHE-BO (Ha et al. 2023, Sec. 7 and Appendix C).

GP-UCB throughout, as the paper's text names no other acquisition function, its width 1.96 taken as
the multiplier of the standard deviation; a Matern-5/2 ARD kernel with Gamma(1e-3, 10) priors;
M_t = 2 |D|. The paper leaves open, and here are ours: budgets; an initial design of three points an
input; no noise; two inputs for Deceptive; [-25, 25]^2 for h1, since [-100, 100]^2 holds some sixty
ripples a side; 10 as the scale of the priors, which are densities of the logarithms: as a rate it
holds lengthscales near zero in four inputs and more (`reproduction/uhe/recovery.md`). The tables of
the two tuning problems come with no package: scikit-learn's digits and breast-cancer data stand in.
MCMC samples under BoTorch's priors, which its fully Bayesian model has built in, in every fifth
round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from botorch.models import SingleTaskGP
from botorch.test_functions import Branin, Hartmann
from gpytorch.kernels import MaternKernel, ScaleKernel
from torch import Generator, Tensor

from botorch_risk.experiments.registry import ExperimentDefinition, register
from botorch_risk.experiments.remembered import RememberedFunction
from botorch_risk.fit import set_gamma_priors
from botorch_risk.strategies import (
    AGPUCB,
    GPUCB,
    RABO,
    UHEBO,
    FullyBayesianGPUCB,
    PortfolioEXP3,
    PseudoDataGPUCB,
    RandomEXP3,
    RandomSearch,
    WangDeFreitasGPUCB,
)
from botorch_risk.test_functions import (
    H1,
    BoostedTreesTuning,
    Deceptive,
    LogisticRegressionTuning,
    LunarLanding,
)

H1_HALF_WIDTH = 25.0
MCMC_EVERY = 5  # rounds: 3 s to 5 s a seed, and some 10 s to compile


class NoiselessProblem:
    r"""A test function without noise that evaluates no point twice.

    Args:
        problem: The function, maximised.
    """

    def __init__(self, problem: Any) -> None:
        r"""Takes the function."""
        self.problem = problem
        self._remembered = RememberedFunction(partial(problem, noise=False))

    @property
    def bounds(self) -> Tensor:
        r"""The lower and the upper bounds, `2 x d`."""
        return self.problem.bounds.double()

    @property
    def optimal_value(self) -> float:
        r"""The largest value."""
        return self.problem.optimal_value

    def sample_repeats(self, X: Tensor, num_repeats: int, generators: list[Generator]) -> Tensor:
        r"""Outcomes `R x q x k`, the same in every repeat."""
        return self.objective(X).unsqueeze(-1).expand(*X.shape[:-1], num_repeats)

    def objective(self, X: Tensor) -> Tensor:
        r"""The function, `R x q x d -> R x q`."""
        return self._remembered(X)


def matern_process(
    X: Tensor, Y: Tensor, reading: Literal["rate", "scale"] = "scale"
) -> SingleTaskGP:
    r"""The paper's model: a Matern-5/2 ARD kernel with a variance, Gamma priors on all three.

    The paper does not say whether its process has a mean: a constant here, of standardised
    outcomes.

    Args:
        X: Inputs on the unit cube, `... x n x d`.
        Y: Outcomes, `... x n x 1`.
        reading: What the second parameter of the priors is; see `set_gamma_priors`.
    """
    shape = X.shape[:-2]
    correlation = MaternKernel(nu=2.5, ard_num_dims=X.shape[-1], batch_shape=shape)
    kernel = ScaleKernel(correlation, batch_shape=shape)
    return set_gamma_priors(SingleTaskGP(X, Y, covar_module=kernel).to(X), reading=reading)


def _strategy(
    kind: Any, options: Mapping[str, Any], bounds: Tensor, seeds: Sequence[int], num_initial: int
) -> Any:
    return kind(bounds, seeds, num_initial=num_initial, **options)


_MODEL = {"model": matern_process}
_KINDS: dict[str, tuple[Any, Mapping[str, Any]]] = {
    "UHE-BO": (UHEBO, _MODEL),
    "MAP": (GPUCB, _MODEL),
    "pseudo-data": (PseudoDataGPUCB, _MODEL),
    "RA-BO": (RABO, _MODEL),
    "Random+EXP3": (RandomEXP3, _MODEL),
    "A-GP-UCB": (AGPUCB, _MODEL),
    "Wang-de-Freitas": (WangDeFreitasGPUCB, _MODEL),
    "Portfolio": (PortfolioEXP3, _MODEL),
    "Random": (RandomSearch, {}),
    "MCMC": (FullyBayesianGPUCB, {"sample_every": MCMC_EVERY}),
}


def _definition(
    name: str, description: str, problem: Any, dim: int, num_rounds: int, optimum: bool
) -> ExperimentDefinition:
    return ExperimentDefinition(
        name=f"uhe-{name}",
        description=f"{description}, hyperparameters unknown (UHE-BO, Fig. 2)",
        problem=lambda: NoiselessProblem(problem()),
        strategies={label: partial(_strategy, *kind) for label, kind in _KINDS.items()},
        num_initial=3 * dim,
        num_rounds=num_rounds,
        num_repeats=1,
        objective="f(x)",
        optimal_value=(lambda problem: problem.optimal_value) if optimum else None,
        settings={"rounds from one sampling of MCMC to the next": MCMC_EVERY},
    )


for _name, _description, _problem, _dim, _num_rounds, _optimum in (
    ("branin", "Branin", partial(Branin, negate=True), 2, 60, True),
    ("deceptive", "Deceptive (2 inputs)", partial(Deceptive, 2), 2, 100, True),
    ("h1", "h1", partial(H1, H1_HALF_WIDTH), 2, 100, True),
    ("hartmann3", "Hartmann3", partial(Hartmann, 3, negate=True), 3, 60, True),
    ("hartmann6", "Hartmann6", partial(Hartmann, 6, negate=True), 6, 100, True),
    ("logistic", "Tuning of logistic regression", LogisticRegressionTuning, 2, 60, False),
    ("boosting", "Tuning of boosted trees", BoostedTreesTuning, 4, 60, False),
    ("lunar", "Lunar landing (12 parameters)", LunarLanding, 12, 100, False),
):
    register(_definition(_name, _description, _problem, _dim, _num_rounds, _optimum))
