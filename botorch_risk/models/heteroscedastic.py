r"""A Gaussian process for the mean and one for the noise, learnt together from repeats.

.. [Makarova2021rahbo]
    A. Makarova, I. Usmanova, I. Bogunovic, A. Krause. Risk-averse Heteroscedastic Bayesian
    Optimization. Advances in Neural Information Processing Systems 34, 2021.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.model import FantasizeMixin, Model
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform, Standardize
from botorch.models.utils.assorted import fantasize
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.posteriors import GPyTorchPosterior, Posterior, TransformedPosterior
from botorch.sampling.base import MCSampler
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths, draw_matheron_paths
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.means import Mean
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.models import GP
from gpytorch.settings import min_fixed_noise
from torch import Tensor

from botorch_risk.models.fixed_noise import (
    NoiseOfMeans,
    condition,
    is_one_to_many,
    load_process,
    set_fixed_noise,
    transform_variance,
)
from botorch_risk.models.noise_observations import stand_in_first
from botorch_risk.models.noise_process import KnownNoise, LearntNoise, NoiseLimits, NoiseProcess
from botorch_risk.models.outcome_scales import StandardDeviationScale
from botorch_risk.models.repeats import WORTHLESS, RepeatedOutcomes, pool_repeated_rows
from botorch_risk.models.validation import (
    validate_inputs,
    validate_outcomes,
    warning_of_small_scale,
)
from botorch_risk.posterior.inputs import check_points
from botorch_risk.posterior.marginals import MarginalPredictor, root_of_beta


@runtime_checkable
class LossOfEachProcess(Protocol):
    r"""A loss that says itself how it applies to one process of a composed model."""

    def of_process(self, model: Any) -> MarginalLogLikelihood:
        r"""The loss of one `SingleTaskGP`."""
        ...


class MeanVarianceGP(Model, GP, FantasizeMixin):
    r"""A heteroscedastic Gaussian process that learns mean and noise from repeats.

    Composes two `SingleTaskGP`s [Makarova2021rahbo]_: `noise_model` for the noise variance
    `rho^2`, on the sample variances (Eqs. 12-15, 32-33; the printed Eq. 32 lacks the square
    of s), and `mean_model` for `f`, on the sample means with the fixed noise of Eq. (16),

        S_i = min(ucb_var(x_i), max_noise_variance) / k_i,
        ucb_var(x) = mu_var(x) + sqrt(noise_beta) sigma_var(x),

    taken from the newest noise model at all points. It is a BoTorch model with one output:
    `posterior(X)` is that of f, and `posterior(X, observation_noise=True)` adds the
    PREDICTED noise of one repeat at X. Fit it as any other model; both processes are fitted
    and Eq. (16) is evaluated in between. All public quantities are in the units of the
    outcome (variances in their square), whatever the transforms inside.

    Rows with equal inputs are pooled, so that a long table with one reading a row does (not in
    batches, which keep their rows). Rows with a single repeat inform the mean only. Repeats
    without any spread, which rounded instruments give, count with the log link as censored: their
    sample variance is below the smallest positive one of the data. Readings
    whose noise is known bring it as `train_Yvar`: it is then the noise of the mean process at
    their points, and the noise process interpolates it elsewhere.

    How well the noise is known depends on k. Where it is constant, 15 points of two repeats
    predict 1.4 times the true variance in the median, with an upper bound (`noise_beta=4`) of 5
    times; three repeats 1.2 and 3.4, five 1.2 and 2.4, ten 1.1 and 1.8 times.

    Example:
        >>> from botorch.fit import fit_gpytorch_mll
        >>> from gpytorch.mlls import ExactMarginalLogLikelihood
        >>> train_X = torch.rand(12, 2, dtype=torch.double)
        >>> noise = (0.1 + train_X[:, :1]) * torch.randn(12, 5, dtype=torch.double)
        >>> model = MeanVarianceGP(train_X, train_X.sum(-1, keepdim=True).sin() + noise)
        >>> mll = fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        >>> X = torch.rand(3, 2, dtype=torch.double)
        >>> model.posterior(X).mean.shape, model.noise_posterior(X).mean.shape
        (torch.Size([3, 1]), torch.Size([3, 1]))
    """

    train_X: Tensor
    train_counts: Tensor
    train_means: Tensor
    train_variances: Tensor
    mean_model: Any

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor | Sequence[Tensor] | RepeatedOutcomes,
        train_Yvar: Tensor | Sequence[Tensor] | None = None,
        *,
        variance_link: Literal["log", "identity"] = "log",
        sample_variance_noise: Literal["inferred", "bound", "pointwise"] | None = None,
        noise_beta: float = 4.0,
        min_noise_variance: float | None = None,
        max_noise_variance: float | None = None,
        known_noise: Callable[[Tensor], Tensor] | None = None,
        covar_module: Kernel | None = None,
        noise_covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        input_transform: InputTransform | None = None,
    ) -> None:
        r"""Builds both processes.

        Args:
            train_X: `batch_shape x n x d` inputs.
            train_Y: `batch_shape x n x k` repeats, NaN where one is missing; a list of `n`
                tensors of any lengths; or `RepeatedOutcomes`. One reading a row (`n x 1`) with
                inputs that come back is the same table in long form.
            train_Yvar: The noise variance of each reading, > 0, in the form of `train_Y`, if it
                is known. Nothing is estimated from the spread of readings then.
            variance_link: `"log"` models the logarithm of the noise variance, whose
                observation noise is known exactly for Gaussian repeats; `"identity"` models
                the variance itself (the paper). The default is the better calibrated one
                (reproduction/rahbo/calibration.md): fitted, the 95 % band of the noise covers
                91 to 94 % with the log link, and 84 % with the identity link and inferred noise.
            sample_variance_noise: With the identity link, the noise of a sample variance:
                `"inferred"` (one level, learnt; the paper's experiments and the default),
                `"bound"` (`2 max_noise_variance^2 / (k - 1)`, the paper's theory), or
                `"pointwise"` (`2 ucb_var(x)^2 / (k - 1)`).
            noise_beta: Squared width of the upper bound of the noise in Eq. (16): the
                paper's beta^var multiplies sigma, so `noise_beta = (beta^var)^2`.
            min_noise_variance: A lower limit of the noise variance, the paper's assumption
                `rho >= rho_low` squared. It limits what is predicted, never a sample variance,
                which may well be lower. Without it the identity link raises where the upper
                bound of Eq. (16) is not positive, once that bound is needed.
            max_noise_variance: An upper limit of the noise variance (the paper's squared
                `rho_bar`).
            known_noise: The noise variance as a function `... x d -> ... x 1`, if it is known
                (Eq. 9). Nothing is learnt about the noise then.
            covar_module: Kernel of the mean process; BoTorch's default if omitted.
            noise_covar_module: Kernel of the noise process; BoTorch's default if omitted.
            mean_module: Prior mean of the mean process; constant if omitted.
            outcome_transform: A LINEAR transform of the outcome for the mean process (the noise
                follows it squared); `Standardize` if omitted, `None` for none.
            input_transform: Applied to the inputs; each process owns a copy, so that a
                learnable one is learnt by each.

        Raises:
            BotorchTensorDimensionError: If shapes do not match.
            InputDataError: If an input is not finite, dtypes differ, a row has no repeat, no
                row has two, or the outcomes of a single model are constant (in a batch a
                constant replicate is named by a warning).
            UnsupportedError: If the outcome transform is not linear, or learns from the data while
                a replicate of a batch misses rows.
            ValueError: If a limit, a beta or a choice is out of its range.
        """
        super().__init__()
        outcomes = _as_outcomes(train_Y, train_Yvar)
        limits = NoiseLimits(floor=min_noise_variance, ceiling=max_noise_variance)
        if not noise_beta >= 0:
            raise ValueError(f"Expected `noise_beta` >= 0. Got {noise_beta}.")
        validate_inputs(train_X, outcomes)
        train_X, outcomes = train_X.detach(), outcomes.detach()
        if not train_X.shape[:-2]:
            train_X, outcomes = pool_repeated_rows(train_X, outcomes)
        validate_outcomes(outcomes, needs_spread=known_noise is None)
        observed = outcomes.counts > 0
        outcome_transform = _for_observed(outcome_transform, observed)
        self.noise_beta = noise_beta
        self.is_conditioned = False
        self.register_buffer("train_X", train_X, persistent=False)
        self.register_buffer("train_counts", outcomes.counts, persistent=False)
        self.register_buffer("train_means", outcomes.means, persistent=False)
        self.register_buffer("train_variances", outcomes.variances, persistent=False)
        self.knows_variances = outcomes.known_variances
        self.noise: NoiseProcess
        if known_noise is not None:
            self.noise = KnownNoise(known_noise, limits)
        else:
            self.noise = LearntNoise(
                train_X,
                outcomes,
                limits,
                link=variance_link,
                sample_noise=sample_variance_noise,
                beta=noise_beta,
                covar_module=noise_covar_module,
                input_transform=copy.deepcopy(input_transform),
            )
        if covar_module is None and not bool(observed.all()):
            # With a kernel given BoTorch does not ask whether the fillers are standardised.
            covar_module = get_covar_module_with_dim_scaled_prior(
                ard_num_dims=train_X.shape[-1], batch_shape=train_X.shape[:-2]
            )
        self.mean_model = SingleTaskGP(
            stand_in_first(train_X, observed),
            outcomes.means,
            likelihood=NoiseOfMeans(outcomes.means.squeeze(-1).square() + 1),  # Eq. (16) below
            covar_module=covar_module,
            mean_module=mean_module,
            outcome_transform=outcome_transform,
            input_transform=input_transform,
        )
        self._mean_marginals = MarginalPredictor(self.mean_model)
        self._warning = warning_of_small_scale(self.mean_model)
        self._is_noise_current = self._set_noise()
        self.train()

    @classmethod
    def from_repeats(cls, train_X: Tensor, train_Y: Tensor, **options: Any) -> MeanVarianceGP:
        r"""The same as the constructor: `train_Y` holds `batch_shape x n x k` repeats."""
        return cls(train_X, train_Y, **options)

    @classmethod
    def from_summary(
        cls, train_X: Tensor, means: Tensor, variances: Tensor, counts: Tensor, **options: Any
    ) -> MeanVarianceGP:
        r"""Builds the model from statistics of repeats.

        Args:
            train_X: `batch_shape x n x d` inputs.
            means: `batch_shape x n x 1` sample means.
            variances: `batch_shape x n x 1` unbiased sample variances of one repeat, > 0
                (with a standard error `sem` of the mean: `counts * sem**2`); ignored where
                the count is 1.
            counts: `batch_shape x n x 1` numbers of repeats.
            options: Further arguments of the constructor.
        """
        return cls(train_X, RepeatedOutcomes.from_summary(means, variances, counts), **options)

    @classmethod
    def construct_inputs(
        cls, training_data: SupervisedDataset, counts: Tensor | None = None
    ) -> dict[str, Any]:
        r"""Arguments of the constructor from a dataset of BoTorch or Ax.

        Args:
            training_data: Without `Yvar`, `Y` holds `n x k` repeats. With `Yvar` and `counts`,
                `Y` holds means and `Yvar` their squared standard errors, `n x 1` each. With `Yvar`
                alone, `Y` holds readings and `Yvar` the noise variance of each.
            counts: `n x 1` numbers of repeats behind each mean.
        """
        inputs = {"train_X": training_data.X, "train_Y": training_data.Y}
        if training_data.Yvar is None:
            return inputs
        if counts is None:
            return {**inputs, "train_Yvar": training_data.Yvar}
        variances = training_data.Yvar * counts
        outcomes = RepeatedOutcomes.from_summary(training_data.Y, variances, counts)
        return {"train_X": training_data.X, "train_Y": outcomes}

    @property
    def mean_marginals(self) -> MarginalPredictor:
        r"""Marginal moments of f at points that do not interact; see `MarginalPredictor`."""
        self._require_noise()
        return self._mean_marginals

    @property
    def likelihood(self) -> FixedNoiseGaussianLikelihood:
        r"""The likelihood of the mean process, so that the usual line of fitting works."""
        return self.mean_model.likelihood

    @property
    def mean_module(self) -> Any:
        r"""The prior mean of f, as on `SingleTaskGP`."""
        return self.mean_model.mean_module

    @property
    def covar_module(self) -> Any:
        r"""The kernel of f, as on `SingleTaskGP`."""
        return self.mean_model.covar_module

    @property
    def outcome_transform(self) -> Any:
        r"""How f is scaled, as on `SingleTaskGP`; no such attribute without a transform."""
        return self.mean_model.outcome_transform

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        r"""The training inputs of the mean process."""
        return self.mean_model.train_inputs

    @property
    def train_targets(self) -> Tensor:
        r"""The training targets of the mean process."""
        return self.mean_model.train_targets

    @property
    def batch_shape(self) -> torch.Size:
        r"""The batch shape of both processes."""
        return self.mean_model.batch_shape

    @property
    def num_outputs(self) -> int:
        r"""One: the mean. The noise is read through `noise_posterior`."""
        return 1

    @property
    def noise_model(self) -> Any:
        r"""The model of the noise, on the scale of its link."""
        return self.noise.model

    @property
    def num_repeats(self) -> int:
        r"""The median number of repeats of the rows with outcomes, assumed of rows to come."""
        counts = self.train_counts[self.train_counts > 0]
        return int(counts.median()) if counts.numel() else 1

    def forward(self, X: Tensor) -> MultivariateNormal:
        r"""The distribution of the mean process at X, in its own units (GPyTorch's protocol)."""
        self._require_noise()
        return self.mean_model(X)

    def set_train_data(self, *args: Any, **kwargs: Any) -> None:
        r"""Refuses: the noise and its weight in the mean depend on all repeats.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            "Expected new data to come with their repeats: build a new MeanVarianceGP and pass it "
            "this one's `state_dict()`, or use `condition_on_observations`. Got `set_train_data`."
        )

    def posterior(  # type: ignore[override]
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> GPyTorchPosterior | TransformedPosterior:
        r"""The posterior of f, or of one repeat.

        Args:
            X: `batch_shape x q x d` inputs.
            output_indices: `None` or `[0]`.
            observation_noise: If True, adds the predicted noise of one repeat at X. A tensor
                `batch_shape x q x 1` is added as it is, in the units of the transformed outcome.
            posterior_transform: Applied to the posterior.

        Returns:
            A posterior over `batch_shape x q x 1` values.
        """
        if output_indices not in (None, [0]):
            raise UnsupportedError(f"Expected `output_indices` None or [0]. Got {output_indices}.")
        check_points("X", X, self)
        self._require_noise()
        if self._warning is not None:
            warnings.warn(self._warning, InputDataWarning, stacklevel=2)
        if observation_noise is True:
            observation_noise = transform_variance(self.mean_model, self.predicted_noise(X))
        return self.mean_model.posterior(
            X, observation_noise=observation_noise, posterior_transform=posterior_transform
        )

    def noise_posterior(self, X: Tensor) -> Posterior:
        r"""The posterior of the noise variance of one repeat at `batch_shape x q x d` inputs.

        Gaussian with the identity link, log-normal with the log link.
        """
        check_points("X", X, self)
        return self.noise.posterior(X)

    def predicted_noise(self, X: Tensor) -> Tensor:
        r"""Posterior mean of the noise variance within its limits, and at least 0.

        Args:
            X: `batch_shape x q x d` inputs.

        Returns:
            `batch_shape x q x 1` variances of one repeat; as many as `posterior` has values where
            an input transform makes several inputs of one.
        """
        if is_one_to_many(self.noise.model):
            posterior: Any = self.noise.posterior(X)
            expected = posterior.mean
        else:
            expected = self.noise.expected(X).unsqueeze(-1)
        return self.noise.limits.apply(expected).clamp_min(0.0)

    def confidence_bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of f, `mean -+ sqrt(beta) * standard deviation` (Eq. 7).

        Args:
            X: `batch_shape x m x d` points that do not interact.
            beta: Squared width, one for all, one a replicate (`batch_shape`) or one a point
                (`batch_shape x m`); the paper's beta_t multiplies sigma.

        Returns:
            Two `batch_shape x m` tensors.
        """
        mean, variance = self.mean_marginals(X)
        width = variance.sqrt() * root_of_beta(beta, mean, self.batch_shape)
        return mean - width, mean + width

    def noise_confidence_bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of the noise variance of one repeat (Eqs. 14, 15).

        The bounds are quantiles: with the log link the exponentials of those of the process.
        With the identity link the lower bound may be negative, as in the paper.

        Args:
            X: `batch_shape x m x d` points that do not interact.
            beta: Squared width, in the same forms; the paper's beta^var_t multiplies sigma.

        Returns:
            Two `batch_shape x m` tensors.
        """
        return self.noise.bounds(X, beta)

    def noise_of_means(self, X: Tensor, num_repeats: Tensor | int) -> Tensor:
        r"""The cautious noise variance of a mean of repeats, Eq. (16).

        Args:
            X: `batch_shape x n x d` inputs.
            num_repeats: The number of repeats, broadcastable to `batch_shape x n x 1`.

        Returns:
            `batch_shape x n x 1` variances, > 0.

        Raises:
            ValueError: If the upper bound of the noise is not positive and no floor is set.
        """
        noise = self._upper_noise(X)
        if not (noise > 0).all():
            raise ValueError(
                "Expected a positive upper bound of the noise variance at every point. Got "
                f"{noise.min().item():.3g}; fit the model, set `min_noise_variance`, or use the "
                "log link."
            )
        return noise / num_repeats

    def refresh_noise(self) -> None:
        r"""Evaluates Eq. (16) again at all training points; needed only after changes by hand.

        Raises:
            ValueError: If the upper bound of the noise is not positive and no floor is set.
        """
        if self.is_conditioned:
            raise UnsupportedError(
                "Expected a model built from its data. Got one conditioned on further observations."
            )
        self._is_noise_current = self._set_noise()
        self._require_noise()

    def custom_fit(
        self,
        mll: MarginalLogLikelihood,
        closure: Callable[..., Any] | None = None,
        closure_kwargs: dict[str, Any] | None = None,
        optimizer_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> MarginalLogLikelihood:
        r"""What `fit_gpytorch_mll(mll)` does with this model: noise, Eq. (16), mean.

        Args:
            mll: A marginal log likelihood of this model; each process is fitted by one of the
                same class.
            closure: Not supported, since two processes are fitted.
            closure_kwargs: Not supported.
            optimizer_kwargs: Passed on to both fits.
            kwargs: Passed on to both fits.

        Raises:
            UnsupportedError: If a closure is given, or the model was conditioned.
        """
        if closure is not None or closure_kwargs is not None:
            raise UnsupportedError(
                "Expected no closure: MeanVarianceGP fits two processes, one after the other."
            )

        def fit(model: Any) -> bool:
            if isinstance(mll, LossOfEachProcess):
                part = mll.of_process(model)
            else:
                part = type(mll)(model.likelihood, model)
            fit_gpytorch_mll(part, optimizer_kwargs=optimizer_kwargs, **kwargs)
            return not part.training

        return mll.eval() if self.fit_processes(fit) else mll

    def fit_processes(self, fit: Callable[[Any], bool]) -> bool:
        r"""Fits the noise, evaluates Eq. (16), and fits the mean.

        Args:
            fit: Fits one `SingleTaskGP` in place and tells whether it succeeded.

        Returns:
            Whether all fits succeeded.

        Raises:
            ValueError: If the upper bound of the fitted noise is not positive and no floor is set.
        """
        fitted = self.noise.fit(fit)
        self.refresh_noise()
        return fit(self.mean_model) and fitted

    def condition_on_observations(
        self,
        X: Tensor,
        Y: Tensor,
        num_repeats: int | Tensor | None = None,
        variances: Tensor | None = None,
        noise: Tensor | None = None,
        **kwargs: Any,
    ) -> MeanVarianceGP:
        r"""Adds means of repeats without another fit.

        The noise of the rows that are already there stays as it is (it can only be too
        cautious): Eq. (16) is evaluated again when the model is built from all data.

        Args:
            X: `batch_shape x n' x d` inputs.
            Y: `... x n' x 1` means of repeats.
            num_repeats: The number of repeats behind each mean, one for all or broadcastable to
                `... x n' x 1`; `self.num_repeats` if omitted.
            variances: `... x n' x 1` sample variances. If given, the noise process learns too,
                from the rows with at least two repeats.
            noise: `... x n' x 1` variances of the means in the units of the transformed outcome,
                as BoTorch passes them when it fantasizes; Eq. (16) if omitted.
            kwargs: Passed on to the mean process.
        """
        self._require_noise()
        counts = self._counts(num_repeats, X)
        if noise is None:
            noise = transform_variance(self.mean_model, self.noise_of_means(X, counts))
        noise = noise.clamp_min(min_fixed_noise.value(noise.dtype))
        process = self.noise
        if variances is not None:
            process = self.noise.conditioned(X, counts.expand_as(variances), variances)
        mean_model = condition(self.mean_model, X, Y, noise=noise, **kwargs)
        return self._with_processes(mean_model, process)

    def condition_on_pending(
        self, X: Tensor, num_repeats: int | Tensor | None = None
    ) -> MeanVarianceGP:
        r"""Conditions both processes on their own means at points under evaluation.

        Means stay where they are and standard deviations shrink: the hallucinated
        observations of batch UCB.

        Args:
            X: `batch_shape x n' x d` pending points.
            num_repeats: Repeats at each of them; `self.num_repeats` if omitted.
        """
        counts = self._counts(num_repeats, X)
        with torch.no_grad():
            repeated = bool((counts > 1).any())
            process = self.noise.conditioned(X, counts, None) if repeated else self.noise
            conditioned = self.condition_on_observations(X, self.posterior(X).mean, counts)
        return conditioned._with_processes(conditioned.mean_model, process)

    def fantasize(
        self,
        X: Tensor,
        sampler: MCSampler,
        observation_noise: Tensor | None = None,
        num_repeats: int | Tensor | None = None,
        **kwargs: Any,
    ) -> MeanVarianceGP:
        r"""Conditions the mean process on samples of means of repeats at X.

        Args:
            X: `batch_shape x n' x d` inputs.
            sampler: Draws the means from the posterior.
            observation_noise: `batch_shape x n' x 1` variances of the means in the units of the
                transformed outcome; the predicted noise at X over `num_repeats` if omitted.
            num_repeats: Repeats of each fantasy; `self.num_repeats` if omitted.
            kwargs: Passed on to `condition_on_observations`.
        """
        if observation_noise is None:
            if X.shape[-2] == 0:
                observation_noise = X.new_ones(*self.batch_shape, 1, 1)
            else:
                with fantasize():
                    noise = self.predicted_noise(X) / self._counts(num_repeats, X)
                observation_noise = transform_variance(self.mean_model, noise)
        return super().fantasize(X, sampler, observation_noise=observation_noise, **kwargs)

    def subset_output(self, idcs: list[int]) -> MeanVarianceGP:
        r"""A copy; the model has the one output 0."""
        if idcs not in ([0], [-1]):
            raise UnsupportedError(f"Expected the one output `[0]`. Got {idcs=}.")
        return copy.deepcopy(self)

    def load_state_dict(  # type: ignore[override]
        self,
        state_dict: Mapping[str, Any],
        strict: bool = True,
        keep_transforms: bool = True,
        assign: bool = False,
    ) -> None:
        r"""Loads hyperparameters into both processes and evaluates Eq. (16) at this model's data.

        As with BoTorch's models the training data are those that the model was built with;
        with the same data the posterior is restored exactly.

        Args:
            state_dict: The state of a model of the same structure.
            strict: Whether the keys must match exactly.
            keep_transforms: As in BoTorch's models.
            assign: As in PyTorch.
        """
        parts: dict[str, dict[str, Any]] = {"mean_model": {}, "noise": {}}
        for key, value in state_dict.items():
            name, _, rest = key.partition(".")
            if name in parts:
                parts[name][rest] = value
            elif strict:
                raise RuntimeError(f"Expected keys of the parts {sorted(parts)}. Got {key!r}.")
        options = {"strict": strict, "keep_transforms": keep_transforms, "assign": assign}
        self.noise.load(parts["noise"], **options)
        load_process(self.mean_model, parts["mean_model"], **options)
        self.refresh_noise()

    def _counts(self, num_repeats: int | Tensor | None, X: Tensor) -> Tensor:
        r"""Numbers of repeats, those of the training rows if omitted; refuses less than one."""
        counts = torch.as_tensor(self.num_repeats if num_repeats is None else num_repeats).to(X)
        if not bool((counts >= 1).all()):
            raise ValueError(f"Expected `num_repeats` >= 1. Got {num_repeats}.")
        return counts

    def _upper_noise(self, X: Tensor) -> Tensor:
        r"""The upper bound of the noise variance within its limits, `batch_shape x n x 1`."""
        with fantasize():  # at X itself, where an input transform would make several of it
            upper = self.noise.bounds(X, self.noise_beta)[1].unsqueeze(-1)
        return self.noise.limits.apply(upper)  # Eq. (16)

    def _set_noise(self) -> bool:
        r"""Eq. (16) at all training points, given noise where it is known; whether it is positive.

        Rows without an outcome get no weight.
        """
        observed = self.train_counts > 0
        with torch.no_grad():
            if self.knows_variances:
                upper = self.train_variances
            else:
                upper = self._upper_noise(self.train_X)
            upper = upper.where(observed, torch.ones_like(upper))
            is_positive = bool((upper > 0).all())
            noise = upper / self.train_counts.clamp_min(1)
            spread = self.train_means.square().mean(dim=-2, keepdim=True)
            set_fixed_noise(self.mean_model, noise.where(observed, WORTHLESS * (1 + spread)))
        return is_positive

    def _require_noise(self) -> None:
        r"""Raises unless Eq. (16) is positive at the training points."""
        if not self._is_noise_current:
            self.noise_of_means(self.train_X, self.train_counts.clamp_min(1))

    def _with_processes(self, mean_model: Any, noise: NoiseProcess) -> MeanVarianceGP:
        r"""This model with other processes; everything else is shared."""
        model = copy.copy(self)
        model._buffers = dict(self._buffers)
        model._modules = {"noise": noise, "mean_model": mean_model}
        model._mean_marginals = MarginalPredictor(mean_model)
        model.is_conditioned = True
        return model


def _as_outcomes(
    train_Y: Tensor | Sequence[Tensor] | RepeatedOutcomes,
    train_Yvar: Tensor | Sequence[Tensor] | None,
) -> RepeatedOutcomes:
    if not isinstance(train_Y, RepeatedOutcomes):
        return RepeatedOutcomes.from_repeats(train_Y, train_Yvar)
    if train_Yvar is not None:
        raise ValueError(
            "Expected `train_Yvar` beside readings, not beside `RepeatedOutcomes`, which hold the "
            "noise already. Got both."
        )
    return train_Y


def _for_observed(
    transform: OutcomeTransform | _DefaultType | None, observed: Tensor
) -> OutcomeTransform | None:
    r"""The outcome transform, with statistics of the observed rows alone."""
    if transform == DEFAULT:
        return StandardDeviationScale(observed)
    if transform is None:
        return None
    assert isinstance(transform, OutcomeTransform)  # for the type checker
    if not transform._is_linear:
        raise UnsupportedError(
            "Expected a linear `outcome_transform`: the mean of transformed repeats is not "
            f"the transformed mean. Got {type(transform).__name__}."
        )
    if bool(observed.all()):
        return transform
    if type(transform) is Standardize:
        return StandardDeviationScale(observed)
    raise UnsupportedError(
        "Expected `Standardize` or no `outcome_transform` where a replicate misses rows, since "
        f"fillers would enter its statistics. Got {type(transform).__name__}."
    )


@DrawMatheronPaths.register(MeanVarianceGP)
def _draw_matheron_paths(model: MeanVarianceGP, **options: Any) -> Any:
    r"""Pathwise samples of a mean-variance model are those of f."""
    return draw_matheron_paths(model.mean_model, **options)
