r"""Leave-one-out predictions against models that never saw the row."""

from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms import Log, Normalize
from botorch.models.transforms.input import InputPerturbation
from botorch.settings import validate_input_scaling
from gpytorch.kernels import RBFKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from botorch_risk.diagnostics import leave_one_out, plot_leave_one_out, verdict
from botorch_risk.engine import FastMarginals, fit_exact_gp
from botorch_risk.models import MeanVarianceGP
from botorch_risk.models.repeats import RepeatedOutcomes


def data(*batch_shape: int, n: int = 12, k: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(sum(batch_shape) + n)
    X = torch.rand(*batch_shape, n, 2, dtype=torch.double, generator=generator)
    normal = torch.randn(*batch_shape, n, k, dtype=torch.double, generator=generator)
    return X, (5 * X).sin().sum(dim=-1, keepdim=True) + (0.05 + X[..., :1]) * normal


def fitted(X: Tensor, Y: Tensor, **options: Any) -> MeanVarianceGP:
    model = MeanVarianceGP(X, Y, **options)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def without(process: Any, row: int) -> tuple[Tensor, Tensor]:
    r"""Mean and variance of a process at a row given the others, by the textbook's formula."""
    process = process.train()
    X = process.transform_inputs(process.train_inputs[0])
    K = process.covar_module(X).to_dense().detach()
    prior = process.mean_module(X).detach()
    noise = process.likelihood.noise.detach().expand(len(X))
    y = process.train_targets
    keep = torch.arange(len(X)) != row
    inner = K[keep][:, keep] + noise[keep].diag()
    weights = torch.linalg.solve(inner, K[keep][:, row])
    mean = prior[row] + weights @ (y - prior)[keep]
    variance = K[row, row] - weights @ K[keep][:, row]
    process.eval()
    scale, offset = process.outcome_transform.stdvs.item(), process.outcome_transform.means.item()
    return offset + scale * mean, scale**2 * variance


@pytest.mark.parametrize("link", ["log", "identity"])
def test_both_processes_without_the_row(link: Any) -> None:
    X, Y = data()
    Y[3, 1:] = torch.nan  # a single repeat: no sample variance
    model = fitted(X, Y, variance_link=link, noise_evidence="spread", input_transform=Normalize(2))
    found = leave_one_out(model)
    rows = [row for row in range(12) if row != 3]
    for row in range(12):
        mean, variance = without(model.mean_model, row)
        torch.testing.assert_close(found.mean[row], mean)
        count = 1 if row == 3 else 5
        noise = model.predicted_noise(X[[3]]).squeeze()
        if row != 3:
            linked, uncertainty = without(model.noise_model, rows.index(row))
            expected = (linked + uncertainty / 2).exp() if link == "log" else linked
            noise = expected.clamp_min(torch.finfo(torch.double).tiny)
        torch.testing.assert_close(found.noise[row], noise)
        torch.testing.assert_close(found.standard_deviation[row] ** 2, variance + noise / count)
        residual = (Y[row].nanmean() - mean) / found.standard_deviation[row]
        torch.testing.assert_close(found.residuals[row], residual)
    assert found.sample_variances[3].isnan()
    assert found.noise_residuals[3].isnan()
    torch.testing.assert_close(found.sample_variances[rows], Y[rows].var(dim=-1))


def test_residuals_of_the_sample_variances() -> None:
    r"""On the logarithmic scale, with the variance of a logarithm of chi-square."""
    X, Y = data()
    model = fitted(X, Y)
    found = leave_one_out(model)
    half = torch.tensor(2.0, dtype=torch.double)  # (k - 1) / 2
    unbiased = Y.var(dim=-1).log() - torch.digamma(half) + half.log()
    for row in range(12):
        mean, variance = without(model.noise_model, row)
        spread = (variance + torch.polygamma(1, half)).sqrt()
        torch.testing.assert_close(found.noise_residuals[row], (unbiased[row] - mean) / spread)


def test_a_model_of_single_readings_equals_models_that_never_saw_the_row() -> None:
    X, Y = data()
    Y = (Y[:, :1] - Y[:, :1].mean()) / Y[:, :1].std()
    model = SingleTaskGP(X, Y, outcome_transform=None)
    fit_exact_gp(model)
    found = leave_one_out(model)
    for row in range(12):
        keep = torch.arange(12) != row
        with validate_input_scaling(False):
            other = SingleTaskGP(X[keep], Y[keep], outcome_transform=None)
        other.load_state_dict(model.state_dict())
        posterior = other.posterior(X[[row]], observation_noise=True)
        torch.testing.assert_close(found.mean[row], posterior.mean.squeeze())
        torch.testing.assert_close(found.standard_deviation[row] ** 2, posterior.variance.squeeze())
    torch.testing.assert_close(found.noise, model.likelihood.noise.detach().expand(12))
    assert found.noise_residuals.isnan().all()
    assert (found.counts == 1).all()
    torch.testing.assert_close(found.observed, Y.squeeze(-1))


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_as_it_was(training: bool) -> None:
    X, Y = data()
    model = fitted(X, Y).train(training)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    leave_one_out(model)
    assert model.training == training
    assert model.mean_model.training == training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.filterwarnings(
    "ignore:The model inputs are of type torch.float32:botorch.exceptions.warnings.InputDataWarning"
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.double])
def test_a_batch_equals_its_replicates_alone(dtype: torch.dtype) -> None:
    X, Y = data(3)
    Y[1, 4] = torch.nan  # a row that one replicate misses
    Y[2, 7, 1:] = torch.nan  # one that has a single repeat there
    X, Y = X.to(dtype), Y.to(dtype)
    together = MeanVarianceGP(X, RepeatedOutcomes.from_repeats(Y, allow_missing=True))
    found = leave_one_out(together)
    tolerance = {} if dtype == torch.double else {"rtol": 2e-3, "atol": 2e-3}
    for r in range(3):
        kept = Y[r].isfinite().any(dim=-1)
        model = MeanVarianceGP(X[r][kept], Y[r][kept])
        alone = leave_one_out(model)
        for name in ("mean", "standard_deviation", "residuals", "noise", "noise_residuals"):
            value = getattr(found, name)[r][kept]
            expected = getattr(alone, name)
            assert value.dtype == dtype
            torch.testing.assert_close(value, expected, equal_nan=True, **tolerance)
    assert found.residuals[1, 4].isnan()
    assert found.noise_residuals[1, 4].isnan()


