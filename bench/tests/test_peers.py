r"""What `bench/speed/peers.py` compares with does the same work as what it is compared with."""

import numpy as np
import pytest
import torch
from gpytorch.mlls import ExactMarginalLogLikelihood

from bench.speed.batched_botorch import BoundOfReplicates, best_decisions
from bench.speed.rahbo_loop import PROBLEM, UNIT, PlainBound, plain_models
from botorch_risk.seeding import generators
from botorch_risk.strategies import initial_design

COUNT, NUM_MISSING = 9, 4


def readings(seeds: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    lower, upper = PROBLEM.bounds
    X = initial_design(UNIT, seeds, COUNT)
    return X, PROBLEM.sample_repeats(
        lower + (upper - lower) * X, 10, generators(seeds, "observations", 0)
    )


def test_batches_of_botorch_value_points_in_any_order_as_one_replicate_alone() -> None:
    X, Y = readings([0, 1, 2])
    together = BoundOfReplicates(*plain_models(X, Y))
    replicate = torch.tensor([2, 0, 0, 2, 1, 0, 2])
    draws = torch.Generator().manual_seed(0)
    points = torch.rand(7, 2, generator=draws, dtype=torch.double).requires_grad_()
    rows = torch.cat([points, replicate.unsqueeze(-1)], dim=-1).unsqueeze(-2)
    values = together(rows)
    (gradient,) = torch.autograd.grad(values.sum(), points)
    for index in range(3):
        alone = PlainBound(*plain_models(X[index], Y[index]))
        own = points.detach()[replicate == index].unsqueeze(-2).requires_grad_()
        expected = alone(own)
        (expected_gradient,) = torch.autograd.grad(expected.sum(), own)
        assert torch.allclose(values[replicate == index], expected, rtol=1e-3)
        assert torch.allclose(
            gradient[replicate == index], expected_gradient.squeeze(-2), rtol=1e-2, atol=1e-1
        )


def test_batches_of_botorch_end_at_a_stationary_point_or_a_bound() -> None:
    X, Y = readings([0, 1])
    together = BoundOfReplicates(*plain_models(X, Y))
    best = best_decisions(together, [3, 4])
    assert best.shape == (2, 1, 2)
    best.requires_grad_()
    (gradient,) = torch.autograd.grad(together.values(best).sum(), best)
    inside = ((best > 0) & (best < 1)).detach()
    assert gradient[inside].abs().max() < 1e-2
    raw = initial_design(UNIT, [5, 6], 64)
    assert (together.values(best) >= together.values(raw).amax(dim=-1, keepdim=True)).all()


def test_jax_has_the_likelihood_the_optimum_and_the_bound_of_the_plain_loop() -> None:
    jax_loop = pytest.importorskip("bench.speed.jax_loop", reason="needs JAX, extra `bayesian`")
    import jax
    import jax.numpy as jnp

    X, Y = (each[0] for each in readings([0]))
    model, noise_model = (each.eval() for each in plain_models(X, Y))

    def padded(rows: torch.Tensor) -> jax.Array:
        rows = rows.detach().numpy()
        return jnp.array(np.concatenate([rows, np.full((NUM_MISSING, *rows.shape[1:]), 0.5)]))

    mask = jnp.array([1.0] * COUNT + [0.0] * NUM_MISSING)
    pair = jax_loop.models(padded(X), padded(Y), mask)
    lengthscale = model.covar_module.lengthscale.detach().numpy()[0]
    assert np.allclose(pair[0].lengthscale, lengthscale, rtol=1e-2)

    variance = model.likelihood.noise * model.outcome_transform.stdvs.squeeze() ** 2
    z, noise, _, _ = jax_loop.standardized(padded(Y.mean(dim=-1)), padded(variance), mask)
    theta = np.append(np.log(lengthscale - jax_loop.SHORTEST), model.mean_module.constant.item())
    found = -jax_loop.loss(jnp.array(theta), padded(X), z, noise, mask).item()
    objective = ExactMarginalLogLikelihood(model.likelihood, model).train()
    expected = objective(model(*model.train_inputs), model.train_targets).item()
    assert found == pytest.approx(expected, abs=1e-7)  # GPyTorch keeps its prior in float32

    points = initial_design(UNIT, [7], 16)[0]
    values = jax.vmap(lambda x: jax_loop.bound(pair, x, 1.0))(jnp.array(points.numpy()))
    bound = PlainBound(model.eval(), noise_model)(points.unsqueeze(-2)).detach()
    assert np.allclose(values, bound, rtol=1e-2, atol=1e-2)


def test_jax_draws_from_the_same_problem() -> None:
    jax_loop = pytest.importorskip("bench.speed.jax_loop", reason="needs JAX, extra `bayesian`")
    lower, upper = PROBLEM.bounds
    for unit in initial_design(UNIT, [8], 5)[0]:
        x = lower + (upper - lower) * unit
        value, level = jax_loop.branin(unit.numpy(), PROBLEM.noise_scale)
        assert float(value) == pytest.approx(PROBLEM(x, noise=False).item(), rel=1e-6)
        assert float(level) ** 2 == pytest.approx(PROBLEM.noise_variance(x).item(), rel=1e-9)
