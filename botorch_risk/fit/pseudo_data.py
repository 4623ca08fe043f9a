r"""The loss of UHE-BO: hyperparameters from points that no strategy chose.

A strategy's data crowd where it expects high outcomes, and their likelihood describes that
neighbourhood rather than the function. UHE-BO estimates the hyperparameters from random points of
the whole domain instead, each with the outcome of the nearest observation:

    theta = argmax_theta [ log N(y' | mu_theta(x'), K_theta(x', x') + noise) + log p(theta) ]   (2)

Predictions use the real data (Eq. 3). The M_t = 2 |D| outcomes are copies of |D| values, one for
each different input, but the likelihood treats them as independent: it counts each value about
twice, and steps between copies look like a rough or noisy function, so lengthscales come out
shorter and noise larger. A likelihood of twice as many points also costs up to eight times as much.

When to use it, as measured on functions of known processes and on the paper's benchmarks
(`bench/reproduction/uhe/README.md`):

- If the kernel fits the function, keep the ordinary loss. A design that depends on the data
  alone drops out of the likelihood: there is hardly any bias to remove. Pseudo-data shorten
  lengthscales, to less than half of MAP's at worst, inflate the noise, and predict no better and
  often worse.
- If no stationary kernel fits, data that a strategy chose can mislead the ordinary loss, and a
  share of random points corrects some of it. Pseudo-data replace this bias by another: lengthscales
  as short as the gaps between the points. Where a function is much rougher in one part than in
  another, they are not shown to help; where such lengthscales are too short, as on Branin, a loop
  loses.
- On a hill covered by ripples that no budget resolves (`test_functions.H1`) they overlook the
  ripples, and a loop climbs the hill.
- Under BoTorch's priors Sobol points are better than uniform ones, or as good, nearly everywhere.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.gpytorch import MultiTaskGPyTorchModel
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, Likelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.operators import DiagLinearOperator
from torch import Tensor

from botorch_risk.arguments import as_floating, check_flags
from botorch_risk.engine import (
    FitResult,
    MarginalLikelihoodObjective,
    Optimum,
    fit_exact_gp,
    fit_to_data,
)
from botorch_risk.fit.pseudo_points import Design, PseudoPoints, pseudo_points
from botorch_risk.gradients import require_gradients
from botorch_risk.points import coefficients_kept, original_inputs
from botorch_risk.seeding import as_seeds, is_one_seed

# From the start of the fit to the second one. Copies of outcomes are explained by noise or by steps
# between the copies, and the two optima lie farther apart than for ordinary data.
MUCH_ROUGHER = {"lengthscale": 0.1, "noise": 0.01}
# New points move the optimum by more than a round of data does, so that nearly every round uses the
# other starts too. Those that promise too little compared with the one that goes on end early; of
# 174 rounds 7 ended lower than with all starts, and 12 higher.
HOPE = 4.0


class PseudoDataMarginalLogLikelihood(ExactMarginalLogLikelihood):
    r"""The exact marginal log likelihood of pseudo-data instead of the data, Eq. (2).

    It replaces `ExactMarginalLogLikelihood` in a line that fits a model: the hyperparameters are
    estimated by Eq. (2) of [Ha2023uhe]_, with the model's own priors, and the model predicts from
    its own data. `pseudo_points` are drawn once, here, and have the noise of their observations if
    this is fixed. With the data themselves as `points`, this is the ordinary likelihood, even if
    inputs repeat. Additional noise, learnt on top of fixed noise, is common to all pseudo-points.
    `fit_pseudo_data` does the same in closed form, several times faster.

    It supports a `SingleTaskGP` of any batch shape, and a `MeanVarianceGP`, whose two processes are
    each fitted to their own pseudo-data. Integer or categorical inputs need the user's `points`.

    Example:
        >>> import torch
        >>> from botorch.fit import fit_gpytorch_mll
        >>> X = torch.rand(9, 1, dtype=torch.double)
        >>> model = SingleTaskGP(X, (6 * X).sin())
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> mll = PseudoDataMarginalLogLikelihood(model.likelihood, model, bounds, seeds=0)
        >>> fit_gpytorch_mll(mll).pseudo_inputs.shape
        torch.Size([18, 1])
    """

    pseudo_inputs: Tensor
    pseudo_targets: Tensor
    pseudo_noise: Tensor | None
    pseudo_counted: Tensor | None

    def __init__(
        self,
        likelihood: Likelihood,
        model: Any,
        bounds: Tensor,
        num_pseudo: int | None = None,
        *,
        seeds: int | Sequence[int],
        points: Design | Tensor = "uniform",
    ) -> None:
        r"""Draw the pseudo-data.

        Args:
            likelihood: The model's likelihood.
            model: The model.
            bounds: The lower and the upper bounds of the domain, `2 x d`, in the units of the
                model's inputs, before any input transform.
            num_pseudo: The number of pseudo-points M_t; twice the number of inputs if omitted.
            seeds: One seed for each replicate, the batch flattened. New seeds in each round redraw
                the points, as in the paper.
            points: `"uniform"`, `"sobol"` or the points themselves, `M x d`; see `pseudo_points`,
                also for errors.

        Raises:
            UnsupportedError: If the model has several tasks.
        """
        super().__init__(likelihood, model)
        bounds = as_floating(bounds, "bounds")
        drawn = _draw(model, bounds, num_pseudo, seeds=seeds, points=points)
        noise = None
        if isinstance(likelihood, FixedNoiseGaussianLikelihood):
            # Without what is learnt in addition, which `forward` adds as it then is.
            noise = drawn.of_neighbours(likelihood.noise_covar.noise).detach()
        self.register_buffer("pseudo_inputs", drawn.X, persistent=False)
        targets = drawn.of_neighbours(model.train_targets).detach()
        self.register_buffer("pseudo_targets", targets, persistent=False)
        self.register_buffer("pseudo_noise", noise, persistent=False)
        counted = None if drawn.counted.all() else drawn.counted
        self.register_buffer("pseudo_counted", counted, persistent=False)
        self._arguments: dict[str, Any] = {
            "bounds": bounds.clone(),
            "num_pseudo": num_pseudo,
            "seeds": seeds,
            "points": points,
        }

    def of_process(self, model: SingleTaskGP) -> PseudoDataMarginalLogLikelihood:
        r"""Build the same loss for another model, with pseudo-data drawn from its current data."""
        return type(self)(model.likelihood, model, **self._arguments)

    def forward(
        self, function_dist: MultivariateNormal, target: Tensor, *params: Any, **kwargs: Any
    ) -> Tensor:
        r"""The loss per pseudo-point, `batch_shape`; the arguments are ignored."""
        with coefficients_kept(self.model):
            prior = self.model.forward(self.pseudo_inputs)
            inputs = self.model.transform_inputs(self.pseudo_inputs)
        log_density, number = self._log_density(self._with_noise(prior, inputs, **kwargs))
        return self._add_other_terms(log_density, (inputs,)) / number  # Eqs. (2), (9) and (10)

    def _with_noise(self, prior: MultivariateNormal, inputs: Tensor, **kwargs: Any) -> Any:
        if self.pseudo_noise is None:
            return self.likelihood(prior, inputs, **kwargs)
        # Not by the likelihood's argument `noise`, which would also replace the additional noise.
        noise = DiagLinearOperator(self.pseudo_noise + self.likelihood.second_noise)
        return MultivariateNormal(prior.mean, prior.lazy_covariance_matrix + noise)

    def _log_density(self, outcomes: MultivariateNormal) -> tuple[Tensor, Tensor | int]:
        r"""The log density and the number of the pseudo-data in each replicate, `batch_shape`."""
        if self.pseudo_counted is None:
            return outcomes.log_prob(self.pseudo_targets), self.pseudo_targets.shape[-1]
        # What does not count becomes independent, standard normal and equal to its mean.
        counted = self.pseudo_counted
        pairs = counted.unsqueeze(-1) & counted.unsqueeze(-2)
        covariance = outcomes.covariance_matrix * pairs + (~counted).to(outcomes.mean).diag_embed()
        masked = MultivariateNormal(outcomes.mean * counted, covariance)
        left_out = (~counted).sum(dim=-1)
        log_density = masked.log_prob(self.pseudo_targets * counted)
        return log_density + 0.5 * math.log(2 * math.pi) * left_out, counted.sum(dim=-1)


def fit_pseudo_data(
    model: SingleTaskGP,
    bounds: Tensor,
    num_pseudo: int | None = None,
    *,
    seeds: int | Sequence[int],
    points: Design | Tensor = "uniform",
    observed: Tensor | None = None,
    rough_start: bool = True,
    num_restarts: int = 0,
    previous: Optimum | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-5,
) -> FitResult:
    r"""Fit the hyperparameters to pseudo-data, Eq. (2) of [Ha2023uhe]_, in place.

    It maximises `PseudoDataMarginalLogLikelihood` as `fit_exact_gp` maximises the ordinary
    likelihood, for the same models and with the same arguments, except `MeanVarianceGP`.

    Args:
        model: The model. Its current hyperparameters are the first start.
        bounds: The bounds of the domain; see the loss, also for `num_pseudo` and `points`.
        seeds: One seed for each replicate, the batch flattened, for the points and the restarts.
        observed: An optional boolean mask of the data, `batch_shape x n`.
        previous: The `optimum` of the last round's fit, as in `fit_exact_gp`, whose rule decides
            when other starts are tried too; these end early if they promise little.

    Returns:
        The result of the fit, with the objective per pseudo-point.

    Raises:
        UnsupportedError: If restarts or a mask are given for a model that the closed form does not
            support.

    Example:
        >>> import torch
        >>> from botorch_risk.examples import unit
        >>> X = torch.rand(3, 9, 1, dtype=torch.double)
        >>> model = SingleTaskGP(X, (6 * X).sin())
        >>> result = fit_pseudo_data(model, unit, seeds=[0, 1, 2])
        >>> len(result.status), result.method
        (3, 'closed form')
    """
    require_gradients("fit_pseudo_data")
    check_flags(rough_start=rough_start)
    drawn = _draw(model, bounds, num_pseudo, seeds=seeds, points=points, observed=observed)

    is_fixed = isinstance(model.likelihood, FixedNoiseGaussianLikelihood)
    noise = drawn.of_neighbours(model.likelihood.noise_covar.noise) if is_fixed else None
    # The model keeps its own data for predictions, Eq. (3).
    return fit_to_data(
        model,
        drawn.X,
        drawn.of_neighbours(model.train_targets),
        noise,
        None if drawn.counted.all() else drawn.counted,
        make_mll=lambda: PseudoDataMarginalLogLikelihood(
            model.likelihood, model, bounds, num_pseudo, seeds=seeds, points=points
        ),
        observed=observed,
        rougher=MUCH_ROUGHER if rough_start else None,
        num_restarts=num_restarts,
        seeds=seeds,
        previous=previous,
        hope=HOPE,
        max_iterations=max_iterations,
        tolerance=tolerance,
    )


def _draw(model: Any, bounds: Tensor, num_pseudo: int | None, **options: Any) -> PseudoPoints:
    r"""Pseudo-points of a model's data, in the units of its inputs before any transform."""
    if isinstance(model, MultiTaskGPyTorchModel) or len(model.train_inputs) != 1:
        raise UnsupportedError(f"Expected a model with a single task. Got {type(model).__name__}.")
    X = original_inputs(model).expand(*model.train_targets.shape, -1)
    return pseudo_points(X, bounds, num_pseudo, **options)


