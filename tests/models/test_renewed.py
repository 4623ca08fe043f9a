r"""Models into which the data of another round are written."""

from typing import Any

import pytest
import torch
from botorch.models.transforms import Normalize
from torch import Tensor

from botorch_risk.engine import fit_exact_gp
from botorch_risk.models import MeanVarianceGP, one_hot_inputs
from botorch_risk.models.repeats import RepeatedOutcomes
from botorch_risk.models.standardized_gp import renewed_standardized_gp, standardized_gp
from botorch_risk.papers import rahbo
from tests.devices import home

pytestmark = pytest.mark.every_device
R = 2


def rows(n: int, d: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(R, n, d, generator=generator, dtype=torch.double)
    noise = torch.randn(R, n, 4, generator=generator, dtype=torch.double)
    return X.to(home()), ((5 * X).sin().sum(-1, keepdim=True) + 0.3 * noise).to(home())


def repeats(Y: Tensor) -> RepeatedOutcomes:
    return RepeatedOutcomes.from_repeats(Y, allow_missing=True)


@pytest.mark.parametrize("is_ragged", [False, True])
@pytest.mark.parametrize("evidence", ["spread", "readings"])
def test_a_renewed_model_is_a_new_one(evidence: Any, is_ragged: bool) -> None:
    X, Y = rows(9)
    model = MeanVarianceGP(X, repeats(Y), noise_evidence=evidence)
    model.fit_processes()
    X, Y = rows(12, seed=1)
    if is_ragged:
        Y[0, 3, 1:] = torch.nan
        Y[1, 5] = torch.nan
    processes = model.mean_model, model.noise_model
    assert model.renew(X, repeats(Y))
    assert (model.mean_model, model.noise_model) == processes
    built = MeanVarianceGP(X, repeats(Y), noise_evidence=evidence)
    points, _ = rows(7, seed=2)
    for each in (model, built):
        each.fit_processes()
    for one, other in zip(predicted(model, points), predicted(built, points), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def predicted(model: Any, points: Tensor) -> list[Tensor]:
    with torch.no_grad():
        posterior = model.eval().posterior(points)
        return [posterior.mean, posterior.variance, model.predicted_noise(points)]


def test_other_columns_and_modules_of_ones_own_need_a_new_model() -> None:
    X, Y = rows(9)
    model = MeanVarianceGP(X, repeats(Y))
    assert not model.renew(*map_repeats(rows(9, d=3)))
    assert not model.renew(X[0], repeats(Y[0]))
    assert torch.equal(model.train_X, X) and torch.equal(model.mean_model.train_inputs[0], X)
    scaled = MeanVarianceGP(X, repeats(Y), input_transform=Normalize(2, batch_shape=X.shape[:1]))
    known = MeanVarianceGP(X, repeats(Y), known_noise=lambda X: 0.1 + X[..., :1])
    for each in (scaled, known, model.condition_on_observations(X, Y[..., :1])):
        assert not each.renew(X, repeats(Y))


def map_repeats(data: tuple[Tensor, Tensor]) -> tuple[Tensor, RepeatedOutcomes]:
    return data[0], repeats(data[1])


@pytest.mark.parametrize("is_scaled", [False, True])
def test_a_standardised_process_is_renewed(is_scaled: bool) -> None:
    bounds = torch.tensor([[0.0, 0.0], [2.0, 3.0]], dtype=torch.double, device=home())
    transform = (lambda: one_hot_inputs(bounds, [1])) if is_scaled else (lambda: None)
    X, Y = rows(9)
    model = renewed_standardized_gp(None, X, Y[..., :1], transform())
    fit_exact_gp(model)
    X, Y = rows(12, seed=1)
    again = renewed_standardized_gp(model, X, Y[..., :1], transform())
    assert again is model
    options = {"input_transform": transform()} if is_scaled else {}
    built = standardized_gp(X, Y[..., :1], **options)
    points, _ = rows(7, seed=2)
    for each in (model, built):
        fit_exact_gp(each)
    with torch.no_grad():
        one, other = (each.posterior(points) for each in (model, built))
    torch.testing.assert_close(one.mean, other.mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(one.variance, other.variance, rtol=1e-12, atol=1e-12)
    assert renewed_standardized_gp(model, *rows(9, d=3)[:1], Y[:, :9, :1]) is not model


def test_a_round_that_fails_leaves_the_belief_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double, device=home())

    def strategy() -> Any:
        made = rahbo(bounds, [0], num_repeats=4, risk_aversion=1.0, num_initial=6, refit_every=2)
        for seed in range(4):
            X = made.ask()
            made.tell(X, rows(X.shape[1], seed=seed)[1][:1])
        return made

    one, other = strategy(), strategy()
    asked = other.ask()
    one.ask()
    Y = rows(1, seed=9)[1][:1]
    with monkeypatch.context() as patch:
        patch.setattr(type(one.method), "learn", lambda _, view: view.belief / 0)
        with pytest.raises(TypeError):
            one.tell(asked, Y)
    torch.testing.assert_close(one.recommend(), other.recommend())
    torch.testing.assert_close(one.ask(), asked)
