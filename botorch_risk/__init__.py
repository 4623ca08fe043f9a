r"""Decisions under risk with BoTorch.

The core is what the five papers need. A file imports only from its own row and those above it:

    engine         exact GPs, batched: moments, fits, maximisation; one page is its door
    risk           measures of risk of weighted values, worst cases over balls of distributions
    environments   the distribution of the environmental variable: known, learnt, perturbed
    test_functions problems whose optimum of the risk objective is known
    fit            what hyperparameters are learnt from: data, samples or pseudo-data
    models         `MeanVarianceGP`, which learns the noise as well as the mean
    bandits        EXP3
    acquisition    acquisition functions that optimise a risk measure of the outcome
    recommend      which point is recommended at the end
    strategies     whole loops, ask and tell: a space, a method and a history
    papers         RAHBO, SBO-KDE and DRBO-KDE, V-UCB, TRUVAR, UHE-BO: a page each

Each wing holds one capability beyond the papers, acquisition functions and strategies together, and
can be deleted without a change in the core:

    robust         risk in BoTorch's Monte-Carlo acquisition functions, several risks at once
    constraints    constraints that hold under a risk, safe experiments
    repeats        how often to repeat an experiment, and where to go next
    level_sets     which decisions have a risk above a level, and what to read next
    stopping       how far the recommendation may be from the best
    frames         one experiment with plain tables or DataFrames
    faster         a user's own BoTorch loop, sped up
    diagnostics    calibration, coverage, leave-one-out
    tables         finite tables of conditions x contexts, with rules that are exact over all pairs
    testing        the laws of every part, for parts that you wrote yourself

`ax` puts all of it into Ax. A separate distribution, `botorch_risk_bench`, has the benchmarks.

Shapes are written in one vocabulary everywhere:

    n            number of observed points
    q            number of candidate points considered jointly
    m            number of points evaluated independently of each other
    d, d_x, d_w  number of inputs: all, decision variables, environmental variables
    k            number of repeats of one experiment
    n_w          number of values of the environmental variable
    batch_shape  leading dimensions; R replicates of one experiment are a batch_shape [R]

The environmental variable always takes the LAST `d_w` columns. Everything is maximised.
`beta` always means `mean + sqrt(beta) * standard deviation`, as in BoTorch.

Functions that take a tensor also take a NumPy array or nested lists. Lists and whole numbers become
float64. Anything that is not a table of numbers raises `TypeError`.

The names that most loops need can be imported from here, and are loaded when first used:

    >>> from botorch_risk import MeanVarianceGP, RiskAverseUpperConfidenceBound
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botorch_risk.acquisition import (
        RiskAverseUpperConfidenceBound,
        RiskUpperConfidenceBound,
        select_value,
    )
    from botorch_risk.constraints import ConstrainedUpperConfidenceBound, RiskConstraint
    from botorch_risk.engine import DomainPosterior
    from botorch_risk.environments import (
        DiscreteEnvironment,
        InputPerturbation,
        KernelDensityEnvironment,
    )
    from botorch_risk.fit import PseudoDataMarginalLogLikelihood
    from botorch_risk.level_sets import ExpectedClassification
    from botorch_risk.models import MeanVarianceGP, SampledGP
    from botorch_risk.papers import TruncatedVarianceReduction
    from botorch_risk.repeats import LogRiskAverseKnowledgeGradient
    from botorch_risk.risk import (
        ConditionalValueAtRisk,
        MaximumMeanDiscrepancyBall,
        TotalVariationBall,
        ValueAtRisk,
    )

__version__ = "0.1.0"

_FOLDERS = {
    "RiskAverseUpperConfidenceBound": "acquisition",
    "RiskUpperConfidenceBound": "acquisition",
    "TruncatedVarianceReduction": "papers",
    "LogRiskAverseKnowledgeGradient": "repeats",
    "select_value": "acquisition",
    "ExpectedClassification": "level_sets",
    "ConstrainedUpperConfidenceBound": "constraints",
    "RiskConstraint": "constraints",
    "DiscreteEnvironment": "environments",
    "InputPerturbation": "environments",
    "KernelDensityEnvironment": "environments",
    "PseudoDataMarginalLogLikelihood": "fit",
    "MeanVarianceGP": "models",
    "SampledGP": "models",
    "DomainPosterior": "engine",
    "ConditionalValueAtRisk": "risk",
    "MaximumMeanDiscrepancyBall": "risk",
    "TotalVariationBall": "risk",
    "ValueAtRisk": "risk",
}
__all__ = [
    "ConditionalValueAtRisk",
    "ConstrainedUpperConfidenceBound",
    "DiscreteEnvironment",
    "DomainPosterior",
    "ExpectedClassification",
    "InputPerturbation",
    "KernelDensityEnvironment",
    "LogRiskAverseKnowledgeGradient",
    "MaximumMeanDiscrepancyBall",
    "MeanVarianceGP",
    "PseudoDataMarginalLogLikelihood",
    "RiskAverseUpperConfidenceBound",
    "RiskConstraint",
    "RiskUpperConfidenceBound",
    "SampledGP",
    "TotalVariationBall",
    "TruncatedVarianceReduction",
    "ValueAtRisk",
    "select_value",
]


def __getattr__(name: str) -> Any:
    if name not in _FOLDERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FOLDERS[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
