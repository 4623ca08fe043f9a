r"""The knowledge gradient of a risk."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms import Normalize
from gpytorch.kernels import MaternKernel, RBFKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from torch import Tensor

from botorch_risk.acquisition import (
    LogRiskKnowledgeGradient,
    RiskUpperConfidenceBound,
    compared_risks,
)
from botorch_risk.acquisition.expected_gain import log_expected_gain
from botorch_risk.acquisition.knowledge_gradient import decisions_to_compare
from botorch_risk.chunks import ChunkSize
from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.gradients import condition
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, MeanVariance
from tests.waves import model_of, waves

W = torch.tensor([[0.1], [0.3], [0.5], [0.9]], dtype=torch.double)
KNOWN = DiscreteEnvironment(W, torch.tensor([0.1, 0.5, 0.4, 0.0], dtype=torch.double))
FEW = torch.linspace(0, 1, 6, dtype=torch.double)[:, None]


def gain_by_quadrature(model: SingleTaskGP, reading: Tensor, compared: Tensor) -> float:
    r"""What conditioning on each outcome of a reading makes of the largest mean, 4,001 outcomes."""
    inputs, weights = KNOWN.expand(compared)
    with torch.no_grad():
        now = model.posterior(inputs.flatten(0, 1)).mean.reshape(len(compared), -1) @ weights[0]
        read = model.posterior(reading[None], observation_noise=True)
        outcomes = []
        for step in (0.0, 1.0):
            y = read.mean + step * read.variance.sqrt()
            told: Any = condition(model, reading[None], y)
            mean = told.posterior(inputs.flatten(0, 1)).mean.reshape(len(compared), -1)
            outcomes.append(mean @ weights[0])
    z = torch.linspace(-9, 9, 400_001, dtype=torch.double)
    best = (outcomes[0] + z[:, None] * (outcomes[1] - outcomes[0])).amax(dim=-1)
    density = (-z.square() / 2).exp() / math.sqrt(2 * math.pi)
    return float(torch.trapezoid((best - now.max()) * density, z))


@pytest.mark.parametrize("kernel", [RBFKernel, MaternKernel])
def test_it_is_what_readings_are_expected_to_gain(kernel: Any) -> None:
    X = torch.rand(10, 2, dtype=torch.double)
    model = SingleTaskGP(X, waves(X).unsqueeze(-1), covar_module=kernel(ard_num_dims=2))
    acqf = LogRiskKnowledgeGradient(model, KNOWN, Expectation(), FEW, w_is_chosen=True)
    readings = torch.rand(5, 2, dtype=torch.double)
    found = acqf.log_gain(readings).exp()
    expected = [gain_by_quadrature(model, reading, FEW) for reading in readings]
    np.testing.assert_allclose(found.detach(), expected, atol=1e-6, rtol=1e-5)


def test_a_further_reading_of_known_noise_has_their_average() -> None:
    X = torch.rand(10, 2, dtype=torch.double)
    noise = torch.linspace(0.01, 0.5, 10, dtype=torch.double).unsqueeze(-1)
    model = SingleTaskGP(X, waves(X).unsqueeze(-1), train_Yvar=noise)
    acqf = LogRiskKnowledgeGradient(model, KNOWN, Expectation(), FEW, w_is_chosen=True)
    reading = torch.tensor([[0.4, 0.6]], dtype=torch.double)
    with torch.no_grad():
        joint = model.posterior(torch.cat([KNOWN.expand(FEW)[0].flatten(0, 1), reading]))
        covariance = joint.distribution.covariance_matrix[:, -1]
    risks, moved = (
        each[:-1].reshape(6, 4) @ KNOWN.weights for each in (joint.mean.squeeze(-1), covariance)
    )
    expected = log_expected_gain(risks, moved / (covariance[-1] + noise.mean()).sqrt())
    torch.testing.assert_close(acqf.log_gain(reading), expected.unsqueeze(-1))


@pytest.mark.parametrize("kernel", [RBFKernel, MaternKernel])
@pytest.mark.parametrize("measure", [Expectation(), ConditionalValueAtRisk(0.3), MeanVariance(1.0)])
def test_the_best_value_is_the_best_and_the_average_the_average(measure: Any, kernel: Any) -> None:
    X = torch.rand(3, 10, 2, dtype=torch.double)
    shape = torch.Size([3])
    model = SingleTaskGP(
        X, waves(X).unsqueeze(-1), covar_module=kernel(ard_num_dims=2, batch_shape=shape)
    )
    compared = torch.rand(3, 4, 1, dtype=torch.double)
    chosen = LogRiskKnowledgeGradient(model, KNOWN, measure, compared, w_is_chosen=True)
    observed = LogRiskKnowledgeGradient(model, KNOWN, measure, compared)
    x = torch.rand(3, 5, 1, dtype=torch.double)
    inputs, weights = KNOWN.expand(x)
    with torch.no_grad():
        gains = chosen.log_gain(inputs.flatten(1, 2)).reshape(3, 5, 4)
        average = (gains.exp() * weights).sum(dim=-1)
        torch.testing.assert_close(observed.evaluate(x).exp(), average)
        torch.testing.assert_close(chosen.log_gain(chosen.best_value(x)), chosen.evaluate(x))
        share = (chosen.evaluate(x) - gains[..., :3].amax(dim=-1)).exp()
    assert ((share <= 1 + 1e-6) & (share > 0.9)).all()  # w by the best line, the gain by all


@pytest.mark.parametrize("kernel", [RBFKernel, MaternKernel])
def test_its_gradient_in_blocks_is_that_of_log_gain_at_the_best_value(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = torch.rand(10, 2, dtype=torch.double)
    model = SingleTaskGP(X, waves(X).unsqueeze(-1), covar_module=kernel(ard_num_dims=2))
    acqf = LogRiskKnowledgeGradient(model, KNOWN, Expectation(), FEW, w_is_chosen=True)
    x = torch.rand(5, 1, 1, dtype=torch.double).requires_grad_()
    w = acqf.best_value(x.detach())[..., 1:]
    value = acqf.log_gain(torch.cat([x, w], dim=-1)).squeeze(-1)
    expected = torch.autograd.grad(value.sum(), x)[0]
    for size in (2**18, 1):
        monkeypatch.setattr(compared_risks, "_CHUNK_VALUES", ChunkSize(cpu=size, gpu=size))
        found = acqf(x)
        torch.testing.assert_close(found, value, rtol=0, atol=1e-10)
        gradient = torch.autograd.grad(found.sum(), x)[0]
        torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("shape", [torch.Size(), torch.Size([2])], ids=["one", "two"])
def test_numpy_has_the_scores_and_gradients_of_tensors(
    shape: torch.Size, pending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = 3 * torch.rand(*shape, 12, 3, dtype=torch.double)
    Y = 5 + 2 * waves(X).unsqueeze(-1)
    transform = Normalize(3, batch_shape=shape)
    model = SingleTaskGP(X, Y, input_transform=transform).eval()
    compared = 3 * torch.rand(*shape, 5, 2, dtype=torch.double)
    compared[..., 4, :] = compared[..., 3, :]  # two lines are the same
    read = torch.rand(*shape, 1, 3, dtype=torch.double) if pending else None
    measure = ConditionalValueAtRisk(0.4)
    acqf = LogRiskKnowledgeGradient(
        model, KNOWN, measure, compared, w_is_chosen=True, X_pending=read
    )
    x = 3 * torch.rand(7, *shape, 1, 2, dtype=torch.double)
    x[0] = X[..., :1, :2]
    x = x.requires_grad_()
    found = []
    for _ in range(2):
        value = acqf(x)
        with torch.no_grad():
            torch.testing.assert_close(acqf(x), value)
        found.append((value.detach(), *torch.autograd.grad(value.square().sum(), x)))
        monkeypatch.setattr(compared_risks.ComparedRisks, "reduced_over_w", lambda *_: None)
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=1e-10)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-8, atol=1e-8)


def test_a_pending_reading_is_worth_less_again() -> None:
    model = model_of()
    acqf = LogRiskKnowledgeGradient(model, KNOWN, Expectation(), FEW, w_is_chosen=True)
    x = torch.tensor([[0.37]], dtype=torch.double)
    reading = acqf.best_value(x)
    before = float(acqf.log_gain(reading))
    acqf.set_X_pending(reading)
    assert float(acqf.log_gain(reading)) < before
    acqf.set_X_pending(x)  # without its w, at the average one
    assert acqf.evaluate(x).isfinite().all()


def test_decisions_that_are_carried_out_inexactly() -> None:
    model = model_of()
    errors = InputPerturbation(torch.tensor([[-0.1, 0.0], [0.0, 0.1]], dtype=torch.double))
    compared = torch.rand(5, 2, dtype=torch.double)
    acqf = LogRiskKnowledgeGradient(model, errors, Expectation(), compared, w_is_chosen=True)
    x = torch.rand(4, 2, dtype=torch.double)
    inputs, _ = errors.expand(x)
    found = acqf.best_value(x)
    assert (found.unsqueeze(-2) == inputs).all(dim=-1).any(dim=-1).all()


def test_likely_decisions_are_compared() -> None:
    model = model_of(2)
    bound = RiskUpperConfidenceBound(model, KNOWN, Expectation(), beta=4.0)
    X = torch.rand(2, 50, 1, dtype=torch.double)
    found = decisions_to_compare(bound, X, 10)
    assert found.shape == (2, 10, 1)
    with torch.no_grad():
        for score in (bound.upper, bound.mean):
            best = X.gather(-2, score(X).argmax(dim=-1)[:, None, None])
            assert (found == best).any(dim=-2).all()


def test_different_decisions_are_compared_however_often_one_is_given() -> None:
    r"""Of one that comes again and again nothing could be gained: its gain is 0, the log -inf."""
    bound = RiskUpperConfidenceBound(model_of(2), KNOWN, Expectation(), beta=4.0)
    X = torch.tensor([0.3, 0.1, 0.5, 0.9], dtype=torch.double).repeat(2, 10).unsqueeze(-1)
    best = X[:, :4].gather(-2, bound.mean(X[:, :4]).argmax(dim=-1)[:, None, None])
    X = torch.cat([best.expand(2, 20, 1), X], dim=-2)
    for num_compared in (2, 4, 12):
        found = decisions_to_compare(bound, X, num_compared)
        halves = found.unflatten(-2, (2, -1)).flatten(0, 1)
        assert all(len(half.unique()) == min(num_compared // 2, 4) for half in halves)
        assert all(len(each.unique()) >= 2 for each in found)
        gain = LogRiskKnowledgeGradient(bound.model, KNOWN, Expectation(), found)
        assert gain.evaluate(X).isfinite().all()


def test_replicates_may_share_the_decisions_of_which_some_are_compared() -> None:
    bound = RiskUpperConfidenceBound(model_of(2), KNOWN, Expectation(), beta=4.0)
    X = torch.rand(50, 1, dtype=torch.double)
    expected = decisions_to_compare(bound, X.expand(2, -1, -1), 10)
    for form in (X, X.numpy(), X.tolist()):
        assert torch.equal(decisions_to_compare(bound, form, 10), expected)


@pytest.mark.parametrize("form", [Tensor.float, Tensor.numpy, Tensor.tolist], ids=["f", "n", "l"])
def test_decisions_and_readings_may_have_another_form(form: Any) -> None:
    model = model_of()
    compared = torch.tensor([[0.0], [0.25], [0.5]], dtype=torch.double)
    readings = torch.tensor([[0.25, 0.5], [0.75, 0.125]], dtype=torch.double)
    expected = LogRiskKnowledgeGradient(model, KNOWN, Expectation(), compared, w_is_chosen=True)
    found = LogRiskKnowledgeGradient(model, KNOWN, Expectation(), form(compared), w_is_chosen=True)
    for name, X in (("log_gain", readings), ("evaluate", compared), ("best_value", compared)):
        wanted = getattr(expected, name)(X)
        assert torch.equal(getattr(found, name)(form(X)), wanted)
    found.check_points(form(compared))


class OwnNoise(FixedNoiseGaussianLikelihood):
    r"""Nobody knows what noise it gives a further reading."""


def test_wrong_arguments_are_named() -> None:
    model = model_of()
    with pytest.raises(BotorchTensorDimensionError, match=r"at least 2 decisions"):
        LogRiskKnowledgeGradient(model, KNOWN, Expectation(), FEW[:1])
    with pytest.raises(ValueError, match="even number"):
        LogRiskKnowledgeGradient(model, KNOWN, Expectation(), FEW, num_samples=5)
    with pytest.raises(UnsupportedError, match="`SingleTaskGP` with one output"):
        LogRiskKnowledgeGradient(ModelListGP(model, model), KNOWN, Expectation(), FEW)
    with pytest.raises(UnsupportedError, match=r"at most one batch dimension\. Got SingleTaskGP"):
        LogRiskKnowledgeGradient(model_of(2, 2), KNOWN, Expectation(), FEW)
    Y = waves(model.train_inputs[0]).unsqueeze(-1)
    noise = OwnNoise(0.1 + Y.flatten().square())
    own = SingleTaskGP(model.train_inputs[0], Y, likelihood=noise)
    with pytest.raises(UnsupportedError, match=r"or with fixed noise\. Got OwnNoise"):
        LogRiskKnowledgeGradient(own, KNOWN, Expectation(), FEW)
    with pytest.raises(BotorchTensorDimensionError, match=r"the 2 inputs of the model. Got 3"):
        LogRiskKnowledgeGradient(model, KNOWN, Expectation(), torch.rand(3, 2).double())
    with pytest.raises(BotorchTensorDimensionError, match=r"batch shape of the model, \(\), or"):
        LogRiskKnowledgeGradient(model, KNOWN, Expectation(), FEW.expand(3, 6, 1))
    missing = FEW.clone()
    missing[2] = torch.nan
    with pytest.raises(InputDataError, match=r"finite `X_compared`. Got \[nan\] at \(2,\)"):
        LogRiskKnowledgeGradient(model, KNOWN, Expectation(), missing)
    with pytest.raises(InputDataError, match=r"finite `X_pending`. Got \[nan\] at \(0,\)"):
        LogRiskKnowledgeGradient(model, KNOWN, Expectation(), FEW, X_pending=missing[2:])
    with pytest.raises(TypeError, match=r"`model` to be a model of BoTorch. Got None"):
        LogRiskKnowledgeGradient(None, KNOWN, Expectation(), FEW)  # type: ignore[arg-type]
    acqf = LogRiskKnowledgeGradient(model, KNOWN, Expectation(), FEW)
    with pytest.raises(BotorchTensorDimensionError, match="m x 1"):
        acqf(torch.rand(3, 1, 2).double())
    with pytest.raises(BotorchTensorDimensionError, match=r"m x 1`. Got \(6, 2\)"):
        acqf.best_value(FEW.expand(6, 2))
    for readings in (FEW, FEW.expand(6, 3)):  # one column would be both x and w
        with pytest.raises(BotorchTensorDimensionError, match="`readings` to have the 2 columns"):
            acqf.log_gain(readings)
