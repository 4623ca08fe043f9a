r"""Blocks of points that are sampled before all others."""

from typing import Any

import torch

from botorch_risk.engine import Belief
from botorch_risk.engine.posterior.joint_samples import Block, determining_points
from tests.contracts import of_decision_and_context, repeated_data


def pairs(n: int, n_w: int) -> torch.Tensor:
    r"""All pairs of `n` decisions and `n_w` values, `(n n_w) x 3`."""
    x, w = torch.rand(n, 2, dtype=torch.float64), torch.linspace(0, 1, n_w, dtype=torch.float64)
    return torch.cat([x.repeat_interleave(n_w, 0), w.repeat(n)[:, None]], dim=-1)


def process() -> Any:
    return Belief(of_decision_and_context(repeated_data())).process()


def test_the_root_of_many_points_is_that_of_their_covariance() -> None:
    points, data = pairs(7, 32), process()
    block = Block.of(data, points)
    at = data.at(points)
    covariance = data.covariance(at, at)[0]
    assert len(block.active) < len(points) / 2
    torch.testing.assert_close(block.root @ block.root.mT, covariance, rtol=0, atol=1e-7)
    model = data.prior.model
    torch.testing.assert_close(block.mean, model.posterior(points).mean.squeeze(-1))


def test_the_rest_is_conditioned_on_the_block() -> None:
    r"""Its variance given the block equals the one of a model with the block as exact data."""
    points, other = pairs(3, 8), pairs(2, 3)
    data = process()
    block = Block.of(data, points)
    prior = data.prior.points(other)
    correlation = data.prior.correlation(prior.inputs, block.inputs)
    whitened = block.factor @ correlation.mT * prior.scale.unsqueeze(-2)
    variance = (prior.variance - whitened.square().sum(dim=-2))[0]
    every = torch.cat([points, other])
    covariance = data.prior.model.posterior(every).distribution.covariance_matrix.detach()
    known, cross, own = covariance[:24, :24], covariance[:24, 24:], covariance[24:, 24:]
    explained = cross.mT @ torch.linalg.pinv(known, rtol=1e-9, hermitian=True) @ cross
    torch.testing.assert_close(variance, (own - explained).diagonal(), rtol=0, atol=1e-6)


def test_samples_are_made_once_for_the_same_numbers() -> None:
    block = Block.of(process(), pairs(2, 3))
    base = torch.randn(5, 1, 9, dtype=torch.float64)
    first = block.samples(base)
    assert block.samples(base) is first
    base.add_(1)
    assert block.samples(base) is not first
    with torch.inference_mode():
        torch.testing.assert_close(block.samples(base.clone()), block.samples(base))


def test_no_points_are_a_block() -> None:
    block = Block.of(process(), torch.empty(0, 3, dtype=torch.float64))
    assert block.samples(torch.zeros(4, 1, 6, dtype=torch.float64)).shape == (4, 1, 0)


def test_points_that_determine_the_others() -> None:
    root = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [0.5, 0.0]], dtype=torch.float64)
    chosen = determining_points(root @ root.mT, torch.tensor(1e-9))
    assert chosen.tolist() == [0, 1]
    assert determining_points(torch.eye(3), torch.tensor(1e-9)).tolist() == [0, 1, 2]
