r"""Explanations that an ascent misses."""

import math

import numpy as np
import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.test_functions import Levy
from torch import Tensor

from botorch_risk.engine import FitResult, MarginalLikelihoodObjective, Starts, fit_exact_gp
from botorch_risk.engine.fit import input_or_noise
from botorch_risk.engine.fit.input_or_noise import Ends
from botorch_risk.engine.fit.parameters import ExactGPParts
from botorch_risk.engine.projected_bfgs.minima import Minima, RowStatus
from tests.engine.fit.examples import data, objective, scaled_matern

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")


def levy(seed: int) -> tuple[Tensor, Tensor]:
    r"""300 noisy values of a function that waves along every input."""
    function, draws = Levy(dim=4), torch.Generator().manual_seed(seed)
    X = torch.rand(300, 4, generator=draws, dtype=torch.double)
    Y = function(function.bounds[0] + (function.bounds[1] - function.bounds[0]) * X)
    Y = Y + 0.2 * Y.std() * torch.randn(300, generator=draws, dtype=torch.double)
    return X, ((Y - Y.mean()) / Y.std()).unsqueeze(-1)


def without_trials(X: Tensor, Y: Tensor) -> FitResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(input_or_noise, "FEWEST", math.inf)
        return fit_exact_gp(scaled_matern(X, Y))


def test_waves_along_one_input_are_not_taken_for_noise() -> None:
    for seed in (0, 1):
        model = scaled_matern(*levy(seed))
        found = fit_exact_gp(model)
        missed = without_trials(*levy(seed))
        assert found.objective > missed.objective + 0.02
        assert found.objective == pytest.approx(objective(model).item(), abs=1e-9)
        assert found.num_evaluations > missed.num_evaluations + 4


def test_a_trend_along_one_input_that_is_weaker_than_the_noise_is_found() -> None:
    for seed in (3, 6):
        draws = torch.Generator().manual_seed(seed)
        X = torch.rand(300, 2, generator=draws, dtype=torch.double)
        wave = 0.4 * (14 * X[:, 0]).sin()
        Y = 2 * X.sum(-1) + wave + 0.6 * torch.randn(300, generator=draws, dtype=torch.double)
        model = SingleTaskGP(X, ((Y - Y.mean()) / Y.std()).unsqueeze(-1))
        model.covar_module.lengthscale, model.likelihood.noise = 3.0, 0.5
        fit_exact_gp(model, rough_start=False)
        lengthscale = model.covar_module.lengthscale.squeeze()
        assert lengthscale[0] < 0.25
        assert lengthscale[1] > 0.6


@pytest.mark.slow
def test_a_replicate_is_revised_as_it_is_alone() -> None:
    smooth = data(n=300, d=4)
    X, Y = (torch.stack(pair) for pair in zip(levy(0), smooth, strict=True))
    together = fit_exact_gp(scaled_matern(X, Y))
    for row in range(2):
        alone = fit_exact_gp(scaled_matern(X[row], Y[row]))
        torch.testing.assert_close(alone.objective, together.objective[row], rtol=0, atol=1e-8)
        assert alone.num_evaluations == together.num_evaluations[row]


def test_only_starts_below_every_minimum_of_their_replicate_are_followed() -> None:
    loss = MarginalLikelihoodObjective(ExactGPParts.read(scaled_matern(*data(3)).train()))
    p = loss.num_parameters
    theta = np.zeros((3, p))
    values, _ = loss(theta, np.arange(3))
    # Minima of replicates 0, 1, 2, 0: the second one of replicate 0 is the lower one.
    known = np.array([values[0] + 2.0, values[1] - 1.0, np.nan, values[0] + 1.0])
    status = np.full(4, RowStatus.CONVERGED)
    minima = Minima(np.zeros((4, p)), known, status, np.ones(4), np.zeros((4, p, p)))
    followed: list[Starts] = []

    def minimize(starts: Starts) -> Minima:
        followed.append(starts)
        one = minima.of(np.arange(len(starts.rows)))
        one.value[:] = -9.0
        return one

    ends = Ends(loss, minima, np.array([0, 1, 2, 3]), minimize)
    assert ends.best.tolist()[:2] == [3, 1]
    bad = np.full(p, 40.0)  # no finite value
    starts = np.stack([np.stack([bad, theta[r]]) for r in range(3)])
    assert ends.extended(starts, np.arange(3)).tolist() == [0, 2]
    assert minima.num_evaluations.tolist() == [1, 3, 3, 3]  # two trials of each replicate
    assert followed[0].rows.tolist() == [6, 8]
    assert (followed[0].theta == 0.0).all()
    assert ends.best.tolist() == [4, 1, 5]
    assert ends.extended(starts[1:2], np.array([1])).size == 0
