r"""Confidence bounds of mean minus weighted noise variance (RAHBO)."""

from abc import ABC
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.objective import (
    MCAcquisitionObjective,
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models.model import Model, ModelList
from botorch.utils.transforms import match_batch_shape, t_batch_mode_transform
from numpy import ndarray
from torch import Tensor

from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.pointwise import (
    PointwiseAcquisitionFunction,
    ValueAndGradient,
    checked_pending,
    keep_unregistered,
    per_point,
    register_weights,
)
from botorch_risk.arguments import check_integers, in_short
from botorch_risk.engine import Belief
from botorch_risk.gradients import differentiated
from botorch_risk.matrices import variances_in_sequence
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.models.learnt_noise import LearntNoise
from botorch_risk.points import as_points, check_points


class _MeanVarianceBound(PointwiseAcquisitionFunction, ABC):
    r"""Bounds and posterior mean of `MV(x) = f(x) - risk_aversion * rho^2(x)`, Eq. (2)."""

    _q_twin = "qRiskAverseUpperConfidenceBound"
    beta: Tensor
    noise_beta: Tensor | None
    risk_aversion: Tensor

    def __init__(
        self,
        model: Model,
        beta: float | Tensor = 4.0,
        noise_beta: float | Tensor | None = 4.0,
        risk_aversion: float | Tensor = 1.0,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Builds the bound.

        Args:
            model: A fitted mean-variance model; or a list of models from which
                `posterior_transform`, with one weight that is not 0, selects one.
            beta: Squared width of the bound of f, `mean +- sqrt(beta) sigma`, a number or
                `batch_shape`. The paper's beta_t = 2 multiplies sigma, which is `beta=4` here.
            noise_beta: Squared width of the bound of the noise, likewise a number or `batch_shape`.
                `None` for the predicted noise, its posterior mean. With the log link a width of 0
                is the median, which is lower.
            risk_aversion: Weight of the variance, >= 0 (the paper's alpha), in units of one
                over the outcome; a number or `batch_shape`.
            posterior_transform: Applied to f alone: with BoTorch's weight of -1 f is
                minimised, and the noise is still penalised.
            X_pending: `batch_shape x n' x d` points under evaluation. Both processes are
                conditioned there on their own means.
        """
        model, posterior_transform = select_mean_variance_gp(model, posterior_transform)
        super().__init__(model=model)
        register_weights(self, model, beta=beta, risk_aversion=risk_aversion, noise_beta=noise_beta)
        self.posterior_transform = posterior_transform
        self.set_X_pending(X_pending)

    def _condition(self, X_pending: Tensor | None) -> tuple[MeanVarianceGP, Any]:
        r"""The model given its own means at pending points, and the bounds of f and its noise."""
        model: Any = self.model
        if X_pending is not None:
            model = model.condition_on_pending(X_pending)
        marginals = model.mean_marginals
        if self.posterior_transform is not None:
            marginals = Belief(model.mean_model, self.posterior_transform)
        return model, marginals.bounds(model.noise.marginals)

    def upper(self, X: Tensor) -> Tensor:
        r"""Optimistic value `ucb_f(x) - risk_aversion * lcb_var(x)` (Sec. 3.3)."""
        return self._bound(X, optimistic=True)  # Eqs. (19) and (37)

    def lower(self, X: Tensor) -> Tensor:
        r"""Pessimistic value `lcb_f(x) - risk_aversion * ucb_var(x)` (Corollary 1.1)."""
        return self._bound(X, optimistic=False)  # Eqs. (18) and (38)

    def mean(self, X: Tensor) -> Tensor:
        r"""Posterior mean of f minus `risk_aversion` times the predicted noise variance."""
        X = as_points(X, self.model)
        model, bounds = self._conditioned
        noise = model.predicted_noise(X).squeeze(-1)
        return bounds.beliefs[0].mean(X) - per_point(self.risk_aversion, X) * noise

    def observed(self, X: Tensor) -> Tensor:
        r"""Sample mean of f minus `risk_aversion` times the sample variance, `batch_shape x m`.

        The points, `batch_shape x m x d`, must be among those that the model was built from. Minus
        infinity for single repeats, which show no variance, unless the weight of the variance is 0.
        """
        model: Any = self.model
        X = as_points(X, self.model)
        same = (X.unsqueeze(-2) == model.train_X.unsqueeze(-3)).all(dim=-1)  # ... x m x n_train
        if not same.any(dim=-1).all():
            raise InputDataError(
                "Expected training points of the model, which have observed values. "
                f"Got {(~same.any(dim=-1)).sum()} other points."
            )
        values = model.train_means.squeeze(-1)
        if self.posterior_transform is not None:
            values = self.posterior_transform.evaluate(model.train_means)
        aversion = per_point(self.risk_aversion, X)
        penalty = aversion * model.train_variances.squeeze(-1)
        # Where there is no aversion, points of a single repeat count too.
        values = values - penalty.where(aversion > 0, 0.0)
        values = values.nan_to_num(nan=-torch.inf)
        rows = same.to(torch.uint8).argmax(dim=-1)  # the first of equal rows
        return values.expand(*rows.shape[:-1], -1).gather(-1, rows)

    def _widths(self, X: Tensor, optimistic: bool) -> list[Tensor]:
        r"""Standard deviations from the mean of f to its bound; of the noise, if it has one."""
        betas = [self.beta] if self.noise_beta is None else [self.beta, self.noise_beta]
        signs = (1.0, -1.0) if optimistic else (-1.0, 1.0)
        return [sign * per_point(beta, X).sqrt() for sign, beta in zip(signs, betas, strict=False)]

    def _bound(self, X: Tensor, optimistic: bool) -> Tensor:
        X = as_points(X, self.model)
        model, bounds = self._conditioned
        widths = self._widths(X, optimistic)
        if self.noise_beta is None:
            mean, variance = bounds.beliefs[0](X)  # batch_shape x m
            f = mean + widths[0] * variance.sqrt()
            noise = model.predicted_noise(X).squeeze(-1)
        else:
            f, on_link_scale = bounds(X, widths)
            noise = model.noise.on_outcome_scale(on_link_scale)
        return torch.addcmul(f, per_point(self.risk_aversion, X), noise, value=-1)

    def _value_and_gradient(self, X: Tensor, optimistic: bool) -> tuple[Tensor, Tensor]:
        model, bounds = self._conditioned
        X, found = as_points(X, self.model).detach(), None
        if self.noise_beta is not None and self._spacing is None:
            found = bounds.value_and_gradient(X, self._widths(X, optimistic))
        if found is None:
            return differentiated(self.evaluate, X)
        (f, of_f), (on_link_scale, of_link) = found
        # `rise`, the derivative of the inverse link, completes the chain rule.
        noise, rise = model.noise.on_outcome_scale_with_slope(on_link_scale)
        aversion = per_point(self.risk_aversion, X)
        value = torch.addcmul(f, aversion, noise, value=-1)
        return value, torch.addcmul(of_f, (aversion * rise).unsqueeze(-1), of_link, value=-1)

    def _on_host(self, num_points: int, optimistic: bool) -> ValueAndGradient | None:
        if self.noise_beta is None or self._spacing is not None:
            return None
        model, bounds = self._conditioned
        like = self.beta.new_empty(*model.batch_shape, num_points, 0)
        evaluate = bounds.on_host(num_points, self._widths(like, optimistic))
        if evaluate is None:
            return None
        aversion = per_point(self.risk_aversion, like).numpy()

        def value_and_gradient(X: ndarray) -> tuple[ndarray, ndarray]:
            (f, on_link_scale), (of_f, of_link) = evaluate(X)
            noise, rise = model.noise.on_outcome_scale_with_slope(on_link_scale)
            return f - aversion * noise, of_f - (aversion * rise)[..., None] * of_link

        return value_and_gradient


@construct_from_own_arguments
class RiskAverseUpperConfidenceBound(_MeanVarianceBound):
    r"""Risk-averse upper confidence bound of a mean-variance objective (RAHBO).

        score(x) = ucb_f(x) - risk_aversion * lcb_var(x)
        ucb_f(x) = mean(x) + sqrt(beta) sigma(x),   lcb_var(x) = quantile of the noise variance

    Source: [Makarova2021rahbo]_, Sec. 3.3 with Eqs. (7), (15); if the noise is known, Eq. (9). With
    `risk_aversion=0` it is BoTorch's `UpperConfidenceBound` of the heteroscedastic model; with
    `noise_beta=None`, which trusts the predicted noise, it is the second stage of RAHBO-US.
    Single-outcome, q = 1: use `sequential=True`, or `qRiskAverseUpperConfidenceBound` for a joint
    batch.

    Example:
        >>> from botorch.optim import optimize_acqf
        >>> from botorch_risk.examples import noisy_model, unit
        >>> acqf = RiskAverseUpperConfidenceBound(noisy_model, beta=4.0, risk_aversion=1.0)
        >>> candidate, value = optimize_acqf(acqf, unit, q=1, num_restarts=2, raw_samples=16)
        >>> candidate.shape
        torch.Size([1, 1])
    """

    def score(self, X: Tensor) -> Tensor:
        r"""Optimistic values at `batch_shape x m x d` points, `batch_shape x m`."""
        return self.upper(X)

    def value_and_gradient(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return self._value_and_gradient(X, optimistic=True)

    def on_host(self, num_points: int) -> ValueAndGradient | None:
        return self._on_host(num_points, optimistic=True)


@construct_from_own_arguments
class RiskAverseLowerConfidenceBound(_MeanVarianceBound):
    r"""Pessimistic twin of `RiskAverseUpperConfidenceBound`, for reporting.

        score(x) = lcb_f(x) - risk_aversion * ucb_var(x)

    Source: [Makarova2021rahbo]_, Corollary 1.1. Its maximiser over a domain, or over the evaluated
    points (`botorch_risk.recommend`), is the point whose value is guaranteed to be highest.

    Example:
        >>> from botorch_risk.examples import noisy_model, settings
        >>> bound = RiskAverseLowerConfidenceBound(noisy_model, beta=4.0, risk_aversion=1.0)
        >>> recommended = settings[bound.evaluate(settings).argmax()]
        >>> recommended.shape
        torch.Size([1])
    """

    min_distance = 0.0  # it reports

    def score(self, X: Tensor) -> Tensor:
        r"""Pessimistic values at `batch_shape x m x d` points, `batch_shape x m`."""
        return self.lower(X)

    def value_and_gradient(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return self._value_and_gradient(X, optimistic=False)

    def on_host(self, num_points: int) -> ValueAndGradient | None:
        return self._on_host(num_points, optimistic=False)


def require_mean_variance_gp(model: Model) -> None:
    r"""Raise UnsupportedError unless the model learns its noise or is given it."""
    if not isinstance(model, MeanVarianceGP):
        raise UnsupportedError(
            f"Expected a MeanVarianceGP, which knows its noise. Got {type(model).__name__}."
        )


def select_mean_variance_gp(
    model: Model, posterior_transform: PosteriorTransform | None
) -> tuple[MeanVarianceGP, PosteriorTransform | None]:
    r"""The model whose mean and noise are combined, and the transform of its one output.

    Args:
        model: A `MeanVarianceGP`, or a `ModelListGP` from which the transform selects one.
        posterior_transform: For a list, a `ScalarizedPosteriorTransform` with one weight that is
            not 0.

    Raises:
        UnsupportedError: If no model, or more than one, is selected, or it is not a MeanVarianceGP.
    """
    if not isinstance(model, ModelList):
        require_mean_variance_gp(model)
        return model, posterior_transform  # type: ignore[return-value]
    if type(posterior_transform) is not ScalarizedPosteriorTransform:
        raise UnsupportedError(
            "Expected a `ScalarizedPosteriorTransform` that selects one output of a list of "
            f"models. Got {type(posterior_transform).__name__}."
        )
    weights: Any = posterior_transform.weights
    chosen = weights.nonzero().flatten().tolist()
    models: Any = model.models
    if len(chosen) != 1 or any(part.num_outputs != 1 for part in models):
        raise UnsupportedError(
            "Expected one weight that is not 0, over models of one output each: the noise of a sum "
            f"is not modelled. Got weights {in_short(weights)}, {model.num_outputs=}."
        )
    selected = models[chosen[0]]
    require_mean_variance_gp(selected)
    transform = ScalarizedPosteriorTransform(weights[chosen], posterior_transform.offset)
    return selected, transform


@construct_from_own_arguments
class qRiskAverseUpperConfidenceBound(AcquisitionFunction):
    r"""Joint batch of q points for a mean-variance objective.

        score(X) = 1 / q sum_j [ mean_j + sqrt(beta) sigma_j - risk_aversion lcb_var_j ]

    `sigma_j` is the standard deviation of f at point j, and `lcb_var_j` the lower bound of the
    noise variance, both as if the points before j (pending ones first) had been evaluated with the
    expected results: the hallucinated observations of batch UCB [Desautels2014batch]_. A term
    equals `RiskAverseUpperConfidenceBound` at point j with the points before it pending. So
    `sequential=True` maximises the same sum greedily, and q = 1 gives the analytic bound of
    Algorithm 1 of [Makarova2021rahbo]_.

    Every point of a batch is evaluated, so the risk of every point counts. (A maximum over the
    batch, as in BoTorch's `qUpperConfidenceBound`, would be indifferent to all points but the
    best.) If no bound of the noise is negative, as is always so with the log link, the score never
    rises with `risk_aversion`. A sum over points has a local optimum for each combination of their
    optima: give `optimize_acqf` about 1,000 `raw_samples` for q = 4, or start it from the
    sequential batch by `batch_initial_conditions`.

    Example:
        >>> from botorch_risk.examples import noisy_model
        >>> acqf = qRiskAverseUpperConfidenceBound(noisy_model, beta=4.0, risk_aversion=1.0)
        >>> acqf(torch.rand(5, 3, 1, dtype=torch.double)).shape  # five batches of q = 3
        torch.Size([5])
    """

    beta: Tensor
    noise_beta: Tensor | None
    risk_aversion: Tensor

    def __init__(
        self,
        model: Model,
        beta: float = 4.0,
        noise_beta: float | None = 4.0,
        risk_aversion: float = 1.0,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Builds the acquisition function.

        Args:
            model: As in `RiskAverseUpperConfidenceBound`; here the weights below are numbers.
            beta: Squared width of the bound of f.
            noise_beta: Squared width of the bound of the noise; `None` for the predicted noise.
            risk_aversion: Weight of the variance, >= 0.
            posterior_transform: A `ScalarizedPosteriorTransform` of f alone (BoTorch's sign of
                minimisation).
            X_pending: `n' x d` points under evaluation.

        Raises:
            UnsupportedError: If the model is not a `MeanVarianceGP`, or the transform is another.
        """
        model, posterior_transform = select_mean_variance_gp(model, posterior_transform)
        if type(posterior_transform) not in (type(None), ScalarizedPosteriorTransform):
            raise UnsupportedError(
                "Expected `posterior_transform` to be a `ScalarizedPosteriorTransform` or None. "
                f"Got {type(posterior_transform).__name__}."
            )
        super().__init__(model=model)
        register_weights(self, model, beta=beta, risk_aversion=risk_aversion, noise_beta=noise_beta)
        self.posterior_transform = posterior_transform
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        super().set_X_pending(checked_pending(X_pending, self.model))

    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""Values of joint batches `batch_shape x q x d`, `batch_shape`."""
        check_points("X", X, self.model)
        q = X.shape[-2]
        if self.X_pending is not None:
            # In front: a point sees what comes before it in the sequence.
            X = torch.cat([match_batch_shape(self.X_pending, X), X], dim=-2)
        bound = self._optimistic_means(X) - self.risk_aversion.to(X) * self._optimistic_noise(X)
        return bound[..., -q:].mean(dim=-1)

    def _optimistic_means(self, X: Tensor) -> Tensor:
        r"""Upper bounds `batch_shape x q` of f, each after the points before it."""
        model: Any = self.model
        transform: Any = self.posterior_transform
        posterior = model.mean_model.posterior(X, posterior_transform=transform)
        noise = model.noise_of_means(X).squeeze(-1)
        if transform is not None:
            # The variance of a scaled outcome; an offset does not change it.
            noise = transform.weights.to(noise).square() * noise
        variance = variances_in_sequence(posterior.distribution.covariance_matrix, noise)
        return posterior.mean.squeeze(-1) + (self.beta.to(X) * variance).sqrt()

    def _optimistic_noise(self, X: Tensor) -> Tensor:
        r"""Lower bounds `batch_shape x q` of the noise, each after the points before it."""
        model: Any = self.model
        counts = torch.as_tensor(model.num_repeats).to(X).squeeze(-1)
        beta = None if self.noise_beta is None else self.noise_beta.to(X)
        noise, _ = model.noise.bounds_in_sequence(X, beta, counts)
        if beta is None:
            noise = model.noise.limits.apply(noise).clamp_min(0.0)
        return noise


class MeanVarianceObjective(MCAcquisitionObjective):
    r"""Samples of f minus a penalty for the noise at their points.

        objective(f, x) = f(x) - risk_aversion * v(x)

    v is the predicted noise variance, or its lower confidence bound if `noise_beta` is
    given, which is optimistic about noise that is not known yet. Eq. (2) of [Makarova2021rahbo]_,
    for acquisition functions other than the paper's: `qLogNoisyExpectedImprovement` then proposes
    points that improve the mean-variance value.

    Example:
        >>> from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        >>> from botorch_risk.examples import noisy_model, settings
        >>> objective = MeanVarianceObjective(noisy_model, risk_aversion=2.0)
        >>> acqf = qLogNoisyExpectedImprovement(noisy_model, settings, objective=objective)
        >>> acqf(torch.rand(5, 2, 1, dtype=torch.double)).shape
        torch.Size([5])
    """

    noise_beta: Tensor | None
    risk_aversion: Tensor
    _model: MeanVarianceGP

    def __init__(
        self,
        model: MeanVarianceGP,
        risk_aversion: float,
        noise_beta: float | None = None,
        outcome_index: int = 0,
    ) -> None:
        r"""Builds the objective.

        Args:
            model: The model whose noise is penalised.
            risk_aversion: Weight of the variance, >= 0 (the paper's alpha).
            noise_beta: Squared width of the lower bound of the noise; the predicted noise if
                omitted.
            outcome_index: The index of f among the outcomes of the samples, if the acquisition
                function is built on a list of models, for example with constraints.

        Raises:
            UnsupportedError: If the model is not a `MeanVarianceGP`.
        """
        require_mean_variance_gp(model)
        check_integers(outcome_index=outcome_index)
        super().__init__()
        keep_unregistered(self, "_model", model)  # the acquisition function owns it
        self.outcome_index = outcome_index
        register_weights(self, model, risk_aversion=risk_aversion, noise_beta=noise_beta)

    def forward(self, samples: Tensor, X: Tensor | None = None) -> Tensor:
        r"""Objective values of samples.

        Args:
            samples: `sample_shape x batch_shape x q x m` samples, including the outcome f.
            X: The `batch_shape x q x d` points at which they were drawn.

        Returns:
            `sample_shape x batch_shape x q` values.

        Raises:
            UnsupportedError: If the acquisition function does not pass its points to the objective.
        """
        if X is None:
            raise UnsupportedError(
                "Expected an acquisition function that passes its points to the objective. "
                "Got `X=None`."
            )
        if not -samples.shape[-1] <= self.outcome_index < samples.shape[-1]:
            raise BotorchTensorDimensionError(
                f"Expected samples with the outcome {self.outcome_index}. Got {samples.shape=}."
            )
        model = self._model
        if self.noise_beta is None:
            noise = model.predicted_noise(X).squeeze(-1)
        else:
            noise, _ = model.noise_confidence_bounds(X, self.noise_beta.to(X))
        return samples[..., self.outcome_index] - self.risk_aversion.to(samples) * noise


@construct_from_own_arguments
class NoisePosteriorStandardDeviation(PointwiseAcquisitionFunction):
    r"""Standard deviation of the noise process: largest where the noise is least known.

        score(x) = sigma_var(x), on the scale of the model's link

    The first stage of RAHBO-US ([Makarova2021rahbo]_, Sec. 4). Single-outcome, q = 1: use
    `sequential=True`.

    Example:
        >>> from botorch_risk.examples import noisy_model
        >>> acqf = NoisePosteriorStandardDeviation(noisy_model)
        >>> acqf(torch.rand(5, 1, 1, dtype=torch.double)).shape
        torch.Size([5])
    """

    def __init__(self, model: MeanVarianceGP, X_pending: Tensor | None = None) -> None:
        r"""Builds the acquisition function.

        Args:
            model: A fitted mean-variance model that learns its noise.
            X_pending: `batch_shape x n' x d` points under evaluation.

        Raises:
            UnsupportedError: If the model does not learn its noise.
        """
        if not isinstance(model, MeanVarianceGP) or not isinstance(model.noise, LearntNoise):
            raise UnsupportedError(
                f"Expected a MeanVarianceGP that learns its noise. Got {type(model).__name__}."
            )
        super().__init__(model=model)
        self.set_X_pending(X_pending)

    def _condition(self, X_pending: Tensor | None) -> MeanVarianceGP:
        model: Any = self.model
        return model if X_pending is None else model.condition_on_pending(X_pending)

    def score(self, X: Tensor) -> Tensor:
        r"""Standard deviations at `batch_shape x m x d` points, `batch_shape x m`."""
        return self._conditioned.noise.marginals(X).variance.sqrt()
