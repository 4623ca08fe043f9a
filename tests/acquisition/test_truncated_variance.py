r"""Truncated variance reduction against the printed equations, by refitting at every point."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from torch import Tensor

from botorch_risk.acquisition import (
    NoiseLevels,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
    top_candidates,
)
from botorch_risk.chunks import ChunkSize
from botorch_risk.optim import optimize_acqf_replicates
from botorch_risk.posterior import DomainPosterior
from tests.acquisition.lake import (
    NOISE,
    build_model,
    build_posterior,
    grid,
    kernel,
    printed_gain,
    refit,
    truth,
)

PLACES = torch.tensor([3, 13, 30])
LEVELS = NoiseLevels((1e-6, 1e-3, 0.05), costs=(15.0, 10.0, 2.0))
TASKS: dict[str, dict[str, Any]] = {
    "maximize": {"task": "maximize"},
    "level_set": {"task": "level_set", "threshold": 0.7},
}
tasks = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def build(
    places: Tensor = PLACES, eta: float = 1.0, dense: bool = True, **task: Any
) -> tuple[DomainPosterior, TruncatedVarianceState]:
    task = task or TASKS["level_set"]
    posterior = build_posterior(places, dense=dense)
    state = TruncatedVarianceState.initial(
        posterior.domain, **task, eta=eta, batch_shape=posterior.batch_shape
    )
    return posterior, state.update(posterior)


def printed(
    state: TruncatedVarianceState, noise: np.ndarray | float, candidates: Tensor | None = None
) -> np.ndarray:
    r"""Eq. (3) at candidates, all of the grid by default."""
    domain = grid().numpy()
    X = domain[PLACES]
    own = np.full(len(X), NOISE)
    points = domain if candidates is None else candidates.numpy()
    noise = np.broadcast_to(noise, len(points))
    within = domain[state.unclassified.numpy()]
    beta, eta = state.beta.item(), state.eta.item()
    return np.array(
        [
            printed_gain(X, own, point, variance, within, beta, eta)
            for point, variance in zip(points, noise, strict=True)
        ]
    )


def assert_close(values: Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(values.numpy(), expected, rtol=0, atol=1e-6 * expected.max())


@tasks
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "on demand"])
@pytest.mark.parametrize("eta", [0.0, 0.3, 1.0, 1.7])
def test_equals_the_printed_equation_by_refitting(
    task: dict[str, Any], dense: bool, eta: float
) -> None:
    posterior, state = build(eta=eta, dense=dense, **task)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    expected = printed(state, NOISE)
    assert expected.max() > 0
    assert_close(acqf.evaluate_domain(), expected)
    assert_close(acqf.evaluate(posterior.domain), expected)
    assert_close(acqf(posterior.domain.unsqueeze(-2)), expected)
    assert acqf.select().place.item() == expected.argmax()


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


def travel(X: Tensor, previous: Tensor | None, level: int | None) -> Tensor:
    depth = 4 * (X[..., 1].abs() + 1) * (1 if level is None else level + 1)
    return depth if previous is None else depth + 0.25 * (X[..., 0] - previous[..., 0]).abs()


def test_costs() -> None:
    posterior, state = build(eta=0.4)
    domain, previous = posterior.domain, torch.tensor([0.8, 0.1], dtype=torch.float64)
    for last in (None, previous):
        acqf = TruncatedVarianceReduction(posterior, state, travel, noise=NOISE, previous=last)
        cost = 4 * (domain[:, 1] + 1)
        if last is not None:
            cost = cost + 0.25 * (domain[:, 0] - 0.8).abs()
        assert_close(acqf.evaluate_domain(), printed(state, NOISE) / cost.numpy())
        assert_close(acqf.evaluate(domain), printed(state, NOISE) / cost.numpy())


def test_noise_levels() -> None:
    posterior, state = build(eta=0.4)
    acqf = TruncatedVarianceReduction(posterior, state, levels=LEVELS)
    columns = zip(LEVELS.variances, LEVELS.costs, strict=True)
    expected = np.stack([printed(state, noise) / cost for noise, cost in columns], axis=-1)
    assert_close(acqf.evaluate_domain(), expected.flatten())
    candidates = acqf.domain_candidates()
    assert candidates.shape == (108, 3)
    assert_close(acqf.evaluate(candidates), expected.flatten())
    choice = acqf.select()
    assert (choice.place.item(), choice.level.item()) == divmod(int(expected.argmax()), 3)
    assert torch.equal(choice.X[0], candidates[expected.argmax()])
    known = TruncatedVarianceReduction(
        posterior, state, travel, levels=NoiseLevels(LEVELS.variances)
    )
    costs = np.stack([4 * (grid()[:, 1].numpy() + 1) * k for k in (1, 2, 3)], axis=-1)
    gains = np.stack([printed(state, noise) for noise in LEVELS.variances], axis=-1)
    assert_close(known.evaluate_domain(), (gains / costs).flatten())


def test_zero_eta_is_pure_variance_reduction() -> None:
    posterior, state = build(eta=0.0, **TASKS["maximize"])
    _, covariance = refit(grid()[PLACES].numpy(), np.zeros(3), np.full(3, NOISE), grid().numpy())
    within = state.unclassified.numpy()
    fall = covariance[:, within] ** 2 / (np.diag(covariance)[:, None] + NOISE)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    assert_close(acqf.evaluate_domain(), state.beta.item() * fall.sum(axis=-1))


def test_constant_cost_scales_and_one_level_is_no_level() -> None:
    posterior, state = build(eta=0.4)
    plain = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    values = plain.evaluate_domain()
    costly = TruncatedVarianceReduction(
        posterior, state, lambda X, previous, level: torch.full_like(X[..., 0], 4.0), noise=NOISE
    )
    assert torch.equal(costly.evaluate_domain(), values / 4)
    assert torch.equal(costly.select(3).place, plain.select(3).place)
    for count in (1, 3):  # copies of one level
        levels = NoiseLevels((NOISE,) * count, costs=(1.0,) * count)
        copies = TruncatedVarianceReduction(posterior, state, levels=levels)
        many = copies.evaluate_domain().unflatten(-1, (-1, count))
        same = values.unsqueeze(-1).expand_as(many)
        torch.testing.assert_close(many, same, rtol=1e-13, atol=0.0)
        assert torch.equal(copies.select(3).place, plain.select(3).place)
        assert (copies.select(3).level == 0).all()


def test_weights_count_a_point_as_often_as_it_stands_for() -> None:
    posterior, state = build(eta=0.4)
    domain = grid()
    twice = torch.ones(36, dtype=torch.float64)
    twice[10:20] = 2.0
    weighted = TruncatedVarianceReduction(posterior, state, noise=NOISE, weights=twice)
    doubled = torch.cat([domain, domain[10:20]])
    model = build_model(domain[PLACES])
    longer = DomainPosterior(model, doubled)
    start = TruncatedVarianceState.initial(doubled, "level_set", 0.7, eta=0.4, domain_size=36)
    repeated = TruncatedVarianceReduction(longer, start.update(longer), noise=NOISE)
    torch.testing.assert_close(weighted.evaluate_domain(), repeated.evaluate_domain()[:36])


def test_a_batch_is_greedy_with_frozen_sets() -> None:
    posterior, state = build(eta=0.3)
    chosen = TruncatedVarianceReduction(posterior, state, noise=NOISE).select(4)
    X, noise = grid()[PLACES].numpy(), np.full(3, NOISE)
    within = grid().numpy()[state.unclassified.numpy()]
    for place, value in zip(chosen.place, chosen.value, strict=True):
        gains = np.array(
            [
                printed_gain(X, noise, x, NOISE, within, state.beta.item(), state.eta.item())
                for x in grid().numpy()
            ]
        )
        np.testing.assert_allclose(value, gains.max(), rtol=1e-6)
        assert gains[place] >= (1 - 1e-6) * gains.max()
        X, noise = np.append(X, grid().numpy()[place][None], axis=0), np.append(noise, NOISE)


def test_a_covered_batch_ends_short() -> None:
    posterior, state = build()
    state = replace(state, eta=torch.tensor(1.7, dtype=torch.float64))
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    chosen = acqf.select(30)
    count = int((chosen.place >= 0).sum())
    assert 1 <= count < 30
    assert (chosen.place[count:] == -1).all()
    assert chosen.X[count:].isnan().all() and chosen.X[:count].isfinite().all()
    trial = posterior.copy()
    for place in chosen.place[:count]:
        trial.observe(place, None, NOISE)
    variance = trial.variance[state.unclassified]
    assert (variance <= state.target_variance(posterior) + 1e-12).all()


def test_plateaus_go_to_the_larger_untruncated_gain() -> None:
    posterior, state = build()
    top = posterior.variance[state.unclassified].max() * state.beta
    state = replace(state, eta=(top - 1e-4).sqrt())  # one sample is enough, at many places
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    values = acqf.evaluate_domain()
    tied = values >= (1 - 1e-9) * values.max()
    assert tied.sum() > 1
    whole = TruncatedVarianceReduction(
        posterior, replace(state, eta=0.0 * state.eta), noise=NOISE
    ).evaluate_domain()
    best = whole.where(tied, -torch.inf).max()
    assert acqf.select().place == (tied & (whole >= (1 - 1e-9) * best)).nonzero()[0]


@tasks
def test_anticipated_changes_of_the_set(task: dict[str, Any]) -> None:
    posterior, state = build(eta=0.6, **task)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE, anticipate=True)
    domain, beta, eta = grid().numpy(), state.beta.item(), state.eta.item()
    X, y, noise = domain[PLACES], truth(grid()[PLACES]).numpy()[:, 0], np.full(3, NOISE)
    mean, covariance = refit(X, y, noise, domain)
    within = state.unclassified.numpy()
    expected = []
    for i, x in enumerate(domain):
        more = np.append(X, x[None], axis=0), np.append(y, mean[i]), np.append(noise, NOISE)
        after = np.diag(refit(*more, domain)[1])
        lower, upper = mean - np.sqrt(beta * after), mean + np.sqrt(beta * after)
        if task["task"] == "maximize":
            stays = within & (upper >= lower[within].max())
        else:
            stays = within & (upper >= 0.7) & (lower <= 0.7)
        first = np.maximum(beta * np.diag(covariance), eta**2)[within].sum()
        expected.append(first - np.maximum(beta * after, eta**2)[stays].sum())
    assert_close(acqf.evaluate_domain(), np.array(expected))
    assert_close(acqf.evaluate(grid()), np.array(expected))
    acqf.select(3)


@tasks
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "on demand"])
def test_anticipated_sets_hold_the_points_that_come_back(task: dict[str, Any], dense: bool) -> None:
    r"""Without monotone sets those of the next round, formed by its own update, are summed over."""
    posterior, state = build(torch.arange(0, 36, 3), eta=0.6, dense=dense, **task)
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
    assert acqf.select(3).place.min() >= 0


@pytest.mark.parametrize("weight", [-1.0, 2.5])
def test_a_posterior_transform_scales_everything(weight: float) -> None:
    r"""Noise and outcomes are in the units of the data, levels in those after the transform."""
    model, domain = build_model(grid()[PLACES]), grid()
    pending = torch.tensor([[0.33, 0.41]], dtype=torch.float64)
    plain, scaled = [], []
    for values, factor in ((plain, 1.0), (scaled, weight)):
        transform = ScalarizedPosteriorTransform(torch.tensor([factor]).double(), offset=0.5)
        posterior = DomainPosterior(model, domain, posterior_transform=transform)
        start = TruncatedVarianceState.initial(
            domain, "level_set", threshold=0.5 + 0.7 * factor, eta=0.4
        )
        state = start.update(posterior)
        for noise in (NOISE, lambda X: NOISE + 0.1 * X[..., 0]):
            acqf = TruncatedVarianceReduction(posterior, state, noise=noise)
            values += [acqf.evaluate_domain() / factor**2, acqf.select(4).place.double()]
            acqf.set_X_pending(pending)
            values.append(acqf.evaluate_domain() / factor**2)
    for ours, theirs in zip(scaled, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_the_loop_of_the_readme_from_the_first_sample_on() -> None:
    r"""A cost that is a number without a previous point, and selections that are observed."""

    def travel(X: Tensor, previous: Tensor | None, level: int | None) -> Tensor | float:
        return 1 + (0 if previous is None else 10 * (X - previous).norm(dim=-1))

    posterior, state = build(eta=0.4)
    previous = None
    for _ in range(3):
        acqf = TruncatedVarianceReduction(posterior, state, travel, noise=NOISE, previous=previous)
        values = acqf.evaluate_domain()
        cost = torch.as_tensor(travel(grid(), previous, None)).expand(36)
        plain = TruncatedVarianceReduction(posterior, state, noise=NOISE)
        torch.testing.assert_close(values * cost, plain.evaluate_domain())
        chosen = acqf.select().X
        assert chosen.shape == (1, 2)
        torch.testing.assert_close(acqf.evaluate(chosen), values.max().unsqueeze(0))
        posterior.observe_at(chosen, truth(chosen), NOISE)
        paid = acqf.terms.cost_at(chosen, previous).item()
        state, previous = state.update(posterior, cost=paid), chosen
    assert posterior.num_samples == 6
    assert state.cost > 3


def test_restricted_candidates() -> None:
    posterior, state = build(eta=0.4, **TASKS["maximize"])
    full = TruncatedVarianceReduction(posterior, state, noise=NOISE).evaluate_domain()
    masks = {
        "unclassified": state.unclassified,
        "top": top_candidates(posterior, 5, beta=state.beta),
        "improvement": top_candidates(posterior, 5, score="expected_improvement"),
    }
    for name, mask in masks.items():
        choice: Any = name if name == "unclassified" else mask
        some = TruncatedVarianceReduction(posterior, state, noise=NOISE, candidates=choice)
        values = some.evaluate_domain()
        torch.testing.assert_close(values[mask], full[mask])
        assert (values[~mask] == -torch.inf).all()
        assert mask[some.select().place]


def test_replicates_equal_the_loop() -> None:
    places = torch.tensor([[3, 13, 30], [0, 8, 35], [22, 13, 24]])
    previous = grid()[places[:, -1]]
    for dense in (True, False):
        posterior, state = build(places, eta=0.5, dense=dense)
        options: dict[str, Any] = {"levels": LEVELS, "candidates": "unclassified"}
        acqf = TruncatedVarianceReduction(posterior, state, previous=previous, **options)
        X = torch.cat([torch.rand(4, 2).double(), torch.tensor([[0.0], [1], [2], [0]])], dim=-1)
        values, chosen = acqf.evaluate_domain(), acqf.select(4)
        assert values.shape == (3, 108)
        for r in range(3):
            one, its = build(places[r], eta=0.5, dense=dense)
            single = TruncatedVarianceReduction(one, its, previous=previous[r], **options)
            torch.testing.assert_close(values[r], single.evaluate_domain(), rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(acqf.evaluate(X)[r], single.evaluate(X))
            assert torch.equal(chosen.place[r], single.select(4).place)
            assert torch.equal(chosen.level[r], single.select(4).level)
        assert acqf(X.unsqueeze(-2).unsqueeze(-2).expand(4, 3, 1, 3)).shape == (4, 3)


def test_pending_points_are_samples_without_outcomes() -> None:
    posterior, state = build(eta=0.5)
    pending = torch.tensor([[0.33, 0.41], [0.9, 0.2]], dtype=torch.float64)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE, X_pending=pending)
    domain = grid().numpy()
    X = np.append(domain[PLACES], pending.numpy(), axis=0)
    within = domain[state.unclassified.numpy()]
    expected = np.array(
        [
            printed_gain(
                X, np.full(5, NOISE), x, NOISE, within, state.beta.item(), state.eta.item()
            )
            for x in domain
        ]
    )
    assert_close(acqf.evaluate_domain(), expected)
    assert_close(acqf.evaluate(grid()), expected)
    acqf.set_X_pending(None)
    assert_close(acqf.evaluate_domain(), printed(state, NOISE))


def test_gradient_also_where_points_meet() -> None:
    posterior, state = build(eta=0.5)
    acqf = TruncatedVarianceReduction(posterior, state, travel, noise=lambda X: 1e-3 + X[..., 0])
    X = torch.rand(4, 1, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(acqf, X)
    corner = posterior.domain[:1].clone().requires_grad_()
    acqf.evaluate(corner).sum().backward()
    assert corner.grad is not None and corner.grad.isfinite().all()


def test_optimisers_of_botorch_and_of_replicates() -> None:
    posterior, state = build(eta=0.3)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    fast = {"num_restarts": 2, "raw_samples": 16, "options": {"maxiter": 10}}
    X, value = optimize_acqf(acqf, bounds, q=2, sequential=True, **fast)
    assert X.shape == (2, 2) and acqf.X_pending is None
    X, value = optimize_acqf_discrete(acqf, q=1, choices=posterior.domain)
    torch.testing.assert_close(value, acqf.evaluate_domain().max())
    X, values = optimize_acqf_replicates(acqf, bounds, q=2, seeds=0, num_restarts=2, raw_samples=32)
    assert X.shape == (1, 2, 2)
    assert values > 0.9 * acqf.evaluate_domain().max()


def test_a_loop_off_the_grid_by_gradients() -> None:
    def f(X: Tensor) -> Tensor:
        return (6 * X).sin().sum(dim=-1)  # maximal at pi / 12, between points of the grid

    domain = torch.linspace(0, 1, 15, dtype=torch.float64).unsqueeze(-1)
    weights = torch.full((15,), 1 / 15, dtype=torch.float64)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    model = build_model(domain[[7]], f(domain[[7]]).unsqueeze(-1), 1e-6)
    posterior = DomainPosterior(model, domain)
    state = TruncatedVarianceState.initial(domain, "maximize").update(posterior)
    sampled = []
    for _ in range(8):
        acqf = TruncatedVarianceReduction(posterior, state, noise=1e-6, weights=weights)
        on_grid = acqf.evaluate_domain()
        starts = domain[on_grid.topk(4).indices].unsqueeze(-2)
        X, value = optimize_acqf(acqf, bounds, q=1, num_restarts=4, batch_initial_conditions=starts)
        assert value >= on_grid.max()
        posterior.observe_at(X[0], f(X), 1e-6)
        state = state.update(posterior, cost=1.0)
        sampled.append(X[0])
    distance = (torch.stack(sampled) - domain.T).abs().amin(dim=-1)
    assert (distance > 0.01).any()  # only the gradient leads off the grid
    assert state.cost == 8 and state.unclassified.sum() < 15
    nearest = (domain.squeeze(-1) - torch.pi / 12).abs().argmin()
    assert state.unclassified[nearest] and posterior.mean.argmax() == nearest


def test_pickle_input_constructor_and_new_hyperparameters() -> None:
    posterior, state = build(eta=0.5)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE)
    values = acqf.evaluate_domain()
    assert torch.equal(acqf.evaluate_domain(), values)
    assert torch.equal(pickle.loads(pickle.dumps(acqf)).evaluate_domain(), values)
    construct = get_acqf_input_constructor(TruncatedVarianceReduction)
    arguments = construct(
        model=posterior.model, state=state, domain=posterior.domain, noise=NOISE, X_pending=None
    )
    assert torch.equal(TruncatedVarianceReduction(**arguments).evaluate_domain(), values)
    posterior.model.covar_module.lengthscale = 0.1
    fresh = TruncatedVarianceReduction(
        DomainPosterior(posterior.model, posterior.domain), state, noise=NOISE
    )
    assert torch.equal(acqf.evaluate_domain(), fresh.evaluate_domain())
    assert not torch.equal(acqf.evaluate_domain(), values)


def test_nothing_left_to_gain() -> None:
    posterior, state = build()
    state = replace(state, unclassified=torch.zeros(36, dtype=torch.bool))
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE, candidates="unclassified")
    assert bool(state.finished)
    assert (acqf.evaluate_domain() == 0).all()
    assert (acqf.evaluate(torch.rand(3, 2).double()) == 0).all()
    assert (acqf.select(2).place == -1).all()


def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HELD_ENTRIES", ChunkSize(cpu=50)), ("MADE_ENTRIES", ChunkSize(cpu=25))):
        monkeypatch.setattr(f"botorch_risk.acquisition.domain_gain._{name}", value)
    monkeypatch.setattr("botorch_risk.acquisition.domain_gain._SMALLEST_SIDE", 5)


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "on demand"])
def test_chunks_and_tiles(monkeypatch: pytest.MonkeyPatch, dense: bool) -> None:
    posterior, state = build(eta=0.5, dense=dense)
    acqf = TruncatedVarianceReduction(posterior, state, levels=LEVELS)
    X = torch.cat([torch.rand(7, 2).double(), torch.ones(7, 1)], dim=-1)
    values, off_grid = acqf.evaluate_domain(), acqf.evaluate(X)
    small_tiles(monkeypatch)
    monkeypatch.setattr(
        "botorch_risk.acquisition.truncated_variance._CHUNK_ENTRIES", ChunkSize(cpu=50)
    )
    torch.testing.assert_close(acqf.evaluate_domain(), values)
    torch.testing.assert_close(acqf.evaluate(X), off_grid)


@pytest.mark.parametrize("candidates", ["domain", "unclassified"])
def test_tiles_of_replicates_with_sets_of_other_sizes(
    monkeypatch: pytest.MonkeyPatch, candidates: Any
) -> None:
    posterior, state = build(torch.tensor([[3, 13, 30], [0, 8, 35], [22, 13, 24]]), dense=False)
    size = torch.tensor([[36], [23], [2]])  # 36 is the domain; the others end within a tile
    state = replace(state, unclassified=torch.arange(36).flip(0) < size)
    acqf = TruncatedVarianceReduction(posterior, state, levels=LEVELS, candidates=candidates)
    dense = DomainPosterior(posterior.model, posterior.domain)
    held = TruncatedVarianceReduction(dense, state, levels=LEVELS, candidates=candidates)
    small_tiles(monkeypatch)
    torch.testing.assert_close(acqf.evaluate_domain(), held.evaluate_domain())


def test_kernel_of_the_oracle() -> None:
    posterior = build_posterior(PLACES)
    prior = posterior.model.covar_module(grid()).to_dense().numpy()
    np.testing.assert_allclose(kernel(grid().numpy(), grid().numpy()), prior, atol=1e-12)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"noise": -1.0}, ValueError, "finite noise variances >= 0"),
    ({"noise": torch.ones(5)}, BotorchTensorDimensionError, "`noise` on the domain, 36 values"),
    ({}, ValueError, "as the noise of the model is fixed"),
    ({"noise": 1.0, "levels": LEVELS}, ValueError, "either `noise` or `levels`"),
    ({"levels": NoiseLevels((1.0, 2.0))}, ValueError, "costs of the 2 noise levels"),
    ({"noise": 1.0, "candidates": "all"}, ValueError, "Got 'all'"),
    ({"noise": 1.0, "candidates": torch.ones(5)}, BotorchTensorDimensionError, "36 points"),
    (
        {"noise": 1.0, "candidates": torch.zeros(36, dtype=torch.bool)},
        InputDataError,
        "at least one candidate",
    ),
    ({"noise": 1.0, "weights": torch.zeros(36)}, ValueError, "`weights` > 0"),
    ({"noise": 1.0, "weights": torch.ones(3)}, BotorchTensorDimensionError, "36 points"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD, ids=[b[2][:20] for b in BAD])
def test_bad_arguments(options: dict[str, Any], error: type[Exception], message: str) -> None:
    posterior, state = build()
    with pytest.raises(error, match=re.escape(message)):
        TruncatedVarianceReduction(posterior, state, **options)


@pytest.mark.parametrize("bad", [0.0, -1.0, torch.nan, torch.inf])
def test_bad_costs(bad: float) -> None:
    posterior, state = build()

    def cost(X: Tensor, previous: Tensor | None, level: int | None) -> Tensor:
        return torch.ones_like(X[..., 0]).where(X[..., 0] > 0, bad)

    acqf = TruncatedVarianceReduction(posterior, state, cost, noise=NOISE)
    for call in (acqf.evaluate_domain, acqf.select, lambda: acqf.evaluate(grid())):
        with pytest.raises(ValueError, match=r"finite costs > 0\. Got .* at \[0\.0, 0\.0\]"):
            call()
    with pytest.raises(ValueError, match="finite costs > 0"):
        NoiseLevels((1.0,), costs=(bad,))
    with pytest.raises(ValueError, match="Got 2 costs for 1 levels"):
        NoiseLevels((1.0,), costs=(1.0, 1.0))


def test_bad_points() -> None:
    posterior, state = build()
    acqf = TruncatedVarianceReduction(posterior, state, levels=LEVELS)
    with pytest.raises(BotorchTensorDimensionError, match="3 columns"):
        acqf.evaluate(torch.rand(2, 2).double())
    for level in (0.5, 3.0, -1.0):
        with pytest.raises(ValueError, match=r"noise levels in 0, \.\., 2"):
            acqf.evaluate(torch.tensor([[0.1, 0.1, level]]).double())
    with pytest.raises(UnsupportedError, match=r"sequential=True.*`select\(q\)`"):
        acqf(torch.zeros(3, 2, 3).double())
    gridded = TruncatedVarianceReduction(posterior, state, noise=torch.ones(36).double())
    with pytest.raises(ValueError, match="`noise` as a function of the point"):
        gridded.evaluate(torch.rand(2, 2).double())


def test_whole_numbers_no_points_and_other_columns() -> None:
    acqf, X = (
        TruncatedVarianceReduction(*build(eta=0.5), travel, noise=lambda X: 0.1 + X[..., 0]),
        torch.tensor([[0, 1], [1, 0]]),
    )
    torch.testing.assert_close(acqf.evaluate(X), acqf.evaluate(X.double()))
    torch.testing.assert_close(acqf(X.unsqueeze(-2)), acqf.evaluate(X.double()))
    assert acqf.evaluate(X[:0].double()).shape == (0,)
    for columns in (1, 3):
        with pytest.raises(BotorchTensorDimensionError, match=r"2 columns"):
            acqf.evaluate(torch.rand(3, columns, dtype=torch.float64))
