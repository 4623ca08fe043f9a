r"""Kernel matrices: what is accepted as one, in any units."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError
from gpytorch.kernels import RBFKernel
from torch import Tensor

from botorch_risk.risk import MaximumMeanDiscrepancyBall, MinimaxApproximation
from botorch_risk.risk.mmd import (
    check_size,
    eigen,
    kernel_matrix_of,
    require_bound,
    same_points,
    without_copies,
)
from tests.risk.cases import risk_kernel

scales = pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])


def points(*batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(*batch, 9, 2, generator=generator, dtype=torch.float64)


def rough(v: Tensor, w: Tensor) -> Tensor:
    r"""An exponential kernel, whose matrix is far from singular."""
    return torch.exp(-4 * torch.cdist(v, w))


@scales
@pytest.mark.parametrize("kernel", [risk_kernel, rough], ids=["smooth", "rough"])
@pytest.mark.slow
def test_a_kernel_in_other_units_is_a_radius_in_other_units(kernel: Any, scale: float) -> None:
    r"""The discrepancy is a square root: a kernel a million times as large, a thousand."""
    environment = SimpleNamespace(points=points())
    values = torch.randn(6, 9, dtype=torch.float64)
    weights = torch.rand(9, dtype=torch.float64).softmax(dim=-1)
    for kind in (MaximumMeanDiscrepancyBall, MinimaxApproximation):
        for radius in (0.05, 0.4):
            plain = kind(radius, kernel).bind(environment)(values, weights)
            scaled = kind(radius * scale**0.5, lambda v, w: scale * kernel(v, w))
            found = scaled.bind(environment)(values, weights)
            torch.testing.assert_close(found, plain, rtol=2e-6, atol=2e-6)


@scales
def test_rounding_is_allowed_for_in_the_units_of_the_matrix(scale: float) -> None:
    matrix = scale * risk_kernel(points(), points())
    expected = np.linalg.eigvalsh(matrix.numpy())
    eigenvalues, vectors = eigen(matrix)
    np.testing.assert_allclose(eigenvalues, expected.clip(0), atol=1e-14 * scale)
    torch.testing.assert_close((vectors * eigenvalues.unsqueeze(-2)) @ vectors.mT, matrix)
    tilted = matrix.clone()
    tilted[0, 1] += 1e-15 * scale  # rounding
    eigen(tilted)
    tilted[0, 1] += 1e-10 * scale
    with pytest.raises(
        InputDataError, match=r"finite and symmetric. Got a largest difference of (1e-|0\.0001)"
    ):
        eigen(tilted)
    eye = scale * torch.eye(9, dtype=torch.float64)
    eye[3, 3] = -1e-16 * scale
    assert (eigen(eye)[0] >= 0).all()
    eye[3, 3] = -1e-10 * scale
    with pytest.raises(
        InputDataError, match=r"positive semi-definite. Got the eigenvalue -(1e-|0\.0001)"
    ):
        eigen(eye)


def test_a_kernel_that_tells_nothing_apart_is_a_kernel() -> None:
    for matrix in (torch.zeros(3, 3), torch.ones(3, 3)):
        eigenvalues, _ = eigen(matrix)
        torch.testing.assert_close(eigenvalues[:2], torch.zeros(2).double())
        assert eigenvalues[2].item() == pytest.approx(matrix.sum().item() / 3)


def test_float32_has_its_own_rounding() -> None:
    matrix = risk_kernel(points(), points()).float()
    matrix[0, 1] += 1e-7
    eigen(matrix)
    matrix[0, 1] += 1e-3
    with pytest.raises(InputDataError, match="symmetric"):
        eigen(matrix)


def test_one_bad_matrix_of_a_batch_is_refused() -> None:
    both = risk_kernel(points(2), points(2))
    both[1, 0, 1] += 1e-3
    with pytest.raises(InputDataError, match="symmetric"):
        eigen(both)
    both = torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
    both[1, 2, 2] = -0.5
    with pytest.raises(InputDataError, match=r"Got the eigenvalue -0\.5"):
        eigen(both)
    with pytest.raises(InputDataError, match="finite and symmetric"):
        eigen(torch.full((2, 2), torch.nan))
    for shape in ((3,), (3, 2)):
        with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x n_w x n_w`"):
            eigen(torch.zeros(shape))


def test_matrices_are_in_double_and_without_a_graph() -> None:
    kernel = RBFKernel()
    for batch in ((), (2,)):
        matrix = kernel_matrix_of(kernel, SimpleNamespace(points=points(*batch).float()))
        assert matrix.shape == (*batch, 9, 9)
        assert matrix.dtype == torch.float64
        assert not matrix.requires_grad
    with pytest.raises(BotorchTensorDimensionError, match="Expected a kernel matrix of shape"):
        kernel_matrix_of(lambda v, w: v @ w.mT[..., :3], SimpleNamespace(points=points()))


def test_copies_of_one_matrix_are_one() -> None:
    matrix = risk_kernel(points(), points())
    assert without_copies(matrix) is matrix
    assert torch.equal(without_copies(matrix.expand(2, 3, 9, 9)), matrix)
    different = torch.stack([matrix, matrix + 1e-12 * torch.eye(9).double()])
    assert without_copies(different) is different


def test_rounding_is_allowed_for_by_the_number_of_points_in_any_batch() -> None:
    matrix = torch.eye(9, dtype=torch.float64)
    matrix[2, 5] += 5 * 9 * torch.finfo(torch.float64).eps
    for batch in ((), (2,), (2, 1), (3, 2, 1)):
        values, _ = eigen(matrix.expand(*batch, 9, 9))
        torch.testing.assert_close(values, torch.ones(*batch, 9, dtype=torch.float64))
    matrix[2, 5] += 6 * 9 * torch.finfo(torch.float64).eps
    with pytest.raises(InputDataError, match="finite and symmetric"):
        eigen(matrix)


def test_points_are_the_same_value_by_value() -> None:
    bound = points()
    assert same_points(bound, bound.clone())
    assert not same_points(None, bound)
    assert not same_points(bound, bound.float())
    assert not same_points(torch.ones(2, 1), torch.ones(2, 1).double())
    assert not same_points(bound, bound[:-1])
    assert not same_points(bound, bound + 1e-15)


def test_sizes_of_matrix_and_values() -> None:
    matrix = torch.eye(4)
    check_size(matrix.shape, torch.zeros(3, 4))
    check_size(matrix.expand(2, 4, 4).shape, torch.zeros(2, 3, 4))
    for bad in (torch.zeros(3, 5), torch.zeros(4, 3)):
        with pytest.raises(
            BotorchTensorDimensionError, match="Expected `kernel_matrix: batch_shape"
        ):
            check_size(matrix.shape, bad)
    for bad in (torch.zeros(3, 3, 4), torch.zeros(4)):
        with pytest.raises(
            BotorchTensorDimensionError, match="Expected `kernel_matrix: batch_shape"
        ):
            check_size(matrix.expand(2, 4, 4).shape, bad)


def test_parts_that_bind_makes_are_required() -> None:
    assert require_bound(3, "measure") == 3
    with pytest.raises(RuntimeError, match=r"call `bind\(environment\)` first. Got measure"):
        require_bound(None, "measure")


@pytest.mark.parametrize("kernel", [risk_kernel, rough], ids=["smooth", "rough"])
@pytest.mark.parametrize("batch", [(3,), pytest.param((2, 3), marks=pytest.mark.slow)], ids=str)
@pytest.mark.slow
def test_replicates_with_points_of_their_own_equal_the_loop(
    kernel: Any, batch: tuple[int, ...]
) -> None:
    generator = torch.Generator().manual_seed(2)
    W = torch.rand(*batch, 9, 2, generator=generator, dtype=torch.float64)
    values = torch.randn(*batch, 5, 9, generator=generator, dtype=torch.float64)
    weights = torch.rand(*batch, 1, 9, generator=generator, dtype=torch.float64).softmax(dim=-1)
    exact = [(MaximumMeanDiscrepancyBall, 0.1)]
    for kind, radius in exact + [(MinimaxApproximation, each) for each in (0.02, 0.2, 0.5)]:
        measure = kind(radius, kernel)
        together = measure.bind(SimpleNamespace(points=W))
        trial = values.clone().requires_grad_()
        found = together(trial, weights)
        (gradient,) = torch.autograd.grad(found.sum(), trial)
        for index in np.ndindex(*batch):
            alone = measure.bind(SimpleNamespace(points=W[index]))
            row = values[index].clone().requires_grad_()
            expected = alone(row, weights[index])
            torch.testing.assert_close(found[index], expected, rtol=1e-7, atol=1e-7)
            (slope,) = torch.autograd.grad(expected.sum(), row)
            torch.testing.assert_close(gradient[index], slope, rtol=1e-4, atol=1e-4)
            bounds = alone.bounds(values[index], values[index] + 1, weights[index])
            both = together.bounds(values, values + 1, weights)
            torch.testing.assert_close([each[index] for each in both], list(bounds))