def test_rows_count_once_where_a_transform_makes_several_inputs_of_one() -> None:
    X, Y = data()
    perturbed = InputPerturbation(0.1 * torch.eye(2, dtype=torch.double))
    found = leave_one_out(MeanVarianceGP(X, Y, input_transform=perturbed))
    expected = leave_one_out(MeanVarianceGP(X, Y))
    for name in ("mean", "noise", "residuals", "noise_residuals"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))


@pytest.mark.slow
def test_devices(device: torch.device) -> None:
    X, Y = data()
    check = leave_one_out(MeanVarianceGP(X.to(device), Y.to(device)))
    assert check.residuals.device.type == device.type
    assert "12 outcomes" in verdict(check).sentence
    assert len(plot_leave_one_out(check).axes) == 4


def test_known_noise_has_no_sample_variances() -> None:
    X, Y = data()
    of_function = leave_one_out(MeanVarianceGP(X, Y, known_noise=lambda X: 0.1 + 0 * X[..., :1]))
    torch.testing.assert_close(of_function.noise, torch.full((12,), 0.1, dtype=torch.double))
    assert of_function.noise_residuals.isnan().all()
    of_levels = leave_one_out(MeanVarianceGP(X, Y, torch.full_like(Y, 0.2)))
    assert of_levels.noise_residuals.isnan().all()
    assert of_levels.residuals.isfinite().all()


