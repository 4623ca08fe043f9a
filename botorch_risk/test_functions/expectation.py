r"""Base class for problems whose expectation over an environmental variable is maximised."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution

from botorch_risk.environments import ContinuousEnvironment
from botorch_risk.environments.continuous import Rule
from botorch_risk.environments.uniforms import draw_uniforms
from botorch_risk.test_functions.environmental import (
    MAX_EVALUATIONS,
    EnvironmentalTestProblem,
    Risk,
)


class ExpectationTestProblem(EnvironmentalTestProblem, ABC):
    r"""A maximised function `f(x, w)` on the unit cube with a known distribution of W.

        objective(x) = E[f(x, W)],  or another measure of risk of f(x, W)

    The setting of [Huang2024kde]_, Eq. (1): W is drawn from a distribution and clipped to [0, 1],
    coordinate by coordinate. Deterministic given `(x, w)` unless `noise_std` is given.
    As everywhere in BoTorch, `optimal_value` and `optimizers` belong to `f`; `optimal_decision` and
    `optimal_expectation` belong to its expectation.

    A subclass names the distribution and defines `_evaluate_true`.
    """

    environment: ContinuousEnvironment
    optimal_expectation: float
    _optimal_decision: tuple[float, ...]
    _num_points: int = 514  # of the distribution; for a quadrature, two of each axis are the bounds
    _rule: Rule = "quadrature"

    def __init__(self, noise_std: float | None = None, dtype: torch.dtype = torch.double) -> None:
        self.dim = self.num_decision + self.num_environment
        self.continuous_inds = list(range(self.dim))
        self._bounds = [(0.0, 1.0)] * self.dim
        super().__init__(noise_std=noise_std, dtype=dtype)
        self.environment = ContinuousEnvironment(
            self.marginals,
            self.bounds[:, self.num_decision :],
            n_w=self._num_points,
            seeds=0,
            rule=self._rule,
            beyond="clip",
        )

    @property
    @abstractmethod
    def marginals(self) -> Distribution:
        r"""The distribution of each coordinate of W before it is clipped."""

    @property
    def optimal_decision(self) -> Tensor:
        r"""Where the expectation is largest, a `d_x`-tensor."""
        return self.bounds.new_tensor(self._optimal_decision)

    def objective(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The expectation to six digits, or another measure of risk, differentiable in `X`.

        Another measure is that over the points of `environment`, hence less exact.

        Raises:
            ValueError: If `X` does not have `d_x` columns or is not in the unit cube.
        """
        self._check_decisions(X)
        rows = X.reshape(-1, self.num_decision).double()
        chunk = max(1, MAX_EVALUATIONS // len(self.environment.weights))
        values = [
            self._expectation(part) if risk is None else self._measure(part, risk)
            for part in rows.split(chunk)
        ]
        return torch.cat(values).reshape(X.shape[:-1]).to(X)

    def sample_environment(
        self, num_samples: int, generator: Generator | Sequence[Generator], clipped: bool = True
    ) -> Tensor:
        r"""The next values of the environment, `n x d_w`, or `R x n x d_w`.

        Args:
            num_samples: How many values of W to draw, `n`.
            generator: A CPU generator, or one for each of `R` replicates.
            clipped: Whether to clip the values to the bounds, which `f` needs. The public program
                of the paper lets its models see them before.
        """
        if clipped:
            return self.environment.sample(num_samples, generator)
        uniforms = draw_uniforms((num_samples, self.num_environment), generator)
        return self.marginals.icdf(uniforms).to(self.bounds)

    def _measure(self, X: Tensor, risk: Risk) -> Tensor:
        inputs, weights = self.environment.expand(X)  # m x n_w x d
        return risk(self._evaluate_true(inputs), weights)

    def _expectation(self, X: Tensor) -> Tensor:
        r"""At `m x d_x` in float64, in the way that gives six digits for this problem."""
        return self._measure(X, lambda values, weights: (values * weights).sum(dim=-1))
