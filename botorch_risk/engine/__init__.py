r"""Exact Gaussian processes, batched: moments, fits and maximisation, on a CPU or a GPU.

The engine knows no risk, no environment and no strategy, and serves any exact GP of BoTorch. This
page is its door: no other part of the package imports from a file in here.

Moments, `X: batch_shape x m x d`, in the units of the outcome:

    Belief(model, posterior_transform=None)
        (X) -> mean, variance: batch_shape x m      .mean(X)    .closed_form    Belief.serves(model)
        .bounds(*others)(X, widths) -> mean + width * deviation of each, batch_shape x m
        .picked(X: .. x m x p x d, width, pick) -> one bound of each group, batch_shape x m
        .pairs(W)(x) -> moments at all (x, w_j), batch_shape x m x n_w     .mean(x)    .serves(x)
            .reduced(x, reduce, width= or numbers=) -> what is made of all bounds or samples of x,
             batch_shape x m, and its gradient in closed form
        .joint()(X: .. x m x p x d) -> mean .. x m x p, covariance .. x m x p x p    .moments(X)
        .process() -> Process       .sampler() -> joint samples that draw constant points once
    Process, of B = batch_shape.numel() entries
        .at(X: B x m x d) -> Points     .covariance(a, b)     .covariance_within(points, p)
        .weighted_sums(points, weights) -> sums of the outcome, with .covariance(at), .variance()
        .noise_of_a_reading(X)     .extended(points, outcomes, whitening) -> Process
    DomainPosterior(model, domain, dense=True, ...)    of a finite domain, .observe(index, y, noise)
        .reductions(candidates, inverse, targets) -> what samples explain, B x m x K
    FastMarginals(model)                               a view for BoTorch's acquisition functions

Fits, in place, one status for each entry of the batch:

    fit_exact_gp(model, previous=None, num_restarts=0, seeds=None, observed=None) -> FitResult
    fit_to_data(model, X, targets, noise, counted, make_mll=...) -> FitResult
    FitResult.optimum: Optimum          where the next fit starts: `previous`
    FitObjective                        any other loss: .minimize(Starts), .maximize(..)
    MarginalLikelihoodObjective.of(model), a FitObjective; NotInClosedFormError if there is none

Samples of the hyperparameters, in place of a fit; `model` of batch shape `[S]` or `[S, R]`:

    sample_exact_gp(model, seeds=, previous=None) -> SampledHyperparameters
    LogPosterior                        a FitObjective that can be sampled: .sample(starts, ..)

Maximisation:

    optimize_acqf_replicates(acqf, bounds, seeds, ...) -> X: R x q x d, values
        inequality_constraints=, equality_constraints=, as in BoTorch's `optimize_acqf`
    Polytope.of(bounds, the same two, ...)             .nearest(X) -> the nearest points inside
    PolytopeSampler(polytope)                          .sobol(seeds, n), .uniform(seeds, n)
    gen_candidates_quasi_newton                        for BoTorch's `optimize_acqf`
    PointwiseAcquisition                               the protocol: .evaluate(X) -> batch_shape x m
    minimize_rows(objective, start, lower, upper, ...) -> Minima

Without a closed form everything still works: an unknown kernel is evaluated by its own `forward`,
in chunks; a model that `Belief.serves` refuses is called by its own `posterior`; if a loss or a
prior has no gradients in closed form, BoTorch's `fit_gpytorch_mll` fits the model.

`batch_shape` is the model's: `[]`, `[R]` for replicates, or `[S, R]` for samples of the
hyperparameters of replicates; `DomainPosterior` and `optimize_acqf_replicates` accept `[]` and
`[R]`.
"""

from .fit.exact_gp import fit_exact_gp, fit_to_data
from .fit.fit_objective import FitObjective
from .fit.objective import MarginalLikelihoodObjective
from .fit.parameters import NotInClosedFormError
from .fit.results import FitResult, Optimum
from .fit.starts import Starts
from .optim.candidates import gen_candidates_quasi_newton
from .optim.multistart import optimize_acqf_replicates
from .optim.pointwise import PointwiseAcquisition
from .optim.polytope import Polytope
from .optim.polytope_sampler import PolytopeSampler
from .posterior.belief import Belief
from .posterior.domain import DomainPosterior
from .posterior.fast_marginals import FastMarginals
from .posterior.process import Process
from .projected_bfgs import minimize_rows
from .sample.hyperparameters import sample_exact_gp
from .sample.log_posterior import LogPosterior, SampledHyperparameters

__all__ = [
    "Belief",
    "DomainPosterior",
    "FastMarginals",
    "FitObjective",
    "FitResult",
    "LogPosterior",
    "MarginalLikelihoodObjective",
    "NotInClosedFormError",
    "Optimum",
    "PointwiseAcquisition",
    "Polytope",
    "PolytopeSampler",
    "Process",
    "SampledHyperparameters",
    "Starts",
    "fit_exact_gp",
    "fit_to_data",
    "gen_candidates_quasi_newton",
    "minimize_rows",
    "optimize_acqf_replicates",
    "sample_exact_gp",
]
