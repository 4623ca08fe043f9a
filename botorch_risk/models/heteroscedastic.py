r"""A Gaussian process for the mean and one for the noise, learnt together from repeats."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from botorch.exceptions.errors import UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths, draw_matheron_paths
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.mlls import ExactMarginalLogLikelihood, MarginalLogLikelihood
from torch import Tensor

from botorch_risk.arguments import as_floating
from botorch_risk.fit import fit_exact_gp
from botorch_risk.models.conditioning import MeanVarianceConditioning
from botorch_risk.models.default_kernels import mean_kernel
from botorch_risk.models.fixed_noise import (
    fixed_noise_gp,
    load_process,
    set_fixed_noise,
    split_state,
)
from botorch_risk.models.learnt_noise import LearntNoise
from botorch_risk.models.noise_observations import stand_in_first
from botorch_risk.models.noise_process import KnownNoise, NoiseLimits, NoiseProcess
from botorch_risk.models.repeats import (
    RepeatedOutcomes,
    pool_repeated_rows,
    validate_inputs,
    validate_outcomes,
    warning_of_raised_noise,
    warning_of_small_scale,
)
from botorch_risk.models.variance_links import scale_of_observed
from botorch_risk.posterior.marginals import MarginalPredictor


class MeanVarianceGP(MeanVarianceConditioning):
    r"""A heteroscedastic Gaussian process that learns mean and noise from repeats.

    Composes two `SingleTaskGP`s [Makarova2021rahbo]_: `noise_model` for the noise variance
    `rho^2`, on the sample variances (Eqs. 12-15, 32-33; the printed Eq. 32 lacks the square
    of s), and `mean_model` for `f`, on the sample means with the fixed noise of Eq. (16),

        S_i = min(ucb_var(x_i), max_noise_variance) / k_i,
        ucb_var(x) = mu_var(x) + sqrt(noise_beta) sigma_var(x),

    taken from the newest noise model at all points. It is a BoTorch model with one output:
    `posterior(X)` is the posterior of f; `posterior(X, observation_noise=True)` adds the
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
    predict 1.4 times the true variance in the median, with an upper bound of 5 times, two standard
    deviations up; three repeats 1.2 and 3.4, five 1.2 and 2.4, ten 1.1 and 1.8 times.

    Example:
        >>> import torch
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
        noise_evidence: Literal["spread", "readings"] = "spread",
        noise_beta: float = 1.0,
        min_noise_variance: float | None = None,
        max_noise_variance: float | None = None,
        known_noise: Callable[[Tensor], Tensor] | None = None,
        noise_covar_module: Kernel | None = None,
    ) -> None:
        r"""Builds both processes.

        Args:
            train_X: `batch_shape x n x d` inputs.
            train_Y: `batch_shape x n x k` repeats, NaN where one is missing; a list of `n`
                tensors of any lengths; or `RepeatedOutcomes`. One reading a row (`n x 1`) with
                inputs that repeat is the same table in long form.
            train_Yvar: The noise variance of each reading, > 0, in the form of `train_Y`, if it
                is known. Nothing is estimated from the spread of readings then.
            covar_module: Kernel of the mean process; if omitted a Matern 5/2 kernel with an output
                scale and BoTorch's priors (models/default_kernels.py).
            mean_module: Prior mean of the mean process; constant if omitted.
            outcome_transform: A LINEAR transform of the outcome for the mean process (the noise
                follows it squared); `Standardize` if omitted, `None` for none.
            input_transform: Applied to the inputs; each process owns a copy, so that a
                learnable one is learnt by each.
            variance_link: `"log"` models the logarithm of the noise variance, whose
                observation noise is known exactly for Gaussian repeats; `"identity"` models
                the variance itself (the paper). The default is the better calibrated one
                (bench/reproduction/rahbo/calibration.md): fitted, the 95 % band of the noise covers
                91 to 94 % with the log link, 85 to 87 % with the identity link and inferred noise.
            noise_evidence: What the noise is learnt from, with the log link: `"spread"`, the
                sample variances, or `"readings"`, which adds the residuals of the means from the
                process of the mean, also where there is a single reading. Both processes are then
                fitted in turn to the likelihood of all readings (models/reading_evidence.py),
                twice in all. Worth it with two or three repeats (bench/studies/learnt_noise).
            sample_variance_noise: With the identity link, the noise of a sample variance:
                `"inferred"` (one level, learnt; the paper's experiments and the default),
                `"bound"` (`2 max_noise_variance^2 / (k - 1)`, the paper's theory), or
                `"pointwise"` (`2 ucb_var(x)^2 / (k - 1)`).
            noise_beta: Squared width of the upper bound of the noise in Eq. (16): the
                paper's beta^var multiplies sigma, so `noise_beta = (beta^var)^2`. The papers'
                strategies take 4; with 1 the error of f is smaller at few repeats, and its band
                covers as well (bench/studies/learnt_noise).
            min_noise_variance: A lower limit of the noise variance, the paper's assumption
                `rho >= rho_low` squared. It limits what is predicted, never a sample variance,
                which may well be lower. Without it the identity link raises where the upper
                bound of Eq. (16) is not positive, once that bound is needed.
            max_noise_variance: An upper limit of the noise variance (the paper's squared
                `rho_bar`).
            known_noise: The noise variance as a function `... x d -> ... x 1`, if it is known
                (Eq. 9). Nothing is learnt about the noise then.
            noise_covar_module: Kernel of the noise process; BoTorch's default if omitted.

        Raises:
            BotorchTensorDimensionError: If shapes do not match.
            InputDataError: If an input is not finite, dtypes differ, a row has no repeat, no
                row has two, or the outcomes of a single model are constant (in a batch a
                constant replicate is named by a warning).
            UnsupportedError: If the outcome transform is not linear, or learns from the data while
                a replicate of a batch misses rows.
            ValueError: If a limit, a beta or a choice is out of its range.
        """
        if not noise_beta >= 0:
            raise ValueError(f"Expected `noise_beta` >= 0. Got {noise_beta}.")
        limits = NoiseLimits(floor=min_noise_variance, ceiling=max_noise_variance)
        X, outcomes = read_training_data(
            train_X, train_Y, train_Yvar, needs_spread=known_noise is None
        )
        observed = outcomes.counts > 0
        outcome_transform = scale_of_observed(outcome_transform, observed)
        noise: NoiseProcess
        if known_noise is not None:
            noise = KnownNoise(known_noise, limits)
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
                evidence=noise_evidence,
            )
        noise_of_rows, is_positive = noise.of_rows(X, outcomes, noise_beta)
        mean_model = fixed_noise_gp(
            stand_in_first(X, observed),
            outcomes.means,
            noise_of_rows,
            outcome_transform,
            covar_module=covar_module or mean_kernel(stand_in_first(X, observed), input_transform),
            mean_module=mean_module,
            input_transform=input_transform,
        )
        self._assemble(mean_model, noise, X, outcomes, noise_beta)
        self._note_noise(noise_of_rows, is_positive)
        self.train()

    def _assemble(
        self,
        mean_model: Any,
        noise: NoiseProcess,
        X: Tensor,
        outcomes: RepeatedOutcomes,
        noise_beta: float,
    ) -> None:
        r"""Registers the parts of the model."""
        super().__init__()
        self.noise_beta = noise_beta
        self.is_conditioned = False
        self.register_buffer("train_X", X, persistent=False)
        self.register_buffer("train_counts", outcomes.counts, persistent=False)
        self.register_buffer("train_means", outcomes.means, persistent=False)
        self.register_buffer("train_variances", outcomes.variances, persistent=False)
        self.knows_variances = outcomes.known_variances
        self.noise = noise
        self.mean_model = mean_model
        self._mean_marginals = MarginalPredictor(mean_model)

    def _with_processes(self, mean_model: Any, noise: NoiseProcess) -> MeanVarianceGP:
        model = MeanVarianceGP.__new__(MeanVarianceGP)
        model._assemble(mean_model, noise, self.train_X, self._outcomes, self.noise_beta)
        model.is_conditioned = True
        model._is_noise_current, model._warnings = self._is_noise_current, self._warnings
        model.training = self.training
        return model

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
            counts: `n x 1` numbers of repeats behind each mean; by default the dataset's own, if
                it is a `botorch_risk.ax.ObservedDataset`.
        """
        if counts is None:
            counts = getattr(training_data, "counts", None)
        return inputs_of_dataset(training_data, counts)

    def set_train_data(self, *args: Any, **kwargs: Any) -> None:
        r"""Refuses: the noise and its weight in the mean depend on all repeats.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            "Expected new data to come with their repeats: build a new MeanVarianceGP and pass it "
            "this one's `state_dict()`, or use `condition_on_observations`. Got `set_train_data`."
        )

    def refresh_noise(self) -> None:
        r"""Evaluates Eq. (16) again at all training points; needed only after changes by hand.

        Raises:
            ValueError: If the upper bound of the noise is not positive and no floor is set.
        """
        if self.is_conditioned:
            raise UnsupportedError(
                "Expected a model built from its data. Got one conditioned on further observations."
            )
        self.noise.observe_readings(self.mean_model, self._outcomes)
        noise, is_positive = self.noise.of_rows(self.train_X, self._outcomes, self.noise_beta)
        set_fixed_noise(self.mean_model, noise)
        self._note_noise(noise, is_positive)
        self._require_noise()

    def _note_noise(self, noise: Tensor, is_positive: bool) -> None:
        r"""Keeps what is to be said of the noise of the rows, when the model is asked."""
        self._is_noise_current = is_positive
        notes = (
            warning_of_small_scale(self.mean_model),
            warning_of_raised_noise(self.mean_model, noise, self.train_counts),
        )
        self._warnings = [note for note in notes if note is not None]

    def custom_fit(
        self,
        mll: MarginalLogLikelihood,
        closure: Callable[..., Any] | None = None,
        closure_kwargs: dict[str, Any] | None = None,
        optimizer_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> MarginalLogLikelihood:
        r"""Fits the noise, then the mean; called by `fit_gpytorch_mll(mll)`.

        The exact marginal likelihood is maximised in closed form where `fit_exact_gp` knows the
        kernel, two to three times as fast as by BoTorch and to the same optimum, unless options of
        BoTorch's optimiser are given.

        Args:
            mll: A marginal log likelihood of this model; each process is fitted by one of the
                same class.
            closure: Not supported, since two processes are fitted.
            closure_kwargs: Not supported.
            optimizer_kwargs: Passed on to both fits, which are then BoTorch's.
            kwargs: Likewise.

        Raises:
            UnsupportedError: If a closure is given, or the model was conditioned.
        """
        if closure is not None or closure_kwargs is not None:
            raise UnsupportedError(
                "Expected no closure: MeanVarianceGP fits two processes, one after the other."
            )
        fit = fit_with_loss_like(mll, optimizer_kwargs=optimizer_kwargs, **kwargs)
        return mll.eval() if self.fit_processes(fit) else mll

    def fit_processes(self, fit: Callable[[Any], bool]) -> bool:
        r"""Fits the noise, evaluates Eq. (16), and fits the mean.

        Args:
            fit: Fits one `SingleTaskGP` in place and returns whether it succeeded.

        Returns:
            Whether all fits succeeded.

        Raises:
            ValueError: If the upper bound of the fitted noise is not positive and no floor is set.
        """
        fitted = self.noise.fit(fit)
        self.refresh_noise()
        fitted = fit(self.mean_model) and fitted
        for _ in range(self.noise.num_alternations):
            self.refresh_noise()
            fitted = self.noise.fit(fit) and fitted
            self.refresh_noise()
            fitted = fit(self.mean_model) and fitted
        if self.noise.num_alternations:
            self.refresh_noise()
        return fitted

    def subset_output(self, idcs: list[int]) -> MeanVarianceGP:
        r"""Copies the model, whose one output is 0."""
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
        parts = split_state(state_dict, ("mean_model", "noise"), strict)
        options = {"strict": strict, "keep_transforms": keep_transforms, "assign": assign}
        self.noise.load(parts["noise"], **options)
        load_process(self.mean_model, parts["mean_model"], **options)
        self.refresh_noise()

    @property
    def _outcomes(self) -> RepeatedOutcomes:
        r"""The statistics of the training rows."""
        return RepeatedOutcomes(
            self.train_means, self.train_variances, self.train_counts, self.knows_variances
        )

    def _require_noise(self) -> None:
        if not self._is_noise_current:
            self.noise_of_means(self.train_X, self.train_counts.clamp_min(1))


@DrawMatheronPaths.register(MeanVarianceGP)
def _draw_matheron_paths(model: MeanVarianceGP, **options: Any) -> Any:
    r"""Draws pathwise samples of f."""
    return draw_matheron_paths(model.mean_model, **options)


@runtime_checkable
class LossOfEachProcess(Protocol):
    r"""A loss that says itself how it applies to one process of a composed model."""

    def of_process(self, model: Any) -> MarginalLogLikelihood:
        r"""The loss of one `SingleTaskGP`."""
        ...


def fit_with_loss_like(mll: MarginalLogLikelihood, **options: Any) -> Callable[[Any], bool]:
    r"""Makes a function that fits one process by the loss of a composed model.

    The exact marginal likelihood is maximised in closed form (`fit_exact_gp`) unless options of
    BoTorch's optimiser are given, or that fails.

    Args:
        mll: The loss of the whole model; each process is fitted by one of the same class, or by
            the one that it makes itself.
        options: Further arguments of `fit_gpytorch_mll`.

    Returns:
        A function that fits a `SingleTaskGP` in place and returns whether it succeeded.
    """
    options = {name: value for name, value in options.items() if value is not None}
    in_closed_form = type(mll) is ExactMarginalLogLikelihood and not options

    def fit(process: Any) -> bool:
        if in_closed_form and not fit_exact_gp(process).has_failed:
            return True
        if isinstance(mll, LossOfEachProcess):
            part = mll.of_process(process)
        else:
            part = type(mll)(process.likelihood, process)
        fit_gpytorch_mll(part, **options)
        return not part.training

    return fit


def read_training_data(
    train_X: Tensor,
    train_Y: Tensor | Sequence[Tensor] | RepeatedOutcomes,
    train_Yvar: Tensor | Sequence[Tensor] | None,
    needs_spread: bool,
) -> tuple[Tensor, RepeatedOutcomes]:
    r"""Checks training data and pools rows with equal inputs.

    Args:
        train_X: `batch_shape x n x d` inputs.
        train_Y: Repeats, as `MeanVarianceGP` takes them.
        train_Yvar: The noise variance of each reading, if it is known.
        needs_spread: Whether the noise is to be learnt, so that repeats are needed.

    Returns:
        `batch_shape x n' x d` inputs and the statistics of their repeats, without a history of
        gradients. Batches keep their rows.

    Raises:
        BotorchTensorDimensionError: If shapes do not match.
        InputDataError: If a value is not finite, dtypes differ, or there is nothing to learn from.
        ValueError: If there are noise variances beside `RepeatedOutcomes`.
    """
    train_X = as_floating(train_X, "train_X")
    outcomes = _as_outcomes(train_Y, train_Yvar)
    validate_inputs(train_X, outcomes)
    train_X, outcomes = train_X.detach(), outcomes.detach()
    if not train_X.shape[:-2]:
        train_X, outcomes = pool_repeated_rows(train_X, outcomes)
    validate_outcomes(outcomes, needs_spread)
    return train_X, outcomes


def inputs_of_dataset(data: SupervisedDataset, counts: Tensor | None) -> dict[str, Any]:
    r"""Arguments of `MeanVarianceGP` from a dataset of BoTorch or Ax.

    Args:
        data: Without `Yvar`, `Y` holds `n x k` repeats. With `Yvar` and `counts`, `Y` holds means
            and `Yvar` their squared standard errors, `n x 1` each. With `Yvar` alone, `Y` holds
            readings and `Yvar` the noise variance of each.
        counts: `n x 1` numbers of repeats behind each mean.
    """
    if data.Yvar is None:
        return {"train_X": data.X, "train_Y": data.Y}
    if counts is None:
        return {"train_X": data.X, "train_Y": data.Y, "train_Yvar": data.Yvar}
    variances = (data.Yvar * counts).masked_fill(counts == 1, 0.0)
    outcomes = RepeatedOutcomes.from_summary(data.Y, variances, counts)
    return {"train_X": data.X, "train_Y": outcomes}


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
