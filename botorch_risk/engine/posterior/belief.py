r"""Posterior means and variances at many points that do not interact.

`model.posterior(X)` builds joint distributions. An acquisition function that looks at single
points, at all values of the environment, or at a whole grid needs only the marginals. The closed
form gives them several times faster and in bounded memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.additive_gp import OrthogonalAdditiveGP
from botorch.models.model import Model, ModelList
from gpytorch import settings
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.models import ExactGP
from torch import Tensor

from botorch_risk.engine.posterior.bounds import Bounds
from botorch_risk.engine.posterior.cache import PosteriorCache, transform_again
from botorch_risk.engine.posterior.joint_moments import Joint
from botorch_risk.engine.posterior.joint_samples import JointSampler
from botorch_risk.engine.posterior.moments import Marginals
from botorch_risk.engine.posterior.process import PriorProcess, Process
from botorch_risk.engine.posterior.product import ProductMarginals
from botorch_risk.engine.posterior.stationary_moments import (
    chunk_size,
    outcome_bound,
    outcome_moments,
    stationary_moments,
)
from botorch_risk.gradients import inputs_need_gradients, predicting_with
from botorch_risk.points import TBatch, checked_points, joint_shape

# Bounds of each group to the one that counts and its index.
Pick = Callable[[Tensor], tuple[Tensor, Tensor]]

# The second one calls the first, unless asked for the additive components.
_STANDARD_POSTERIORS = (SingleTaskGP.posterior, OrthogonalAdditiveGP.posterior)


@runtime_checkable
class HasMembers(Protocol):
    r"""An ensemble whose members are one model, with one batch dimension."""

    @property
    def members(self) -> SingleTaskGP: ...


class Belief:
    r"""What a model says about its outcome, fast and differentiable in the inputs.

    Called with points, it gives their marginal mean and variance. For a `SingleTaskGP` with one
    output (inferred or fixed noise, any kernel and mean, input transforms that keep the number of
    points, linear outcome transforms, any `batch_shape`), or a subclass that keeps its `forward`
    and `posterior`, the closed form is evaluated in chunks from one cached Cholesky factor:

        mean(x) = m(x) + k(x, X) (K + S)^-1 (y - m(X))
        variance(x) = k(x, x) - |L^-1 k(X, x)|^2,   L L' = K + S

    Squared-exponential and Matern kernels, alone or in a `ScaleKernel`, use direct formulas with an
    analytic gradient, and apart from the result the memory does not grow with the number of points;
    other kernels go through their own `forward`. Any other model goes through `model.posterior`
    with the points in the t-batch. The cache follows the model: it is rebuilt when a parameter, a
    buffer or the training data change, is not part of any state, and treats hyperparameters as
    constants. In float32 the variance loses digits below 1e-4 of the prior variance. An
    ensemble with `members` (`SampledGP`) has the moments of its mixture.

    Source: [Rasmussen2006gp]_, Eqs. (2.25) and (2.26), with noise that may differ between points.

    Args:
        model: A model with one output, of any `batch_shape`.
        posterior_transform: Applied to the posterior. A scalarization of the single output
            (BoTorch's sign of minimisation) keeps the closed form.

    Raises:
        UnsupportedError: If the model is an ensemble without `members`, or has several outputs that
            no `posterior_transform` reduces to one.

    Example:
        >>> from botorch_risk.examples import model
        >>> X = torch.rand(500, 2, dtype=torch.double)
        >>> mean, variance = Belief(model)(X)
        >>> torch.allclose(mean, model.posterior(X.unsqueeze(-2)).mean.flatten())
        True
    """

    def __init__(self, model: Model, posterior_transform: PosteriorTransform | None = None) -> None:
        if model.num_outputs != 1 and posterior_transform is None:
            raise UnsupportedError(
                "Expected a model with one output, or a `posterior_transform` that reduces its "
                f"outputs to one. Got {model.num_outputs=}."
            )
        if model._is_ensemble and not isinstance(model, HasMembers):
            raise UnsupportedError(
                "Expected a model whose posterior is one Gaussian, or an ensemble with `members`. "
                f"Got an ensemble without `members` ({type(model).__name__})."
            )
        self.model: Any = model  # parts of a module have no static type
        self.posterior_transform: Any = posterior_transform
        self._cache: PosteriorCache | None = None
        self._members: Belief | None = None
        self._process: Process | None = None
        self._bounds: Bounds | None = None

    @staticmethod
    def serves(model: Any, posterior_transform: PosteriorTransform | None = None) -> bool:
        r"""Whether a model is a `SingleTaskGP` with one output and a linear outcome transform.

        A subclass has to predict as `SingleTaskGP` does: one with its own `forward`, `posterior` or
        `__call__` may compute something else. The inputs have to be constant too: the factors are
        computed without gradients.
        """
        kind = type(model)
        if not (
            issubclass(kind, SingleTaskGP)
            and kind.forward is SingleTaskGP.forward
            and kind.posterior in _STANDARD_POSTERIORS
            and kind.__call__ is SingleTaskGP.__call__
        ):
            return False
        if inputs_need_gradients(model):
            return False
        input_transform = model._modules.get("input_transform")
        outcome_transform = model._modules.get("outcome_transform")
        is_linear = type(posterior_transform) in (type(None), ScalarizedPosteriorTransform)
        return (
            model.num_outputs == 1
            and is_linear
            and _is_gaussian(model.likelihood)
            and (input_transform is None or not input_transform.is_one_to_many)
            and (outcome_transform is None or bool(outcome_transform._is_linear))
        )

    @property
    def batch_shape(self) -> torch.Size:
        r"""The batch shape of the moments: the model's, and `[]` of an ensemble's mixture."""
        return torch.Size() if self.model._is_ensemble else self.model.batch_shape

    @property
    def closed_form(self) -> bool:
        r"""Whether the model has a closed form now; see `serves`."""
        return self.serves(self.model, self.posterior_transform)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": None, "_process": None, "_bounds": None}

    def __call__(self, X: Tensor) -> Marginals:
        r"""Marginal moments at each point, `batch_shape x m` each.

        Args:
            X: `batch_shape x m x d`, where `batch_shape` broadcasts with the model's.

        Raises:
            UnsupportedError: If the model has several values for a point, as with an input
                transform to several points, and the `posterior_transform` does not reduce them.
        """
        if self.model._is_ensemble:
            return self._of_mixture(X)
        X = checked_points(X, self.model)
        if 0 in X.shape[:-1]:
            nothing = X.sum(dim=-1)  # with the graph that the caller may ask for
            shape = joint_shape(X.shape[:-2], self.model.batch_shape)
            return Marginals(*2 * (nothing.expand(*shape, X.shape[-2]),))
        if not self.closed_form:
            return self._from_posterior(X)
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            if self.model.training:
                self.model.eval()
            cache = self.current_cache()
            if cache.units is not None:
                floor = settings.min_variance.value(X.dtype)
                moments = outcome_moments(self.model.transform_inputs(X), cache, floor)
                return Marginals(*self.through_posterior_transform(*moments))
            t_batch = TBatch.of(X, self.model.batch_shape)
            X = t_batch.fold(X)  # all that share a model: a long list of points is fastest
            inputs = self.model.transform_inputs(X)
            moments = self.to_outcome(*self._latent(inputs, cache), inputs)
            return Marginals(*(t_batch.unfold(moment) for moment in moments))

    def mean(self, X: Tensor) -> Tensor:
        r"""The posterior mean alone, `batch_shape x m`.

        With direct formulas for the kernel, a point takes `n` operations with `n` data; its
        variance would take `n^2`.
        """
        if not self.closed_form or 0 in X.shape[:-1]:
            return self(X).mean
        if self.model.training:
            self.model.eval()
        cache = self.current_cache()
        if cache.units is None or cache.kernel is None:
            return self(X).mean
        X = checked_points(X, self.model)
        with torch.set_grad_enabled(X.requires_grad and torch.is_grad_enabled()):
            mean = outcome_bound(self.model.transform_inputs(X), cache, 0.0, None)
            # There is no variance to transform, so any tensor does in its place.
            mean, _ = self.through_posterior_transform(mean, mean)
            return mean

    def _of_mixture(self, X: Tensor) -> Marginals:
        r"""Moments of the mixture of the members, which are the model's only batch dimension."""
        return self.of_members()(X.unsqueeze(-3)).mixed(-2)  # of ... x S x m

    def of_members(self) -> Belief:
        r"""The belief of the members of an ensemble, as one batch."""
        if self._members is None:
            self._members = Belief(self.model.members, self.posterior_transform)
        return self._members

    def _latent(self, X: Tensor, cache: PosteriorCache) -> tuple[Tensor, Tensor]:
        r"""Moments in the space of the transformed outcomes, at transformed inputs."""
        if cache.kernel is None:
            mean, variance = self._through_kernel(X, cache)
        else:
            Z = (X - cache.centre) / cache.kernel.lengthscale
            mean, explained = stationary_moments(Z, cache)
            variance = cache.kernel.outputscale.squeeze(-1) * (1 - explained)
        # GPyTorch's own floor, so that a model has one variance whichever way it is asked.
        prior_mean = self.model.mean_module(X) if cache.constant is None else cache.constant
        return mean + prior_mean, variance.clamp_min(settings.min_variance.value(X.dtype))

    def _through_kernel(self, X: Tensor, cache: PosteriorCache) -> Iterable[Tensor]:
        kernel = self.model.covar_module
        chunks = []
        for points in X.split(chunk_size(X, cache.train_inputs.shape[-2]), dim=-2):
            cross = kernel(points, cache.train_inputs).to_dense()  # batch_shape x m x n
            # A sum of squares: k' (K + S)^-1 k as one product would lose its digits to rounding.
            mean = (cross @ cache.weights.mT).squeeze(-1)
            explained = (cross @ cache.factor.mT).square().sum(dim=-1)
            chunks.append((mean, kernel(points, diag=True) - explained))
        return (_join(parts, -1) for parts in zip(*chunks, strict=True))

    def to_outcome(self, mean: Tensor, variance: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Transform moments to the units of the outcome, then through the posterior transform.

        `X` holds the transformed inputs, as in BoTorch.
        """
        outcome_transform = self.model._modules.get("outcome_transform")
        if outcome_transform is not None:
            mean, variance = (
                moment.squeeze(-1)
                for moment in outcome_transform.untransform(
                    Y=mean.unsqueeze(-1), Yvar=variance.unsqueeze(-1), X=X
                )
            )
        return self.through_posterior_transform(mean, variance)

    def through_posterior_transform(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        if self.posterior_transform is not None:
            weight = self.posterior_transform.weights.to(mean)
            mean = self.posterior_transform.offset + weight * mean
            variance = weight.square() * variance
        return mean, variance

    def _from_posterior(self, X: Tensor) -> Marginals:
        r"""Moments from posteriors of single points, with the points as an outermost t-batch."""
        shape = joint_shape(X.shape[:-2], self.model.batch_shape)
        X = X.expand(*shape, *X.shape[-2:])  # or the points would broadcast with the model's batch
        chunks = []
        model = self._differentiable_model()
        for part in model.models if isinstance(model, ModelList) else [model]:
            if isinstance(part, ExactGP) and not part.training:
                transform_again(part)
        for points in X.split(chunk_size(X, 256), dim=-2):  # how many columns only it knows
            single = points.movedim(-2, 0).unsqueeze(-2)  # m x batch_shape x 1 x d
            with predicting_with(model):
                posterior = model.posterior(single, posterior_transform=self.posterior_transform)
            moments = (posterior.mean, posterior.variance)
            if moments[0].shape[-2:] != (1, 1):
                raise UnsupportedError(
                    f"Expected one value for each point. Got {tuple(moments[0].shape[-2:])}, of an "
                    "input transform to several points or of a model with several outputs; pass a "
                    "`posterior_transform` that reduces them, such as BoTorch's "
                    "`ExpectationPosteriorTransform`."
                )
            chunks.append(tuple(value[..., 0, 0].movedim(0, -1) for value in moments))
        return Marginals(*(_join(parts, -1) for parts in zip(*chunks, strict=True)))

    def _differentiable_model(self) -> Any:
        r"""The model, or a copy without caches that BoTorch detached from its data."""
        if not inputs_need_gradients(self.model):
            return self.model
        model = copy.copy(self.model)
        model.prediction_strategy = None
        return model

    def bounds(self, *others: Belief) -> Bounds:
        r"""Confidence bounds of this belief, and of others at the same points, in one step."""
        beliefs = (self, *others)
        known = self._bounds
        if known is None or known.beliefs != beliefs:
            known = self._bounds = Bounds(beliefs)  # which stacks the models' factors, once a round
        return known

    def picked(self, X: Tensor, width: Tensor, pick: Pick) -> Tensor:
        r"""The bound `mean + width * deviation` that a rule picks in each group of points.

        It is differentiable only in the point that is picked.

        Args:
            X: `batch_shape x m x p x d`.
            width: Broadcastable to `batch_shape x m`; below 0 for lower bounds.
            pick: Maps bounds `batch_shape x m x p` to one per group and its index,
                `batch_shape x m` each.
        """
        with torch.no_grad():
            moments = self(X.flatten(-3, -2))
            mean, variance = (each.unflatten(-1, X.shape[-3:-1]) for each in moments)
            value, index = pick(mean + width.unsqueeze(-1) * variance.sqrt())
        index = index[..., None, None].expand(*index.shape, 1, X.shape[-1])
        chosen = X.expand(*index.shape[:-2], *X.shape[-2:]).gather(-2, index).squeeze(-2)
        (bound,) = self.bounds()(chosen, [width])
        # The value of the rule, with the gradient of the picked bound alone.
        return value + (bound - bound.detach())

    def pairs(self, W: Tensor) -> ProductMarginals:
        r"""Marginal moments at all pairs (x, w_j), fast if the kernel is a product of both.

        `W` has values of the last inputs, `n_w x d_w` or `batch_shape x n_w x d_w`.
        """
        return ProductMarginals(self, W)

    def joint(self) -> Joint:
        r"""Joint moments within groups of points, from factors that are computed once.

        Raises:
            UnsupportedError: If the model is an ensemble; its members have joint moments.
        """
        if self.model._is_ensemble:
            raise UnsupportedError(
                "Expected a model whose posterior is one Gaussian. Got an ensemble "
                f"({type(self.model).__name__}): see its `members`."
            )
        return Joint.of(self)

    def process(self) -> Process:
        r"""The exact GP given its data, for covariances and further data; needs a closed form."""
        self.model.eval()
        cache = self.current_cache()
        if self._process is None or self._process.prior.cache is not cache:
            self._process = Process.of(PriorProcess(self.model, self, cache))
        return self._process

    def sampler(self) -> JointSampler:
        r"""Joint samples that draw constant points once; see `JointSampler`."""
        return JointSampler(self)

    def current_cache(self) -> PosteriorCache:
        r"""The model's present factors; only for a model with a closed form."""
        if self._cache is None or not self._cache.state.is_current():
            self._cache = PosteriorCache.build(self.model)
        return self._cache

    def is_left_by(self, conversion: Callable[[Tensor], Tensor]) -> bool:
        r"""Whether a conversion of a `torch.nn.Module` returns every tensor unchanged."""
        if self._cache is None or not self._cache.state.is_current():
            return False
        return all(conversion(tensor) is tensor for tensor in self._cache.state.tensors)


def _is_gaussian(likelihood: Any) -> bool:
    r"""Whether `likelihood.noise` is the variance of the noise in each row of the data.

    GPyTorch's other Gaussian likelihoods may treat some rows differently, for example as missing.
    """
    return type(likelihood) is GaussianLikelihood or isinstance(
        likelihood, FixedNoiseGaussianLikelihood
    )


def _join(parts: Sequence[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=dim)