def test_equal_repeats_have_no_residual() -> None:
    X, Y = data()
    Y[5] = Y[5].mean()
    found = leave_one_out(MeanVarianceGP(X, Y, keep_copies=True))
    assert found.noise_residuals[5].isnan()
    assert found.noise_residuals.isfinite().sum() == 11
    assert found.residuals.isfinite().all()


def test_noise_that_is_learnt_from_all_readings() -> None:
    r"""Single readings inform the noise; residuals are of sample variances all the same."""
    X, Y = data()
    Y[3, 1:] = torch.nan
    model = fitted(X, Y)
    found = leave_one_out(model)
    assert found.noise_residuals.isnan().tolist() == [row == 3 for row in range(12)]
    for row in range(12):
        mean, variance = without(model.noise_model, row)
        torch.testing.assert_close(found.noise[row], (mean + variance / 2).exp())
        if row != 3:
            observed = Y[row].var().log() - torch.tensor(2.0).digamma() + torch.tensor(2.0).log()
            own = torch.polygamma(1, torch.tensor(2.0).double())
            expected = (observed - mean) / (variance + own).sqrt()
            torch.testing.assert_close(found.noise_residuals[row], expected, rtol=1e-5, atol=1e-5)


def test_residuals_of_draws_of_the_model_itself_are_standard_normal() -> None:
    r"""Many small data sets from the priors of both processes, hyperparameters known."""
    generator = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.double, generator=generator)

    X = torch.rand(400, 10, 1, dtype=torch.double, generator=generator)
    K = torch.exp(-0.5 * torch.cdist(X, X).square() / 0.3**2) + 1e-8 * torch.eye(10).double()
    root = torch.linalg.cholesky(K)
    f, log_noise = root @ normal(400, 10, 1), root @ normal(400, 10, 1)
    with validate_input_scaling(False):
        model = MeanVarianceGP(
            X,
            f + (log_noise / 2).exp() * normal(400, 10, 5),
            covar_module=RBFKernel(batch_shape=torch.Size([400])),
            noise_covar_module=RBFKernel(batch_shape=torch.Size([400])),
            outcome_transform=None,
            noise_evidence="spread",
            noise_beta=0,
        )
    scale = model.noise_model.outcome_transform
    noise_model = model.noise_model  # in the units of its prior again
    noise_model.train_targets = (
        noise_model.train_targets * scale.stdvs[..., 0] + scale.means[..., 0]
    )
    noise_model.likelihood.noise_covar.noise *= scale.stdvs[..., 0].square()
    scale.means.zero_(), scale.stdvs.fill_(1.0), scale._stdvs_sq.fill_(1.0)
    for process in (model.mean_model, noise_model):
        process.covar_module.lengthscale = 0.3
        process.mean_module.constant = 0.0
    model.refresh_noise()
    found = leave_one_out(model)
    # A logarithm of chi-square is skewed, so that only its moments are normal.
    for residuals in (found.noise_residuals, found.residuals):
        assert residuals.mean().item() == pytest.approx(0.0, abs=0.1)
        assert residuals.square().mean().item() == pytest.approx(1.0, abs=0.1)


def test_refuses_transforms_that_are_not_linear() -> None:
    X = torch.rand(8, 1, dtype=torch.double)
    with validate_input_scaling(False):
        model = SingleTaskGP(X, X.exp(), outcome_transform=Log())
    with pytest.raises(UnsupportedError, match=r"linear outcome transform.*Got Log"):
        leave_one_out(model)


def test_refuses_models_of_other_data() -> None:
    X, Y = data()
    model, new = MeanVarianceGP(X, Y), torch.rand(2, X.shape[-1], dtype=X.dtype)
    single = SingleTaskGP(X, Y[:, :1])
    view = leave_one_out(FastMarginals(single))
    torch.testing.assert_close(view.residuals, leave_one_out(single).residuals)
    for other in (
        model.condition_on_pending(new),
        SingleTaskGP(X, Y[:, :2]),
        ModelListGP(single, single),
    ):
        with pytest.raises(
            UnsupportedError, match="with one outcome, not conditioned on further data"
        ):
            leave_one_out(other)
