r"""Equations of RAHBO against loops over points, readings and pairs of repeats."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from botorch_risk.acquisition import RiskAverseLowerConfidenceBound, RiskAverseUpperConfidenceBound
from botorch_risk.models import MeanVarianceGP, RepeatedOutcomes
from botorch_risk.papers import heteroscedastic_beta, information_gain, information_of_readings
from botorch_risk.recommend import recommend
from tests.models import oracles
from tests.models.examples import matern, repeats, set_process

MEAN = oracles.Process(np.array([0.3, 0.5]), 1.4, -0.2)
NOISE = oracles.Process(np.array([0.4, 0.7]), 0.8, 0.1)
AVERSION, BETA, NOISE_BETA = 0.7, 4.0, 2.25


def model_of(X: torch.Tensor, Y: torch.Tensor, link: Any, **options: Any) -> MeanVarianceGP:
    r"""A model in the units of its data, with given hyperparameters."""
    model = MeanVarianceGP(
        X,
        Y,
        variance_link=link,
        sample_variance_noise=None if link == "log" else "pointwise",
        min_noise_variance=1e-3,
        max_noise_variance=0.5,
        covar_module=matern(),
        noise_covar_module=matern(),
        noise_evidence="spread",
        noise_beta=NOISE_BETA,
        outcome_transform=None,
        **options,
    )
    set_process(model.mean_model, MEAN.lengthscale, MEAN.outputscale, MEAN.constant)
    if "known_noise" not in options:
        set_process(model.noise_model, NOISE.lengthscale, NOISE.outputscale, NOISE.constant)
        model.refresh_noise()
    return model


def bounds_by_hand(
    X: np.ndarray, Y: np.ndarray, points: np.ndarray, link: str
) -> tuple[np.ndarray, np.ndarray]:
    r"""Eqs. (37) and (38), from the raw repeats."""

    def noise_at(at: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
        moments = oracles.noise_process(X, Y, at, NOISE, link, "pointwise", 0.5)
        return oracles.noise_bounds(moments, beta, link)

    cautious = noise_at(X, NOISE_BETA)[1].clip(1e-3, 0.5)  # Eq. (16)
    mean, variance = oracles.mean_process(X, Y, cautious, points, MEAN, False)
    least, most = noise_at(points, NOISE_BETA)
    width = math.sqrt(BETA) * np.sqrt(variance)
    return mean - width - AVERSION * most, mean + width - AVERSION * least


@pytest.mark.parametrize("link", ["log", "identity"])
def test_bounds_of_mean_minus_variance(link: str) -> None:
    r"""Eqs. (37) and (38), and under known noise Eqs. (18) and (19)."""
    X, Y = repeats()
    points = np.random.default_rng(0).random((6, 2))
    at = torch.as_tensor(points)
    options: dict[str, Any] = {"beta": BETA, "risk_aversion": AVERSION, "noise_beta": NOISE_BETA}
    kinds = RiskAverseLowerConfidenceBound, RiskAverseUpperConfidenceBound

    model = model_of(X, Y, link)
    for expected, kind in zip(
        bounds_by_hand(X.numpy(), Y.numpy(), points, link), kinds, strict=True
    ):
        np.testing.assert_allclose(
            kind(model, **options).evaluate(at).detach(), expected, rtol=1e-7
        )

    def rho(X: Any) -> Any:
        return 0.2 + 0.3 * X[..., :1]

    model = model_of(X, Y, "log", known_noise=lambda X: rho(X) ** 2)
    known = rho(X.numpy())[:, 0] ** 2
    mean, variance = oracles.mean_process(X.numpy(), Y.numpy(), known, points, MEAN, False)
    for sign, kind in zip((-1, 1), kinds, strict=True):
        expected = mean + sign * math.sqrt(BETA) * np.sqrt(variance)
        expected -= AVERSION * rho(points)[:, 0] ** 2
        np.testing.assert_allclose(
            kind(model, **options).evaluate(at).detach(), expected, rtol=1e-7
        )


def information_by_readings(X: np.ndarray, noise: np.ndarray, process: oracles.Process) -> float:
    r"""Eq. (11): one reading after the other, with the deviation that the earlier ones left."""
    total = 0.0
    for t, x in enumerate(X):
        variance = process.outputscale
        if t:
            past = oracles.gaussian_process(X[:t], np.zeros(t), noise[:t], x[None], process)
            variance = past[1][0]
        total += 0.5 * math.log(1 + variance / noise[t])
    return total


def test_information_of_all_readings_is_a_sum_over_readings() -> None:
    r"""Eqs. (21) and (24); of the sample means Eq. (41), of the sample variances Eq. (43)."""
    X, Y = repeats()
    model = model_of(X, Y, "identity")
    for part, process in ((model.mean_model, MEAN), (model.noise_model, NOISE)):
        noise = part.likelihood.noise.detach().numpy()
        expected = information_by_readings(X.numpy(), noise, process)
        assert information_of_readings(part).item() == pytest.approx(expected, rel=1e-8)
        covariance = torch.from_numpy(oracles.matern(X.numpy(), X.numpy(), process))
        greedy = information_gain(covariance, torch.from_numpy(noise), len(X))
        # Each greedy reading has the largest ratio of variance and noise that is left.
        rows: list[int] = []
        for t in range(len(X)):
            gains = [
                information_by_readings(X[[*rows, row]].numpy(), noise[[*rows, row]], process)
                for row in range(len(X))
            ]
            rows.append(int(np.argmax(gains)))
            assert greedy[t + 1].item() == pytest.approx(max(gains), rel=1e-8)


def test_the_width_by_the_largest_gain_is_the_wider_one() -> None:
    r"""Eq. (25), with the factor of 2 that it lost: beta_T is at most what gamma_T gives."""
    X, Y = repeats()
    model = model_of(X, Y, "log").mean_model
    noise = model.likelihood.noise.detach()
    covariance = torch.from_numpy(oracles.matern(X.numpy(), X.numpy(), MEAN))
    most = information_gain(covariance, noise, len(X))[-1] / (1 - 1 / math.e)
    own = information_by_readings(X.numpy(), noise.numpy(), MEAN)
    width = math.sqrt(2 * math.log(1 / 0.05) + 2 * most.item()) + 1.5
    assert heteroscedastic_beta(most, 1.5, delta=0.05).item() == pytest.approx(width**2)
    assert heteroscedastic_beta(own, 1.5, delta=0.05).item() <= width**2


def test_the_sample_variance_is_half_the_mean_square_of_differences() -> None:
    r"""Eqs. (29) to (31): over all ordered pairs of k repeats, whatever their mean."""
    Y = np.random.default_rng(0).normal(3.0, 2.0, (5, 6))
    Y[3, 2:] = np.nan
    variances = RepeatedOutcomes.from_repeats(torch.from_numpy(Y)).variances.squeeze(-1)
    for row, variance in zip(Y, variances.tolist(), strict=True):
        y = [value for value in row if not math.isnan(value)]
        k = len(y)
        pairs = sum((a - b) ** 2 for a in y for b in y) / (2 * k * (k - 1))  # Eq. (29)
        centred = [value - sum(y) / k for value in y]
        apart = sum(a * a + b * b - 2 * a * b for a in centred for b in centred)  # Eq. (30)
        assert variance == pytest.approx(pairs)
        assert variance == pytest.approx(apart / (2 * k * (k - 1)))
        assert variance == pytest.approx(sum(a * a for a in centred) / (k - 1))  # Eq. (31)


def test_the_report_has_the_largest_lower_bound_of_its_round() -> None:
    r"""Corollary 1.1: argmax_t lcb_t(x_t), each bound by the readings before round t."""
    X, Y = repeats(n=12)
    recorded = [
        bounds_by_hand(X[:t].numpy(), Y[:t].numpy(), X[t : t + 1].numpy(), "log")[0][0]
        for t in range(4, 12)
    ]
    queried = X[4:]
    own = [
        RiskAverseLowerConfidenceBound(
            model_of(X[:t], Y[:t], "log"), beta=BETA, noise_beta=NOISE_BETA, risk_aversion=AVERSION
        )
        .evaluate(X[t : t + 1])
        .item()
        for t in range(4, 12)
    ]
    np.testing.assert_allclose(own, recorded, rtol=1e-7)
    final = RiskAverseLowerConfidenceBound(
        model_of(X, Y, "log"), beta=BETA, noise_beta=NOISE_BETA, risk_aversion=AVERSION
    )
    bounds = torch.tensor(own, dtype=torch.double)
    found = recommend(final, queried, "recorded_lower_confidence_bound", recorded=bounds)
    best = max(range(len(recorded)), key=recorded.__getitem__)
    assert torch.equal(found.point, queried[best])
    assert found.value.item() == pytest.approx(recorded[best])
    assert abs(final.evaluate(queried)[best].item() - recorded[best]) > 0.01  # another bound
