r"""Every private name of torch, GPyTorch, BoTorch and Ax that the package leans on.

A new version that renames one fails here first, next to what breaks. Names that hold only within a
class of ours are not listed, nor are the names of BoTorch's test problems, which are its documented
way to write one.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from ax.adapter.base import Adapter
from ax.adapter.torch import TorchAdapter
from ax.api.client import Client
from ax.core.base_trial import BaseTrial
from ax.core.generator_run import GeneratorRun
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.multi_objective import logei
from botorch.models.model import Model
from botorch.models.transforms.input import AppendFeatures
from botorch.models.transforms.outcome import OutcomeTransform, Standardize
from botorch.posteriors import GPyTorchPosterior, Posterior, TransformedPosterior
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.test_functions.base import BaseTestProblem
from botorch.utils import types
from botorch.utils.datasets import SupervisedDataset
from gpytorch.constraints import Interval
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import Prior
from torch import Tensor
from torch.nn import Module

import botorch_risk
from tests.defaults import modules

FILES = list(Path(botorch_risk.__path__[0]).rglob("*.py"))

# Where each is, and what breaks without it.
PRIVATE: dict[str, tuple[Any, str]] = {
    # Ax
    "_objective_weights": (Acquisition, "the signs of outcomes in `RiskAcquisition`"),
    "_outcome_constraints": (Acquisition, "outcome constraints in `RiskAcquisition`"),
    "_construct_botorch_acquisition": (Acquisition, "constraints, contexts, perturbed inputs"),
    "_instantiate_acquisition": (BoTorchGenerator, "`best_arm` and the analyses"),
    "_botorch_acqf_options": (BoTorchGenerator, "`best_arm` and the analyses"),
    "_training_data": (Adapter, "contexts and counts of readings"),
    "_process_and_transform_data": (Adapter, "contexts of every trial"),
    "_convert_experiment_data": (TorchAdapter, "contexts, counts of readings, stored decimals"),
    "_transform_observation_features": (TorchAdapter, "`best_arm` and the analyses"),
    "_search_space": (Adapter, "`best_arm` and the analyses"),
    "_set_search_space": (Adapter, "the present search space"),
    "_set_model_space": (Adapter, "the present search space"),
    "_model_space": (Adapter, "the present search space"),
    "_optimization_config": (Adapter, "the present objective and limits"),
    "_data_loader_config": (Adapter, "the present search space"),
    "_last_experiment_data": (TorchAdapter, "the present search space, contexts"),
    "_get_candidate_metadata": (BaseTrial, "arms that are pending"),
    "_get_transformed_gen_args": (Adapter, "`best_arm` and the analyses"),
    "_get_transformed_model_gen_args": (TorchAdapter, "`best_arm` and the analyses"),
    "_nodes": (GenerationStrategy, "`best_arm`, `with_random_exploration`, the check of names"),
    "_fit": (GenerationNode, "`best_arm` and the analyses after the last candidate"),
    "_fitted_adapter": (GenerationNode, "`best_arm` and the analyses"),
    "_transition_criteria": (GenerationNode, "`with_random_exploration`"),
    "_generation_node_name": (GeneratorRun, "`with_random_exploration`: which trials were random"),
    "_generation_strategy": (Client, "`best_arm`"),
    "_experiment": (Client, "`best_arm`"),
    # BoTorch
    "_construct_base_samples": (SobolQMCNormalSampler, "sampling risks, `robust`"),
    "_is_linear": (OutcomeTransform, "closed forms, repeats, leave-one-out"),
    "_validate_training_inputs": (Standardize, "scales of mean-variance models"),
    "_stdvs_sq": (Standardize, "scales of mean-variance models"),
    "_is_trained": (Standardize, "scales of mean-variance models"),
    "_get_per_input_means_stdvs": (Standardize, "fast predictions of a standardised model"),
    "_has_transformed_inputs": (Model, "reading the training inputs of a model"),
    "_original_train_inputs": (Model, "reading the training inputs of a model"),
    "_is_ensemble": (Model, "`robust` and predictions of fully Bayesian models"),
    "_is_fully_bayesian": (Model, "`robust` of fully Bayesian models"),
    "_f": (AppendFeatures, "`robust` on BoTorch's `AppendFeatures`"),
    "_DefaultType": (types, "the default outcome transform of `MeanVarianceGP`"),
    "_extended_shape": (Posterior, "shapes of samples of risks"),
    "_posterior": (TransformedPosterior, "sampling risks, `robust`"),
    "_is_mt": (GPyTorchPosterior, "`FastMarginals`"),
    "_load_attempted": (logei, "`without_compiling`"),
    "_constraints": (qLogNoisyExpectedImprovement, "`recommend` by BoTorch's acquisitions"),
    "_Yvar": (SupervisedDataset, "known noise in Ax"),
    # GPyTorch
    "_inv_transform": (Interval, "fits: bounds of hyperparameters"),
    "_transform": (Prior, "fits: which priors have a closed form"),
    "_shaped_noise_covar": (FixedNoiseGaussianLikelihood, "noise known by row"),
    "_add_other_terms": (ExactMarginalLogLikelihood, "the pseudo-data likelihood"),
    # torch
    "_version": (Tensor, "caches that follow a change of a model in place"),
    "_buffers": (Module, "caches that follow a model"),
    "_parameters": (Module, "caches that follow a model"),
    "_modules": (Module, "parts of models, such as their transforms"),
    "_apply": (Module, "`FastMarginals` on another device"),
    "_backward_cls": (torch.autograd.Function, "made by torch for functions with a gradient"),
}
# Of namedtuples, enumerations and the interpreter, which document them.
DOCUMENTED = {"_replace", "_exit", "_abc_impl", "_is_protocol"}


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_name_that_we_lean_on_is_there(name: str) -> None:
    owner, breaks = PRIVATE[name]
    assert _is_there(owner, name), f"{owner.__name__}.{name} is gone, which breaks: {breaks}."


def _is_there(owner: Any, name: str) -> bool:
    r"""Whether it is a member, or what a method or a class in its order of resolution sets."""
    if inspect.getattr_static(owner, name, None) is not None:
        return True
    kinds = [each for each in owner.__mro__ if each is not object]
    sources = [_source(each) for each in kinds]
    return any(re.search(rf"self\.{name}\b|[\"']{name}[\"']", source) for source in sources)


def _source(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):  # of C
        return ""


def _foreign_names() -> Iterator[tuple[str, str]]:
    r"""Private names that a file reads or imports and none of ours defines, with their places."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    ours = {node.name for _, node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    ours |= {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for _, node in nodes
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store)
    }
    for path, node in nodes:
        for name in _read(node):
            if name not in ours and re.fullmatch(r"_[A-Za-z]\w*", name):
                yield name, f"{path.name}:{node.lineno}"


