r"""The arguments of baselines, documented once, and the beginning of their examples."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

_MEANING = {
    "acquisition": "BoTorch's acquisition function, as in `risk_search`.",
    "batch_size": "The number `q` of points in each later round.",
    "beta": "Squared width of the bound: a number, or a function of the round from 1.",
    "bounds": "The lower and the upper bounds of the decisions, `2 x d_x`, or a `Box`.",
    "constraint_beta": "Squared width of the bounds of the constraints.",
    "constraints": "What has to hold.",
    "context_bounds": "The lower and the upper bounds of the contexts, `2 x d_w`.",
    "domain": "The points, `|D| x d`.",
    "environment": "The known distribution of W.",
    "estimator": "Estimates the hyperparameters.",
    "n_w": "How many values of W stand for its distribution.",
    "num_initial": "The number of points in the initial design.",
    "num_samples": "Samples of the outcomes at these values of W, jointly.",
    "options": "Further arguments of `risk_search`.",
    "reference_point": "A value of each risk; only points above all of them count.",
    "reporting": "The rule of the recommendation, as in `EnvironmentRisk`.",
    "risk_level": "Lower-tail probability in (0, 1); BoTorch's `alpha` is 1 minus it.",
    "risk_measure": "What is recommended by; larger is better.",
    "risk_measures": "One for each objective; larger is better.",
    "seeds": "One seed per replicate.",
    "threshold": "The level `h`.",
    "w_is_chosen": "Whether w can be chosen; otherwise the environment draws it.",
}
_RAISES = """
Raises:
    TypeError: If an argument has the wrong type.
    UnsupportedError: If the method has no form for this space or distribution.
    ValueError: If a number is out of its range."""
_UNIT = ">>> {} = torch.tensor([[0.0], [1.0]], dtype=torch.double)"
_SETUP = {
    "bounds": _UNIT.format("bounds"),
    "domain": ">>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)",
    "context_bounds": _UNIT.format("context_bounds"),
    "environment": ">>> from botorch_risk.environments import DiscreteEnvironment\n    "
    ">>> environment = DiscreteEnvironment(bounds)",
}


def documented(
    call: str, columns: int, *imports: str, **meaning: str
) -> Callable[[Function], Function]:
    r"""Appends to a docstring what the arguments mean, and an example."""

    def add(function: Function) -> Function:
        names = inspect.signature(function).parameters
        first = next(iter(names))
        said = [f"    {name}: {meaning.get(name) or _MEANING[name]}" for name in names]
        setup = [text for name, text in _SETUP.items() if name in names]
        given = [f"{name}={name}" for name in ("context_bounds", "environment") if name in names]
        arguments = ", ".join([first, "[0, 1]", *given, call])
        example = [
            ">>> import torch",
            *(f">>> {each}" for each in imports),
            *setup,
            f">>> {function.__name__}({arguments}).ask().shape",
            f"torch.Size([2, 4, {columns}])",
        ]
        parts = [inspect.cleandoc(function.__doc__ or ""), "\nArgs:", *said, _RAISES, "\nExample:"]
        function.__doc__ = "\n".join([*parts, *(f"    {line}" for line in example)]) + "\n"
        return function

    return add
