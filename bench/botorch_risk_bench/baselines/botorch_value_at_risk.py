r"""Baselines of V-UCB made of BoTorch's parts, seed by seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.knowledge_gradient import qMultiFidelityKnowledgeGradient
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.risk_measures import VaR
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.utils.assorted import fantasize
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.sampling import draw_sobol_normal_samples, manual_seed
from botorch.utils.transforms import t_batch_mode_transform
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_risk.acquisition import bayesian_beta, risk_bound
from botorch_risk.arguments import check_arguments, check_counts, check_fields
from botorch_risk.engine import Belief
from botorch_risk.environments import Environment
from botorch_risk.gradients import require_gradients
from botorch_risk.matrices import jitter_of, safe_root
from botorch_risk.risk import ValueAtRisk
from botorch_risk.seeding import derive_seed, generators
from botorch_risk.strategies.decision_then_value import (
    DecisionThenValue,
    LacingValue,
    largest_bound,
)
from botorch_risk.strategies.environment_risk import EnvironmentRisk, Turn, input_range
from botorch_risk.strategies.environment_space import EnvironmentSpace
from botorch_risk.strategies.method import Method, State, View
from botorch_risk.strategies.space import Box, Space, decision_box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.appended_values import (
    maximize_singly,
    model_with_values,
    resampled_values,
    without_numerical_warnings,
)
from botorch_risk_bench.baselines.documented import documented
from botorch_risk_bench.baselines.mean_variance import require_continuous


@dataclass(frozen=True)
class Query:
    r"""Arguments of an acquisition function of BoTorch, for one replicate.

    Args:
        model: A model of decisions, with `n_w` values of W appended to each; once conditioned, a
            model of pairs.
        visited: The decisions with an outcome, `n x d_x`.
        pending: Pairs under evaluation, `pick x d`; None if there are none.
        objective: BoTorch's value-at-risk over the appended values.
        risk: The same of outcomes `... x n_w`; of all values of W, with their weights.
        w_set: The appended values, `n_w x d_w`.
    """

    model: SingleTaskGP
    visited: Tensor
    pending: Tensor | None
    objective: VaR
    risk: Callable[[Tensor], Tensor]
    w_set: Tensor
    num_samples: int

    def sampler(self, num_samples: int | None = None) -> SobolQMCNormalSampler:
        r"""Quasi-random samples of the stream of this query."""
        seed = int(torch.randint(2**31, (1,)))
        return SobolQMCNormalSampler(torch.Size([num_samples or self.num_samples]), seed=seed)

    def normal(self, num_samples: int, dim: int) -> Tensor:
        r"""The draws `num_samples x dim` on which such a sampler bases its samples."""
        seed = int(torch.randint(2**31, (1,)))
        draws = draw_sobol_normal_samples(d=dim, n=num_samples, seed=seed, dtype=self.visited.dtype)
        return draws.to(self.visited)


SMALLEST_WEIGHT = 1e-4  # of a value of W that counts; V-UCB's smaller ones have 4e-4 together
AcquisitionOfQuery = Callable[[Query], AcquisitionFunction]


@documented(
    "risk_level=0.1, num_initial=4",
    2,
    options="`num_initial` and `batch_size`; further arguments of `BoTorchValueAtRisk`.",
)
def value_at_risk_log_nei(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_level: float,
    **options: Any,
) -> Strategy:
    r"""The value-at-risk by qLogNEI over decisions, as a BoTorch user would maximise it.

    `qLogNoisyExpectedImprovement` of decisions with BoTorch's `VaR` as the objective, against the
    decisions that were queried (pruned); it has no opinion on w.

    LogNEI is from [Ament2023logei]_, risks of joint samples from [Cakmak2020risk]_.
    """
    check_arguments(value_at_risk_log_nei, locals())
    return of_botorch(log_nei, bounds, seeds, environment, risk_level, **options)


def log_nei(query: Query) -> AcquisitionFunction:
    pending = query.pending
    return qLogNoisyExpectedImprovement(
        query.model,
        X_baseline=query.visited,
        sampler=query.sampler(),
        objective=query.objective,
        prune_baseline=True,
        X_pending=None if pending is None else pending[:, : query.visited.shape[-1]],
    )


def of_botorch(
    acquisition: AcquisitionOfQuery,
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    environment: Environment,
    risk_level: float,
    *,
    num_initial: int = 10,
    batch_size: int = 1,
    reporting: Any = "posterior_mean",
    **options: Any,
) -> Strategy:
    r"""A strategy of an acquisition function of BoTorch."""
    ValueAtRisk(risk_level)  # raises
    recipe = partial(risk_bound, risk_measure=ValueAtRisk(risk_level), beta=bayesian_beta)
    choose = DecisionThenValue(largest_bound, LacingValue("uniform"))
    report = EnvironmentRisk(recipe, choose, reporting=reporting)
    method = BoTorchValueAtRisk(acquisition, report, risk_level, **options)
    box = decision_box(bounds)
    require_continuous(box, "BoTorch's value-at-risk")
    space = EnvironmentSpace(box, environment)
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)


@dataclass
class Fits:
    r"""The models of a round, and the view of the reporting method."""

    report: View
    fitted_in: int
    models: dict[int, SingleTaskGP] = field(default_factory=dict)


@dataclass(frozen=True)
class BoTorchValueAtRisk(Method):
    r"""A method whose model, objective and optimiser are BoTorch's.

    Each seed has its own unbatched model, fitted by `fit_gpytorch_mll`, and its own call of
    `optimize_acqf`. The model appends a set of `n_w` values of W to each decision, over which
    BoTorch's `VaR` is taken. That knows no weights, so the set is drawn in proportion to them, once
    for each query (`resampled_values`). Where `n_w` times the level is an integer, BoTorch's value
    is the next larger one after the value of `ValueAtRisk`. With `n_w=None` the set has all values
    of W with a weight above 1e-4, and the risk is `ValueAtRisk` by their weights. Acquisition
    functions of BoTorch know no weights.

    Args:
        acquisition: From what is known of a replicate to an acquisition function, of decisions or
            of pairs.
        report: Recommends decisions, by the batched model of the other strategies.
        of_pairs: Whether the acquisition function is of pairs; otherwise w is drawn.
        refit_every: Rounds from one estimate of the hyperparameters to the next, which is from all
            data of its round; in between they stay.
    """

    acquisition: AcquisitionOfQuery
    report: EnvironmentRisk
    risk_level: float
    of_pairs: bool = False
    n_w: int | None = 16
    num_samples: int = 32
    refit_every: int = 1
    max_iterations: int = 50
    num_restarts: int = 4
    raw_samples: int = 32

    def __post_init__(self) -> None:
        check_counts(num_samples=self.num_samples, refit_every=self.refit_every)
        if self.n_w is not None:
            check_counts(n_w=self.n_w)
        elif getattr(self.acquisition, "inner_solutions", "anywhere") != "visited":
            raise ValueError(
                "Expected a number of values of W, `n_w`, for an acquisition function of BoTorch, "
                "whose `VaR` has no weights. Got None."
            )
        check_counts(max_iterations=self.max_iterations, num_restarts=self.num_restarts)

    def start(self, space: Space, num_replicates: int) -> State:
        return self.report.start(space, num_replicates)  # type: ignore[arg-type]

    def believe(self, view: View) -> Fits:
        r"""Models of the round in which hyperparameters were estimated last."""
        report = view.of(range(len(view.seeds)), self.report)
        due = view.round - (view.round - 1) % self.refit_every
        before: Fits | None = view.previous
        if before is not None and before.fitted_in == due:
            return Fits(report, due, before.models)
        return Fits(report, due)

    def propose(self, view: View) -> Tensor:
        r"""Choose pairs one after the other, seed by seed."""
        chosen: list[Tensor] = []
        for pick in range(view.batch_size):
            pending = torch.cat(chosen, dim=-2) if chosen else None
            chosen.append(self._choose(Turn(self.report, view, pick, pending)))
        return torch.cat(chosen, dim=-2)

    def record(self, view: View, rows: Tensor) -> Tensor | None:
        r"""The lower bound of the risk, by the model that reports."""
        return self.report.record(view.belief.report, rows)

    def recommend(self, view: View) -> Tensor:
        r"""The decision of each replicate by the reporting rule."""
        report = view.belief.report
        return self.report.recommend(report.renewed(view.history, report.state))

    def _choose(self, turn: Turn) -> Tensor:
        w_sets, of_weights = self._values(turn)
        d_x, space = turn.space.bounds.shape[-1], turn.space
        box = input_range(space) if self.of_pairs else space.bounds
        chosen = []
        for row, stream in enumerate(turn.streams("acquisition")):
            with manual_seed(stream % 2**31), without_numerical_warnings():
                query = Query(
                    self._model(turn.view, row, w_sets[row]),
                    turn.view.X[row][:, :d_x],
                    None if turn.pending is None else turn.pending[row],
                    VaR(alpha=1 - self.risk_level, n_w=w_sets.shape[-2]),
                    of_weights,
                    w_sets[row],
                    self.num_samples,
                )
                numbers = self.num_restarts, self.raw_samples, self.max_iterations
                chosen.append(maximize_singly(self.acquisition(query), box, *numbers))
        return self._with_supported_w(turn, torch.stack(chosen))

    def _values(self, turn: Turn) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        r"""Values of W `R x n_w x d_w`, and the value-at-risk of outcomes `... x n_w` over them."""
        if self.n_w is not None:
            w_sets = resampled_values(turn, self.n_w)
            of_botorch = VaR(alpha=1 - self.risk_level, n_w=self.n_w)
            return w_sets, lambda values: of_botorch(values.unsqueeze(-1)).squeeze(-1)
        environment: Any = turn.space.environment
        likely = environment.weights > SMALLEST_WEIGHT
        weights = environment.weights[likely] / environment.weights[likely].sum()
        w_set = environment.points[likely].to(turn.space.bounds)
        measure = ValueAtRisk(self.risk_level)
        return w_set.expand(len(turn.view.seeds), -1, -1), lambda values: measure(values, weights)

    def _with_supported_w(self, turn: Turn, chosen: Tensor) -> Tensor:
        r"""Pairs `R x 1 x d` with w in the support: the nearest point of it, or a draw if none."""
        X, W = chosen.tensor_split([turn.space.bounds.shape[-1]], dim=-1)
        environment: Any = turn.space.environment
        if W.shape[-1] == 0:
            draws = generators(turn.streams("context"), "environment")
            return torch.cat([X, environment.sample(1, draws).to(X)], dim=-1)
        lower, upper = input_range(turn.space)[:, X.shape[-1] :]
        gaps = (W.unsqueeze(-2) - environment.points.to(W).unsqueeze(-3)) / (upper - lower)
        distance = gaps.square().sum(dim=-1)  # R x 1 x n_w
        unsupported = (environment.weights.to(distance) <= 0).unsqueeze(-2)
        distance = distance.masked_fill(unsupported, torch.inf)
        index = distance.argmin(dim=-1, keepdim=True).expand(*W.shape)
        nearest = environment.points.to(W).expand(len(W), -1, -1).gather(-2, index)
        kept = environment.contains(X, W).unsqueeze(-1)
        return torch.cat([X, W.where(kept, nearest)], dim=-1)

    def _model(self, view: View, row: int, w_set: Tensor) -> SingleTaskGP:
        r"""Build the model of one replicate from all data and the last estimate."""
        fits: Fits = view.belief
        if row not in fits.models:
            require_gradients("fit_gpytorch_mll")
            early = view.history.of([row]).before(fits.fitted_in)
            X, Y = early.complete()
            fitted = self._unfitted(view, w_set, X[0], Y[0].nanmean(dim=-1, keepdim=True))
            with manual_seed(derive_seed(view.seeds[row], "fit", early.num_rows) % 2**31):
                fit_gpytorch_mll(ExactMarginalLogLikelihood(fitted.likelihood, fitted))
            fits.models[row] = fitted
        model = self._unfitted(view, w_set, view.X[row], view.Y[row])
        estimates = fits.models[row].parameters()
        for parameter, estimate in zip(model.parameters(), estimates, strict=True):
            parameter.data.copy_(estimate)
        return model.eval()

    def _unfitted(self, view: View, w_set: Tensor, X: Tensor, Y: Tensor) -> SingleTaskGP:
        return model_with_values(X, Y, w_set, input_range(view.space))


InnerSolutions = Literal["visited", "anywhere"]


@documented(
    "risk_level=0.1, num_initial=4",
    2,
    inner_solutions="What the inner maximum is over.",
    num_fantasies="Outcomes at (x, w) that the outer expectation is over.",
    options="`num_initial` and `batch_size`; further arguments of `BoTorchValueAtRisk`.",
)
def rho_knowledge_gradient(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    environment: Environment,
    risk_level: float,
    inner_solutions: InnerSolutions = "visited",
    num_fantasies: int = 8,
    **options: Any,
) -> Strategy:
    r"""Knowledge gradient of the value-at-risk, rho-KG of [Cakmak2020risk]_.

        (x_t, w_t) = argmax_(x, w) E[ max_x' E_{t+1}[VaR(f(x', W))] | y(x, w) ]

    The outer expectation is over `num_fantasies` outcomes at (x, w), the inner one over samples of
    the outcomes at (x', W). The inner solutions x' are

    - `"visited"`: the decisions that were queried, those pending, and x itself; rho-KG-apx, which
      needs no inner optimisation. With x among them a query of a new decision is worth what it
      says about that decision, not about its neighbours alone;
    - `"anywhere"`: one for each fantasy, maximised together with (x, w) by
      `qMultiFidelityKnowledgeGradient`, as in BoTorch's tutorial on risk-averse optimisation with
      environmental variables.

    The maximisation is over the box of x and the range of W; where W has finitely many values, w
    is moved to the nearest one of them. The value of what is known now, which does not depend on
    (x, w), is not subtracted. At 60 observations a query takes a second of one core, or five
    seconds if inner solutions are anywhere.

    V-UCB's authors let it recommend the decision of the largest `E[VaR(f(x, W))]` in the whole
    domain. Here all strategies report by one rule, so that it is the queries that are compared:
    the largest VaR of the mean among the decisions queried, or in the whole domain for
    `reporting="posterior_mean_everywhere"`.
    """
    check_arguments(rho_knowledge_gradient, locals())
    acquisition = KnowledgeGradient(inner_solutions, num_fantasies)
    return of_botorch(acquisition, bounds, seeds, environment, risk_level, of_pairs=True, **options)


@dataclass(frozen=True)
class KnowledgeGradient:
    r"""Builds the acquisition function of `rho_knowledge_gradient` for a replicate."""

    inner_solutions: InnerSolutions = "visited"
    num_fantasies: int = 8

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(num_fantasies=self.num_fantasies)

    def __call__(self, query: Query) -> AcquisitionFunction:
        if self.inner_solutions == "visited":
            return _VisitedKnowledgeGradient(query, self.num_fantasies)
        d_x = query.visited.shape[-1]
        return qMultiFidelityKnowledgeGradient(
            query.model,
            num_fantasies=self.num_fantasies,
            sampler=query.sampler(self.num_fantasies),
            objective=query.objective,
            inner_sampler=query.sampler(),
            X_pending=query.pending,
            project=lambda X: X[..., :d_x],
        )


class _VisitedKnowledgeGradient(AcquisitionFunction):
    r"""Knowledge gradient whose inner solutions are decisions visited, pending or under trial.

    Outcomes at pairs subtract from the covariance of a decision's outcomes under all w what they
    explain of it, whatever they are, and shift the mean in proportion: no fantasy needs a model of
    its own, and what the data say of the decisions visited is computed once.
    """

    def __init__(self, query: Query, num_fantasies: int) -> None:
        super().__init__(query.model)
        self.risk, self.w_set = query.risk, query.w_set
        self.set_X_pending(query.pending)
        num_pending = 0 if query.pending is None else len(query.pending)
        self.outcomes = query.normal(num_fantasies, 1 + num_pending)
        self.samples = query.normal(query.num_samples, len(query.w_set))
        with fantasize(), torch.no_grad():  # in which the model is one of pairs
            self.process = Belief(query.model).process()
            pairs = self._under_all_w(query.visited).flatten(0, 1).unsqueeze(0)
            noise: Any = self.process.noise_of_a_reading(pairs[:, :1])
            self.noise, self.known = noise.squeeze(), self.process.at(pairs)
            self.scale = self.known.prior.variance.amax()
            covariance = self.process.covariance_within(self.known, len(self.w_set)).squeeze(0)
            # It is solved with: pivots above the jitter are not enough, every eigenvalue must be.
            jitter = jitter_of(covariance) * self.scale
            raised = covariance + jitter * torch.eye(len(self.w_set)).to(covariance)
            self.root = psd_safe_cholesky(raised)  # n x p x p
            self.drawn = self.samples @ self.root.mT

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""The value, without what is known before, of `batch_shape x 1 x d` pairs."""
        flat = X.flatten(0, -3)  # b x 1 x d
        if self.X_pending is not None:
            flat = torch.cat([flat, self.X_pending.expand(len(flat), -1, -1)], dim=-2)
        mean, own, gain = self._moments(flat)
        mean = mean + (self.outcomes @ gain.flatten(-2)).unflatten(-1, gain.shape[-2:])
        gain = gain.movedim(1, -2)  # b x n x q x p
        num_known = len(self.root)
        gained, own_gain = gain[:, :num_known], gain[:, num_known:]
        own_root = safe_root(own - own_gain.mT @ own_gain, self.scale)
        draws = torch.cat([self._draws_after(gained), self.samples @ own_root.mT], dim=1)
        risk = self.risk(mean.unsqueeze(-2) + draws.unsqueeze(1))  # b x fantasies x n x samples
        value = risk.mean(dim=-1).amax(dim=-1).mean(dim=-1)
        return value.unflatten(0, X.shape[:-2])

    def _draws_after(self, gain: Tensor) -> Tensor:
        r"""Samples of the decisions visited, once outcomes have explained `gain.mT @ gain`.

        With L the factor of what was known, V = L^-1 gain.mT and K the Cholesky factor of
        I - V.mT V, the matrix L (I - V (I + K)^-1 V.mT) times its transpose is the covariance
        that is left, so that no candidate factors the covariances of the decisions.

        Args:
            gain: `b x n x q x p`.

        Returns:
            `b x n x num_samples x p`, without the mean.
        """
        b, n, q, p = gain.shape
        columns = gain.permute(1, 3, 0, 2).reshape(n, p, b * q)
        explained = torch.linalg.solve_triangular(self.root, columns, upper=False)
        explained = explained.view(n, p, b, q).permute(2, 0, 1, 3)  # V
        identity = torch.eye(q, dtype=gain.dtype, device=gain.device)
        one = torch.ones((), dtype=gain.dtype, device=gain.device)
        left = safe_root(identity - explained.mT @ explained, one)
        weights = torch.linalg.solve(identity + left, explained.mT @ self.samples.mT)
        return self.drawn - weights.mT @ gain

    def _moments(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Moments of `n` decisions under all `p` values of w, before the outcomes at `b x q x d`.

        Returns:
            Means `b x 1 x n x p`, covariances `b x q x p x p` of the decisions under trial, and
            `b x q x n x p` covariances with the whitened outcomes.
        """
        b, q, d = X.shape
        tried = self._under_all_w(X[..., : d - self.w_set.shape[-1]]).flatten(1, 2)
        group = torch.cat([X, tried], dim=-2)
        with fantasize():
            at = self.process.at(group.reshape(1, -1, d))
            within = self.process.covariance_within(at, group.shape[-2]).squeeze(0)
            rows = torch.arange(group.shape[:2].numel(), device=X.device).view(group.shape[:2])
            outcomes = at.take(rows[:, :q].reshape(1, -1))
            across = self.process.covariance(outcomes, self.known).view(b, q, -1)
        own = within[:, q:, q:].unflatten(-1, (q, -1)).unflatten(1, (q, -1))
        own = own.diagonal(dim1=1, dim2=3).movedim(-1, 1)  # b x q x p x p
        identity = torch.eye(q, dtype=X.dtype, device=X.device)
        root = safe_root(within[:, :q, :q] + self.noise * identity, self.noise)
        across = torch.cat([across, within[:, :q, q:]], dim=-1)
        gain = torch.linalg.solve_triangular(root, across, upper=False)
        mean = torch.cat([self.known.mean.expand(b, -1), at.mean.view(b, -1)[:, q:]], dim=-1)
        sizes = -1, len(self.w_set)
        return mean.view(b, 1, *sizes), own, gain.unflatten(-1, sizes)

    def _under_all_w(self, decisions: Tensor) -> Tensor:
        r"""The pairs `... x n x p x d` of decisions `... x n x d_x` with all values of W."""
        X = decisions.unsqueeze(-2).expand(*decisions.shape[:-1], len(self.w_set), -1)
        return torch.cat([X, self.w_set.expand(*X.shape[:-1], -1)], dim=-1)
