r"""Two objectives under risk whose Pareto front is known in closed form."""

from collections.abc import Callable, Sequence

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.test_functions.base import MultiObjectiveTestProblem
from botorch.utils.multi_objective.hypervolume import Hypervolume
from torch import Generator, Tensor

from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.test_functions.environmental import (
    Risk,
    bell_shaped_environment,
    draw_outcomes,
    risk_over,
)

TARGETS = ((0.2, 0.2), (0.8, 0.3))  # a and b
HAZARDS = ((0.1, 0.9), (0.7, 0.9))  # c and e
WEIGHTS = (2.0, 1.0)  # of the hazards


class EnvironmentalSchaffer(MultiObjectiveTestProblem):
    r"""Two squared distances, each with a term that the environment weighs; both are maximised.

        f_1(x, w) = -|x - a|^2 - 2 w |x - c|^2,      a = (0.2, 0.2), c = (0.1, 0.9)
        f_2(x, w) = -|x - b|^2 - (1 - w) |x - e|^2,  b = (0.8, 0.3), e = (0.7, 0.9)
        risks(x) = (CVaR(f_1(x, W)), CVaR(f_2(x, W))), the means of the worst tenths

    The problem of [Schaffer1985vega]_ with two inputs and an environment: values of w that are bad
    for one objective are good for the other. A risk measure that is positively homogeneous and
    translation-equivariant (expectation, value-at-risk, conditional value-at-risk, worst case)
    turns them into squared distances again. With `s_1 = -2 risk(-W)` and `s_2 = -risk(W - 1)`,

        risk_1(x) = -(1 + s_1) |x - p|^2 + u,  p = (a + s_1 c) / (1 + s_1),
                                               u = -s_1 / (1 + s_1) |a - c|^2

    and risk_2 likewise with q and v. So the Pareto set is the segment from p to q, and its
    hypervolume is `(u - ref_1) (v - ref_2) - (1 + s_1) (1 + s_2) |p - q|^4 / 6`.

    The distribution of W is `bell_shaped_environment()`. `forward` gives the outcomes at (x, w), as
    everywhere in BoTorch; `max_hv`, `ref_point` and `gen_pareto_front` refer to the risks.

    Example:
        >>> problem = EnvironmentalSchaffer()
        >>> problem.risks(problem.pareto_set(3))
        tensor([[-0.3018, -0.8378],
                [-0.5445, -0.3294],
                [-1.2727, -0.1599]], dtype=torch.float64)
        >>> problem.max_hv
        1.49597...
    """

    bounds: Tensor
    ref_point: Tensor
    environment: DiscreteEnvironment
    num_objectives = 2
    num_decision = 2
    num_environment = 1
    dim = 3
    continuous_inds: list[int] = [0, 1, 2]  # noqa: RUF012 as in BoTorch
    _bounds: list[tuple[float, float]] = [(0.0, 1.0)] * 3
    _ref_point: list[float] = [-1.5, -1.5]  # noqa: RUF012
    _is_minimization_by_default = False
    _max_hv = 1.4959731616
    risk_level = 0.1

    def __init__(
        self, noise_std: float | list[float] | None = None, dtype: torch.dtype = torch.double
    ) -> None:
        super().__init__(noise_std=noise_std, dtype=dtype)
        self.environment = bell_shaped_environment(dtype)

    @property
    def decision_bounds(self) -> Tensor:
        r"""The lower and the upper bounds of the decision, `2 x 2`."""
        return self.bounds[:, : self.num_decision]

    def draw_contexts(self, X: Tensor, generator: Generator | Sequence[Generator]) -> Tensor:
        r"""The values of W, `(R x) q x 1`, that decisions `(R x) q x 2` meet."""
        return self.environment.sample(X.shape[-2], generator)

    def sample_outcomes(
        self, X: Tensor, num_repeats: int, generator: Generator | Sequence[Generator]
    ) -> Tensor:
        r"""Repeats of both objectives, `batch_shape x q x k x 2`, as in `sample_repeats`."""
        deviations = self.noise_std if isinstance(self.noise_std, list) else [self.noise_std] * 2
        return draw_outcomes(
            self.evaluate_true(X), [each or 0.0 for each in deviations], num_repeats, generator
        )

    def risks(self, X: Tensor, risk: Risk | None = None) -> Tensor:
        r"""The risk of each objective, `... x 2`, at `... x 2` decisions in the unit square.

        By default the conditional value-at-risk at `risk_level`.

        Raises:
            ValueError: If `X` does not have two columns or is not in the unit square.
        """
        if X.shape[-1] != self.num_decision or not ((X >= 0) & (X <= 1)).all():
            raise ValueError(
                f"Expected `X` to have shape `... x 2`, in the unit square. Got {X.shape=}, from "
                f"{X.min().item()} to {X.max().item()}."
            )
        measure = self._measure(risk)

        def of_objective(index: int) -> Callable[[Tensor], Tensor]:
            return lambda inputs: self._evaluate_true(inputs)[..., index]

        each = [risk_over(self.environment, X, of_objective(i), measure) for i in range(2)]
        return torch.stack(each, dim=-1)

    def hypervolume_of(self, X: Tensor) -> Tensor:
        r"""The hypervolume that the risks of sets of decisions dominate above `ref_point`.

        The sets are `... x p x 2`, with NaN if a set has fewer than p. 0 without a decision.
        """
        measure = Hypervolume(self.ref_point)
        there = [rows[~rows.isnan().any(dim=-1)] for rows in X.reshape(-1, *X.shape[-2:])]
        volumes = [measure.compute(self.risks(rows)) if len(rows) else 0.0 for rows in there]
        return X.new_tensor(volumes).reshape(X.shape[:-2])

    def pareto_set(self, n: int, risk: Risk | None = None) -> Tensor:
        r"""`n` equidistant decisions of the Pareto set, its ends included, `n x 2`.

        The best one for the first objective comes first. A `risk` has to be positively homogeneous
        and translation-equivariant.
        """
        _, (p, q), _ = self._distances(risk)
        share = torch.linspace(0, 1, n, dtype=torch.double).to(p).unsqueeze(-1)
        return (p + share * (q - p)).to(self.bounds)

    def gen_pareto_front(self, n: int) -> Tensor:
        r"""The risks of `n` decisions of the Pareto set, `n x 2`."""
        return self.risks(self.pareto_set(n))

    def hypervolume(self, risk: Risk | None = None) -> float:
        r"""The largest hypervolume of risks above `ref_point`, in closed form.

        Raises:
            UnsupportedError: If a point of the front is not above `ref_point`.
        """
        factors, ends, best = self._distances(risk)
        square = (ends[0] - ends[1]).square().sum()
        room = best - self.ref_point.to(best)
        if (room < factors * square).any():
            raise UnsupportedError(
                f"Expected a front above {self.ref_point.tolist()}. Got one down to "
                f"{(best - factors * square).tolist()}."
            )
        return (room.prod() - factors.prod() * square.square() / 6).item()

    def _measure(self, risk: Risk | None) -> Risk:
        return ConditionalValueAtRisk(self.risk_level) if risk is None else risk

    def _distances(self, risk: Risk | None) -> tuple[Tensor, Tensor, Tensor]:
        r"""Factors, centres and largest values of the risks, which are squared distances."""
        w, weights = self.environment.points.double().squeeze(-1), self.environment.weights.double()
        measure = self._measure(risk)
        shares = torch.stack([-measure(-w, weights), -measure(w - 1, weights)])
        targets, hazards, scale = (w.new_tensor(each) for each in (TARGETS, HAZARDS, WEIGHTS))
        s = scale * shares
        centres = (targets + s.unsqueeze(-1) * hazards) / (1 + s).unsqueeze(-1)
        return 1 + s, centres, -s / (1 + s) * (targets - hazards).square().sum(dim=-1)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        x, w = X[..., None, :2], X[..., 2:]
        targets, hazards, scale = (X.new_tensor(each) for each in (TARGETS, HAZARDS, WEIGHTS))
        weights = scale * torch.cat([w, 1 - w], dim=-1)  # ... x 2
        near = (x - targets).square().sum(dim=-1)
        return -near - weights * (x - hazards).square().sum(dim=-1)
