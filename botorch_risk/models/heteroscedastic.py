r"""A Gaussian process for the mean and one for the noise, learnt together from repeats."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.model import FantasizeMixin, Model
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.models.utils.assorted import fantasize
from botorch.posteriors import GPyTorchPosterior, Posterior, TransformedPosterior
from botorch.sampling.base import MCSampler
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths, draw_matheron_paths
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.models import GP
from torch import Tensor

from botorch_risk.arguments import as_floating, check_arguments, check_nonnegative
from botorch_risk.engine import Belief
from botorch_risk.gradients import condition, predicting_with
from botorch_risk.models import fixed_noise
from botorch_risk.models import training_data as data
from botorch_risk.models.learnt_noise import LearntNoise
from botorch_risk.models.mean_and_noise import check_prior_of_constant
from botorch_risk.models.noise_evidence import default_evidence
from botorch_risk.models.noise_observations import stand_in_first
from botorch_risk.models.noise_process import KnownNoise, NoiseLimits, NoiseProcess, checked_noise
from botorch_risk.models.outcome_scales import StandardDeviationScale, scale_of_observed
from botorch_risk.models.renewed import has_room, remember_beginning
from botorch_risk.models.repeats import RepeatedOutcomes, check_finite
from botorch_risk.models.two_process_fit import TwoProcessFit
from botorch_risk.models.wrong_readings import without_wrong_readings
from botorch_risk.points import checked_points, root_of_beta


def _of_mean_process(name: str) -> Any:
    return property(attrgetter(f"mean_model.{name}"))


class MeanVarianceGP(TwoProcessFit, Model, GP, FantasizeMixin):
    r"""Learn the mean and the noise of an outcome: a heteroscedastic Gaussian process.

    It consists of two `SingleTaskGP` models [Makarova2021rahbo]_: `noise_model` learns the noise
    variance `rho^2`, and `mean_model` learns `f` from the sample means with the noise of Eq. (16),

        S_i = min(ucb_var(x_i), max_noise_variance) / k_i,
        ucb_var(x) = mu_var(x) + sqrt(noise_beta) sigma_var(x).

    It is a BoTorch model with one output: `posterior(X)` is the posterior of f, and
    `posterior(X, observation_noise=True)` adds the PREDICTED noise of one repeat at X. Fit it like
    any other model: both processes are fitted at once to all readings, by Laplace's approximation
    of their evidence (`models/laplace_evidence.py`, [Binois2018hetgp]_ for the likelihood), and Eq.
    (16) is then evaluated. The paper learns the noise before the mean, from sample variances alone
    (Eqs. 12-15, 32-33; the printed Eq. 32 lacks the square of s): choose `noise_evidence="spread"`,
    which observes `log s^2` without its bias, or `s^2` (`models/variance_links.py`). All public
    quantities are in the units of the outcome (variances in their square).

    Rows with equal inputs are pooled, except in a batch of replicates. Single readings also inform
    the noise, by their residuals; if there is little evidence of where the noise differs, it is
    nearly constant. With the log link, identical repeats, for example from a rounding instrument,
    are treated as if they had the smallest positive sample variance of the data.

    ONE reading per point says little about the noise: what looks like noise may be f, and a fit
    chooses one explanation and is sure of it. `MeanVarianceSamples` keep both. Measure repeats, or
    give `train_Yvar`, where you can. The table has the fit and, after the comma or in bold, the
    samples, for constant noise and 60 functions of variance 1 from a Matern-5/2 process with
    lengthscales of 0.25 in one input and 0.5 in two. Variances are medians in units of the truth,
    bounds have two standard deviations (`bench/studies/coverage/noise.py`):

    | points, inputs | noise | predicted, k = 1 | upper bound | truth above it, k = 1, 2, 3 |
    |---|---|---|---|---|
    | 15, 1 | 0.05 | 0.85, 1.52 | 2.8, 6.0 | 8, 5, 5 %; **0, 1, 2 %** |
    | 15, 1 | 0.5 | 0.56, 1.03 | 1.9, 3.7 | 20, 5, 6 %; **0, 2, 1 %** |
    | 25, 2 | 0.05 | 0.94, 1.30 | 3.1, 4.7 | 7, 5, 2 %; **0, 2, 0 %** |
    | 25, 2 | 0.5 | 0.60, 1.10 | 1.8, 3.5 | 30, 6, 3 %; **0, 3, 1 %** |
    | 25, 2 | 1 | 0.45, 1.07 | 1.6, 3.1 | 41, 6, 3 %; **0, 2, 1 %** |
    | 40, 2 | 0.5 | 0.61, 0.93 | 1.8, 2.2 | 19, 3, 3 %; **0, 0, 2 %** |

    Example:
        >>> from botorch.fit import fit_gpytorch_mll
        >>> from gpytorch.mlls import ExactMarginalLogLikelihood
        >>> from botorch_risk.examples import readings, settings
        >>> model = MeanVarianceGP(settings, readings)
        >>> mll = fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        >>> X = torch.rand(3, 1, dtype=torch.double)
        >>> model.posterior(X).mean.shape, model.noise_posterior(X).mean.shape
        (torch.Size([3, 1]), torch.Size([3, 1]))
    """

    mean_model: Any
    noise: NoiseProcess
    train_X: Tensor
    train_counts: Tensor
    train_means: Tensor
    train_variances: Tensor
    dropped_readings: Tensor
    _reading: dict[str, bool] | None = None  # options, if `renew` may be called

    # What BoTorch and GPyTorch read of a `SingleTaskGP` is the mean process's.
    likelihood = _of_mean_process("likelihood")
    mean_module = _of_mean_process("mean_module")
    covar_module = _of_mean_process("covar_module")
    outcome_transform = _of_mean_process("outcome_transform")
    train_inputs = _of_mean_process("train_inputs")
    train_targets = _of_mean_process("train_targets")
    batch_shape = _of_mean_process("batch_shape")

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor | Sequence[Tensor] | RepeatedOutcomes,
        train_Yvar: Tensor | Sequence[Tensor] | None = None,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        input_transform: InputTransform | None = None,
        *,
        variance_link: Literal["log", "identity"] = "log",
        sample_variance_noise: Literal["inferred", "bound", "pointwise"] | None = None,
        noise_evidence: Literal["readings", "spread"] | None = None,
        noise_beta: float = 1.0,
        min_noise_variance: float | None = None,
        max_noise_variance: float | None = None,
        known_noise: Callable[[Tensor], Tensor] | None = None,
        noise_covar_module: Kernel | None = None,
        keep_copies: bool = False,
        trim: float | None = None,
    ) -> None:
        r"""Build both processes.

        Args:
            train_X: `batch_shape x n x d` inputs.
            train_Y: `batch_shape x n x k` repeats, NaN for a missing one; a list of `n`
                tensors of any lengths; or `RepeatedOutcomes`. A long table of one reading per row
                (`n x 1`), in which inputs repeat, means the same.
            train_Yvar: The noise variance of each reading, > 0, in the form of `train_Y`, if it
                is known. It is the noise of the mean process at these points, and the noise process
                interpolates it.
            covar_module: Kernel of the mean process; `fixed_noise.mean_kernel` if omitted.
            mean_module: Prior mean of the mean process; constant if omitted.
            outcome_transform: A LINEAR transform of the outcome for the mean process (the noise
                follows it squared); `Standardize` if omitted, `None` for none.
            input_transform: Applied to the inputs; the noise process owns and learns a copy.
            variance_link: `"log"` models the logarithm of the noise variance, whose
                observation noise is known exactly for Gaussian repeats; `"identity"` models
                the variance itself, as the paper does. The default is better calibrated
                (bench/reproduction/rahbo/calibration.md): the 95 % band of the noise covers
                91 to 94 % with the log link, 85 to 87 % with the identity link.
            noise_evidence: The evidence for the noise: all `"readings"`, by their spread at each
                point and their residuals from the mean process, or the `"spread"` alone, the sample
                variances. The default is the readings with the log link, and the spread with the
                identity link or `train_Yvar`, which support nothing else.
            sample_variance_noise: With the identity link, the noise of a sample variance:
                `"inferred"` (one level, learnt; the paper's experiments and the default),
                `"bound"` (`2 max_noise_variance^2 / (k - 1)`, the paper's theory), or
                `"pointwise"` (`2 ucb_var(x)^2 / (k - 1)`).
            noise_beta: Squared width of the upper bound of the noise in Eq. (16): the
                paper's beta^var multiplies sigma, so `noise_beta = (beta^var)^2`. The papers'
                strategies use 4; with 1 the error of f is smaller at few repeats, and its band
                covers as well (bench/studies/learnt_noise).
            min_noise_variance: A lower limit of the predicted noise variance, the paper's
                `rho >= rho_low` squared. Without it the identity link raises if the upper bound
                of Eq. (16) is not positive when it is needed.
            max_noise_variance: An upper limit of the noise variance, the paper's `rho_bar` squared.
            known_noise: The noise variance as a function `... x d -> ... x 1`, if it is known (Eq.
                9). Then nothing is learnt about the noise.
            noise_covar_module: Kernel of the noise process; `fixed_noise.noise_kernel` if omitted,
                whose lengthscales follow the mean's, and BoTorch's default for the spread.
            keep_copies: Whether each of several equal readings of a row counts. By default readings
                that are equal, or differ by less than 1e-4 of the spread of other rows, count once
                if this is unlikely to be chance, and a warning names their rows: tables are often
                filled up with copies. Equal readings of a rounding instrument are not copies. A row
                without noise among noisy ones cannot be told from copies: keep them then.
                Applies only if the noise is learnt from `"readings"`, given as such and not as a
                summary.
            trim: Leave out wrong readings: those farther from the others' prediction than this
                number of standard deviations, at most 5 % of a replicate's. 5.0 is a good choice.
                All readings of a row are left out if the other rows say so of their mean: a real
                peak that only one row has seen looks the same. Construction then fits the model up
                to four times; `dropped_readings` has their positions. It applies under the
                conditions of `keep_copies`.

        Raises:
            InputDataError: If no row has two repeats although the noise is learnt from their
                spread. Constant outcomes are a warning, which names the replicates of a batch.
            UnsupportedError: If the outcome transform is not linear, or learns from the data while
                a replicate of a batch misses rows; if there are no readings to `trim`; or if the
                constant of `mean_module` has a prior that is not normal, and readings are evidence
                of the noise.
        """
        check_arguments(MeanVarianceGP.__init__, locals())
        check_nonnegative(noise_beta=noise_beta)
        limits = NoiseLimits(floor=min_noise_variance, ceiling=max_noise_variance)
        learns_from_spread = noise_evidence == "spread" or variance_link != "log"
        reading = {
            "needs_spread": known_noise is None and learns_from_spread,
            "uses_readings": known_noise is None and not learns_from_spread,
            "keep_copies": keep_copies,
            "trims": trim is not None,
        }
        given = data.read_training_data(train_X, train_Y, train_Yvar, **reading)
        options = {
            "covar_module": covar_module,
            "mean_module": mean_module,
            "outcome_transform": outcome_transform,
            "input_transform": input_transform,
            "noise_covar_module": noise_covar_module,
            "min_noise_variance": min_noise_variance,
            "max_noise_variance": max_noise_variance,
        }
        # Before the models are built: they pool, scale and weigh what is left.
        given, dropped = without_wrong_readings(given, trim, type(self), options)
        X, outcomes = given.X, given.outcomes
        outcome_transform = scale_of_observed(outcome_transform, outcomes.counts > 0)
        noise: NoiseProcess
        if known_noise is not None:
            noise = KnownNoise(checked_noise(known_noise, X), limits)
        else:
            noise = LearntNoise.of(
                X,
                outcomes,
                limits,
                link=variance_link,
                sample_noise=sample_variance_noise,
                beta=noise_beta,
                covar_module=noise_covar_module,
                input_transform=copy.deepcopy(input_transform),
                evidence=noise_evidence or default_evidence(variance_link, outcomes),
            )
        if noise.fits_with_mean:
            check_prior_of_constant(mean_module)
        noise_of_rows, positive = noise.of_rows(X, outcomes, noise_beta)
        inputs = stand_in_first(X, outcomes.counts > 0)
        mean_model = fixed_noise.fixed_noise_gp(
            inputs,
            outcomes.means,
            noise_of_rows,
            outcome_transform,
            covar_module or fixed_noise.mean_kernel(inputs, input_transform),
            mean_module,
            input_transform=input_transform,
        )
        self._assemble(mean_model, noise, X, outcomes)
        self.noise_beta, self.dropped_readings = noise_beta, dropped
        self._note_noise(noise_of_rows, positive)
        modules = (covar_module, mean_module, input_transform, noise_covar_module, known_noise)
        if modules == (None,) * len(modules) and type(outcome_transform) is StandardDeviationScale:
            self._reading = reading
            remember_beginning(mean_model)
        self.train()

    def renew(self, train_X: Tensor, outcomes: RepeatedOutcomes) -> bool:
        r"""Give the model other data in place, and the hyperparameters that it was built with.

        A loop that builds a model in every round spends a fifth of its time on building. After
        `renew`, fit the model or load a state.

        Args:
            train_X: `batch_shape x n x d` inputs.
            outcomes: Their repeats.

        Returns:
            Whether the model was renewed: only if the data differ from the present ones in their
            rows alone, and the model was built without modules of the user, known noise or `trim`
            and was not conditioned. Otherwise it is unchanged: build another one.
        """
        if self._reading is None or self._reading["trims"] or self.is_conditioned:
            return False
        given = data.read_training_data(train_X, outcomes, None, **self._reading)
        X, outcomes = given.X, given.outcomes
        inputs = stand_in_first(X, outcomes.counts > 0)
        if not has_room(self.mean_model, inputs) or not self.noise.renew(X, outcomes):
            return False
        scale = StandardDeviationScale(outcomes.counts > 0)
        noise = torch.ones_like(outcomes.means)  # until Eq. (16) is evaluated
        fixed_noise.renew_fixed_noise_gp(self.mean_model, inputs, outcomes.means, noise, scale)
        self.train_X = X
        for name in ("counts", "means", "variances"):
            setattr(self, f"train_{name}", getattr(outcomes, name))
        return True

    def _assemble(
        self, mean_model: Any, noise: NoiseProcess, X: Tensor, outcomes: RepeatedOutcomes
    ) -> None:
        super().__init__()
        self.is_conditioned = False
        self.register_buffer("train_X", X, persistent=False)
        for name in ("counts", "means", "variances"):
            self.register_buffer(f"train_{name}", getattr(outcomes, name), persistent=False)
        self.knows_variances = outcomes.known_variances
        self.noise, self.mean_model = noise, mean_model
        self._mean_marginals = Belief(mean_model)
        self.register_load_state_dict_post_hook(_observe_again)

    @property
    def mean_marginals(self) -> Belief:
        r"""Marginal moments of f at points that do not interact."""
        self._require_noise()
        return self._mean_marginals

    @property
    def num_outputs(self) -> int:
        r"""One: the mean. `noise_posterior` has the noise."""
        return 1

    @property
    def noise_model(self) -> Any:
        return self.noise.model

    @property
    def num_repeats(self) -> int | Tensor:
        r"""The median number of repeats per row, assumed for later rows.

        For a batch, the medians of its replicates, `batch_shape x 1 x 1`.
        """
        counts = self._outcomes.typical_counts
        return counts if self.batch_shape else int(counts)

    def forward(self, X: Tensor) -> MultivariateNormal:
        self._require_noise()
        return self.mean_model(X)

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
                `batch_shape x q x 1` is added unchanged, in the units of the transformed outcome.
            posterior_transform: Applied to the posterior.
        """
        if output_indices not in (None, [0]):
            raise UnsupportedError(f"Expected `output_indices` None or [0]. Got {output_indices}.")
        X = checked_points(X, self)
        self._require_noise()
        for warning in self._noted.warnings:
            warnings.warn(warning, InputDataWarning, stacklevel=2)
        if observation_noise is True:
            noise = self.predicted_noise(X)
            observation_noise = fixed_noise.transform_variance(self.mean_model, noise)
        with predicting_with(self.mean_model):  # Eqs. (5) and (6)
            return self.mean_model.posterior(
                X, observation_noise=observation_noise, posterior_transform=posterior_transform
            )

    def noise_posterior(self, X: Tensor) -> Posterior:
        r"""The posterior of the noise variance of one repeat at `batch_shape x q x d` inputs.

        It is Gaussian with the identity link, and log-normal with the log link.
        """
        return self.noise.posterior(checked_points(X, self))  # Eqs. (13), (32) and (33)

    def predicted_noise(self, X: Tensor) -> Tensor:
        r"""The posterior mean of the noise variance of one repeat, `batch_shape x q x 1`.

        It is within the limits of the noise variance, and at least 0.
        """
        return self.noise.predicted(X)

    def confidence_bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of f, `mean -+ sqrt(beta) * standard deviation` (Eq. 7).

        Args:
            X: `batch_shape x m x d` points that do not interact.
            beta: Squared width: one number, one per replicate (`batch_shape`) or one per point
                (`batch_shape x m`). It is the square of the paper's beta_t, which multiplies sigma.

        Returns:
            Two `batch_shape x m` tensors.
        """
        mean, variance = self.mean_marginals(X)
        width = variance.sqrt() * root_of_beta(beta, mean, self.batch_shape)
        return mean - width, mean + width  # Eqs. (7), (35) and (36)

    def noise_confidence_bounds(self, X: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of the noise variance of one repeat (Eqs. 14, 15).

        The bounds are quantiles: with the log link, exponentials of the bounds of the process. With
        the identity link the lower bound may be negative, as in the paper. `X` and `beta` are as in
        `confidence_bounds`; `beta` is the square of the paper's beta^var_t, which multiplies sigma.
        """
        return self.noise.bounds(X, beta)

    def noise_of_means(self, X: Tensor, num_repeats: Tensor | int | None = None) -> Tensor:
        r"""The cautious noise variance of a mean of repeats, Eq. (16), as the mean process uses it.

        It is at least 1e-8 of the variance of the outcomes in double precision, and 1e-4 in single
        precision: with less noise, the Cholesky factorisation of the covariance may fail.

        Args:
            X: `batch_shape x n x d` inputs.
            num_repeats: The number of repeats, broadcastable to `batch_shape x n x 1`;
                `self.num_repeats` if omitted.

        Returns:
            `batch_shape x n x 1` variances, > 0.

        Raises:
            ValueError: If the upper bound is not positive and `min_noise_variance` is not set.
        """
        X = checked_points(X, self)
        return self._noise_of_means(X, self._outcomes.counts_at(X, num_repeats))

    def _noise_of_means(self, X: Tensor, counts: Tensor) -> Tensor:
        noise = self.noise.of_means(X, counts, self.noise_beta)
        return torch.maximum(noise, fixed_noise.least_noise(self.mean_model))

    def condition_on_observations(
        self,
        X: Tensor,
        Y: Tensor,
        num_repeats: int | Tensor | None = None,
        variances: Tensor | None = None,
        noise: Tensor | None = None,
        **kwargs: Any,
    ) -> Self:
        r"""Add means of repeats without another fit.

        The noise of the earlier rows is kept, which can only be too cautious.

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
        X, Y = checked_points(X, self), as_floating(Y, "Y")
        counts = self._outcomes.counts_at(X, num_repeats)
        if noise is None:
            check_finite(X, Y)
            noise = self._noise_of_means(X, counts)
            noise = fixed_noise.transform_variance(self.mean_model, noise)
        process = self.noise
        if variances is not None:
            process = self.noise.conditioned(X, counts.expand_as(variances), variances)
        noise = fixed_noise.raised(noise)
        mean_model = condition(self.mean_model, X, Y.to(X), noise=noise, **kwargs)
        return self._with_processes(mean_model, process)

    def condition_on_pending(self, X: Tensor, num_repeats: int | Tensor | None = None) -> Self:
        r"""Condition both processes on their own means at points under evaluation.

        Means stay where they are and standard deviations shrink: the hallucinated
        observations of batch UCB.
        """
        X = checked_points(X, self)
        counts = self._outcomes.counts_at(X, num_repeats)
        with torch.no_grad():
            # Single readings have no spread, so the noise process would learn nothing from them.
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
    ) -> Self:
        r"""Condition the mean process on samples of means of repeats at X.

        Args:
            X: `batch_shape x n' x d` inputs.
            sampler: Draws the means from the posterior.
            observation_noise: `batch_shape x n' x 1` variances of the means in the units of the
                transformed outcome; the predicted noise at X over `num_repeats` if omitted.
            num_repeats: Repeats of each fantasy; `self.num_repeats` if omitted.
            kwargs: Passed on to `condition_on_observations`.
        """
        X = checked_points(X, self)
        if observation_noise is None and X.shape[-2] == 0:
            # Without points there is no noise to predict, and BoTorch wants a tensor.
            observation_noise = X.new_ones(*self.batch_shape, 1, 1)
        elif observation_noise is None:
            with fantasize():
                noise = self.predicted_noise(X) / self._outcomes.counts_at(X, num_repeats)
            observation_noise = fixed_noise.transform_variance(self.mean_model, noise)
        return super().fantasize(X, sampler, observation_noise=observation_noise, **kwargs)

    def _with_processes(self, mean_model: Any, noise: NoiseProcess) -> MeanVarianceGP:
        model = MeanVarianceGP.__new__(MeanVarianceGP)
        model._assemble(mean_model, noise, self.train_X, self._outcomes)
        model.noise_beta, model.dropped_readings = self.noise_beta, self.dropped_readings
        model.is_conditioned = True
        model._noted = self._noted
        model.training = self.training
        return model

    @classmethod
    def from_summary(
        cls, train_X: Tensor, means: Tensor, variances: Tensor, counts: Tensor, **options: Any
    ) -> MeanVarianceGP:
        r"""Build the model from the arguments of `RepeatedOutcomes.from_summary`."""
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
            counts: `n x 1` numbers of repeats behind each mean; by default the dataset's own, if
                it is a `botorch_risk.ax.contextual.ObservedDataset`.
        """
        return data.inputs_of_dataset(training_data, counts)

    def set_train_data(self, *args: Any, **kwargs: Any) -> None:
        r"""Raise UnsupportedError: the noise, and so the weight of each row, need all repeats."""
        raise UnsupportedError(
            "Expected new data with repeats: build a new MeanVarianceGP and load the old model's "
            "`state_dict()`, or use `condition_on_observations`. Got `set_train_data`."
        )

    def refresh_noise(self) -> None:
        r"""Evaluate Eq. (16) again at all training points; needed only after changes by hand.

        Raises:
            ValueError: If the upper bound is not positive and `min_noise_variance` is not set.
        """
        self._require_own_data()
        self.noise.observe_readings(self.mean_model, self._outcomes)
        noise, positive = self.noise.of_rows(self.train_X, self._outcomes, self.noise_beta)
        fixed_noise.set_fixed_noise(self.mean_model, noise)
        self._note_noise(noise, positive)
        self._require_noise()

    def _note_noise(self, noise: Tensor, positive: Tensor) -> None:
        self._noted = data.NotesOnNoise(self.mean_model, noise, self.train_counts, positive)

    def subset_output(self, idcs: list[int]) -> MeanVarianceGP:
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
        r"""Load hyperparameters into both processes and evaluate Eq. (16) at this model's data.

        The training data stay those that the model was built with, as in BoTorch. With the same
        data, the posterior is restored exactly.
        """
        self._require_own_data()
        parts = fixed_noise.split_state(state_dict, ("mean_model", "noise"), strict)
        options = {"strict": strict, "keep_transforms": keep_transforms, "assign": assign}
        self.noise.load(parts["noise"], **options)
        fixed_noise.load_process(self.mean_model, parts["mean_model"], **options)
        self.refresh_noise()

    def _require_noise(self) -> None:
        counts = self.train_counts.clamp_min(1)
        self._noted.require_positive(lambda: self._noise_of_means(self.train_X, counts))


def _observe_again(model: MeanVarianceGP, incompatible_keys: Any) -> None:
    r"""Observe again after a state was loaded: the observations are not part of it."""
    if model.noise.fits_with_mean and not model.is_conditioned:
        model.refresh_noise()


@DrawMatheronPaths.register(MeanVarianceGP)
def _draw_matheron_paths(model: MeanVarianceGP, **options: Any) -> Any:
    return draw_matheron_paths(model.mean_model, **options)
