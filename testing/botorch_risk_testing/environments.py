r"""The laws of environments."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from botorch_risk.environments import Environment, IndependentEnvironment
from botorch_risk_testing.laws import (
    Case,
    Laws,
    Report,
    by_pickle,
    each_entry,
    expect,
    expect_close,
    expect_error,
    expect_gradient,
    expect_kind,
    expect_same,
    numpy,
)

RATES = np.array([3.0, 5.0])


@dataclass(frozen=True, kw_only=True)
class EnvironmentCase(Case):
    r"""A distribution of a two-dimensional W, or of a perturbation; see `check_environment`.

    Args:
        few: A number of points for inexact checks.
        follows_one_value: The largest distance of its points from a single observed value; None if
            it learns nothing or cannot be that narrow.
    """

    build: Callable[[Tensor, list[int], int], Environment]
    oracle: Callable[[Any, Any], complex] | None = None
    tolerance: float = 1e-9
    size: int = 256
    few: int = 16
    density: Literal["known", "none", "refused"] = "known"
    perturbs: bool = False
    follows_one_value: float | None = 0.01

    def of(
        self, observed: Tensor, seeds: Sequence[int] | None = None, n_w: int | None = None
    ) -> Environment:
        r"""The distribution of values, with seeds 0, 1, ... and the exact size unless given."""
        listed = range(observed.shape[:-2].numel()) if seeds is None else seeds
        return self.build(observed, [*listed], self.size if n_w is None else n_w)

    def values(self, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        r"""`shape x 2` in the unit square."""
        return self.random(*shape, 2, seed=3, dtype=dtype)

    def wave(self, observed: Tensor) -> complex:
        r"""`E exp(i rates . w)` of the oracle."""
        return self.oracle(numpy(observed), RATES)  # type: ignore[misc]


def mean_wave(environment: Environment, X: Tensor) -> Tensor:
    r"""The expectation of a function of the inputs, `batch_shape x m`."""
    inputs, weights = environment.expand(X)
    shift = inputs[..., :-2].sum(dim=-1)
    return (weights * (shift + inputs[..., -2:] @ torch.as_tensor(RATES).to(inputs)).cos()).sum(-1)


def _independent(case: EnvironmentCase) -> bool:
    return isinstance(case.of(case.values(7)), IndependentEnvironment)


LAWS = Laws()


@LAWS()
def weights_are_a_distribution_over_inputs(
    case: EnvironmentCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    r"""`expand` pairs each decision with each point; the expectation of a wave is the oracle's."""
    observed = case.values(*batch_shape, 7, dtype=dtype)
    X = 0.1 - case.values(*batch_shape, 4, dtype=dtype)
    if not case.perturbs:
        X = torch.cat([X, 0.3 * X[..., :1]], dim=-1)  # more decision variables than contexts
    environment = case.of(observed)
    inputs, weights = environment.expand(X)
    wanted = (*batch_shape, 4, inputs.shape[-2], 2 if case.perturbs else 5)
    expect_kind("the inputs", inputs, wanted, dtype, X)
    expect(weights.dtype == dtype, f"weights of {dtype}", weights.dtype)
    fits = torch.broadcast_shapes(weights.shape, inputs.shape[:-1]) == inputs.shape[:-1]
    expect(fits, f"weights that broadcast to {tuple(inputs.shape[:-1])}", tuple(weights.shape))
    expect((weights >= 0).all(), "weights of at least 0", weights.min())
    expect_close("a sum of 1", weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
    if case.oracle is None:
        return

    def single(index: tuple[int, ...]) -> Any:
        decisions = numpy(X[index])
        shifts = decisions @ RATES if case.perturbs else decisions.sum(axis=-1)
        return (np.exp(1j * shifts) * case.wave(observed[index])).real

    found = mean_wave(environment, X).double().cpu()
    tolerance = max(case.tolerance, 0.0 if dtype == torch.float64 else 1e-5)
    expect_close("the oracle's expectation", found, each_entry(batch_shape, single), tolerance)


@LAWS(lambda case: case.batch_dims > 0)
def replicates_do_not_notice_each_other(case: EnvironmentCase) -> None:
    r"""An entry of a batch has the distribution of its own values and seed."""
    observed, X = case.values(3, 7), case.values(3, 4)
    together = case.of(observed).expand(X)
    for r in range(3):
        alone = case.of(observed[r : r + 1], [r]).expand(X[r : r + 1])
        for found, expected in zip(alone, together, strict=True):
            expected = expected[r : r + 1] if len(expected) == 3 else expected
            expect_close(f"the points and weights of replicate {r}", found, expected, 1e-12)


@LAWS(lambda case: case.follows_one_value is not None and case.batch_dims > 0)
def one_value_is_where_the_points_are(case: EnvironmentCase) -> None:
    r"""A distribution that is learnt from one value is concentrated there."""
    observed = case.values(3, 1)
    X = torch.zeros(3, 4, 2, dtype=torch.float64, device=case.device)
    inputs, weights = case.of(observed, n_w=1 if case.size == 7 else case.few).expand(X)
    distance = (inputs[..., -2:] - observed[:, None]).abs().amax(dim=-1)
    mean = (distance * weights).sum(dim=-1).max().item()
    expect(mean < (case.follows_one_value or 0), f"points within {case.follows_one_value}", mean)


@LAWS()
def one_distribution_serves_any_batch_of_decisions(case: EnvironmentCase) -> None:
    r"""Decisions `batch x m x d_x` of any batch are paired with the same points."""
    environment, X = case.of(case.values(7)), case.values(2, 3, 4)
    inputs, _ = environment.expand(X)
    expect(inputs.shape[:-2] == (2, 3, 4), "inputs of the batch (2, 3, 4)", inputs.shape[:-2])
    for index in itertools.product(range(2), range(3)):
        expect_same("the inputs of the entry alone", inputs[index], environment.expand(X[index])[0])


@LAWS()
def gradients_flow_through_the_decisions(case: EnvironmentCase) -> None:
    r"""Optimisers follow the gradient of what is expected."""
    environment = case.of(case.values(7))
    expect_gradient(lambda X: mean_wave(environment, X), case.values(3))


@LAWS()
def no_graph_of_the_data_is_kept(case: EnvironmentCase) -> None:
    r"""What an environment was learnt from is not differentiated with each value of it."""
    environment, X = case.of(case.values(7).requires_grad_()), case.values(4)
    state = environment.state_dict(keep_vars=True)
    kept = [name for name, each in state.items() if each.requires_grad]
    expect(not kept, "no graph in the state", kept)
    expect(not mean_wave(environment, X).requires_grad, "no graph in `expand`", "one")
    if isinstance(environment, IndependentEnvironment) and case.density == "known":
        log_density = environment.log_density(X)
        has_none = log_density is None or not log_density.requires_grad
        expect(has_none, "no graph in `log_density`", "one")


@LAWS()
def expansions_are_repeatable_and_survive_pickling(case: EnvironmentCase) -> None:
    r"""Every draw is made when it is built, from its seeds; the state holds all of it."""
    observed, X = case.values(7), case.values(4)
    environment = case.of(observed)
    before = mean_wave(environment, X)
    expect_same("the same expectation again", mean_wave(environment, X), before)
    expect_same("that of another of the same seed", mean_wave(case.of(observed), X), before)
    copy = by_pickle(environment)
    expect_same("the expectation after pickling", mean_wave(copy, X), before)
    other = case.of(0.9 * observed, [7])
    other.load_state_dict(environment.state_dict())
    expect_same("the expectation of the state that was loaded", mean_wave(other, X), before)
    moved = mean_wave(environment.float(), X.float()).double()
    expect_close("the expectation in single precision", moved, before, 1e-5)


@LAWS(_independent)
def points_are_those_of_expand(case: EnvironmentCase) -> None:
    r"""`points` and `weights` are what every decision meets."""
    environment: Any = case.of(case.values(7))
    inputs, weights = environment.expand(case.values(4))
    for each in inputs:
        expect_same("the points", each[:, 2:], environment.points.expand(len(each), -1))
    expect_same("the weights", weights.squeeze(-2), environment.weights)


@LAWS(lambda case: _independent(case) and case.oracle is not None)
def samples_follow_the_distribution_of_the_points(case: EnvironmentCase) -> None:
    r"""20,000 draws have the expectation of the oracle, and those of a replicate are its own."""
    observed = case.values(2, 7)
    streams = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    environment: Any = case.of(observed)
    W = environment.sample(20_000, streams)
    expect(W.shape == (2, 20_000, 2), "samples of shape (2, 20000, 2)", tuple(W.shape))
    found = (W @ torch.as_tensor(RATES).to(W)).cos().mean(dim=-1)
    expected = found.new_tensor([case.wave(one).real for one in observed])
    expect_close("the oracle's expectation", found, expected, 0.025)
    environment = case.of(observed[1:], [1])
    alone = environment.sample(20_000, [torch.Generator().manual_seed(1)])
    expect_close("the draws of the replicate alone", alone, W[1:])


@LAWS(_independent)
def the_support_holds_points_and_draws_and_no_others(
    case: EnvironmentCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    r"""`supports` knows what may happen, and `support_bounds` hold all of it."""
    observed = case.values(*batch_shape, 7, dtype=dtype)
    environment: Any = case.of(observed)
    draws = environment.sample(50, torch.Generator().manual_seed(0)).to(observed)
    weights = environment.weights.expand(environment.points.shape[:-1])
    inside = environment.supports(environment.points)
    expect(inside.shape == weights.shape, f"answers of shape {weights.shape}", inside.shape)
    expect(environment.supports(draws).all(), "all draws in the support", "some outside")
    expect(inside[weights > 0].all(), "all points of positive weight in it", "some outside")
    expect(not environment.supports(draws + 1.5).any(), "nothing far away in it", "some")
    expect(not environment.supports(draws * torch.nan).any(), "no NaN in it", "some")
    lower, upper = environment.support_bounds
    for W in (draws, environment.points[weights > 0]):
        expect(((lower <= W) & (upper >= W)).all(), f"values within {lower} and {upper}", W)


@LAWS(_independent)
def values_are_of_every_replicate_and_of_its_columns(
    case: EnvironmentCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    r"""Values without a batch dimension count for each replicate; other columns are refused."""
    observed = case.values(*batch_shape, 7, dtype=dtype)
    environment: Any = case.of(observed)
    W = case.values(5, dtype=dtype)
    for_all = W.expand(*environment.batch_shape, 5, 2)
    asked = [environment.supports] + [environment.log_density] * (case.density == "known")
    for method in asked:
        expect_same("what each replicate says of the values", method(W), method(for_all))
        for wrong in (W[..., :1], W.repeat(1, 2), W[0]):
            message = "Expected `W` to have shape"
            call = partial(method, wrong)
            expect_error("other columns", BotorchTensorDimensionError, message, call)


@LAWS(_independent)
def a_density_is_that_of_the_distribution(
    case: EnvironmentCase, dtype: torch.dtype, batch_shape: tuple[int, ...]
) -> None:
    r"""It integrates to 1 and to the expectation of the oracle; without one it is refused."""
    observed = case.values(*batch_shape, 7, dtype=dtype)
    environment: Any = case.of(observed)
    axis = (torch.arange(60, dtype=dtype, device=case.device) + 0.5) / 60
    grid = torch.cartesian_prod(axis, axis).expand(*environment.batch_shape, 3600, 2)
    if case.density == "refused":
        message = "Expected a distribution with a density"
        call = lambda: environment.log_density(grid)  # noqa: E731
        expect_error("its density", UnsupportedError, message, call)
        return
    log_density = environment.log_density(grid)
    if case.density == "none":
        expect(log_density is None, "no density", log_density)
        return
    own = tuple(environment.batch_shape)
    expect_kind("the logarithm of the density", log_density, (*own, 3600), dtype, observed)
    total = log_density.exp().mean(dim=-1)
    expect_close("an integral of 1", total, torch.ones_like(total), 5e-3)
    beyond = environment.log_density(grid + 2.0)
    expect((beyond == -torch.inf).all(), "no density far away", beyond.max())
    if case.oracle is not None:
        cosine = log_density.exp() * torch.cos(grid @ torch.as_tensor(RATES).to(grid))
        batch = own or (1,) * len(batch_shape)
        wanted = each_entry(batch, lambda index: case.wave(observed[index]).real)
        found = cosine.mean(dim=-1).double().cpu().expand(batch)
        expect_close("the oracle's expectation", found, wanted, 5e-3)


@LAWS()
def integers_are_the_numbers_that_they_stand_for(case: EnvironmentCase) -> None:
    r"""Contexts that are counts: no weight may be cut off to 0, no point moved to a whole one."""
    counts = [[0, 1], [1, 1], [0, 0], [1, 0], [0, 1], [1, 1], [0, 0]]
    observed = torch.tensor(counts, device=case.device)
    X = torch.tensor([[0, 1], [1, 2]], device=case.device)
    distribution, expected = case.of(observed, [0]), case.of(observed.double(), [0])
    for found, wanted in zip(distribution.expand(X), expected.expand(X.double()), strict=True):
        expect_same("what floating-point numbers give", found, wanted)
    if isinstance(distribution, IndependentEnvironment) and isinstance(
        expected, IndependentEnvironment
    ):
        same = torch.equal(distribution.supports(observed), expected.supports(observed.double()))
        expect(same, "the same support", "another")


def check_environment(
    build: Callable[[Tensor, list[int], int], Environment],
    *,
    skip: Mapping[str, str] | None = None,
    **options: Any,
) -> Report:
    r"""Checks an environment of two columns against the laws that ours obey.

    Args:
        build: Maps observed values of W, `batch_shape x t x 2` in the unit square, one seed per
            batch entry and a number of points to the environment. A known distribution ignores
            them.
        skip: Laws that are known to be broken, and why.
        **options: `oracle`, which maps the `t x 2` values of one distribution and two rates as
            arrays to `E exp(i rates . w)`; `tolerance` of the points against it; `size`, the number
            of points for that; `density`: "known", "none", or "refused" with an error; `perturbs`,
            whether it moves the decision itself; `follows_one_value`, the largest distance of the
            points from a single observed value, here None; `batch_dims`, the maximum number of
            batch dimensions, here 0; `device`; `name`.

    Returns:
        The laws that hold.

    Raises:
        LawsBrokenError: If a law does not hold; the message gives the expected and the found
            values.

    Example:
        >>> from botorch_risk.environments import InputPerturbation
        >>> shifts = 0.1 * torch.tensor([[-1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
        >>> check_environment(
        ...     lambda observed, seeds, n_w: InputPerturbation(shifts), perturbs=True
        ... ).broken
        {}
    """
    defaults: dict[str, Any] = {"name": "the environment", "batch_dims": 0}
    defaults["follows_one_value"] = None
    return LAWS.check(EnvironmentCase(build=build, **{**defaults, **options}), skip)
