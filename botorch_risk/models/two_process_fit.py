r"""Fit the mean and the noise of a mean-variance model, at once or one after the other."""

import copy
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood, MarginalLogLikelihood
from torch import Tensor

from botorch_risk.engine import (
    FitResult,
    MarginalLikelihoodObjective,
    NotInClosedFormError,
    SampledHyperparameters,
    fit_exact_gp,
    sample_exact_gp,
)
from botorch_risk.models.noise_process import NoiseProcess
from botorch_risk.models.repeats import RepeatedOutcomes, describe
from botorch_risk.points import put_in_mode


class TwoProcessFit:
    r"""The fits of a `MeanVarianceGP`."""

    mean_model: Any
    noise: NoiseProcess
    is_conditioned: bool
    train_means: Tensor
    train_variances: Tensor
    train_counts: Tensor
    noise_model: Any
    knows_variances: bool
    refresh_noise: Callable[[], None]
    eval: Callable[[], Any]

    @property
    def _outcomes(self) -> RepeatedOutcomes:
        return RepeatedOutcomes(
            self.train_means, self.train_variances, self.train_counts, self.knows_variances
        )

    def custom_fit(self, mll: MarginalLogLikelihood, **options: Any) -> MarginalLogLikelihood:
        r"""Fit both processes; called by `fit_gpytorch_mll(mll)`.

        They are fitted at once, in closed form, if the noise is learnt from all readings and
        `fit_exact_gp` supports the kernels. Otherwise, or if another loss or options of BoTorch's
        optimiser are given, each is fitted by itself. An `optimizer` that fits models, such as
        `faster.WarmStartedFit`, fits both at once.

        Args:
            mll: A marginal log likelihood of this model; a process that is fitted by itself gets
                one of the same class.
            **options: Arguments of the fits of each process, which BoTorch's optimiser then runs.

        Raises:
            UnsupportedError: If a closure is given, or the model was conditioned.
        """
        if any(options.get(name) is not None for name in ("closure", "closure_kwargs")):
            raise UnsupportedError(
                "Expected no closure: MeanVarianceGP fits two processes, one after the other."
            )
        given = {name: value for name, value in options.items() if value is not None}
        optimizer = given.pop("optimizer", None)
        if type(mll) is ExactMarginalLogLikelihood and not given and self.noise.fits_with_mean:
            fit_model = getattr(optimizer, "fit_model", None) if optimizer else _fit_in_closed_form
            with suppress(NotInClosedFormError):
                if fit_model is not None and not fit_model(self).has_failed:
                    return mll.eval()
        fit = _fit_with_loss_like(mll, **options)
        return mll.eval() if self.fit_processes(fit) else mll

    def fit_in_closed_form(self, **options: Any) -> FitResult:
        r"""Fit both processes at once to all readings; called by `fit_exact_gp(model)`.

        Args:
            options: Options of `fit_exact_gp`: `previous`, `max_iterations`, `tolerance`.

        Raises:
            NotInClosedFormError: If the noise has other evidence, or a part of a process is not
                supported.
            UnsupportedError: If the model was conditioned.
        """
        self._require_own_data()
        result = self.noise.fit_with_mean(self.mean_model, self._outcomes, **options)
        self.refresh_noise()
        # The evidence integrated the constant out. Its best value follows from the noise of the
        # rows.
        _set_best_constant(self.mean_model)
        self.eval()
        _warn_of_copies_everywhere(self)
        return result

    def sample_in_closed_form(
        self, *, seeds: int | Sequence[int], previous: SampledHyperparameters | None = None
    ) -> SampledHyperparameters:
        r"""Sample the hyperparameters of both processes; called by `sample_exact_gp(model)`.

        Known noise has no hyperparameters. If noise levels came with the readings, each process is
        sampled by itself.

        Raises:
            NotInClosedFormError, UnsupportedError: As in `fit_in_closed_form`.
        """
        self._require_own_data()
        if self.noise.is_known or self.knows_variances:
            result = sample_exact_gp(self.mean_model, seeds=seeds, previous=previous)
            if self.knows_variances:
                sample_exact_gp(self.noise_model, seeds=seeds)
        else:
            result = self.noise.sample_with_mean(
                self.mean_model, self._outcomes, seeds=seeds, previous=previous
            )
            self.refresh_noise()
            of_mean = MarginalLikelihoodObjective.of(self.mean_model.train())
            of_mean.draw_constants(self.mean_model.batch_shape[0], seeds)
        self.eval()
        return result

    def fit_processes(self, fit: Callable[[Any], bool] | None = None) -> bool:
        r"""Fit both processes at once, or one after the other by another loss.

        In the second case the noise is fitted, Eq. (16) is evaluated, and the mean is fitted; all
        of it twice if residuals from the mean inform the noise. Returns whether all fits succeeded.

        Args:
            fit: Fits one `SingleTaskGP` in place and returns whether it succeeded. If omitted,
                `fit_exact_gp` fits both at once if possible.
        """
        if fit is None and self.noise.fits_with_mean:
            with suppress(NotInClosedFormError):
                return not self.fit_in_closed_form().has_failed
        fit = fit or (lambda process: not fit_exact_gp(process).has_failed)
        fitted = True
        for _ in range(1 + self.noise.num_alternations):
            # The fit stands first: a failure of one process must not skip the fit of the other.
            fitted = self.noise.fit(fit) and fitted
            self.refresh_noise()
            fitted = fit(self.mean_model) and fitted
            if self.noise.num_alternations:
                self.refresh_noise()
        return fitted

    def _require_own_data(self) -> None:
        if self.is_conditioned:
            raise UnsupportedError(
                "Expected a model without further data. Pass the model that was fitted, not the "
                "result of `condition_on_observations`."
            )


