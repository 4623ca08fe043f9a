r"""Truncated variance reduction (TRUVAR): optimisation and level sets on a finite domain.

Symbols of the paper, and names here:

    D               the domain, a list of points
    M_t             `TruncatedVarianceState.unclassified`: the points that matter still
    H_t, L_t        `TruncatedVarianceState.high` and `low`
    eta_(i)         `TruncatedVarianceState.eta`; r and delta-bar are its `r` and `slack`
    c(x), sigma^2(x) `Cost` and `NoiseLevels`
    beta_(i)        the squared width of the epoch, `PracticalWidth` or `GuaranteedWidth`

Equations and results, by what computes them:

    engine.DomainPosterior
        Eq. (1)         posterior mean
        Eq. (2)         posterior variance
        Eq. (19)        variance at a candidate
        Eq. (20)        covariances with a candidate
    papers.TruncatedVarianceReduction
        Eq. (3)         reduction of truncated variances per cost
    papers.TruncatedVarianceState.confidence_bounds
        Eq. (4)         upper and lower bounds of f
    papers.Maximize
        Eq. (5)         points that may be a maximiser
    papers.LevelSet
        Eq. (6)         points that are not classified
        Eq. (7)         points above and below the level
    papers.cost_bounds
        Eq. (9)         points near the maximum after an epoch
        Eq. (10)        points near the level after an epoch
        Eq. (13)        cost of an epoch
        Eq. (15)        cost of all epochs
        Eq. (34)        samples of an epoch, unit costs
        Eq. (35)        squared width, unit costs
        Eq. (36)        samples of all epochs, unit costs
        Theorem 3.1     cost at which the sets are accurate
    papers.covering_cost
        Eq. (11)        least cost of a deviation in a set
        Eq. (21)        the covering problem of an epoch
        Eq. (22)        truncated gain of a set of samples
        Eq. (23)        excess variance, as a difference
        Eq. (24)        excess variance, as a positive part
        Eq. (33)        least number of samples, unit costs
    papers.GuaranteedWidth
        Eq. (14)        squared width of an epoch
    papers.information_gain
        Eq. (16)        the largest information gain
    papers.truvar.gain.gain
        Eq. (18)        fall of the variances by a sample
    papers.truvar.goals.Goal.accuracy
        Definition 3.1  accuracy of the sets
    acquisition.bayesian_beta
        Lemma C.1       bounds at all points and times
    papers.NoiseLevels
        Corollary 3.2   noise levels to choose from (the cost is a rate)
    papers.TruncatedVarianceState
        Algorithm 1     TRUVAR: the epochs
        Algorithm 2     TRUVAR: bounds and sets of a round

Read in this order: `goals` defines the sets, `state` is the memory between samples with its widths
and report, `gain` is Eq. 3 at points and on a whole domain, `sampling` has noise and cost,
`covering` chooses a batch, and `acquisition` puts them together. The sampler in `truncate_variance`
asks it for points and keeps the sets in the state of the method in `sample_domain`; `strategy`
builds both. `cost_bounds` has the theory.
"""

from .acquisition import TruncatedVarianceReduction
from .cost_bounds import CostBounds, cost_bounds, covering_cost
from .covering import Selection, top_candidates
from .goals import LevelSet, Maximize, RelativeLevelSet
from .sample_domain import SampleDomain, Sampler
from .sampling import Cost, NoiseLevels
from .state import GuaranteedWidth, PracticalWidth, Status, TruncatedVarianceState, status
from .strategy import truvar, truvar_state
from .truncate_variance import TruncateVariance

__all__ = [
    "Cost",
    "CostBounds",
    "GuaranteedWidth",
    "LevelSet",
    "Maximize",
    "NoiseLevels",
    "PracticalWidth",
    "RelativeLevelSet",
    "SampleDomain",
    "Sampler",
    "Selection",
    "Status",
    "TruncateVariance",
    "TruncatedVarianceReduction",
    "TruncatedVarianceState",
    "cost_bounds",
    "covering_cost",
    "status",
    "top_candidates",
    "truvar",
    "truvar_state",
]
