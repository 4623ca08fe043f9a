r"""Baselines of BoTorch's parts where the distribution of W is known."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.risk_measures import VaR
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import AppendFeatures
from botorch_risk_bench.baselines import random_pairs, rho_knowledge_gradient, value_at_risk_log_nei
from botorch_risk_bench.baselines.botorch_value_at_risk import Query, _VisitedKnowledgeGradient
from torch import Tensor

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.seeding import generators
from botorch_risk.strategies import Strategy
from botorch_risk.strategies.environment_risk import Turn
from botorch_risk.test_functions import ValueAtRiskBranin, ValueAtRiskHartmann

PROBLEM = ValueAtRiskBranin()
DECISIONS = PROBLEM.bounds[:, :1]
SMALL: dict[str, Any] = {
    "n_w": 4,
    "num_samples": 4,
    "num_initial": 4,
    "num_restarts": 1,
    "raw_samples": 4,
    "max_iterations": 2,
}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "knowledge_gradient": (rho_knowledge_gradient, {"num_fantasies": 2}),
    "log_nei": (value_at_risk_log_nei, {}),
}
every = pytest.mark.parametrize("kind", KINDS)


def build(kind: str, seeds: Any = (0, 1), **options: Any) -> Any:
    make, chosen = KINDS[kind]
    known = {"environment": PROBLEM.environment, "risk_level": 0.1}
    return make(DECISIONS, seeds, **{**known, **SMALL, **chosen, **options})


def turn(strategy: Strategy) -> Turn:
    r"""The first choice of the next round, all replicates one batch."""
    ((_, view),) = strategy.views
    method: Any = strategy.method
    return Turn(method.report, view, 0, None)


def model(strategy: Strategy, row: int, w_set: Tensor) -> Any:
    r"""The model of one replicate."""
    for replicates, view in strategy.views:
        if row in replicates:
            method: Any = strategy.method
            return method._model(view, replicates.index(row), w_set)
    raise ValueError(f"Expected a replicate with an outcome. Got {row=}.")


def play(strategy: Any, rounds: int, first: int = 0) -> list[Tensor]:
    asked = []
    for index in range(first, first + rounds):
        asked.append(X := strategy.ask())
        draws = generators(strategy.seeds, "noise", index)
        noise = [torch.randn(X.shape[-2], 1, generator=each).double() for each in draws]
        strategy.tell(X, PROBLEM(X, noise=False).unsqueeze(-1) + 0.1 * torch.stack(noise))
    return asked


@every
def test_protocol_and_state(kind: str) -> None:
    r"""Also where hyperparameters are those of an earlier round."""
    strategy, resumed = (build(kind, batch_size=2, refit_every=2) for _ in range(2))
    known = {"environment": PROBLEM.environment, "risk_level": 0.1, "num_initial": 4}
    random = random_pairs(DECISIONS, [0, 1], **known)
    initial = random.ask()
    first, second = play(strategy, 2)
    assert torch.equal(first, initial)
    assert second.shape == (2, 2, 2)
    assert ((second >= 0) & (second <= 1)).all()
    assert PROBLEM.environment.supports(second[..., 1:]).all()
    resumed.load_state_dict(strategy.state_dict())
    assert torch.equal(strategy.ask(), resumed.ask())
    assert torch.equal(strategy.recommend(), resumed.recommend())
    random.tell(strategy.history.X, strategy.history.Y[..., 0])
    assert torch.equal(strategy.recommend(), random.recommend())


@every
def test_a_replicate_does_not_depend_on_its_company(kind: str) -> None:
    together, alone = build(kind, [4, 0]), build(kind, 0)
    X, Y = (play(each, 2)[1] for each in (together, alone))
    assert torch.equal(X[1:], Y)


def test_hyperparameters_stay_between_estimates() -> None:
    strategy = build("log_nei", 0, refit_every=2)
    lengthscales = []
    for index in range(4):
        play(strategy, 1, first=index)
        w_set = torch.rand(4, 1).double()
        found = model(strategy, 0, w_set)
        assert len(found.train_targets) == 4 + index
        assert torch.equal(found.input_transform.append.feature_set, w_set)
        lengthscales.append(found.covar_module.lengthscale.detach())
    assert torch.equal(lengthscales[0], lengthscales[1])
    assert torch.equal(lengthscales[2], lengthscales[3])
    assert not torch.equal(lengthscales[0], lengthscales[2])


def test_rows_without_an_outcome_are_left_out() -> None:
    strategy = build("log_nei")
    X = strategy.ask()
    Y = PROBLEM(X, noise=False).unsqueeze(-1).expand(2, 4, 2).clone()
    Y[1, :2] = torch.nan
    Y[1, 2, 0] = torch.nan
    strategy.tell(X, Y)
    assert len(model(strategy, 1, X[0, :, 1:]).train_targets) == 2
    assert strategy.ask().isfinite().all()


def of_environment(environment: DiscreteEnvironment, **options: Any) -> Any:
    r"""A strategy with the outcome of the initial design."""
    strategy = build("log_nei", environment=environment, **options)
    X = strategy.ask()
    strategy.tell(X, X.sum(dim=-1, keepdim=True).sin())
    return strategy


def test_w_is_moved_to_the_nearest_value_of_its_law() -> None:
    points = torch.tensor([[0.0, 0.0], [0.1, 50.0], [1.0, 0.0]], dtype=torch.double)
    weather = DiscreteEnvironment(points, torch.tensor([0.5, 0.5, 0.0]))
    strategy = of_environment(weather)
    chosen = torch.tensor([[[0.3, 0.09, 20.0]], [[0.3, 1.0, 10.0]]], dtype=torch.double)
    moved = strategy.method._with_supported_w(turn(strategy), chosen)
    torch.testing.assert_close(moved[:, 0, 0], chosen[:, 0, 0])
    assert torch.equal(moved[:, 0, 1:], points[[1, 1]])


def test_continuous_law_and_bad_numbers() -> None:
    problem = ValueAtRiskHartmann(1, "continuous")
    strategy = build("knowledge_gradient", 0, environment=problem.environment)
    X = strategy.ask()
    strategy.tell(X, problem(X, noise=False).unsqueeze(-1))
    assert problem.environment.supports(strategy.ask()[..., 1:]).all()
    for name in ("n_w", "num_samples", "refit_every", "max_iterations"):
        with pytest.raises(ValueError, match=f"`{name}` to be at least 1"):
            build("log_nei", **{name: 0})


W = np.array([[0.0], [0.3], [0.6], [1.0]])
LENGTHSCALE, NOISE = 0.5, 0.05


def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=-1) / LENGTHSCALE**2)


def posterior(X: np.ndarray, Y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    solved = np.linalg.solve(kernel(X, X) + NOISE * np.eye(len(X)), kernel(X, at))
    return solved.T @ Y, kernel(at, at) - kernel(at, X) @ solved


def root_after(before: np.ndarray, after: np.ndarray, gain: np.ndarray) -> np.ndarray:
    r"""A root of the covariance that outcomes leave, from the Cholesky factor without them."""
    factor = np.linalg.cholesky(before)
    V = np.linalg.solve(factor, gain)
    K = np.linalg.cholesky(np.eye(V.shape[-1]) - V.T @ V)
    root = factor - gain @ np.linalg.inv(np.eye(len(K)) + K) @ V.T
    np.testing.assert_allclose(root @ root.T, after, atol=1e-8)
    return root


def by_loops(
    X: np.ndarray, Y: np.ndarray, inner: np.ndarray, pairs: np.ndarray, outer: np.ndarray, z: Any
) -> float:
    r"""Mean over fantasies of the largest mean value-at-risk; the second smallest of four."""
    visited = {float(each) for each in X[:, 0]}
    mean, covariance = posterior(X, Y, pairs)
    root = np.linalg.cholesky(covariance + NOISE * np.eye(len(pairs)))
    values = []
    for outcome in outer:  # K x q
        known_X, known_Y = np.vstack([X, pairs]), np.append(Y, mean + root @ outcome)
        risks = []
        for x in inner:
            at = np.hstack([np.full((4, 1), x), W])
            mu, sigma = posterior(known_X, known_Y, at)
            if float(x) in visited:
                _, joint = posterior(X, Y, np.vstack([at, pairs]))
                gain = np.linalg.solve(root, joint[4:, :4]).T
                factor = root_after(joint[:4, :4], sigma, gain)
            else:
                factor = np.linalg.cholesky(sigma)
            samples = mu + z @ factor.T  # M x n_w
            risks.append(np.sort(samples, axis=-1)[:, 1].mean())
        values.append(max(risks))
    return float(np.mean(values))


def second_smallest(values: Tensor) -> Tensor:
    return values.sort(dim=-1).values[..., 1]


@pytest.mark.parametrize("pending", [False, True])
def test_visited_knowledge_gradient_is_that_of_loops(pending: bool) -> None:
    X = torch.rand(5, 2, generator=torch.Generator().manual_seed(0)).double()
    Y = (5 * X).sin().sum(dim=-1, keepdim=True)
    Y = (Y - Y.mean()) / Y.std()
    model = SingleTaskGP(
        X, Y, input_transform=AppendFeatures(torch.from_numpy(W)), outcome_transform=None
    )
    model.covar_module.lengthscale, model.likelihood.noise = LENGTHSCALE, NOISE
    model.mean_module.constant = 0.0
    ahead = torch.tensor([[0.9, 0.2]], dtype=torch.double) if pending else None
    objective = VaR(alpha=0.75, n_w=4)
    query = Query(model, X[:, :1], ahead, objective, second_smallest, torch.from_numpy(W), 6)
    acqf = _VisitedKnowledgeGradient(query, num_fantasies=3)
    trial = torch.tensor([[[0.1, 0.5]], [[0.7, 0.8]]], dtype=torch.double, requires_grad=True)
    values = acqf(trial)
    outer, within = acqf.outcomes.numpy(), acqf.samples.numpy()
    for value, pair in zip(values, trial.detach(), strict=True):
        pairs = (pair if ahead is None else torch.cat([pair, ahead])).numpy()
        decisions = np.append(X[:, 0].numpy(), pairs[:, 0])
        expected = by_loops(X.numpy(), Y[:, 0].numpy(), decisions, pairs, outer, within)
        assert value.item() == pytest.approx(expected, abs=1e-5)
    (gradient,) = torch.autograd.grad(values.sum(), trial)
    assert gradient.isfinite().all()
    assert (gradient != 0).any()


def test_no_candidate_is_solved_with_a_nearly_singular_factor() -> None:
    r"""All pivots of these values of w are large enough, but one eigenvalue is rounding."""
    hundredths = [9, 22, 36, 54, 59, 60, 61, 62, 64, 71, 72, 76, 86, 88, 99]
    w_set = torch.tensor(hundredths, dtype=torch.double).unsqueeze(-1) / 99
    X = torch.tensor([[0.0, 5.0], [0.5, 5.0]], dtype=torch.double)  # says nothing of these w
    Y = torch.tensor([[-1.0], [1.0]], dtype=torch.double)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two outcomes of mean 0 have a variance of two
        model = SingleTaskGP(X, Y, input_transform=AppendFeatures(w_set), outcome_transform=None)
    model.covar_module.lengthscale = 0.14
    query = Query(model, X[:, :1], None, VaR(alpha=0.75, n_w=15), second_smallest, w_set, 6)
    acqf = _VisitedKnowledgeGradient(query, num_fantasies=3)
    assert (torch.linalg.svdvals(acqf.root).square() > 0.9e-8).all()


def test_all_values_of_w_count_by_their_weights() -> None:
    strategy = build("knowledge_gradient", n_w=None)
    play(strategy, 2)
    w_sets, risk = strategy.method._values(turn(strategy))
    weights = PROBLEM.environment.weights
    weights = weights[weights > 1e-4]
    assert w_sets.shape == (2, len(weights), 1)
    assert weights.sum() > 0.999
    w = w_sets[0, :, 0]
    share = weights[w < risk(w)].sum()
    assert share < 0.1 <= share + weights.max()
    refused = "`n_w`, for an acquisition function of BoTorch"
    with pytest.raises(ValueError, match=refused):
        build("log_nei", n_w=None)
    with pytest.raises(ValueError, match=refused):
        build("knowledge_gradient", n_w=None, inner_solutions="anywhere")


def test_inner_solutions_anywhere() -> None:
    problem = ValueAtRiskBranin()
    known = {"environment": problem.environment, "risk_level": 0.1}
    strategy = rho_knowledge_gradient(
        problem.bounds[:, :1],
        0,
        **known,
        inner_solutions="anywhere",
        num_fantasies=2,
        num_samples=4,
        n_w=4,
        num_initial=4,
        num_restarts=1,
        raw_samples=2,
        max_iterations=2,
    )
    X = strategy.ask()
    strategy.tell(X, problem(X, noise=False).unsqueeze(-1))
    pairs = strategy.ask()
    assert problem.environment.supports(pairs[..., 1:]).all()
    assert ((pairs >= 0) & (pairs <= 1)).all()
    with pytest.raises(ValueError, match=r"`inner_solutions` to be one of .* Got 'best'"):
        rho_knowledge_gradient(problem.bounds[:, :1], 0, **known, inner_solutions="best")
    with pytest.raises(ValueError, match="`num_fantasies` to be at least 1"):
        rho_knowledge_gradient(problem.bounds[:, :1], 0, **known, num_fantasies=0)
