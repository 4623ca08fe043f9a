r"""The laws of models and of predictors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.engine import Belief
from botorch_risk.models import MeanVarianceGP
from botorch_risk_testing.data import RepeatedData, refresh, replicate
from botorch_risk_testing.laws import (
    Case,
    Laws,
    Report,
    by_pickle,
    each_entry,
    expect,
    expect_close,
    expect_gradient,
    expect_kind,
    expect_same,
    numpy,
)

Moments = tuple[Any, Any]
UNIT = 2.0**-20  # a power of two, so that what is equal is equal to a few roundings


def posterior_moments(model: Any, X: Tensor) -> Moments:
    r"""Mean and variance at points `batch_shape x m x d`, each `batch_shape x m`."""
    posterior = model.posterior(X)
    return posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)


def itself(model: Any) -> Any:
    r"""The model, ready to predict."""
    return model.eval()


@dataclass(frozen=True, kw_only=True)
class ModelCase(Case):
    r"""A model of two inputs and one outcome, or a predictor built on one; see `check_model`.

    Args:
        predictor: Maps the model to the predictor.
    """

    build: Callable[[RepeatedData], Any]
    predictor: Callable[[Any], Any] = itself
    predict: Callable[[Any, Tensor], Moments] = posterior_moments
    oracle: Callable[[Any, Any, Any], Moments] | None = None
    standardizes: bool = False
    follows_at_once: bool = False

    def data(
        self, batch_shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float64
    ) -> RepeatedData:
        r"""The data of the model."""
        return RepeatedData.make(batch_shape, dtype=dtype, device=self.device)

    def made(self, *args: Any) -> tuple[Any, Any]:
        r"""The predictor and the model for a batch shape and a dtype."""
        model = self.build(self.data(*args))
        refresh(model)
        return self.predictor(model), model


LAWS = Laws()


def _is_a_model(case: ModelCase) -> bool:
    return isinstance(case.made()[0], Model) and case.predict is posterior_moments


@LAWS()
def moments_have_the_shape_of_the_points(
    case: ModelCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    r"""Mean and variance are `batch_shape x m`, in the dtype and on the device of the points."""
    X = case.random(*batch_shape, 5, 2, dtype=dtype)
    for moment in case.predict(case.made(batch_shape, dtype)[0], X):
        expect_kind("a moment", moment, (*batch_shape, 5), dtype, X)


@LAWS(lambda case: case.oracle is not None)
def moments_equal_the_oracle(
    case: ModelCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    r"""Predictions are those of an independent, slow program, for each replicate."""
    (built, model), data = case.made(batch_shape, dtype), case.data(batch_shape, dtype).cpu()
    X = case.random(*batch_shape, 5, 2, dtype=dtype)

    def single(index: tuple[int, ...]) -> Tensor:
        alone = replicate(case.build, model, data, index)
        moments = case.oracle(alone, numpy(data.Y[index]), numpy(X[index]))  # type: ignore[misc]
        return torch.stack([torch.as_tensor(each) for each in moments])

    tolerance = 1e-7 if dtype == torch.float64 else 2e-3
    expected = each_entry(batch_shape, single).unbind(dim=len(batch_shape))
    for which, moment in enumerate(case.predict(built, X)):
        expect_close(
            f"the oracle's moment {which}", moment.double().cpu(), expected[which], tolerance
        )


@LAWS(lambda case: case.predictor is not itself)
def a_predictor_agrees_with_its_model(case: ModelCase, batch_shape: tuple[int, ...]) -> None:
    r"""A predictor of a model gives the moments of the model's own posterior."""
    built, model = case.made(batch_shape)
    X = case.random(*batch_shape, 5, 2)
    moments = zip(case.predict(built, X), posterior_moments(model, X), strict=True)
    for which, (ours, own) in enumerate(moments):
        expect_close(f"the posterior's moment {which}", ours, own)


@LAWS(lambda case: case.predictor is Belief)
def a_mean_alone_is_the_mean_of_both_moments(case: ModelCase, batch_shape: tuple[int, ...]) -> None:
    r"""What is computed without the variance has the same value and gradient."""
    built, _ = case.made(batch_shape)
    X = case.random(*batch_shape, 5, 2).requires_grad_()
    both, alone = built(X).mean, built.mean(X)
    expect_close("the mean of both moments", alone, both)
    slopes = [torch.autograd.grad(each.sum(), X)[0] for each in (both, alone)]
    expect_close("its gradient", slopes[1], slopes[0])


@LAWS()
def a_replicate_is_the_model_of_its_own_data(case: ModelCase, batch_shape: tuple[int, ...]) -> None:
    r"""The others of its batch change nothing."""
    (built, model), data = case.made(batch_shape), case.data(batch_shape)
    X = case.random(*batch_shape, 4, 2)
    together = case.predict(built, X)
    for index in itertools.product(*map(range, batch_shape)):
        alone = case.predictor(replicate(case.build, model, data, index))
        for one, many in zip(case.predict(alone, X[index]), together, strict=True):
            expect_close(f"the prediction of the model of entry {index}", many[index], one)


