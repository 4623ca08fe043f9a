r"""Estimators of hyperparameters behind one interface."""

import copy
import importlib.util
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms import Standardize
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from torch import Tensor

from botorch_risk.arguments import (
    as_floating,
    as_tensor,
    check_bounds,
    check_counts,
    check_flags,
    check_kind,
)
from botorch_risk.engine import FitResult, Optimum, fit_exact_gp
from botorch_risk.fit.pseudo_data import fit_pseudo_data
from botorch_risk.fit.pseudo_points import Design
from botorch_risk.points import original_inputs
from botorch_risk.seeding import as_seeds, streams

FITS_BETWEEN_CLEARING = 32
_num_fits = itertools.count(1)


@runtime_checkable
class Estimator(Protocol):
    r"""Estimates the hyperparameters of a model from its data.

    Example:
        >>> from botorch_risk.examples import unit
        >>> from botorch_risk.papers import uhe_bo
        >>> class KnownLengthscale:
        ...     def __call__(self, model, seeds, t, observed=None):
        ...         model.covar_module.lengthscale = 0.2
        ...         return model.eval()
        >>> strategy = uhe_bo(unit, seeds=0, estimator=KnownLengthscale(), num_initial=4)
        >>> X = strategy.ask()
        >>> strategy.tell(X, (6 * X).sin())
        >>> strategy.ask().shape
        torch.Size([1, 1, 1])
    """

    def __call__(
        self, model: SingleTaskGP, seeds: Sequence[int], t: int, observed: Tensor | None = None
    ) -> Model:
        r"""Fit the given model in place if it can hold the estimate, else return a new one.

        Args:
            model: A model of `R` replicates, or of one.
            seeds: One seed for each replicate. All draws are functions of the seeds and of `t`.
            t: The round.
            observed: An optional boolean mask of the data, `batch_shape x n`.
        """
        ...


@runtime_checkable
class ContinuedEstimator(Estimator, Protocol):
    r"""An estimator that can continue from its result of the last round."""

    def fit(
        self,
        model: SingleTaskGP,
        seeds: Sequence[int],
        t: int,
        observed: Tensor | None = None,
        previous: Optimum | None = None,
    ) -> FitResult:
        r"""Fit the given model in place; for `previous` see `fit_exact_gp`."""
        ...


@dataclass(frozen=True)
class MaximumAPosteriori:
    r"""The usual estimate, by `fit_exact_gp`: the marginal likelihood times the priors.

    [Rasmussen2006gp]_, Eq. (5.8). `num_restarts` counts starts beyond the ones of `fit_exact_gp`.
    """

    num_restarts: int = 0

    def __post_init__(self) -> None:
        check_counts(0, num_restarts=self.num_restarts)

    def __call__(
        self, model: SingleTaskGP, seeds: Sequence[int], t: int, observed: Tensor | None = None
    ) -> Model:
        listed = _of_round(seeds, t)
        result = fit_exact_gp(
            model, num_restarts=self.num_restarts, seeds=listed, observed=observed
        )
        result.warn_of_failures(seeds)
        return model


@dataclass(frozen=True)
class PseudoData:
    r"""UHE-BO's estimate from pseudo-data, by `fit_pseudo_data`: Eq. (2) of [Ha2023uhe]_.

    Pseudo-data are random points of the domain, each with the outcomes of its nearest observation.

    Args:
        bounds: The lower and the upper bounds of the domain, `2 x d`; the unit cube if omitted.
        num_pseudo: The number of pseudo-points; twice the number of inputs if omitted.
        points: `"uniform"` or `"sobol"`.
        redraw: Whether each round draws new pseudo-points, as in the paper. Otherwise they are kept
            and only extended, so the estimate does not jump between rounds.
        num_restarts: Starts in addition to the starts of `fit_pseudo_data`.
    """

    bounds: Tensor | None = None
    num_pseudo: int | None = None
    points: Design = "uniform"
    redraw: bool = True
    num_restarts: int = 0

    def __post_init__(self) -> None:
        check_flags(redraw=self.redraw)
        check_counts(0, num_restarts=self.num_restarts)
        if self.num_pseudo is not None:
            check_counts(num_pseudo=self.num_pseudo)
        check_kind(Design, points=self.points)
        if self.bounds is not None:
            check_bounds(as_floating(self.bounds, "bounds"))

    def __call__(
        self, model: SingleTaskGP, seeds: Sequence[int], t: int, observed: Tensor | None = None
    ) -> Model:
        self.fit(model, seeds, t, observed).warn_of_failures(seeds)
        return model

    def fit(
        self,
        model: SingleTaskGP,
        seeds: Sequence[int],
        t: int,
        observed: Tensor | None = None,
        previous: Optimum | None = None,
    ) -> FitResult:
        X = original_inputs(model)
        unit_cube = torch.tensor([[0.0], [1.0]]).to(X).expand(2, X.shape[-1])
        return fit_pseudo_data(
            model,
            unit_cube if self.bounds is None else self.bounds,
            self.num_pseudo,
            seeds=_of_round(seeds, t) if self.redraw else seeds,
            points=self.points,
            observed=observed,
            num_restarts=self.num_restarts,
            previous=previous,
        )


