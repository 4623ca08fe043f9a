r"""Knowledge gradient of the value-at-risk: BoTorch's parts, put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.risk_measures import VaR
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import AppendFeatures
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch_risk_bench.baselines import rho_knowledge_gradient
from botorch_risk_bench.baselines.botorch_value_at_risk import Query, _VisitedKnowledgeGradient

from botorch_risk.test_functions import ValueAtRiskBranin

W = np.array([[0.0], [0.3], [0.6], [1.0]])
LENGTHSCALE, NOISE = 0.5, 0.05


def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=-1) / LENGTHSCALE**2)


def posterior(X: np.ndarray, Y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    solved = np.linalg.solve(kernel(X, X) + NOISE * np.eye(len(X)), kernel(X, at))
    return solved.T @ Y, kernel(at, at) - kernel(at, X) @ solved


def by_loops(
    X: np.ndarray, Y: np.ndarray, inner: np.ndarray, pairs: np.ndarray, outer: np.ndarray, z: Any
) -> float:
    r"""Mean over fantasies of the largest mean value-at-risk; the second smallest of four."""
    mean, covariance = posterior(X, Y, pairs)
    root = np.linalg.cholesky(covariance + NOISE * np.eye(len(pairs)))
    values = []
    for outcome in outer:  # K x q
        known_X, known_Y = np.vstack([X, pairs]), np.append(Y, mean + root @ outcome)
        risks = []
        for x in inner:
            at = np.hstack([np.full((4, 1), x), W])
            mu, sigma = posterior(known_X, known_Y, at)
            samples = mu + z @ np.linalg.cholesky(sigma).T  # M x n_w
            risks.append(np.sort(samples, axis=-1)[:, 1].mean())
        values.append(max(risks))
    return float(np.mean(values))


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
    fantasies, inner = (SobolQMCNormalSampler(torch.Size([size]), seed=size) for size in (3, 6))
    ahead = torch.tensor([[0.9, 0.2]], dtype=torch.double) if pending else None
    objective = VaR(alpha=0.75, n_w=4)
    query = Query(model, X[:, :1], ahead, objective, num_samples=6)
    acqf = _VisitedKnowledgeGradient(query, fantasies, inner)
    trial = torch.tensor([[[0.1, 0.5]], [[0.7, 0.8]]], dtype=torch.double, requires_grad=True)
    values = acqf(trial)
    z = [sampler.base_samples.squeeze(-1) for sampler in (fantasies, inner)]
    outer, within = (each.reshape(len(each), -1).numpy() for each in z)
    for value, pair in zip(values, trial.detach(), strict=True):
        pairs = (pair if ahead is None else torch.cat([pair, ahead])).numpy()
        decisions = np.append(X[:, 0].numpy(), pairs[:, 0])
        expected = by_loops(X.numpy(), Y[:, 0].numpy(), decisions, pairs, outer, within)
        assert value.item() == pytest.approx(expected, abs=1e-5)
    (gradient,) = torch.autograd.grad(values.sum(), trial)
    assert gradient.isfinite().all()
    assert (gradient != 0).any()


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
