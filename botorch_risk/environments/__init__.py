r"""Distributions of the environmental variable W, known or learnt from observed values."""

from botorch_risk.environments.continuous import BoundedMarginals, ContinuousEnvironment, Mixture
from botorch_risk.environments.density import KernelDensity
from botorch_risk.environments.discrete import (
    DiscreteEnvironment,
    EmpiricalGrid,
    StandardDeviationBox,
    regular_grid,
)
from botorch_risk.environments.environment import Environment, IndependentEnvironment
from botorch_risk.environments.kernel_density import (
    KernelDensityEnvironment,
    leave_one_out_bandwidth,
    silverman_bandwidth,
)
from botorch_risk.environments.observed_contexts import ObservedContexts
from botorch_risk.environments.perturbation import InputPerturbation, PerturbedEnvironment

__all__ = [
    "BoundedMarginals",
    "ContinuousEnvironment",
    "DiscreteEnvironment",
    "EmpiricalGrid",
    "Environment",
    "IndependentEnvironment",
    "InputPerturbation",
    "KernelDensity",
    "KernelDensityEnvironment",
    "Mixture",
    "ObservedContexts",
    "PerturbedEnvironment",
    "StandardDeviationBox",
    "leave_one_out_bandwidth",
    "regular_grid",
    "silverman_bandwidth",
]
