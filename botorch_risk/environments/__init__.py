r"""Distributions of the environmental variable W, known or learnt from observed values."""

from .continuous import ContinuousEnvironment, Mixture
from .density import KernelDensity
from .discrete import (
    DiscreteEnvironment,
    EmpiricalGrid,
    StandardDeviationBox,
    regular_grid,
    restricted,
)
from .environment import Environment, IndependentEnvironment
from .kernel_density import KernelDensityEnvironment, leave_one_out_bandwidth, silverman_bandwidth
from .label_frequencies import LabelFrequencies
from .observed_contexts import ObservedContexts
from .perturbation import InputPerturbation, PerturbedEnvironment
from .radius import bootstrap_radius, cross_validated_radius

__all__ = [
    "ContinuousEnvironment",
    "DiscreteEnvironment",
    "EmpiricalGrid",
    "Environment",
    "IndependentEnvironment",
    "InputPerturbation",
    "KernelDensity",
    "KernelDensityEnvironment",
    "LabelFrequencies",
    "Mixture",
    "ObservedContexts",
    "PerturbedEnvironment",
    "StandardDeviationBox",
    "bootstrap_radius",
    "cross_validated_radius",
    "leave_one_out_bandwidth",
    "regular_grid",
    "restricted",
    "silverman_bandwidth",
]
