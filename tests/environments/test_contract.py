r"""The contract of every environment."""

import pickle

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.environments import Environment, IndependentEnvironment
from tests import oracles
from tests.contracts import BATCH_SHAPES, DTYPES
from tests.devices import home
from tests.environments.cases import ENVIRONMENTS, PERTURBATIONS, EnvironmentCase

pytestmark = pytest.mark.every_device

EVERY = [*ENVIRONMENTS, PERTURBATIONS]
RATES = np.array([3.0, 5.0])

every = pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
independent = pytest.mark.parametrize("case", ENVIRONMENTS, ids=lambda case: case.name)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
batches = pytest.mark.parametrize("batch_shape", BATCH_SHAPES, ids=str)


def values(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(*shape, 2, generator=generator, dtype=torch.float64).to(home(), dtype)


def mean_wave(environment: Environment, X: Tensor) -> Tensor:
    r"""The expectation of a function of the inputs, `batch_shape x m`."""
    inputs, weights = environment.expand(X)
    shift = inputs[..., :-2].sum(dim=-1)
    rates = torch.as_tensor(RATES).to(inputs)
    return (weights * (shift + inputs[..., -2:] @ rates).cos()).sum(dim=-1)


@every
@dtypes
@batches
def test_expectation_equals_the_oracle(
    case: EnvironmentCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    observed = values(*batch_shape, 7, dtype=dtype)
    X = 0.1 - values(*batch_shape, 4, dtype=dtype)
    if case is not PERTURBATIONS:
        X = torch.cat([X, 0.3 * X[..., :1]], dim=-1)  # more decision variables than contexts
    environment = case.of(observed)
    inputs, weights = environment.expand(X)
    assert inputs.dtype == weights.dtype == dtype
    assert inputs.device == weights.device == home()
    assert inputs.shape[:-2] == X.shape[:-1]
    assert inputs.shape[-1] == (2 if case is PERTURBATIONS else 5)
    assert torch.broadcast_shapes(weights.shape, inputs.shape[:-1]) == inputs.shape[:-1]
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))

    def single(index: tuple[int, ...]) -> np.ndarray:
        wave = case.oracle(oracles.to_numpy(observed[index]), RATES)
        decisions = oracles.to_numpy(X[index])
        shifts = decisions @ RATES if case is PERTURBATIONS else decisions.sum(axis=-1)
        return (np.exp(1j * shifts) * wave).real

    found = mean_wave(environment, X).double().cpu()
    expected = oracles.loop(batch_shape, single)
    tolerance = max(case.tolerance, 0.0 if dtype == torch.float64 else 1e-5)
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


@every
def test_replicates_do_not_notice_each_other(case: EnvironmentCase) -> None:
    observed, X = values(3, 7), values(3, 4)
    together = case.of(observed).expand(X)
    for r in range(3):
        alone = case.of(observed[r : r + 1], [r]).expand(X[r : r + 1])
        for found, expected in zip(alone, together, strict=True):
            expected = expected[r : r + 1] if len(expected) == 3 else expected
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@every
def test_one_value_is_where_the_points_are(case: EnvironmentCase) -> None:
    if "continuous" in case.name or "quadrature" in case.name:
        return  # nothing is learnt, or too narrow for the nodes
    observed, X = values(3, 1), torch.zeros(3, 4, 2, dtype=torch.float64, device=home())
    inputs, weights = case.of(observed, n_w=1 if case.size == 7 else case.few).expand(X)
    assert torch.equal(weights.sum(dim=-1), weights.new_ones(weights.shape[:-1]))
    distance = (inputs[..., -2:] - observed[:, None]).abs().amax(dim=-1)
    assert (distance * weights).sum(dim=-1).max() < (0.17 if "grid" in case.name else 0.01)


@every
def test_one_distribution_serves_any_batch_of_decisions(case: EnvironmentCase) -> None:
    environment, X = case.of(values(7)), values(2, 3, 4)
    inputs, _ = environment.expand(X)
    assert inputs.shape[:-2] == (2, 3, 4)
    for index in np.ndindex(2, 3):
        assert torch.equal(environment.expand(X[index])[0], inputs[index])


@every
def test_gradients_flow_through_the_decisions(case: EnvironmentCase) -> None:
    environment = case.of(values(2, 7))
    X = values(2, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: mean_wave(environment, X), X)


@every
def test_no_graph_of_the_data_is_kept(case: EnvironmentCase) -> None:
    environment, X = case.of(values(7).requires_grad_()), values(4)
    assert not any(each.requires_grad for each in environment.state_dict(keep_vars=True).values())
    assert not mean_wave(environment, X).requires_grad
    if isinstance(environment, IndependentEnvironment):
        try:
            log_density = environment.log_density(X)
        except UnsupportedError:
            return
        assert log_density is None or not log_density.requires_grad


