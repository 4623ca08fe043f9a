import math

import pytest
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    LogExpectedImprovement,
    UpperConfidenceBound,
    qUpperConfidenceBound,
)
from botorch.exceptions.errors import (
    BotorchTensorDimensionError,
    CandidateGenerationError,
    UnsupportedError,
)
from botorch.exceptions.warnings import OptimizationWarning
from botorch.models import SingleTaskGP
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.environments import InputPerturbation
from botorch_risk.level_sets import Straddle
from botorch_risk.risk import Expectation

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


class Peaks:
    r"""A wavy function with another optimum for every replicate."""

    def __init__(self, centers: Tensor, broken: int | None = None, everywhere: bool = True) -> None:
        self.centers, self.broken, self.everywhere = centers, broken, everywhere

    def evaluate(self, X: Tensor) -> Tensor:
        offset = X - self.centers.to(X).unsqueeze(-2)
        values = (12 * offset).cos().sum(-1) - 4 * offset.square().sum(-1)
        if self.broken is not None:
            lost = torch.zeros(values.shape, dtype=torch.bool)
            lost[self.broken] = self.everywhere | (X[self.broken, :, 0] > 0.6)
            values = torch.where(lost, math.nan, values)
        return values


def centers(count: int) -> Tensor:
    return torch.rand(count, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def model(*batch_shape: int, dtype: torch.dtype = torch.float64) -> SingleTaskGP:
    X = torch.rand(*batch_shape, 12, 2, dtype=dtype)
    gp = SingleTaskGP(X, (9 * X).sin().sum(-1, keepdim=True)).eval()
    gp.covar_module.lengthscale = 0.2
    return gp


def test_steps_on_a_device_end_where_those_on_the_host_do(device: torch.device) -> None:
    gp = model(7)
    by_numpy = optimize_acqf_replicates(UpperConfidenceBound(gp, beta=4.0), BOUNDS, seeds=range(7))
    acqf = UpperConfidenceBound(gp.to(device), beta=4.0)
    X, values = optimize_acqf_replicates(acqf, BOUNDS.to(device), seeds=range(7))
    torch.testing.assert_close(X.cpu(), by_numpy[0], rtol=0.0, atol=1e-6)
    torch.testing.assert_close(values.cpu(), by_numpy[1], rtol=0.0, atol=1e-9)


def test_every_replicate_reaches_its_own_optimum() -> None:
    acqf = Peaks(centers(6))
    X, values = optimize_acqf_replicates(acqf, BOUNDS, seeds=range(6))
    assert X.shape == (6, 1, 2) and values.shape == (6,)
    torch.testing.assert_close(X.squeeze(-2), acqf.centers, atol=1e-5, rtol=0)
    torch.testing.assert_close(values, acqf.evaluate(X).squeeze(-1), rtol=0, atol=0)


@pytest.mark.parametrize("acquisition", ["bound", "improvement"])
def test_ordinary_acquisitions_reach_the_best_of_a_grid(acquisition: str) -> None:
    gp = model(4)
    acqf: AcquisitionFunction = UpperConfidenceBound(gp, beta=4.0)
    if acquisition == "improvement":
        acqf = LogExpectedImprovement(gp, best_f=torch.ones(4, 1).double())
    axis = torch.linspace(0, 1, 41, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)[:, None, None].expand(-1, 4, 1, 2)
    with torch.no_grad():
        best = acqf(grid).amax(dim=0)
    X, values = optimize_acqf_replicates(acqf, BOUNDS, seeds=range(4))
    assert (values >= best - 1e-9).all()
    assert ((X >= 0) & (X <= 1)).all()


def test_a_model_without_batch_is_one_replicate() -> None:
    X, values = optimize_acqf_replicates(UpperConfidenceBound(model(), beta=4.0), BOUNDS, seeds=5)
    assert X.shape == (1, 1, 2) and values.shape == (1,)


def test_a_seed_gives_the_same_alone_and_in_a_batch() -> None:
    gp = model(8)
    together, values = optimize_acqf_replicates(
        UpperConfidenceBound(gp, beta=4.0), BOUNDS, seeds=range(8)
    )
    for seed in range(8):
        one = SingleTaskGP(gp.train_inputs[0][seed], gp.train_targets[seed, :, None]).eval()
        one.outcome_transform = None
        del one.outcome_transform
        one.covar_module.lengthscale = 0.2
        one.train_targets = gp.train_targets[seed]
        scale, mean = gp.outcome_transform.stdvs[seed, 0, 0], gp.outcome_transform.means[seed, 0, 0]
        alone, value = optimize_acqf_replicates(
            UpperConfidenceBound(one, beta=4.0), BOUNDS, seeds=seed
        )
        torch.testing.assert_close(alone[0], together[seed], atol=1e-6, rtol=0)
        torch.testing.assert_close(mean + scale * value[0], values[seed], atol=1e-6, rtol=0)


def test_the_same_batch_twice_is_bitwise_the_same() -> None:
    acqf = UpperConfidenceBound(model(3), beta=4.0)
    first, second = (optimize_acqf_replicates(acqf, BOUNDS, seeds=[4, 2, 9]) for _ in range(2))
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])


