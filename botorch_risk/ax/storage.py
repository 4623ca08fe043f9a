r"""Names by which Ax finds, fits and stores the classes of this package."""

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

from ax.generators.torch.botorch_modular.utils import fit_botorch_model
from ax.storage.botorch_modular_registry import (
    register_acquisition,
    register_acquisition_function,
    register_model,
)
from ax.storage.json_store.encoders import transition_criterion_to_dict
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.fit import fit_gpytorch_mll
from gpytorch.mlls import MarginalLogLikelihood

import botorch_risk
from botorch_risk import acquisition, risk
from botorch_risk.ax.acquisition import (
    ChosenContextAcquisition,
    PerturbedInputsAcquisition,
    RiskAcquisition,
)
from botorch_risk.ax.contextual import ContextualRiskModel
from botorch_risk.ax.generator import RiskGenerators
from botorch_risk.ax.nodes import KnownNames
from botorch_risk.ax.random_exploration import Exp3Criterion
from botorch_risk.models import MeanVarianceGP, SampledGP
from botorch_risk.risk import RiskMeasure

MODELS = (MeanVarianceGP, SampledGP, ContextualRiskModel)


def _public(module: ModuleType, base: type) -> tuple[Any, ...]:
    r"""The public classes of a module that are of a kind."""
    found = (getattr(module, name) for name in module.__all__)
    return tuple(each for each in found if inspect.isclass(each) and issubclass(each, base))


def register() -> None:
    r"""Register models, fits, acquisition functions and generators; repeating it is harmless.

    Example:
        >>> from ax.storage.botorch_modular_registry import MODEL_REGISTRY
        >>> register()
        >>> MODEL_REGISTRY[MeanVarianceGP]
        'MeanVarianceGP'
    """
    for model in MODELS:
        register_model(model)
        fit_botorch_model.register(model)(_fit)
    register_acquisition_functions(acquisition)
    for kind in (RiskAcquisition, ChosenContextAcquisition, PerturbedInputsAcquisition):
        register_acquisition(kind)
    for measure in _public(risk, RiskMeasure):  # whose fields say all; kernels cannot be stored
        CORE_DECODER_REGISTRY[measure.__name__] = measure
    CORE_DECODER_REGISTRY[RiskGenerators.__name__] = RiskGenerators
    for criterion in (Exp3Criterion, KnownNames):
        CORE_DECODER_REGISTRY[criterion.__name__] = criterion
        CORE_ENCODER_REGISTRY[criterion] = transition_criterion_to_dict
    for wing in _wings_with_ax():
        importlib.import_module(wing)  # registers what the wing has for Ax


def register_acquisition_functions(module: ModuleType) -> None:
    r"""Register the public acquisition functions of a module."""
    for function in _public(module, AcquisitionFunction):
        register_acquisition_function(function)


def _wings_with_ax() -> list[str]:
    r"""The modules `with_ax` of the folders that are installed."""
    found = []
    for folder in pkgutil.iter_modules(botorch_risk.__path__):
        inside = [f"{place}/{folder.name}" for place in botorch_risk.__path__]
        if folder.ispkg and any(each.name == "with_ax" for each in pkgutil.iter_modules(inside)):
            found.append(f"{botorch_risk.__name__}.{folder.name}.with_ax")
    return found


def _fit(
    model: Any, mll_class: type[MarginalLogLikelihood], mll_options: dict[str, Any] | None = None
) -> None:
    process = model.model if isinstance(model, ContextualRiskModel) else model
    fit_gpytorch_mll(mll_class(process.likelihood, process, **(mll_options or {})))
