r"""Intervals away from the rows, against samples of the hyperparameters."""

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_risk.diagnostics import leave_one_out, verdict
from botorch_risk.diagnostics.box import _compare
from botorch_risk.engine import fit_exact_gp, sample_exact_gp
from botorch_risk.models import MeanVarianceGP, SampledGP

UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()


def model_of(X: Tensor, lengthscale: float) -> SingleTaskGP:
    r"""With given hyperparameters; readings have little noise."""
    model = SingleTaskGP(X, (9 * X).sin().sum(dim=-1, keepdim=True))
    model.covar_module.lengthscale, model.likelihood.noise = lengthscale, 1e-4
    return model.eval()


def design(n: int, largest: float = 1.0, seed: int = 0) -> Tensor:
    stream = torch.Generator().manual_seed(seed)
    return largest * torch.rand(n, 2, generator=stream, dtype=torch.double)


def test_shares_and_factor_by_hand() -> None:
    mean, deviation = torch.zeros(4).double(), torch.ones(4).double()
    draws = 1.96 * torch.tensor([[0.5, 0.5, 0.5, 2.0], [0.5, 0.5, 0.5, 0.5]]).double()
    weights = torch.tensor([0.1, 0.9]).double()
    expected, probability, factor, index = _compare(draws, weights, mean, deviation)
    torch.testing.assert_close(expected, torch.tensor(1 - 0.1 / 4).double())
    assert probability.item() == pytest.approx(0.9) and index == 3
    assert factor == draws[0].quantile(0.9) / 1.96  # the 90 % quantile of the four points
    weights = torch.tensor([0.01, 0.99]).double()
    assert _compare(draws, weights, mean, deviation)[2] == 0.5


def test_readings_in_a_corner_say_nothing_of_the_rest() -> None:
    model = model_of(design(20, largest=0.4), lengthscale=0.2).train()
    fit_exact_gp(model)
    alone, found = leave_one_out(model), leave_one_out(model, UNIT)
    torch.testing.assert_close(found.mean, alone.mean)
    assert alone.box is None and found.box is not None
    assert found.box.least_sure.max() > 0.4  # outside of the corner
    inside = leave_one_out(model, 0.4 * UNIT).box
    assert inside is not None and inside.factor < found.box.factor
    assert found.box.expected < 0.8 and inside.expected > found.box.expected
    said = verdict(found)
    assert said.kind == "not looked" and "read more, first near (" in said.sentence
    assert verdict(alone).trusted


def test_wide_intervals_hold() -> None:
    found = leave_one_out(model_of(design(40), lengthscale=0.05), UNIT)
    assert found.box is not None and found.box.probability > 0.95 and found.box.factor < 1
    said = verdict(found)
    assert said.trusted and "with a probability of" in said.sentence


def test_a_distrusted_model_stays_so() -> None:
    said = verdict(leave_one_out(model_of(design(40), lengthscale=5.0), UNIT))
    assert said.kind == "distrusted" and "too narrow" in said.sentence


def test_a_batch_has_what_each_replicate_has() -> None:
    X = torch.stack([design(12, seed=seed) for seed in range(3)])
    together = leave_one_out(model_of(X, 0.5), UNIT).box
    assert together is not None and together.least_sure.shape == (3, 2)
    for replicate, rows in enumerate(X):
        alone = leave_one_out(model_of(rows, 0.5), UNIT).box
        assert alone is not None
        for name in ("expected", "probability", "factor", "least_sure"):
            one = getattr(together, name)[replicate]
            torch.testing.assert_close(one, getattr(alone, name), rtol=1e-6, atol=1e-6)


def test_repeats_of_which_some_are_missing() -> None:
    X = design(15)
    Y = (9 * X[:, :1]).sin() + 0.2 * torch.randn(15, 3, dtype=torch.double)
    Y[4, 1:] = torch.nan
    model = MeanVarianceGP(X, Y)
    fit_exact_gp(model)
    found = leave_one_out(model, UNIT)
    assert found.box is not None and 0 < found.box.expected <= 1
    assert "In the box, 95 % bands hold 90 %" in verdict(found).sentence


def test_samples_of_the_hyperparameters_predict_by_their_mixture() -> None:
    X = design(14)
    model = SampledGP(X, (9 * X[:, :1]).sin(), num_samples=4)
    sample_exact_gp(model.members, seeds=0)
    found = leave_one_out(model, UNIT)
    assert found.residuals.shape == (14,) and found.box is not None
    means, variances = [], []
    for member in range(4):  # each row is left out of a model by hand
        kernel, noise = model.covar_module, model.likelihood.noise[member]
        K = kernel(model.transform_inputs(model.train_inputs[0]))[member].to_dense().detach()
        targets = model.train_targets[member] - model.mean_module.constant[member]
        rest = torch.arange(1, 14)
        inner = K[rest][:, rest] + noise * torch.eye(13)
        solved = torch.linalg.solve(inner, K[rest, 0])
        means.append(solved @ targets[rest] + model.mean_module.constant[member])
        variances.append(K[0, 0] - solved @ K[rest, 0] + noise)
    mean, variance = torch.stack(means).detach(), torch.stack(variances).detach()
    total = variance.mean() + mean.var(correction=0)
    scale = model.outcome_transform.stdvs.flatten()[0]
    shift = model.outcome_transform.means.flatten()[0]
    torch.testing.assert_close(found.mean[0], mean.mean() * scale + shift)
    torch.testing.assert_close(found.standard_deviation[0], total.sqrt() * scale)
    wide = leave_one_out(model_of(X, lengthscale=1.5), UNIT).box
    assert wide is not None and wide.probability < found.box.probability


def test_bounds_of_other_inputs_are_refused() -> None:
    with pytest.raises(BotorchTensorDimensionError, match="`bounds` to have shape `2 x 2`"):
        leave_one_out(model_of(design(9), 0.5), UNIT[:, :1])
