r"""PyTorch's gradient modes, and gradients with respect to the data of conditioned models.

BoTorch's look-ahead acquisition functions condition a model on a candidate and differentiate its
predictions. GPyTorch detaches the caches of a conditioned model from its data, so that the values
are right but these gradients are wrong.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import ModelList
from botorch.settings import propagate_grads
from gpytorch.models import ExactGP
from gpytorch.settings import detach_test_caches
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import Parameter


def require_gradients(name: str) -> None:
    r"""Refuse PyTorch's inference mode, in which no gradient can be computed.

    `torch.no_grad` is allowed: gradients are switched on where needed.
    """
    if torch.is_inference_mode_enabled():
        raise UnsupportedError(
            f"Expected gradients, which {name} needs. Got `torch.inference_mode()`; use "
            "`torch.no_grad()`, or leave inference mode for this call."
        )


def differentiated(evaluate: Callable[[Tensor], Tensor], X: Tensor) -> tuple[Tensor, Tensor]:
    r"""Values at points that do not interact, and their gradients by autograd, both detached."""
    X = X.detach().requires_grad_()
    with torch.enable_grad():
        values = evaluate(X)
        (gradient,) = torch.autograd.grad(values.sum(), X)
    return values.detach(), gradient


def with_gradient(function: Callable[[Tensor], tuple[Tensor, Tensor]], X: Tensor) -> Tensor:
    r"""Values at points that do not interact, as one node of the graph, once differentiable.

    `function` maps points `... x m x d` to values `... x m` and the gradient of each in its own
    point, `... x m x d`, without a graph.
    """
    values: Tensor = _WithGradient.apply(X, function)
    return values


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, X: Tensor, function: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
        values, gradient = function(X)
        ctx.save_for_backward(gradient)
        ctx.shape = X.shape
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (gradient,) = ctx.saved_tensors
        return (grad.unsqueeze(-1) * gradient).sum_to_size(ctx.shape), None


def conditioning_on(*data: Tensor) -> AbstractContextManager[Any]:
    r"""A context in which a conditioned model stays differentiable in its new data.

    If no gradient is needed, caches are detached as usual, so that several calls of `backward` may
    share a cache.
    """
    if any(each.requires_grad for each in data):
        return detach_test_caches(False)
    return nullcontext()


def condition(model: Any, X: Tensor, Y: Tensor, **options: Any) -> Any:
    r"""Condition a model, or a list of models, whether or not it has predicted before."""
    for part in model.models if isinstance(model, ModelList) else [model]:
        if isinstance(part, ExactGP) and (part.training or part.prediction_strategy is None):
            part.posterior(X[..., :1, :])  # GPyTorch conditions only a model that has predicted
    with conditioning_on(X, Y):
        return model.condition_on_observations(X=X, Y=Y, **options)


def predicting_with(model: Any) -> AbstractContextManager[Any]:
    r"""A context in which predictions are differentiable in the inputs of a model's data."""
    return propagate_grads(True) if inputs_need_gradients(model) else nullcontext()


def inputs_need_gradients(model: Any) -> bool:
    r"""Whether a model was conditioned on inputs that need a gradient.

    Outcomes do not count: a fantasy's outcomes depend on the hyperparameters, which are constants
    here. The parameters of a learnt input transform do not count for the same reason.
    """
    # The inputs that the kernel sees: BoTorch detaches those before the transform.
    inputs = next(iter(getattr(model, "train_inputs", None) or ()), None)
    if not (isinstance(inputs, Tensor) and inputs.requires_grad):
        return False
    transform = getattr(model, "input_transform", None)
    if transform is None or next(transform.parameters(), None) is None:
        return True
    # A conditioned model is a copy, whose own parameters these leaves are not.
    return not all(isinstance(leaf, Parameter) for leaf in _leaves(inputs))


def _leaves(tensor: Tensor) -> Iterator[Tensor]:
    r"""The leaves that the gradient of a tensor reaches."""
    if tensor.grad_fn is None:
        yield tensor
    nodes: list[Any] = [tensor.grad_fn]
    seen = {None}
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf
        nodes += (following for following, _ in node.next_functions)
