r"""Truncated variance reduction as an acquisition function, in loops and in optimisers."""

import pickle
import re
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from torch import Tensor

from botorch_risk.engine import DomainPosterior, optimize_acqf_replicates
from botorch_risk.papers import (
    Maximize,
    NoiseLevels,
    TruncatedVarianceReduction,
    TruncatedVarianceState,
)
from tests.acquisition.lake import NOISE, build_model, grid, printed_gain, truth
from tests.papers.truvar.cases import LEVELS, ROWS, assert_close, build, printed, travel


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


def test_replicates_equal_the_loop() -> None:
    rows = torch.tensor([[3, 13, 30], [0, 8, 35], [22, 13, 24]])
    previous = grid()[rows[:, -1]]
    for dense in (True, False):
        posterior, state = build(rows, eta=0.5, dense=dense)
        options: dict[str, Any] = {"levels": LEVELS, "candidates": "unclassified"}
        acqf = TruncatedVarianceReduction(posterior, state, previous=previous, **options)
        X = torch.cat([torch.rand(4, 2).double(), torch.tensor([[0.0], [1], [2], [0]])], dim=-1)
        values, chosen = acqf.evaluate_domain(), acqf.select(4)
        assert values.shape == (3, 108)
        for r in range(3):
            one, its = build(rows[r], eta=0.5, dense=dense)
            single = TruncatedVarianceReduction(one, its, previous=previous[r], **options)
            torch.testing.assert_close(values[r], single.evaluate_domain(), rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(acqf.evaluate(X)[r], single.evaluate(X))
            assert torch.equal(chosen.row[r], single.select(4).row)
            assert torch.equal(chosen.level[r], single.select(4).level)
        assert acqf(X.unsqueeze(-2).unsqueeze(-2).expand(4, 3, 1, 3)).shape == (4, 3)


def test_pending_points_are_samples_without_outcomes() -> None:
    posterior, state = build(eta=0.5)
    pending = torch.tensor([[0.33, 0.41], [0.9, 0.2]], dtype=torch.float64)
    acqf = TruncatedVarianceReduction(posterior, state, noise=NOISE, X_pending=pending)
    domain = grid().numpy()
    X = np.append(domain[ROWS], pending.numpy(), axis=0)
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


def test_anticipated_gains_are_per_cost() -> None:
    posterior, state = build(eta=0.5)
    options: dict[str, Any] = {"noise": NOISE, "anticipate": True}
    free = TruncatedVarianceReduction(posterior, state, **options)
    paid = TruncatedVarianceReduction(posterior, state, **options, cost=travel)
    costs = travel(grid(), None, None)
    assert costs.unique().numel() > 1
    torch.testing.assert_close(paid.evaluate(grid()), free.evaluate(grid()) / costs)
    torch.testing.assert_close(paid.evaluate_domain(), paid.evaluate(grid()))


@pytest.mark.parametrize("shared", [True, False])
def test_pending_points_of_replicates_equal_the_loop(shared: bool) -> None:
    rows = torch.tensor([[3, 13, 30], [0, 8, 35], [22, 13, 24]])
    pending = torch.rand(*(() if shared else (3,)), 2, 2, dtype=torch.float64)
    level = torch.tensor([[0.0], [1.0]]).double().expand(*pending.shape[:-1], 1)
    pending = torch.cat([pending, level], dim=-1)
    posterior, state = build(rows, eta=0.5)
    acqf = TruncatedVarianceReduction(posterior, state, levels=LEVELS, X_pending=pending)
    values = acqf.evaluate_domain()
    for r in range(3):
        one, its = build(rows[r], eta=0.5)
        X = pending if shared else pending[r]
        single = TruncatedVarianceReduction(one, its, levels=LEVELS, X_pending=X)
        torch.testing.assert_close(values[r], single.evaluate_domain(), rtol=1e-9, atol=1e-12)


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
    state = TruncatedVarianceState.initial(domain, Maximize()).update(posterior)
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
    halved = ScalarizedPosteriorTransform(torch.tensor([0.5], dtype=torch.double))
    arguments = construct(
        model=posterior.model, state=state, domain=posterior.domain, posterior_transform=halved
    )
    torch.testing.assert_close(arguments["posterior"].mean, posterior.mean / 2)
    posterior.model.covar_module.lengthscale = 0.1
    fresh = TruncatedVarianceReduction(
        DomainPosterior(posterior.model, posterior.domain), state, noise=NOISE
    )
    assert torch.equal(acqf.evaluate_domain(), fresh.evaluate_domain())
    assert not torch.equal(acqf.evaluate_domain(), values)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"noise": -1.0}, ValueError, "`noise` to be finite and >= 0"),
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


@pytest.mark.parametrize("form", [Tensor.tolist, Tensor.numpy])
def test_arrays_and_lists_are_taken_where_tensors_are(form: Any) -> None:
    domain = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)
    model = SingleTaskGP(domain[[1, 3]], domain[[1, 3]].sin()).eval()
    numbers = torch.linspace(0.1, 0.5, 5, dtype=torch.double)
    mask = torch.tensor([True, False, True, True, False])

    def values(of: Any) -> Tensor:
        posterior = DomainPosterior(model, domain, observed=of(torch.tensor([True, True])))
        posterior.observe_at(of(domain[2]), 0.4, 0.1)
        state = TruncatedVarianceState.initial(of(domain), Maximize()).update(posterior)
        options = {"noise": of(numbers), "weights": of(numbers), "candidates": of(mask)}
        return TruncatedVarianceReduction(posterior, state, **options).evaluate_domain()

    assert torch.equal(values(form), values(lambda each: each))
