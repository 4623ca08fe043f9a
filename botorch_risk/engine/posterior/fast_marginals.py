r"""A view of a fitted model that predicts single points in closed form."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import torch
from botorch.acquisition import AnalyticAcquisitionFunction, UpperConfidenceBound
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import BotorchWarning
from botorch.models import ModelListGP
from botorch.models.model import Model, ModelList
from botorch.posteriors import GPyTorchPosterior, Posterior
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from linear_operator.operators import DiagLinearOperator
from numpy import ndarray
from torch import Tensor

from botorch_risk.engine.posterior.belief import Belief
from botorch_risk.gradients import condition, conditioning_on

Acquisition = TypeVar("Acquisition")


class FastMarginals(Model):
    r"""A fitted model whose `posterior` is several times faster for single points.

    Acquisition functions that look at one point at a time (BoTorch's analytic ones, and Monte-Carlo
    ones with q = 1) use it instead of the model, in any optimiser:

        acqf = LogExpectedImprovement(FastMarginals(model), best_f)

    Means and variances are the model's own, from `Belief`, for exact GPs with one output
    and for a `ModelListGP` of them. The model itself is called for joint points (q > 1),
    observation noise, a subset of outputs, and models without a closed form; a warning says so
    once. The view stores nothing, so it follows the model when that is fitted or given other data.
    It does not see writes through `.data` into training data or buffers: use `set_train_data`, or
    write in place.

    First derivatives with respect to the points are available; hyperparameters are constants, so
    fit the model, not the view. The view delegates all other attributes to the model.

    Args:
        model: A fitted model. Another `FastMarginals` is unwrapped.

    Raises:
        UnsupportedError: If the model is an ensemble, whose posterior is not one Gaussian.

    Example:
        >>> from botorch.acquisition import LogExpectedImprovement
        >>> from botorch_risk.examples import model
        >>> acqf = LogExpectedImprovement(FastMarginals(model), best_f=0.9)
        >>> own = LogExpectedImprovement(model, best_f=0.9)
        >>> X = torch.rand(5, 1, 2, dtype=torch.double)
        >>> torch.allclose(acqf(X), own(X))
        True
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        if model._is_ensemble:
            raise UnsupportedError(
                "Expected a model whose posterior is one Gaussian. Got an ensemble "
                f"({type(model).__name__})."
            )
        self.model: Model = model.model if isinstance(model, FastMarginals) else model
        self._has_warned = False
        self._predictors: list[Belief] = []
        if self.serves(self.model):
            self._predictors = [Belief(part) for part in _parts(self.model)]
        else:
            self._warn(self._no_closed_form)

    @staticmethod
    def serves(model: Model) -> bool:
        r"""Whether the closed form supports a model, so that a view of it is faster."""
        return all(Belief.serves(part) for part in _parts(model))

    @property
    def _no_closed_form(self) -> str:
        return f"a {type(self.model).__name__} of this kind has no closed form"

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        r"""The posterior `t-batch x batch_shape x q x m` at `t-batch x batch_shape x q x d` points.

        It is in closed form if q = 1, with all outputs and without observation noise.
        """
        reason = self._why_slow(X, output_indices, observation_noise)
        if reason is not None:
            self._warn(reason)
            return self.model.posterior(
                X,
                output_indices=output_indices,
                observation_noise=observation_noise,
                posterior_transform=posterior_transform,
            )
        moments = [predictor(X) for predictor in self._predictors]
        mean, variance = (
            parts[0].unsqueeze(-1) if len(parts) == 1 else torch.stack(parts, dim=-1)
            for parts in zip(*moments, strict=True)
        )
        if posterior_transform is None:
            return _MarginalPosterior(mean, variance)
        # Other transforms read the distribution, which takes longer to build than the moments.
        if type(posterior_transform) is ScalarizedPosteriorTransform and len(moments) == 1:
            linear: Any = posterior_transform  # parts of a module have no static type
            weight = linear.weights.to(mean)
            return _MarginalPosterior(linear.offset + weight * mean, weight.square() * variance)
        transformed: Posterior = posterior_transform(_MarginalPosterior(mean, variance))
        return transformed

    def _why_slow(
        self, X: Tensor, output_indices: list[int] | None, observation_noise: bool | Tensor
    ) -> str | None:
        if X.shape[-2:-1] != (1,):
            return "points were requested jointly (q > 1)"
        if observation_noise is not False:
            return "the observation noise was requested"
        if output_indices is not None and output_indices != list(range(len(self._predictors))):
            return "some of its outputs were requested"
        return None if self._predictors else self._no_closed_form

    def _warn(self, reason: str) -> None:
        if not self._has_warned:
            message = f"The model's own `posterior` is used, at its own speed: {reason}."
            warnings.warn(message, BotorchWarning, stacklevel=3)
            self._has_warned = True

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FastMarginals:
        r"""Skip the walk through all modules if nothing changes: BoTorch often calls `to`."""
        if self._predictors and all(each.is_left_by(fn) for each in self._predictors):
            return self
        moved: FastMarginals = super()._apply(fn, recurse)
        return moved

    def __getattr__(self, name: str) -> Any:
        # Before `model` is set, as in a copy, asking it would ask for `model` again, without end.
        if name == "model" or name.startswith("__"):
            return super().__getattr__(name)
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.model, name)

    @property
    def num_outputs(self) -> int:
        count: int = self.model.num_outputs
        return count

    @property
    def batch_shape(self) -> torch.Size:
        return self.model.batch_shape

    def subset_output(self, idcs: list[int]) -> FastMarginals:
        return FastMarginals(self.model.subset_output(idcs))

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> Model:
        r"""The model with further observations and unchanged hyperparameters.

        Returns a view, unless the observations need gradients, which the closed form lacks.
        """
        return self._view(condition(self.model, X, Y, **kwargs))

    def fantasize(self, X: Tensor, sampler: Any, **kwargs: Any) -> Model:
        model: Any = self.model
        with conditioning_on(X):
            return self._view(model.fantasize(X, sampler, **kwargs))

    def _view(self, model: Model) -> Model:
        return FastMarginals(model) if self.serves(model) else model


