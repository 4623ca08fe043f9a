r"""Names by which Ax finds, fits and stores the classes of this package."""

import inspect
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

from botorch_risk import acquisition, constraints, level_sets, repeats, risk
from botorch_risk.ax.acquisition import (
    ChosenContextAcquisition,
    PerturbedInputsAcquisition,
    RiskAcquisition,
)
from botorch_risk.ax.contextual import ContextualRiskModel
from botorch_risk.ax.finite_table import FiniteTableNode
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
    for module in (acquisition, constraints, level_sets, repeats):
        for function in _public(module, AcquisitionFunction):
            register_acquisition_function(function)
    for kind in (RiskAcquisition, ChosenContextAcquisition, PerturbedInputsAcquisition):
        register_acquisition(kind)
    for measure in _public(risk, RiskMeasure):  # whose fields say all; kernels cannot be stored
        CORE_DECODER_REGISTRY[measure.__name__] = measure
    CORE_DECODER_REGISTRY[RiskGenerators.__name__] = RiskGenerators
    for criterion in (Exp3Criterion, KnownNames):
        CORE_DECODER_REGISTRY[criterion.__name__] = criterion
        CORE_ENCODER_REGISTRY[criterion] = transition_criterion_to_dict
    CORE_DECODER_REGISTRY[FiniteTableNode.__name__] = FiniteTableNode
    CORE_ENCODER_REGISTRY[FiniteTableNode] = _of_table


def _of_table(node: FiniteTableNode) -> dict[str, Any]:
    return {"__type": type(node).__name__, **node.arguments()}


def _fit(
    model: Any, mll_class: type[MarginalLogLikelihood], mll_options: dict[str, Any] | None = None
) -> None:
    process = model.model if isinstance(model, ContextualRiskModel) else model
    fit_gpytorch_mll(mll_class(process.likelihood, process, **(mll_options or {})))
