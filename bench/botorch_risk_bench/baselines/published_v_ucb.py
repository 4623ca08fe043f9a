r"""V-UCB with parts of its authors' experiments that differ from ours [Nguyen2021vucb]_."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from botorch.settings import validate_input_scaling
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ZeroMean
from torch import Tensor

from botorch_risk.acquisition.widths import Beta, bayesian_beta
from botorch_risk.arguments import check_arguments, check_counts, check_fields
from botorch_risk.engine import Belief, fit_exact_gp
from botorch_risk.environments import Environment
from botorch_risk.papers import maximize_value_at_risk
from botorch_risk.papers.v_ucb import v_ucb
from botorch_risk.risk import ValueAtRisk
from botorch_risk.strategies.decision_then_value import DecisionThenValue, LacingValue
from botorch_risk.strategies.environment_risk import (
    Bound,
    EnvironmentRisk,
    Turn,
    environment_of_round,
)
from botorch_risk.strategies.method import Method, State, View
from botorch_risk.strategies.risk_search import AS_IN_PAPERS, risk_search
from botorch_risk.strategies.space import Box, Space
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.documented import documented

SMALLEST_NOISE = 1e-4  # Appendix I
# The likelihood of a few points may have no maximum: lengthscales of the unit cube and variances
# stay where a covariance matrix can be factorised. The paper names no such range.
LENGTHSCALES, VARIANCES = Interval(0.01, 100.0), Interval(1e-4, 1e4)


@dataclass(frozen=True)
class LocalSurrogateDecision:
    r"""The decision of the largest bound, by LNSO: Algorithm 2 of [Nguyen2021vucb]_.

    Args:
        num_samples: Draws of W in each step of the surrogate, the paper's 10.
        num_starts: Starts of each replicate.
        raw_samples: Sobol points that the starts are chosen from.
    """

    num_samples: int = 10
    num_starts: int = 10
    raw_samples: int = 256

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(num_samples=self.num_samples, num_starts=self.num_starts)
        check_counts(raw_samples=self.raw_samples)

    def __call__(self, turn: Turn) -> Tensor:
        bound: Any = turn.bound
        predictor, environment = Belief(bound.model), turn.environment

        def upper(queries: Tensor) -> Tensor:
            mean, variance = predictor(queries)
            return mean + (bound.beta * variance).sqrt()

        found, _ = maximize_value_at_risk(
            upper,
            environment.sample,
            turn.space.bounds,
            bound.risk_measure.risk_level,
            seeds=turn.streams("acquisition"),
            num_samples=self.num_samples,
            num_starts=self.num_starts,
            raw_samples=self.raw_samples,
        )
        return found.unsqueeze(-2)


@documented(
    "risk_level=0.1, num_initial=4, num_samples=2, num_starts=1, raw_samples=4",
    2,
    num_samples="Draws of W in each step of the surrogate.",
    num_starts="Starts of the surrogate optimisation of each replicate.",
    raw_samples="Sobol points that the starts are chosen from.",
)
def v_ucb_by_surrogate(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_level: float,
    beta: Beta = bayesian_beta,
    num_samples: int = 10,
    num_starts: int = 10,
    raw_samples: int = 256,
    **options: Any,
) -> Strategy:
    r"""V-UCB Prob whose decision is found by LNSO on draws of W, not on points of it.

    Sec. 3.5 and Appendix I of [Nguyen2021vucb]_. What w is queried is chosen among the points
    of the environment, and reports are by them, as for `v_ucb`.
    """
    check_arguments(v_ucb_by_surrogate, locals())
    decide = LocalSurrogateDecision(num_samples, num_starts, raw_samples)
    known = {**AS_IN_PAPERS, "w_is_chosen": True, "reporting": "posterior_mean", **options}
    return risk_search(
        bounds,
        seeds,
        environment=environment,
        risk_measure=ValueAtRisk(risk_level),
        beta=beta,
        choose=DecisionThenValue(decide, LacingValue("probability")),
        **known,
    )


@documented(
    "risk_level=0.1, num_initial=4",
    2,
    refit_every="Rounds from one estimate of the hyperparameters to the next.",
    options="Further arguments of `v_ucb`.",
)
def v_ucb_by_likelihood(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_level: float,
    refit_every: int = 3,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""V-UCB with the model of its authors, `zero_mean_process`, fitted in every third round."""
    check_arguments(v_ucb_by_likelihood, locals())
    known: Any = {"environment": environment, "risk_level": risk_level}
    ours = v_ucb(bounds, seeds, model=zero_mean_process, **known, **options)
    method: Any = ours.method
    return Strategy(
        ours.space,
        PeriodicLikelihood(method, refit_every),
        seeds,
        num_initial=num_initial,
        batch_size=batch_size,
    )


def zero_mean_process(X: Tensor, Y: Tensor, *, input_transform: InputTransform) -> SingleTaskGP:
    r"""The model of V-UCB's authors, before it is fitted: Sec. 2 and Appendix I.

    A squared exponential kernel with a lengthscale for each input and a variance, a mean of zero,
    outcomes as they are, noise of at least 1e-4, no priors.

    Args:
        X: Inputs, `... x n x d`.
        Y: Outcomes, `... x n x 1`.
        input_transform: To the unit cube.
    """
    shape = X.shape[:-2]
    kernel: Kernel = RBFKernel(
        ard_num_dims=X.shape[-1], batch_shape=shape, lengthscale_constraint=LENGTHSCALES
    )
    kernel = ScaleKernel(kernel, batch_shape=shape, outputscale_constraint=VARIANCES)
    noise = GreaterThan(SMALLEST_NOISE)
    with validate_input_scaling(False):  # the outcomes stay as they are
        return SingleTaskGP(
            X,
            Y,
            likelihood=GaussianLikelihood(noise_constraint=noise, batch_shape=shape),
            covar_module=kernel,
            mean_module=ZeroMean(batch_shape=shape),
            outcome_transform=None,
            input_transform=input_transform,
        ).to(X)


@dataclass(frozen=True)
class PeriodicLikelihood(Method):
    r"""A risk search whose hyperparameters are estimated every few rounds, by its own model.

    Args:
        inner: Chooses and recommends, by the bound of its model.
        refit_every: Rounds from one estimate to the next; in between the model has all data and
            the last estimate.
    """

    inner: EnvironmentRisk
    refit_every: int = 3

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(refit_every=self.refit_every)

    def start(self, space: Space, num_replicates: int) -> State:
        return self.inner.start(space, num_replicates)  # type: ignore[arg-type]

    def believe(self, view: View) -> Bound:
        due = view.round - (view.round - 1) % self.refit_every
        before: Any = view.previous
        if before is not None and before.fitted_in == due:
            fitted = before.model
        else:
            early = replace(view, history=view.history.before(due), previous=None)
            fitted = self.inner.unfitted(early, 0)
            fit_exact_gp(fitted)
        model = self.inner.unfitted(view, 0)
        model.load_state_dict(fitted.state_dict())
        bound: Any = self.inner.recipe(model.eval(), environment_of_round(view), view.round)
        bound.fitted_in = due
        return bound

    def propose(self, view: View) -> Tensor:
        return self.inner.propose(view)

    def record(self, view: View, rows: Tensor) -> Tensor | None:
        return self.inner.record(view, rows)

    def recommend(self, view: View) -> Tensor:
        return self.inner.recommend(view)