def test_affine_changes_of_the_acquisition_do_not_matter() -> None:
    class Scaled(Peaks):
        def evaluate(self, X: Tensor) -> Tensor:
            return 1e-9 * super().evaluate(X) + 3e-9

    options = {"seeds": range(3), "raw_samples": 32, "num_restarts": 4}
    plain, _ = optimize_acqf_replicates(Peaks(centers(3)), BOUNDS, **options)
    scaled, _ = optimize_acqf_replicates(Scaled(centers(3)), BOUNDS, **options)
    torch.testing.assert_close(plain, scaled, atol=1e-4, rtol=0)


def test_never_below_the_best_raw_point_even_without_steps() -> None:
    acqf, seen = Peaks(centers(3)), []

    class Recording(Peaks):
        def evaluate(self, X: Tensor) -> Tensor:
            seen.append(acqf.evaluate(X).detach())
            return acqf.evaluate(X)

    _, values = optimize_acqf_replicates(
        Recording(acqf.centers), BOUNDS, seeds=range(3), max_iterations=1, num_restarts=1
    )
    assert (values >= seen[0].amax(dim=-1)).all()


def test_raw_points_that_are_not_finite_are_named_and_the_others_untouched() -> None:
    options = {"seeds": [7, 8, 9], "raw_samples": 64}
    expected, _ = optimize_acqf_replicates(Peaks(centers(3)), BOUNDS, **options)
    partly = Peaks(centers(3), broken=1, everywhere=False)
    with pytest.warns(OptimizationWarning, match=r"replicate 1 \(seed 8\)"):
        X, values = optimize_acqf_replicates(partly, BOUNDS, **options)
    torch.testing.assert_close(X[[0, 2]], expected[[0, 2]], atol=1e-9, rtol=0)
    assert values.isfinite().all() and X[1, 0, 0] <= 0.6
    with pytest.raises(CandidateGenerationError, match=r"none at the raw points of replicate 1"):
        optimize_acqf_replicates(Peaks(centers(3), broken=1), BOUNDS, **options)


def test_every_raw_point_that_is_given_lies_within_the_bounds() -> None:
    raw = torch.full((2, 3, 2), 0.5, dtype=torch.double)
    raw[1, 2, 1] = 1.001
    with pytest.raises(ValueError, match="`raw_points` within the bounds"):
        optimize_acqf_replicates(Peaks(centers(2)), BOUNDS, seeds=[0, 1], raw_points=raw)


def test_gradients_that_are_not_finite_leave_the_best_raw_point() -> None:
    class Cliff(Peaks):
        def evaluate(self, X: Tensor) -> Tensor:
            return super().evaluate(X) + 0.0 * (X - X.detach()).abs().sum(-1).sqrt()

    with pytest.warns(OptimizationWarning, match=r"starts of replicates \[0, 1\]"):
        X, values = optimize_acqf_replicates(Cliff(centers(2)), BOUNDS, seeds=[0, 1])
    assert values.isfinite().all() and X.isfinite().all()


def test_fixed_features() -> None:
    acqf = Peaks(centers(3))
    X, _ = optimize_acqf_replicates(acqf, BOUNDS, seeds=range(3), fixed_features={1: 0.25})
    assert (X[..., 1] == 0.25).all()
    torch.testing.assert_close(X[:, 0, 0], acqf.centers[:, 0], atol=1e-5, rtol=0)


@pytest.mark.filterwarnings("ignore:A not p.d.")
@pytest.mark.parametrize("batch_shape", [(), (3,)])
def test_several_points_are_chosen_with_those_before_them_pending(
    batch_shape: tuple[int, ...],
) -> None:
    gp = model(*batch_shape)
    sampler = SobolQMCNormalSampler(torch.Size([64]), seed=0)
    pending = torch.full((1, 2), 0.5, dtype=torch.float64)
    acqf = qUpperConfidenceBound(gp, beta=4.0, sampler=sampler, X_pending=pending)
    seeds = range(gp.batch_shape.numel())
    options = {"seeds": seeds, "num_restarts": 3, "raw_samples": 32}
    X, values = optimize_acqf_replicates(acqf, BOUNDS, q=3, **options)
    assert X.shape == (len(seeds), 3, 2) and values.shape == (len(seeds),)
    assert torch.equal(acqf.X_pending, pending)
    first, _ = optimize_acqf_replicates(acqf, BOUNDS, **options)
    torch.testing.assert_close(first, X[:, :1])
    assert (torch.cdist(X, X) + torch.eye(3).double() > 1e-3).all()