def _read(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.ImportFrom) and not (
        node.level or (node.module or "").startswith("botorch_risk")
    ):
        return [each.name for each in node.names]
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
        return [each.value for each in node.args[1:2] if isinstance(each, ast.Constant)]
    return []


def _overridden() -> Iterator[tuple[str, str]]:
    r"""Private methods of other packages that our classes override."""
    for module in modules():
        for kind in vars(module).values():
            if not isinstance(kind, type) or kind.__module__ != module.__name__:
                continue
            for name in vars(kind):
                if re.fullmatch(r"_[a-z]\w*[a-z]", name) and not issubclass(kind, BaseTestProblem):
                    for base in kind.__mro__[1:]:
                        package = base.__module__.partition(".")[0]
                        if name in vars(base) and package in ("ax", "botorch", "gpytorch", "torch"):
                            yield name, f"{kind.__name__} of {base.__name__}"


def test_every_private_name_that_we_lean_on_is_listed() -> None:
    found = [*_foreign_names(), *_overridden()]
    missing = {name: place for name, place in found if name not in PRIVATE.keys() | DOCUMENTED}
    assert missing == {}


def test_no_name_is_listed_that_no_file_has() -> None:
    texts = (path.read_text(encoding="utf-8") for path in FILES)
    words = {word for text in texts for word in re.findall(r"\b_\w+", text)}
    assert [name for name in PRIVATE if name not in words] == ["_backward_cls"]  # which torch makes