class Estimates(NamedTuple):
    r"""One hyperparameter under both losses.

    Args:
        ordinary: Fitted to the data, `batch_shape x k`.
        pseudo_data: Fitted to pseudo-data, `batch_shape x k`; `len(seeds) x k` for a model without
            a batch dimension and several seeds.
    """

    ordinary: Tensor
    pseudo_data: Tensor


def compare_losses(
    model: SingleTaskGP,
    bounds: Tensor,
    num_pseudo: int | None = None,
    *,
    seeds: int | Sequence[int],
) -> dict[str, Estimates]:
    r"""Fit copies of a model to its data and to pseudo-data, by Eq. (2) of [Ha2023uhe]_.

    It has the arguments of `fit_pseudo_data`; the closed form has to support the model, which is
    not changed. The keys are hyperparameters, such as `lengthscale` and `noise`, and the estimates
    are in the model's units.

    Pseudo-points are random: with several seeds, one data set shows how much estimates vary.

    Args:
        model: The model.
        bounds: The bounds of the domain, `2 x d`.
        num_pseudo: As in `fit_pseudo_data`.
        seeds: One for each replicate of the model; for a model without a batch dimension, one, or
            several with a fit for each.

    Example:
        >>> import torch
        >>> from botorch_risk.examples import unit
        >>> X = torch.linspace(0, 1, 8, dtype=torch.double).unsqueeze(-1) ** 3  # most near 0
        >>> table = compare_losses(SingleTaskGP(X, (9 * X).sin()), unit, seeds=0)
        >>> ordinary, pseudo_data = table["lengthscale"]
        >>> bool(ordinary > pseudo_data)  # outcomes of the nearest data make steps
        True
        >>> several = compare_losses(SingleTaskGP(X, (9 * X).sin()), unit, seeds=range(4))
        >>> several["lengthscale"].pseudo_data.shape
        torch.Size([4, 1])
    """
    ordinary = copy.deepcopy(model)
    fit_exact_gp(ordinary)
    first = _natural(ordinary)
    if model.batch_shape or is_one_seed(seeds):
        return {
            name: Estimates(first[name], second)
            for name, second in _of_pseudo_data(model, bounds, num_pseudo, seeds).items()
        }
    each = [_of_pseudo_data(model, bounds, num_pseudo, seed) for seed in as_seeds(seeds)]
    return {
        name: Estimates(first[name], torch.stack([one[name] for one in each])) for name in first
    }


def _of_pseudo_data(
    model: SingleTaskGP, bounds: Tensor, num_pseudo: int | None, seeds: int | Sequence[int]
) -> dict[str, Tensor]:
    pseudo = copy.deepcopy(model)
    fit_pseudo_data(pseudo, bounds, num_pseudo, seeds=seeds)
    return _natural(pseudo)


def _natural(model: SingleTaskGP) -> dict[str, Tensor]:
    parts = MarginalLikelihoodObjective.of(model.train()).parts
    model.eval()
    return {
        one.name: one.natural.detach().reshape(*parts.batch_shape, -1)
        for one in parts.hyperparameters
    }
