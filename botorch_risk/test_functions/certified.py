r"""Problems of a decision and an environmental variable with a proved optimum under a risk."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from gpytorch.kernels import RBFKernel
from torch import Tensor

from botorch_risk.arguments import in_short
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MaximumMeanDiscrepancyBall,
    MeanVariance,
    RiskMeasure,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from botorch_risk.test_functions.closed_forms import FORMS
from botorch_risk.test_functions.environmental import (
    EnvironmentalTestProblem,
    Risk,
    bell_shaped_environment,
    risk_over,
)

OPTIMA = Path(__file__).with_name("certified_optima.json")
RISKS = (
    "expectation",
    "value-at-risk",
    "conditional-value-at-risk",
    "worst-case",
    "mean-variance",
    "total-variation-ball",
    "mmd-ball",
)


class CertifiedProblem(EnvironmentalTestProblem):
    r"""A function of the unit cube, with a risk whose optimum is proved to 1e-6.

        objective(x) = risk(f(x, W)),  W on finitely many points

    `closed_forms.FORMS` lists the functions, which are in units of their standard deviation over
    the cube. W has 33 values in [0, 1], weighted by a normal density (`bell_shaped_environment`),
    or 9 x 9 values if it has two variables. The objective is exact, and no decision is better than
    `optimal_risk` by more than 1e-6: see bench/studies/open_benchmark. As everywhere in BoTorch,
    `optimal_value` and `optimizers` are of `f`; for these functions both are unknown.

    Args:
        form: The function, a key of `FORMS`.
        risk: One of `RISKS`: measures of the tail at the level 0.1, mean minus variance, and balls
            around the distribution of W, of radius 0.3 in total variation and 0.1 in maximum mean
            discrepancy (kernel of lengthscale 0.2).
        noise_std: Standard deviation of the noise that `forward` adds.
        dtype: The dtype of the bounds and of the distribution's points.

    Raises:
        ValueError: If the function has no certificate under the risk.

    Example:
        >>> problem = CertifiedProblem("branin", "value-at-risk")
        >>> value = problem.objective(problem.optimal_decision)
        >>> abs(value.item() - problem.optimal_risk) < 1e-6
        True
    """

    def __init__(
        self, form: str, risk: str, noise_std: float | None = 0.1, dtype: torch.dtype = torch.double
    ) -> None:
        known = certificates()
        if risk not in known.get(form, {}):
            pairs = "; ".join(f"{name}: {', '.join(risks)}" for name, risks in known.items())
            raise ValueError(
                f"Expected a certified pair ({pairs}). Got form={in_short(form)}, "
                f"risk={in_short(risk)}."
            )
        self.form = FORMS[form]
        self.num_decision = self.form.num_decision
        self.num_environment = self.form.num_environment
        self.dim = self.num_decision + self.num_environment
        self.continuous_inds = list(range(self.dim))
        self._bounds = [(0.0, 1.0)] * self.dim
        super().__init__(noise_std=noise_std, dtype=dtype)
        self.environment = environment_of(self.num_environment, dtype)
        self.risk_measure = measure_of(risk, environment_of(self.num_environment))
        self.optimal_risk = float(known[form][risk]["value"])
        self._optimal_decision = tuple(known[form][risk]["decision"])

    @property
    def optimal_decision(self) -> Tensor:
        r"""The decision with the largest risk, a `d_x`-tensor."""
        return self.bounds.new_tensor(self._optimal_decision)

    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The problem's risk of decisions, or another one, `... x d_x -> ...`."""
        self._check_decisions(X)
        environment = environment_of(self.num_environment)
        return risk_over(environment, X, self._evaluate_true, risk or self.risk_measure)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        values: Tensor = self.form(list(X.unbind(dim=-1)))
        return values


def environment_of(num_variables: int, dtype: torch.dtype = torch.double) -> DiscreteEnvironment:
    r"""The distribution of W: 33 points for one variable, 9 x 9 for two."""
    line = bell_shaped_environment()
    if num_variables == 1:
        return DiscreteEnvironment(line.points.to(dtype), line.weights.to(dtype))
    axis, weights = line.points[::4, 0], line.weights[::4]
    joint = torch.outer(weights, weights).flatten()
    points = torch.cartesian_prod(axis, axis)
    return DiscreteEnvironment(points.to(dtype), (joint / joint.sum()).to(dtype))


def measure_of(risk: str, environment: DiscreteEnvironment) -> RiskMeasure:
    r"""The measure of one of `RISKS`, over the points of an environment."""
    kernel = RBFKernel().to(torch.double)
    kernel.lengthscale = 0.2
    measures: tuple[RiskMeasure, ...] = (
        Expectation(),
        ValueAtRisk(0.1),
        ConditionalValueAtRisk(0.1),
        WorstCase(),
        MeanVariance(1.0),
        TotalVariationBall(0.3),
        MaximumMeanDiscrepancyBall(0.1, kernel),
    )
    return dict(zip(RISKS, measures, strict=True))[risk].bind(environment)


@cache
def certificates() -> dict[str, dict[str, dict[str, Any]]]:
    r"""The proofs, by function and risk: the value, the decision and the number of boxes."""
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(OPTIMA.read_text(encoding="utf-8"))
    return found