def test_several_points_need_pending_points() -> None:
    for acqf in (UpperConfidenceBound(model(2), beta=1.0), Peaks(centers(2))):
        with pytest.raises(UnsupportedError, match="pending points, `X_pending`, for q > 1"):
            optimize_acqf_replicates(acqf, BOUNDS, q=2, seeds=[0, 1])


def test_dtype_and_device(device: torch.device) -> None:
    gp = model(2).to(device)
    acqf = UpperConfidenceBound(gp, beta=4.0)
    X, values = optimize_acqf_replicates(acqf, BOUNDS.to(device), seeds=[0, 1])
    assert X.device.type == values.device.type == device.type
    acqf = Peaks(centers(2).to(device))
    X, values = optimize_acqf_replicates(acqf, BOUNDS.float().to(device), seeds=[0, 1])
    assert X.dtype == values.dtype == torch.float32
    torch.testing.assert_close(X[:, 0].double(), acqf.centers, atol=2e-3, rtol=0)


def test_reversed_bounds_are_refused() -> None:
    r"""Clipping to them would move every point to a corner."""
    acqf, partly = Peaks(centers(2)), BOUNDS.clone()
    partly[:, 1] = partly[:, 1].flip(0)
    for bad in (BOUNDS.flip(0), partly, BOUNDS * torch.inf, BOUNDS * torch.nan):
        with pytest.raises(ValueError, match="each lower bound at most its upper bound"):
            optimize_acqf_replicates(acqf, bad, seeds=[0, 1])
    held = torch.tensor([[0.25, 0.0], [0.25, 1.0]], dtype=torch.float64)  # an empty side holds
    X, _ = optimize_acqf_replicates(acqf, held, seeds=[0, 1])
    assert (X[..., 0] == 0.25).all()


def test_whole_bounds_are_numbers() -> None:
    options = {"seeds": [0, 1], "fixed_features": {1: 0.25}}
    X, values = optimize_acqf_replicates(Peaks(centers(2)), BOUNDS.long(), **options)
    expected, _ = optimize_acqf_replicates(Peaks(centers(2)), BOUNDS, **options)
    assert X.dtype == values.dtype == torch.float64
    assert torch.equal(X, expected)


def test_a_box_of_another_width_is_refused() -> None:
    acqf = RiskUpperConfidenceBound(
        model(2), InputPerturbation(torch.zeros(1, 2).double()), Expectation(), beta=1.0
    )
    for wrong in (BOUNDS[:, :1], torch.cat([BOUNDS, BOUNDS], dim=-1)):
        with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x m x 2`"):
            optimize_acqf_replicates(acqf, wrong, seeds=[0, 1])
        with pytest.raises(BotorchTensorDimensionError, match="the 2 columns of the model's inp"):
            optimize_acqf_replicates(Straddle(model(2), 0.0), wrong, seeds=[0, 1])


def test_bad_input() -> None:
    acqf = Peaks(centers(2))
    for column in (2, -3):
        with pytest.raises(ValueError, match=rf"columns in \[0, 2\) .* Got {column}"):
            optimize_acqf_replicates(acqf, BOUNDS, seeds=[0, 1], fixed_features={column: 0.5})
    for value in (5.0, torch.nan):
        with pytest.raises(ValueError, match="column 1 in `fixed_features` within its bounds"):
            optimize_acqf_replicates(acqf, BOUNDS, seeds=[0, 1], fixed_features={1: value})
    with pytest.raises(ValueError, match="each column of `fixed_features` once"):
        optimize_acqf_replicates(acqf, BOUNDS, seeds=[0, 1], fixed_features={1: 0.2, -1: 0.8})
    with pytest.raises(BotorchTensorDimensionError, match="`bounds` to have shape `2 x d`"):
        optimize_acqf_replicates(acqf, BOUNDS[0], seeds=[0, 1])
    with pytest.raises(ValueError, match="as many raw points as starts"):
        optimize_acqf_replicates(acqf, BOUNDS, seeds=[0, 1], raw_samples=5)
    with pytest.raises(ValueError, match="distinct seed"):
        optimize_acqf_replicates(acqf, BOUNDS, seeds=[1, 1])
