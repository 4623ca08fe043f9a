r"""The laws of test problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from botorch.test_functions.base import BaseTestProblem, MultiObjectiveTestProblem
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_risk.seeding import generators
from botorch_risk_testing.laws import (
    BATCH_SHAPES,
    Case,
    Laws,
    Report,
    by_pickle,
    expect,
    expect_close,
    expect_kind,
    expect_same,
)


def value_without_noise(problem: Any, X: Tensor) -> Tensor:
    r"""The objective of a problem without risk, `...` at `... x d`."""
    return problem(X, noise=False)


def first_optimizer(problem: Any) -> tuple[Tensor, float]:
    r"""The optimum of a problem without risk."""
    return problem.optimizers[0].to(problem.bounds), problem.optimal_value


@dataclass(frozen=True, kw_only=True)
class ProblemCase(Case):
    r"""A problem, its objective under risk, and how to draw from it; see `check_test_problem`."""

    build: Callable[[torch.dtype], Any]
    decision: int
    sample: Callable[[Any, Any], Tensor] | None = None
    objective: Callable[[Any, Tensor], Tensor] | None = None
    optimum: Callable[[Any], tuple[Tensor, float]] | None = None
    feasible: Callable[[Any, Tensor], Tensor] | None = None
    num_points: int = 512
    tolerance: float = 2e-6

    def made(self, dtype: torch.dtype = torch.float64) -> Any:
        r"""The problem on the device of the case."""
        return self.build(dtype).to(self.device)

    def sobol(self, problem: Any, n: int) -> Tensor:
        r"""Decisions `n x d_x` within the bounds."""
        lower, upper = problem.bounds[:, : self.decision].double().cpu()
        unit = SobolEngine(self.decision, scramble=True, seed=0).draw(n, dtype=torch.double)
        return _rounded(problem, lower + (upper - lower) * unit).to(problem.bounds)

    def value(self, problem: Any, X: Tensor) -> Tensor:
        r"""The objective, and minus infinity at infeasible decisions."""
        values = self.objective(problem, X)  # type: ignore[misc]
        return (
            values if self.feasible is None else values.where(self.feasible(problem, X), -torch.inf)
        )


def _rounded(problem: Any, X: Tensor) -> Tensor:
    r"""Decisions with whole numbers where the problem asks for them."""
    whole = [i for i in problem.discrete_inds + problem.categorical_inds if i < X.shape[-1]]
    X[..., whole] = X[..., whole].round()
    return X


def _known(case: ProblemCase) -> bool:
    return case.objective is not None


def _random(case: ProblemCase) -> bool:
    return case.sample is not None


LAWS = Laws()


@LAWS()
def bounds_are_a_box(case: ProblemCase, dtype: torch.dtype) -> None:
    r"""A problem of BoTorch's base, with bounds `2 x d` in its dtype, that is maximised."""
    problem = case.made(dtype)
    expect(isinstance(problem, BaseTestProblem), "a problem of BoTorch's base", type(problem))
    like = torch.empty(0, device=case.device)
    expect_kind("the bounds", problem.bounds, (2, problem.dim), dtype, like)
    lower, upper = problem.bounds
    expect((lower < upper).all(), "lower bounds below the upper ones", problem.bounds)
    if not isinstance(problem, MultiObjectiveTestProblem):
        expect(not problem.is_minimization_problem, "a problem that is maximised", "a minimum")


@LAWS(_known)
def an_objective_has_the_shape_of_the_decisions(case: ProblemCase, dtype: torch.dtype) -> None:
    r"""Decisions `batch x m x d_x` have values `batch x m`, each by itself."""
    problem = case.made(dtype)
    X = case.sobol(problem, 12)
    single = case.objective(problem, X)  # type: ignore[misc]
    expect_kind("the objective", single, (12,), dtype, X)
    for batch_shape in BATCH_SHAPES:
        count = torch.Size(batch_shape).numel()
        m = 12 // count
        batch = X[: m * count].reshape(*batch_shape, m, case.decision)
        values = case.objective(problem, batch)  # type: ignore[misc]
        expect_kind("the objective", values, (*batch_shape, m), dtype, X)
        expect_close("the value of the decision alone", values.flatten(), single[: m * count])