@LAWS()
def gradients_are_those_of_finite_differences(case: ModelCase) -> None:
    r"""Predictions can be differentiated in the points."""
    built, _ = case.made()
    expect_gradient(lambda X: tuple(case.predict(built, X)), case.random(3, 2))


@LAWS()
def predictions_are_repeatable_and_survive_pickling(case: ModelCase) -> None:
    r"""Nothing is drawn, and a copy by pickle predicts the same."""
    built, X = case.made()[0], case.random(6, 2)
    first = case.predict(built, X)
    for which, other in (("again", built), ("from pickle", by_pickle(built))):
        for one, two in zip(first, case.predict(other, X), strict=True):
            expect_same(f"the same prediction {which}", two, one)


@LAWS()
def predictions_follow_the_hyperparameters(case: ModelCase) -> None:
    r"""No cache outlives the hyperparameters that it was made with, nor a state that is loaded."""
    (built, model), (fresh, other), X = case.made(), case.made(), case.random(4, 2)
    before = case.predict(built, X)
    for parameter in model.parameters():
        parameter.data.mul_(1.1).add_(0.1)
    if isinstance(model, MeanVarianceGP):
        model.refresh_noise()
    other.load_state_dict(model.state_dict())
    for each in () if case.follows_at_once else (model, other):
        each.train().eval()
    after = case.predict(built, X)
    for old, new, loaded in zip(before, after, case.predict(fresh, X), strict=True):
        expect(not torch.allclose(old, new), "another prediction by other hyperparameters", new)
        expect_close("the prediction of the hyperparameters that were loaded", loaded, new)


@LAWS(_is_a_model)
def a_t_batch_is_each_of_its_entries(case: ModelCase) -> None:
    r"""Joint predictions at `t x q x d` points are those of each entry alone."""
    built, X = case.made()[0], case.random(3, 2, 2)
    together = built.posterior(X)
    for t in range(3):
        alone = built.posterior(X[t])
        expect_close("the mean of the entry alone", together.mean[t], alone.mean)
        expect_close("its variance", together.variance[t], alone.variance)


@LAWS(_is_a_model)
def a_reading_varies_more_than_the_function(case: ModelCase) -> None:
    r"""`observation_noise=True` adds noise to the variance and nothing to the mean."""
    built, X = case.made()[0], case.random(4, 2)
    latent, noisy = built.posterior(X), built.posterior(X, observation_noise=True)
    expect_close("the same mean", noisy.mean, latent.mean)
    least = (noisy.variance - latent.variance).min().item()
    expect(least > 0, "a larger variance of a reading than of the function", f"{least} more")


@LAWS(lambda case: case.standardizes)
def predictions_have_the_unit_of_the_outcome(case: ModelCase) -> None:
    r"""Outcomes in another unit give the mean in that unit and the variance in its square."""
    data, X = case.data(), case.random(4, 2)
    in_units = replace(data, Y=UNIT * data.Y)
    mean, variance = case.predict(case.predictor(case.build(data)), X)
    found = case.predict(case.predictor(case.build(in_units)), X)
    expect_close("the mean in its unit", found[0] / UNIT, mean, 1e-6)
    expect_close("the variance in its unit, squared", found[1] / UNIT**2, variance, 1e-6)


def check_model(
    build: Callable[[RepeatedData], Any], *, skip: Mapping[str, str] | None = None, **options: Any
) -> Report:
    r"""Checks a model against the laws that ours obey.

    Args:
        build: Maps `RepeatedData` of `X: batch_shape x n x 2` and `Y: batch_shape x n x 4` to the
            model. It need not be fitted.
        skip: Laws that are known to be broken, and why.
        **options: `predict`, from the model and points `batch_shape x m x 2` to two moments
            `batch_shape x m`, by default mean and variance of the posterior; `oracle`, from an
            unbatched model, its repeats `n x 4` and points `m x 2` as arrays to the same;
            `standardizes`, whether the unit of the outcomes must not matter; `follows_at_once`,
            whether hyperparameters that are written count without `train()`; `batch_dims`, how many
            batch dimensions it may have, here 1; `device`; `name`.

    Returns:
        The laws that hold.

    Raises:
        LawsBrokenError: If a law does not hold; the message gives the expected and the found
            values.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> report = check_model(lambda data: SingleTaskGP(data.X, data.means))
        >>> report.broken
        {}
    """
    options = {"name": "the model", "batch_dims": 1, **options}
    return LAWS.check(ModelCase(build=build, **options), skip)
