r"""The gain of a sample against the printed equations, by refitting at every point."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform

from botorch_risk.engine import DomainPosterior
from botorch_risk.papers import (
    LevelSet,
    Maximize,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
)
from botorch_risk.papers.truvar.goals import Goal
from tests.acquisition.lake import NOISE, build_model, build_posterior, grid, kernel, refit, truth
from tests.papers.truvar.cases import ROWS, assert_close, build, goals, printed, travel


@goals
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "on demand"])
@pytest.mark.parametrize("eta", [0.0, 0.3, 1.0, 1.7])
def test_equals_the_printed_equation_by_refitting(goal: Goal, dense: bool, eta: float) -> None:
    posterior, state = build(eta=eta, dense=dense, goal=goal)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    expected = printed(state, NOISE)
    assert expected.max() > 0
    assert_close(acqf.evaluate_domain(), expected)
    assert_close(acqf.evaluate(posterior.domain), expected)
    assert_close(acqf(posterior.domain.unsqueeze(-2)), expected)
    assert acqf.select().row.item() == expected.argmax()


def test_off_the_grid() -> None:
    posterior, state = build(eta=0.4)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    X = torch.rand(5, 2, dtype=torch.float64)
    assert_close(acqf.evaluate(X), printed(state, NOISE, X))


def test_heteroscedastic_noise() -> None:
    posterior, state = build(eta=0.4)
    noise = 1e-4 + 0.5 * posterior.domain[:, 0]
    expected = printed(state, noise.numpy())
    for known in (noise, lambda X: 1e-4 + 0.5 * X[..., 0]):
        acqf = TruncatedVarianceReduction(posterior, state, noise=known)
        assert_close(acqf.evaluate_domain(), expected)
    assert_close(acqf.evaluate(posterior.domain), expected)


def test_zero_eta_is_pure_variance_reduction() -> None:
    posterior, state = build(eta=0.0, goal=Maximize())
    _, covariance = refit(grid()[ROWS].numpy(), np.zeros(3), np.full(3, NOISE), grid().numpy())
    within = state.unclassified.numpy()
    fall = covariance[:, within] ** 2 / (np.diag(covariance)[:, None] + NOISE)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    assert_close(acqf.evaluate_domain(), state.beta.item() * fall.sum(axis=-1))


def test_weights_count_a_point_as_often_as_it_stands_for() -> None:
    posterior, state = build(eta=0.4)
    domain = grid()
    twice = torch.ones(36, dtype=torch.float64)
    twice[10:20] = 2.0
    weighted = TruncatedVarianceReduction(posterior, state, noise=NOISE, weights=twice)
    doubled = torch.cat([domain, domain[10:20]])
    model = build_model(domain[ROWS])
    longer = DomainPosterior(model, doubled)
    start = TruncatedVarianceState.initial(doubled, LevelSet(0.7), eta=0.4, domain_size=36)
    repeated = TruncatedVarianceReduction(longer, start.update(longer), noise=NOISE)
    torch.testing.assert_close(weighted.evaluate_domain(), repeated.evaluate_domain()[:36])


@goals
def test_anticipated_changes_of_the_set(goal: Goal) -> None:
    posterior, state = build(eta=0.6, goal=goal)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE, anticipate=True)
    domain, beta, eta = grid().numpy(), state.beta.item(), state.eta.item()
    X, y, noise = domain[ROWS], truth(grid()[ROWS]).numpy()[:, 0], np.full(3, NOISE)
    mean, covariance = refit(X, y, noise, domain)
    within = state.unclassified.numpy()
    expected = []
    for i, x in enumerate(domain):
        more = np.append(X, x[None], axis=0), np.append(y, mean[i]), np.append(noise, NOISE)
        after = np.diag(refit(*more, domain)[1])
        lower, upper = mean - np.sqrt(beta * after), mean + np.sqrt(beta * after)
        if goal == Maximize():
            stays = within & (upper >= lower[within].max())
        else:
            stays = within & (upper >= 0.7) & (lower <= 0.7)
        first = np.maximum(beta * np.diag(covariance), eta**2)[within].sum()
        expected.append(first - np.maximum(beta * after, eta**2)[stays].sum())
    assert_close(acqf.evaluate_domain(), np.array(expected))
    assert_close(acqf.evaluate(grid()), np.array(expected))
    acqf.select(3)


@goals
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "on demand"])
def test_anticipated_sets_hold_the_points_that_come_back(goal: Goal, dense: bool) -> None:
    r"""Without monotone sets those of the next round, formed by its own update, are summed over."""
    posterior, state = build(torch.arange(0, 36, 3), eta=0.6, dense=dense, goal=goal)
    state = replace(state, monotone=False, beta=4 * state.beta)  # a new epoch has wider bounds
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE, anticipate=True)
    beta, eta = state.beta.item(), state.eta.item()
    now = state.unclassified | state.update(posterior).unclassified
    first = (beta * posterior.variance[now]).clamp_min(eta**2).sum()
    expected, back = [], torch.zeros_like(now)
    for index in range(36):
        told = posterior.copy()
        told.observe(index, None, NOISE)
        then = state.update(told).unclassified
        back |= then & ~state.unclassified
        expected.append(first - (beta * told.variance[then]).clamp_min(eta**2).sum())
    assert back.any()
    assert_close(acqf.evaluate_domain(), torch.stack(expected).numpy())
    assert_close(acqf.evaluate(grid()), torch.stack(expected).numpy())
    assert (acqf.evaluate_domain() >= 0).all()
    assert acqf.select(3).row.min() >= 0


def test_points_that_come_back_make_no_sample_attractive_for_being_expensive() -> None:
    r"""The first sum holds them: with the set of the last round the costs would decide."""
    posterior, state = build(torch.arange(0, 36, 3), eta=0.6, goal=Maximize())
    state = replace(state, monotone=False, beta=4 * state.beta)
    costs = travel(grid(), None, None)
    free, paid, vain = (
        TruncatedVarianceReduction(posterior, state, anticipate=True, **options)
        for options in ({"noise": NOISE}, {"noise": NOISE, "cost": travel}, {"noise": 1e12})
    )
    gains = free.evaluate_domain()
    torch.testing.assert_close(paid.evaluate_domain(), gains / costs)
    assert vain.evaluate_domain().abs().max() < 1e-6 * gains.max()  # a useless sample gains nothing
    back = state.update(posterior).unclassified & ~state.unclassified
    above_target = state.beta * posterior.variance[back]
    of_last_round = gains - above_target.clamp_min(state.eta.item() ** 2).sum()
    assert (of_last_round < 0).all()
    assert costs[(of_last_round / costs).argmax()] == costs.max()
    chosen = paid.select()
    assert chosen.row.item() == (gains / costs).argmax() and costs[chosen.row] < costs.max()


@pytest.mark.parametrize("weight", [-1.0, 2.5])
def test_a_posterior_transform_scales_everything(weight: float) -> None:
    r"""Noise and outcomes are in the units of the data, levels in those after the transform."""
    model, domain = build_model(grid()[ROWS]), grid()
    pending = torch.tensor([[0.33, 0.41]], dtype=torch.float64)
    plain, scaled = [], []
    for values, factor in ((plain, 1.0), (scaled, weight)):
        transform = ScalarizedPosteriorTransform(torch.tensor([factor]).double(), offset=0.5)
        posterior = DomainPosterior(model, domain, posterior_transform=transform)
        start = TruncatedVarianceState.initial(domain, LevelSet(0.5 + 0.7 * factor), eta=0.4)
        state = start.update(posterior)
        for noise in (NOISE, lambda X: NOISE + 0.1 * X[..., 0]):
            acqf = TruncatedVarianceReduction(posterior, state, noise=noise)
            values += [acqf.evaluate_domain() / factor**2, acqf.select(4).row.double()]
            acqf.set_X_pending(pending)
            values.append(acqf.evaluate_domain() / factor**2)
    for ours, theirs in zip(scaled, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_gradient_also_where_points_meet() -> None:
    posterior, state = build(eta=0.5)
    acqf = TruncatedVarianceReduction(posterior, state, travel, noise=lambda X: 1e-3 + X[..., 0])
    X = torch.rand(4, 1, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(acqf, X)
    corner = posterior.domain[:1].clone().requires_grad_()
    acqf.evaluate(corner).sum().backward()
    assert corner.grad is not None and corner.grad.isfinite().all()


def test_kernel_of_the_oracle() -> None:
    posterior = build_posterior(ROWS)
    prior = posterior.model.covar_module(grid()).to_dense().numpy()
    np.testing.assert_allclose(kernel(grid().numpy(), grid().numpy()), prior, atol=1e-12)


@goals
@pytest.mark.parametrize("anticipate", [False, True])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_gain_of_a_replicate_is_its_gain_alone(
    goal: Goal, anticipate: bool, monotone: bool
) -> None:
    rows = torch.tensor([[3, 13, 30], [0, 8, 35]])
    options = {"eta": 0.6, "goal": goal, "monotone": monotone}
    X = torch.rand(2, 2, 2, dtype=torch.float64)
    together = TruncatedVarianceReduction(
        *build(rows, **options), noise=NOISE, anticipate=anticipate
    )
    for index, own in enumerate(rows):
        alone = TruncatedVarianceReduction(
            *build(own, **options), noise=NOISE, anticipate=anticipate
        )
        for found, expected in (
            (together.evaluate_domain()[index], alone.evaluate_domain()),
            (together.evaluate(X)[index], alone.evaluate(X[index])),
        ):
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