@every
def test_determinism_pickle_state_and_dtype(case: EnvironmentCase) -> None:
    observed, X = values(2, 7), values(2, 4)
    environment = case.of(observed)
    before = mean_wave(environment, X)
    assert torch.equal(mean_wave(environment, X), before)
    assert torch.equal(mean_wave(case.of(observed), X), before)
    assert torch.equal(mean_wave(pickle.loads(pickle.dumps(environment)), X), before)
    other = case.of(0.9 * observed, [7, 8])
    other.load_state_dict(environment.state_dict())
    assert torch.equal(mean_wave(other, X), before)
    moved = mean_wave(environment.float(), X.float())
    torch.testing.assert_close(moved.double(), before, rtol=0, atol=1e-5)


@independent
def test_points_are_those_of_expand(case: EnvironmentCase) -> None:
    environment, X = case.of(values(2, 7)), values(2, 4)
    inputs, weights = environment.expand(X)
    points = environment.points.expand(2, -1, -1)
    for m in range(4):
        assert torch.equal(inputs[:, m, :, 2:], points)
    assert torch.equal(weights.squeeze(-2), environment.weights)


@independent
def test_samples_follow_the_distribution_of_the_points(case: EnvironmentCase) -> None:
    observed = values(2, 7)
    environment = case.of(observed)
    W = environment.sample(20_000, [torch.Generator().manual_seed(seed) for seed in (0, 1)])
    assert W.shape == (2, 20_000, 2)
    found = (W @ torch.as_tensor(RATES).to(W)).cos().mean(dim=-1)
    expected = [case.oracle(oracles.to_numpy(one), RATES).real for one in observed]
    assert found.tolist() == pytest.approx(expected, abs=0.025)
    alone = case.of(observed[1:], [1]).sample(20_000, [torch.Generator().manual_seed(1)])
    torch.testing.assert_close(alone, W[1:])


@independent
@dtypes
@batches
def test_support_holds_points_and_draws_and_no_others(
    case: EnvironmentCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    observed = values(*batch_shape, 7, dtype=dtype)
    environment = case.of(observed)
    draws = environment.sample(50, torch.Generator().manual_seed(0)).to(observed)
    weights = environment.weights.expand(environment.points.shape[:-1])
    assert environment.supports(draws).all()
    inside = environment.supports(environment.points)
    assert inside.shape == environment.points.shape[:-1]
    assert inside[weights > 0].all()
    assert not environment.supports(draws + 1.5).any()
    assert not environment.supports(draws * torch.nan).any()
    lower, upper = environment.support_bounds
    assert ((draws >= lower) & (draws <= upper)).all()
    assert ((environment.points >= lower) & (environment.points <= upper))[weights > 0].all()


@independent
@dtypes
@batches
def test_log_density_is_that_of_the_distribution(
    case: EnvironmentCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    r"""It integrates to 1 and to the expectation of the oracle; without one it is refused."""
    observed = values(*batch_shape, 7, dtype=dtype)
    environment = case.of(observed)
    axis = (torch.arange(60, dtype=dtype, device=home()) + 0.5) / 60
    grid = torch.cartesian_prod(axis, axis).expand(*environment.batch_shape, 3600, 2)
    if case.density == "refused":
        with pytest.raises(UnsupportedError, match="Expected a distribution with a density"):
            environment.log_density(grid)
        return
    log_density = environment.log_density(grid)
    if case.density == "none":
        assert log_density is None
        return
    assert log_density.shape == (*environment.batch_shape, 3600)
    assert log_density.dtype == dtype
    totals = log_density.exp().mean(dim=-1)
    torch.testing.assert_close(totals, torch.ones_like(totals), rtol=5e-3, atol=0)
    cosine = log_density.exp() * torch.cos(grid @ torch.as_tensor(RATES).to(grid))

    def expected(index: tuple[int, ...]) -> float:
        return case.oracle(oracles.to_numpy(observed[index]), RATES).real

    own = batch_shape if environment.batch_shape else ()
    wanted = oracles.loop(own, expected) if own else torch.tensor(expected((0,) * len(batch_shape)))
    torch.testing.assert_close(
        cosine.mean(dim=-1).double().cpu(),
        wanted.double().expand(environment.batch_shape),
        rtol=0,
        atol=5e-3,
    )
    assert (environment.log_density(grid + 2.0) == -torch.inf).all()


@every
def test_integers_are_the_numbers_that_they_stand_for(case: EnvironmentCase) -> None:
    r"""Contexts that are counts: no weight may be cut off to 0, no point moved to a whole one."""
    observed = torch.tensor([[0, 1], [1, 1], [0, 0], [1, 0], [0, 1], [1, 1], [0, 0]]).to(home())
    X = torch.tensor([[0, 1], [1, 2]], device=home())
    distribution, expected = case.of(observed, [0]), case.of(observed.double(), [0])
    for found, wanted in zip(distribution.expand(X), expected.expand(X.double()), strict=True):
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    if isinstance(distribution, IndependentEnvironment):
        assert torch.equal(
            distribution.supports(observed), distribution.supports(observed.double())
        )