def with_fast_marginals(acqf: Acquisition) -> Acquisition:
    r"""An acquisition function on a view of its model, if that gives the same values.

    For BoTorch's analytic ones on a model with a closed form it is a shallow copy, else the
    acquisition function itself.
    """
    if not isinstance(acqf, AnalyticAcquisitionFunction):
        return acqf
    model = acqf._modules.get("model")
    if not isinstance(model, Model) or model._is_ensemble or not FastMarginals.serves(model):
        return acqf
    copied = copy.copy(acqf)
    # A dictionary of its own: the user's function keeps its model.
    copied._modules = {**acqf._modules, "model": FastMarginals(model)}
    return copied


def bound_on_host(acqf: Any, num_points: int) -> Callable[..., tuple[ndarray, ndarray]] | None:
    r"""BoTorch's `UpperConfidenceBound` on a view as a function of a few points in NumPy.

    `num_points` is the most points that each entry of the model's batch will get. The result maps
    points `batch_shape x m x d` to values and gradients. It is None for another acquisition
    function, for a lower bound, and where PyTorch is faster.
    """
    # A subclass may compute something else.
    model = acqf._modules.get("model") if type(acqf) is UpperConfidenceBound else None
    if not isinstance(model, FastMarginals) or not acqf.maximize:
        return None
    transform = acqf.posterior_transform
    if type(model.model) in (ModelList, ModelListGP) or not Belief.serves(model.model):
        return None
    belief = model._predictors[0] if transform is None else Belief(model.model, transform)
    width = acqf.beta.sqrt()
    evaluate = belief.bounds().on_host(num_points, [width.unsqueeze(-1) if width.dim() else width])
    if evaluate is None:
        return None

    def value_and_gradient(X: ndarray) -> tuple[ndarray, ndarray]:
        (value,), (gradient,) = evaluate(X)
        return value, gradient

    return value_and_gradient


def _parts(model: Any) -> list[Model]:
    return list(model.models) if type(model) in (ModelList, ModelListGP) else [model]


class _MarginalPosterior(GPyTorchPosterior):
    r"""Normal moments `... x 1 x m` of single points; the distribution is made on demand."""

    def __init__(self, mean: Tensor, variance: Tensor) -> None:
        # The parent would build the distribution, which analytic functions never ask for.
        self._mean, self._variance = mean, variance
        self._is_mt = mean.shape[-1] > 1
        self._device, self._dtype = mean.device, mean.dtype

    @cached_property
    def distribution(self) -> MultivariateNormal:  # type: ignore[override]
        covariance = DiagLinearOperator(self._variance.squeeze(-2))
        if self._is_mt:
            return MultitaskMultivariateNormal(self._mean, covariance)
        return MultivariateNormal(self._mean.squeeze(-2), covariance)

    @property
    def mean(self) -> Tensor:
        return self._mean

    @property
    def variance(self) -> Tensor:
        return self._variance
