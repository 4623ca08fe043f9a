r"""The algorithm of each paper as ask / tell, over one experiment or many replicates at once."""

from botorch_risk.strategies.domain_optimization import (
    ExpectedImprovementSearch,
    MaxValueEntropySearch,
    MinimumRegretSearch,
    UpperConfidenceBoundSearch,
)
from botorch_risk.strategies.initial_design import initial_design
from botorch_risk.strategies.kernel_density import (
    DRBOKDE,
    DRBOMMD,
    SBOKDE,
    ContextFreeGPUCB,
    StableOpt,
)
from botorch_risk.strategies.level_set import GCHK, LevelSetSearch, MaximumVarianceSearch
from botorch_risk.strategies.log_nei import MeanVarianceLogNEI, ValueAtRiskLogNEI
from botorch_risk.strategies.protocol import Strategy
from botorch_risk.strategies.rahbo import RAHBO, RAHBOUS, HeteroscedasticGPUCB
from botorch_risk.strategies.random_or_acquire import RandomOrAcquire
from botorch_risk.strategies.random_search import RandomSearch
from botorch_risk.strategies.rho_knowledge_gradient import RhoKnowledgeGradient
from botorch_risk.strategies.shrinking_gp_ucb import AGPUCB, WangDeFreitasGPUCB
from botorch_risk.strategies.truncated_variance import TruVaR
from botorch_risk.strategies.uhebo import (
    GPUCB,
    RABO,
    UHEBO,
    FullyBayesianGPUCB,
    PortfolioEXP3,
    PseudoDataGPUCB,
    RandomEXP3,
)
from botorch_risk.strategies.value_at_risk import (
    VUCB,
    AdversarialStableOpt,
    ContextualGPUCB,
    RandomPairs,
)

__all__ = [
    "AGPUCB",
    "DRBOKDE",
    "DRBOMMD",
    "GCHK",
    "GPUCB",
    "RABO",
    "RAHBO",
    "RAHBOUS",
    "SBOKDE",
    "UHEBO",
    "VUCB",
    "AdversarialStableOpt",
    "ContextFreeGPUCB",
    "ContextualGPUCB",
    "ExpectedImprovementSearch",
    "FullyBayesianGPUCB",
    "HeteroscedasticGPUCB",
    "LevelSetSearch",
    "MaxValueEntropySearch",
    "MaximumVarianceSearch",
    "MeanVarianceLogNEI",
    "MinimumRegretSearch",
    "PortfolioEXP3",
    "PseudoDataGPUCB",
    "RandomEXP3",
    "RandomOrAcquire",
    "RandomPairs",
    "RandomSearch",
    "RhoKnowledgeGradient",
    "StableOpt",
    "Strategy",
    "TruVaR",
    "UpperConfidenceBoundSearch",
    "ValueAtRiskLogNEI",
    "WangDeFreitasGPUCB",
    "initial_design",
]