@LAWS(lambda case: _known(case) and case.optimum is not None)
def nothing_is_better_than_the_stated_optimum(case: ProblemCase) -> None:
    r"""Neither Sobol points nor points close to it are, and it has the value that is stated."""
    problem = case.build(torch.float64)
    best, value = case.optimum(problem)  # type: ignore[misc]
    lower, upper = problem.bounds[:, : case.decision]
    expect(best.shape == (case.decision,), f"{case.decision} coordinates", tuple(best.shape))
    expect(((best >= lower) & (best <= upper)).all(), "an optimum within the bounds", best)
    found = case.value(problem, best.unsqueeze(0)).item()
    expect(abs(found - value) <= case.tolerance, f"the stated optimum {value:.9g}", f"{found:.9g}")
    X = case.sobol(problem, case.num_points)
    highest = case.value(problem, X).max().item()
    expect(highest <= value + case.tolerance, f"no value above {value:.9g}", f"{highest:.9g}")
    for reach in (1e-1, 1e-2, 1e-3):
        near = best + reach * (X[: case.num_points // 4] - (lower + upper) / 2)
        near = _rounded(problem, torch.minimum(torch.maximum(near, lower), upper))
        highest = case.value(problem, near).max().item()
        expect(
            highest <= found + 1e-9, f"no value above {found:.12g} close to it", f"{highest:.12g}"
        )


@LAWS(_random)
def draws_depend_on_the_generator_alone(case: ProblemCase, dtype: torch.dtype) -> None:
    r"""Not on the global state, on the others of a batch, or on the dtype."""
    problem, sample = case.made(dtype), case.sample
    together = sample(problem, generators([5, 1, 8], "draws"))  # type: ignore[misc]
    expect_kind("a draw", together, tuple(together.shape), dtype, problem.bounds)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        again = sample(case.made(dtype), generators([8, 5], "draws"))  # type: ignore[misc]
    expect_same("the draws of the same seeds", again, together[[2, 0]])
    (generator,) = generators(1, "draws")
    expect_same("the draw of seed 1 alone", sample(problem, generator), together[1])  # type: ignore[misc]
    expect(not torch.equal(together[0], together[1]), "other draws of another seed", "the same")
    wide = sample(case.build(torch.float64), generators([5, 1, 8], "draws"))  # type: ignore[misc]
    expect_close("the draws in double precision", together.double().cpu(), wide, 1e-3)


@LAWS()
def a_copy_by_pickle_is_the_same_problem(case: ProblemCase) -> None:
    r"""So that another process plays what this one plays."""
    problem = case.build(torch.float64)
    copy = by_pickle(problem)
    expect_same("the same bounds", copy.bounds, problem.bounds)
    if case.sample is not None:
        draws = [case.sample(each, generators([3, 4], "draws")) for each in (copy, problem)]
        expect_same("the same draws", *draws)
    if case.objective is not None:
        X = case.sobol(problem, 4)
        expect_same("the same values", *(case.objective(each, X) for each in (copy, problem)))


def check_test_problem(
    build: Callable[[torch.dtype], Any], *, skip: Mapping[str, str] | None = None, **options: Any
) -> Report:
    r"""Checks a test problem against the laws that ours obey.

    Args:
        build: Maps a dtype to the problem, which is maximised.
        skip: Laws that are known to be broken, and why.
        **options: `objective`, which maps the problem and decisions `... x d_x` to a `...` tensor,
            by default its value without noise, and None if the optimum is not known; `optimum`,
            which maps the problem to the best decision, a `d_x`-tensor, and its value, by default
            the first of `optimizers` and `optimal_value`; `decision`, the number d_x of decision
            variables, the first columns of the inputs; `feasible`, which maps the problem and
            decisions to a `...` tensor of booleans; `sample`, which maps the problem and one
            generator, or a list of R, to its draws, `R x ...` for a list; `num_points`, the number
            compared with the optimum; `tolerance` of the stated optimum; `device`; `name`.

    Returns:
        The laws that hold.

    Raises:
        LawsBrokenError: If a law does not hold; the message gives the expected and the found
            values.

    Example:
        >>> from botorch.test_functions import Branin
        >>> report = check_test_problem(lambda dtype: Branin(negate=True, dtype=dtype))
        >>> "nothing_is_better_than_the_stated_optimum" in report.held
        True
    """
    defaults: dict[str, Any] = {"name": "the problem", "objective": value_without_noise}
    defaults["optimum"] = first_optimizer
    if "decision" not in options:
        defaults["decision"] = build(torch.float64).dim
    return LAWS.check(ProblemCase(build=build, **{**defaults, **options}), skip)
