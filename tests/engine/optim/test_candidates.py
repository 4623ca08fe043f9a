import time
from functools import partial

import numpy as np
import pytest
import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    UpperConfidenceBound,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.exceptions.warnings import OptimizationWarning
from botorch.generation import gen_candidates_scipy
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_risk.engine import FastMarginals, gen_candidates_quasi_newton

BOX = torch.tensor([[-1.0, 0.0], [2.0, 5.0]], dtype=torch.float64)


def model(dtype: torch.dtype = torch.float64) -> SingleTaskGP:
    X = torch.rand(15, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    gp = SingleTaskGP(
        (BOX[0] + (BOX[1] - BOX[0]) * X).to(dtype),
        (4 * X).sin().sum(-1, keepdim=True).to(dtype),
        input_transform=Normalize(2, bounds=BOX.to(dtype)),
    )
    gp.covar_module.lengthscale = torch.tensor([[0.5, 0.5]], dtype=dtype)
    return gp.eval()


def acquisition(name: str) -> AcquisitionFunction:
    gp = model()
    if name == "LogEI":
        return LogExpectedImprovement(gp, best_f=1.5)
    if name == "view":
        return UpperConfidenceBound(FastMarginals(gp), beta=4.0)
    return qLogNoisyExpectedImprovement(
        gp, X_baseline=BOX[0] + (BOX[1] - BOX[0]) * gp.train_inputs[0]
    )


@pytest.mark.parametrize(("name", "q"), [("LogEI", 1), ("view", 1), ("qLogNEI", 2)])
def test_ends_where_botorch_ends(name: str, q: int) -> None:
    acqf, found = acquisition(name), {}
    for gen in (gen_candidates_scipy, gen_candidates_quasi_newton):
        X, value = optimize_acqf(
            acqf, BOX, q=q, num_restarts=8, raw_samples=64, options={"seed": 0}, gen_candidates=gen
        )
        assert X.shape == (q, 2) and bool(((BOX[0] <= X) & (BOX[1] >= X)).all())
        torch.testing.assert_close(acqf(X), value.reshape(1), rtol=1e-9, atol=1e-9)
        found[gen.__name__] = value
    theirs, ours = found.values()
    assert ours >= theirs - (1e-6 if q == 1 else 1e-4)  # samples make kinks


def test_every_start_has_its_end_where_all_matter() -> None:
    acqf = acquisition("view")
    starts = BOX[0] + (BOX[1] - BOX[0]) * torch.rand(6, 1, 2, dtype=torch.float64)
    every = partial(gen_candidates_quasi_newton, best_only=False)
    X, values = every(starts, acqf, lower_bounds=BOX[0], upper_bounds=BOX[1])
    _, expected = gen_candidates_scipy(starts, acqf, lower_bounds=BOX[0], upper_bounds=BOX[1])
    assert X.shape == starts.shape
    # A start may go to another maximum than by other steps; most do not.
    assert ((values - expected).abs() < 1e-5).double().mean() > 0.6
    assert (values >= acqf(starts)).all()


def test_fixed_features_and_open_bounds() -> None:
    def hill(X: Tensor) -> Tensor:
        return -(X - torch.tensor([3.0, -4.0, 0.5]).to(X)).square().sum(dim=(-1, -2))

    starts = torch.zeros(3, 2, 3, dtype=torch.float64)
    X, values = gen_candidates_quasi_newton(starts, hill, fixed_features={-1: 0.25})
    expected = torch.tensor([3.0, -4.0, 0.25], dtype=torch.float64).expand(3, 2, 3)
    torch.testing.assert_close(X, expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(values, hill(X))
    each = {0: torch.tensor([0.0, 1.0, 2.0])}
    X, _ = gen_candidates_quasi_newton(starts, hill, 0.0, 5.0, fixed_features=each, best_only=False)
    assert X[:, :, 0].tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    assert (X[..., 1] == 0.0).all()
    learnt = torch.zeros_like(starts).requires_grad_()
    X, _ = gen_candidates_quasi_newton(learnt, hill, 0.0, 5.0, fixed_features=each)
    assert not X.requires_grad and learnt.grad is None
    assert not learnt.any() and not starts.any()  # the caller's starts stay as they are


def test_numbers_keep_all_their_digits() -> None:
    r"""A fixed feature, and bounds given as numbers; in float32 both lie outside the box."""
    X = torch.rand(12, 2, dtype=torch.double)
    acqf = UpperConfidenceBound(SingleTaskGP(X, X.sum(dim=-1, keepdim=True)), 4.0)
    starts = torch.rand(3, 1, 2, dtype=torch.double)
    found, _ = gen_candidates_quasi_newton(starts, acqf, 0.0, 1.0, fixed_features={0: 0.3})
    assert found[..., 0].tolist() == [[0.3]] * 3
    found, _ = gen_candidates_quasi_newton(starts, acqf, 0.01, 0.7)
    assert found.max() == 0.7  # the sum is largest in a corner
    found, _ = gen_candidates_quasi_newton(starts, acqf, [0.01, 0.2], [0.7, 0.9])  # type: ignore[arg-type]
    assert found.flatten(0, 1).amax(dim=0).tolist() == pytest.approx([0.7, 0.9], abs=1e-15)


def test_ends_at_a_bound_do_not_pass_it_by_rounding() -> None:
    stream = torch.Generator().manual_seed(0)
    lower = -torch.rand(60, dtype=torch.float64, generator=stream)
    upper = torch.rand(60, dtype=torch.float64, generator=stream)
    assert (lower + (upper - lower) > upper).any()

    def slope(X: Tensor) -> Tensor:
        return X.sum(dim=(-1, -2))

    starts = (lower + 0.3 * (upper - lower)).expand(2, 1, 60)
    X, _ = gen_candidates_quasi_newton(starts, slope, lower, upper)
    assert (upper >= X).all()
    torch.testing.assert_close(X, upper.expand(2, 1, 60), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:The model inputs are of type torch.float32")
def test_one_batch_of_starts_keeps_its_shape_and_dtype() -> None:
    acqf = UpperConfidenceBound(model(torch.float32), beta=4.0)
    X, value = gen_candidates_quasi_newton(torch.ones(1, 2), acqf, BOX[0].float(), BOX[1].float())
    assert (X.shape, X.dtype, value.shape) == ((1, 2), torch.float32, (1,))


def test_time_and_steps_are_limited() -> None:
    calls: list[int] = []

    def slow(X: Tensor) -> Tensor:
        calls.append(len(X))
        time.sleep(0.05)
        return (7 * X).sin().sum(dim=(-1, -2))

    starts = torch.rand(4, 1, 3, dtype=torch.float64)
    gen_candidates_quasi_newton(starts, slow, 0.0, 1.0, timeout_sec=0.0)
    assert len(calls) == 2  # the starts and their ends
    calls.clear()
    gen_candidates_quasi_newton(starts, slow, 0.0, 1.0, options={"maxiter": 1, "disp": False})
    assert len(calls) < 30


def test_small_values_are_climbed_too() -> None:
    def tiny(X: Tensor) -> Tensor:
        return 1e-9 * -(X - 0.3).square().sum(dim=(-1, -2))

    starts = torch.rand(5, 1, 2, dtype=torch.float64)
    X, _ = gen_candidates_quasi_newton(starts, tiny, 0.0, 1.0)
    assert np.abs(X[0].numpy() - 0.3).max() < 1e-3


def test_a_start_without_a_value_stays_and_never_wins() -> None:
    def half(X: Tensor) -> Tensor:
        values = -(X - 0.3).square().sum(dim=(-1, -2))
        return values.where(X[:, 0, 0] < 0.8, torch.nan)

    starts = torch.tensor([[[0.9]], [[0.1]]], dtype=torch.float64)
    with pytest.warns(OptimizationWarning, match=r"not finite at starts \[0\]"):
        X, values = gen_candidates_quasi_newton(starts, half, 0.0, 1.0)
    assert X[0].item() == 0.9 and values[0] == -torch.inf
    torch.testing.assert_close(X[1].item(), 0.3, atol=1e-4, rtol=0)


def test_what_it_cannot_do_is_refused() -> None:
    acqf, starts = acquisition("view"), torch.ones(2, 1, 2, dtype=torch.float64)
    constraint = [(torch.tensor([0]), torch.tensor([1.0]), 0.0)]
    with pytest.raises(UnsupportedError, match="box bounds only"):
        gen_candidates_quasi_newton(starts, acqf, inequality_constraints=constraint)
    with pytest.raises(BotorchTensorDimensionError, match="`b x q x d` or `q x d`"):
        gen_candidates_quasi_newton(starts[None], acqf)