# Repeats are suspected if their variance is below the first share of the variance of the means, and
# called copies if the means scatter by more than the second share about a smooth function.
_QUIET, _SCATTERED = 1e-6, 1e-2


def _warn_of_copies_everywhere(model: Any) -> None:
    r"""Warn if repeats hardly differ although single readings show noise in the means."""
    outcomes = model._outcomes
    repeated = outcomes.counts > 1
    spread = outcomes.variances.where(repeated, 0.0).amax(dim=-2)
    scale = outcomes.means.var(dim=-2, correction=0)
    # A spread of exactly 0 has a warning of its own when the noise process is built.
    suspect = repeated.any(dim=-2) & (spread < _QUIET * scale) & (spread > 0)
    if not bool(suspect.any()) or not bool((outcomes.counts > 0).all()):
        return
    transform = model.mean_model._modules.get("input_transform")
    # Only the means: what scatters about a smooth function of them is noise that repeats do not
    # show.
    single = type(model)(model.train_X, outcomes.means, input_transform=copy.deepcopy(transform))
    single.fit_processes()
    with torch.no_grad():
        noise = single.predicted_noise(model.train_X).median(dim=-2).values
    copied = suspect & (noise > _SCATTERED * scale)
    if bool(copied.any()):
        warnings.warn(
            f"Expected repeats that scatter as their means do{describe(copied)}. Got repeats that "
            "hardly differ, at means that scatter about any smooth function: if they are copies of "
            "one reading, give each reading once; if not, the rows are too few for the function.",
            InputDataWarning,
            stacklevel=3,
        )


def _fit_in_closed_form(model: TwoProcessFit) -> FitResult:
    return model.fit_in_closed_form()


def _set_best_constant(model: SingleTaskGP) -> None:
    r"""Set the constant mean of a model to the best one for its other hyperparameters."""
    MarginalLikelihoodObjective.of(put_in_mode(model, True)).write_best_constant()


@runtime_checkable
class _LossOfEachProcess(Protocol):
    r"""A loss that can build the loss of one `SingleTaskGP` in a composed model."""

    def of_process(self, model: Any) -> MarginalLogLikelihood: ...


def _fit_with_loss_like(mll: MarginalLogLikelihood, **options: Any) -> Callable[[Any], bool]:
    r"""Make a function that fits one `SingleTaskGP` of a composed model and returns its success.

    The exact marginal likelihood is maximised in closed form (`fit_exact_gp`), unless there are
    options for BoTorch's optimiser, or the closed form fails. Any other loss is rebuilt for each
    process.
    """
    options = {name: value for name, value in options.items() if value is not None}
    in_closed_form = type(mll) is ExactMarginalLogLikelihood and not options

    def fit(process: Any) -> bool:
        if in_closed_form and not fit_exact_gp(process).has_failed:
            return True
        if isinstance(mll, _LossOfEachProcess):
            part = mll.of_process(process)
        else:
            part = type(mll)(process.likelihood, process)
        from botorch.fit import fit_gpytorch_mll

        fit_gpytorch_mll(part, **options)
        return not part.training

    return fit
