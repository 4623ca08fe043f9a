r"""Samples of risks."""

import importlib

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError

from botorch_risk.acquisition import (
    JointRiskUpperConfidenceBound,
    RiskUpperConfidenceBound,
    risk_samples,
)
from botorch_risk.chunks import ChunkSize
from botorch_risk.environments import DiscreteEnvironment, InputPerturbation
from botorch_risk.level_sets import RiskStraddle
from botorch_risk.risk import Expectation, RiskMeasure, ShareAbove, TotalVariationBall, WorstCase
from tests.level_sets.test_expected_classification import W, model, process

X = torch.linspace(0, 1, 6, dtype=torch.double).unsqueeze(-1)


def test_moments_of_an_expectation_are_those_of_the_joint_posterior() -> None:
    known = model()
    inputs, weights = W.expand(X)
    posterior = known.posterior(inputs).distribution
    mean = posterior.mean @ weights[0]
    variance = torch.einsum("mij,i,j->m", posterior.covariance_matrix, weights[0], weights[0])
    samples = risk_samples(known, W, Expectation(), X, 4096)
    assert samples.shape == (6, 4096)
    torch.testing.assert_close(samples.mean(dim=-1), mean, rtol=0, atol=2e-3)
    torch.testing.assert_close(samples.var(dim=-1), variance, rtol=0.02, atol=0)


def test_a_share_is_a_share_in_each_sample() -> None:
    samples = risk_samples(model(), W, ShareAbove(1.0), X)
    sums = torch.tensor([0.0, 0.2, 0.3, 0.5, 0.7, 0.8, 1.0]).double()
    assert ((samples.unsqueeze(-1) - sums).abs().amin(dim=-1) < 1e-6).all()
    assert len(samples.unique()) > 3


@pytest.mark.parametrize(
    "measure", [WorstCase(), ShareAbove(1.0, TotalVariationBall(0.3))], ids=repr
)
def test_replicates_and_chunks_change_nothing(
    measure: RiskMeasure, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = model((2,))
    whole = risk_samples(known, W, measure, X.expand(2, 6, 1), 64)
    assert whole.shape == (2, 6, 64)
    module = importlib.import_module("botorch_risk.acquisition.risk_samples")
    monkeypatch.setattr(module, "_CHUNK_ENTRIES", ChunkSize(500))
    torch.testing.assert_close(risk_samples(known, W, measure, X.expand(2, 6, 1), 64), whole)
    for row in range(2):
        alone = process(known.train_inputs[0][row], known.train_targets[row].unsqueeze(-1))
        torch.testing.assert_close(risk_samples(alone, W, measure, X, 64), whole[row])


def test_a_perturbed_decision() -> None:
    shifts = InputPerturbation(0.1 * torch.tensor([[-1.0, 0.0], [0.0, 0.5]]).double())
    decisions = torch.rand(5, 2, dtype=torch.double)
    assert risk_samples(model(), shifts, WorstCase(), decisions, 32).shape == (5, 32)


def test_the_straddle_is_the_nearer_end_of_the_interval() -> None:
    known = model()
    for joint in (True, False):
        bound = JointRiskUpperConfidenceBound if joint else RiskUpperConfidenceBound
        of_risk = bound(known, W, Expectation(), beta=2.0)
        score = RiskStraddle(known, W, Expectation(), 1.1, beta=2.0, joint=joint)
        ends = torch.stack([of_risk.upper(X) - 1.1, 1.1 - of_risk.lower(X)])
        torch.testing.assert_close(score.evaluate(X), ends.amin(dim=0))
    with pytest.raises(ValueError, match="threshold"):
        RiskStraddle(known, W, Expectation(), torch.inf)
    for no_number in (None, "high"):
        with pytest.raises(TypeError, match="Expected `threshold` to be a tensor, or an array"):
            RiskStraddle(known, W, Expectation(), no_number)  # type: ignore[arg-type]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="num_samples"):
        risk_samples(model(), W, Expectation(), X, 0)
    other = DiscreteEnvironment(torch.rand(3, 2).double())
    with pytest.raises(BotorchTensorDimensionError, match="Got 3"):
        risk_samples(model(), other, Expectation(), X)
    with pytest.raises(BotorchTensorDimensionError, match="`batch_shape x n x d_x`"):
        risk_samples(model(), W, Expectation(), X[0])
    with pytest.raises(InputDataError, match="Expected finite `X`"):
        risk_samples(model(), W, Expectation(), X * torch.nan)
    with pytest.raises(BotorchTensorDimensionError, match="`threshold` to be a number"):
        RiskStraddle(model(), W, Expectation(), threshold=torch.tensor([0.5, 1.0]))


def test_points_are_in_the_dtype_of_the_model() -> None:
    found = risk_samples(model(), W, Expectation(), X.float())
    torch.testing.assert_close(found, risk_samples(model(), W, Expectation(), X.float().double()))