@dataclass(frozen=True)
class FullyBayesian:
    r"""Hyperparameters sampled by MCMC: BoTorch's `FullyBayesianSingleTaskGP` and NUTS.

    The samples belong to a new model of the same data, input transform and known noise, with
    BoTorch's Matern 5/2 kernel and BoTorch's priors; the kernel of the given model does not matter.
    The model has to be of one replicate. NumPyro, the extra `bayesian`, has to be installed.

    Args:
        warmup_steps: Steps that are discarded; 200 in [Ha2023uhe]_, Appendix C.
        num_samples: Samples after that; 10 in the paper.
        thinning: Keep every `thinning`-th sample.
        max_tree_depth: The maximum depth of the trees of NUTS.

    Raises:
        ImportError: When called, if NumPyro is not installed.
        UnsupportedError: When called, if the model has several replicates.
    """

    warmup_steps: int = 200
    num_samples: int = 10
    thinning: int = 1
    max_tree_depth: int = 6

    def __post_init__(self) -> None:
        check_counts(0, warmup_steps=self.warmup_steps)
        check_counts(num_samples=self.num_samples, thinning=self.thinning)
        check_counts(max_tree_depth=self.max_tree_depth)

    def __call__(
        self, model: SingleTaskGP, seeds: Sequence[int], t: int, observed: Tensor | None = None
    ) -> Model:
        if importlib.util.find_spec("numpyro") is None or importlib.util.find_spec("jax") is None:
            raise ImportError(
                "Expected NumPyro and JAX, which sample the hyperparameters. Install them with "
                "`pip install 'botorch_risk[bayesian]'`."
            )
        from botorch.fit import fit_fully_bayesian_model_nuts
        from botorch.models.fully_bayesian import FullyBayesianSingleTaskGP

        if model.batch_shape:
            raise UnsupportedError(
                "Expected a model of one replicate: MCMC samples one replicate at a time. "
                f"Got {model.batch_shape=}."
            )
        (seed,) = _of_round(seeds, t)
        X, Y, Yvar = _data_of(model)
        if (observed := as_tensor("observed", observed)) is not None:
            X, Y, Yvar = X[observed], Y[observed], None if Yvar is None else Yvar[observed]
        transform = copy.deepcopy(getattr(model, "input_transform", None))
        sampled = FullyBayesianSingleTaskGP(
            X,
            Y,
            train_Yvar=Yvar,
            outcome_transform=Standardize(m=1),
            input_transform=None if transform is None else transform.train(),
        )
        _drop_compiled_programs()
        fit_fully_bayesian_model_nuts(
            sampled,
            max_tree_depth=self.max_tree_depth,
            warmup_steps=self.warmup_steps,
            num_samples=self.num_samples,
            thinning=self.thinning,
            disable_progbar=True,
            seed=seed % 2**31,  # JAX takes 32 bits, and a derived seed has 63
        )
        return sampled


def _data_of(model: SingleTaskGP) -> tuple[Tensor, Tensor, Tensor | None]:
    r"""Inputs, outcomes and known noise as they were given, `n x d` and `n x 1` each."""
    X, Y, Yvar = original_inputs(model), model.train_targets.unsqueeze(-1), None
    if isinstance(model.likelihood, FixedNoiseGaussianLikelihood):
        Yvar = model.likelihood.noise_covar.noise.unsqueeze(-1)
    transform = copy.deepcopy(getattr(model, "outcome_transform", None))
    return (X, Y, Yvar) if transform is None else (X, *transform.eval().untransform(Y, Yvar))


def _drop_compiled_programs() -> None:
    r"""Clear JAX's caches in every 32nd call.

    JAX keeps 500 to 900 memory mappings for every fit, and a process dies at Linux's limit of
    65,530 after about a hundred fits. Fits of one size share most compiled code, so the caches are
    not cleared every time.
    """
    if next(_num_fits) % FITS_BETWEEN_CLEARING == 0:
        import jax

        jax.clear_caches()


def _of_round(seeds: Sequence[int], t: int) -> list[int]:
    return streams(as_seeds(seeds), "estimate", t)
