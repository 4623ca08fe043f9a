r"""Every problem, one line each; `test_contract.py` tests what they share."""

from functools import partial
from typing import Any

import pytest
import torch
from botorch.test_functions import Branin
from botorch_risk_testing.problems import ProblemCase, first_optimizer, value_without_noise
from torch import Tensor

from botorch_risk.test_functions import (
    H1,
    CertifiedProblem,
    Deceptive,
    FiniteDomainProblem,
    HeteroscedasticBranin,
    HeteroscedasticCamel,
    HeteroscedasticHartmann,
    HeteroscedasticSine,
    MaximizedTestFunction,
    ValueAtRiskBranin,
    ValueAtRiskGoldsteinPrice,
    ValueAtRiskHartmann,
)


def problem_case(
    name: str,
    build: Any,
    decision: int,
    sample: Any = None,
    objective: Any = None,
    optimum: Any = None,
    marks: tuple[Any, ...] = (),
    **options: Any,
) -> Any:
    r"""A case with the marks of pytest."""
    functions = {"sample": sample, "objective": objective, "optimum": optimum}
    case = ProblemCase(name=name, build=build, decision=decision, **functions, **options)
    return pytest.param(case, id=name, marks=marks)


def heteroscedastic(name: str, kind: Any, dim: int, **options: Any) -> Any:
    return problem_case(
        name,
        lambda dtype: kind(**options).to(dtype=dtype),
        dim,
        lambda problem, streams: repeats_of(problem, problem.optimizers[:1], streams),
        lambda problem, X: problem.mean_variance(X, risk_aversion=1.0),
        lambda problem: problem.optimal_mean_variance(1.0),
    )


def value_at_risk(
    name: str, build: Any, decision: int, optimum: str = "optimal_value_at_risk", **options: Any
) -> Any:
    return problem_case(
        name,
        lambda dtype: build(dtype=dtype),
        decision,
        lambda problem, streams: problem.environment.sample(5, streams),
        lambda problem, X: problem.objective(X),
        lambda problem: (problem.optimal_decision, getattr(problem, optimum)),
        **options,
    )


def without_noise(name: str, kind: Any, dim: int) -> Any:
    return problem_case(
        name,
        lambda dtype: kind(dtype=dtype),
        dim,
        objective=value_without_noise,
        optimum=first_optimizer,
    )


def repeats_of(problem: Any, X: Tensor, streams: Any) -> Tensor:
    if not isinstance(streams, torch.Generator):
        X = X.expand(len(streams), *X.shape)
    return problem.sample_repeats(X, 3, streams)


PROBLEMS = [
    heteroscedastic("sine", HeteroscedasticSine, 1),
    heteroscedastic("sine_of_variance", HeteroscedasticSine, 1, sigmoid_is="variance"),
    heteroscedastic("heteroscedastic_branin", HeteroscedasticBranin, 2, noise_scale=2.0),
    heteroscedastic("camel", HeteroscedasticCamel, 2),
    heteroscedastic("hartmann_3", HeteroscedasticHartmann, 3),
    heteroscedastic("hartmann_6", partial(HeteroscedasticHartmann, 6), 6),
    without_noise("deceptive", Deceptive, 2),
    without_noise("h1", H1, 2),
    problem_case(
        "finite_domain",
        lambda dtype: FiniteDomainProblem(torch.eye(2, dtype=dtype), torch.ones(2), noise=0.1),
        2,
        lambda problem, streams: repeats_of(problem, problem.domain, streams),
    ),
    problem_case(
        "maximized_branin",
        lambda dtype: MaximizedTestFunction(Branin(dtype=dtype)),
        2,
        objective=value_without_noise,
        optimum=first_optimizer,
    ),
    *(
        value_at_risk(f"{name}_{kind}", partial(build, distribution=kind), decision, num_points=64)
        for kind in ("discrete", "continuous")
        for name, build, decision in (
            ("branin_1_1", ValueAtRiskBranin, 1),
            ("goldstein_price_1_1", ValueAtRiskGoldsteinPrice, 1),
            ("hartmann_2_1", partial(ValueAtRiskHartmann, 2), 2),
        )
    ),
    value_at_risk("hartmann_1_2", partial(ValueAtRiskHartmann, 1), 1),
    value_at_risk(
        "certified_branin",
        partial(CertifiedProblem, "branin", "conditional-value-at-risk"),
        1,
        optimum="optimal_risk",
    ),
]
