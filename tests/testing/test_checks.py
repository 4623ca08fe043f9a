r"""The checks find what is wrong with a part, and name the law that it breaks."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.acquisition import PosteriorMean, qUpperConfidenceBound
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.models import SingleTaskGP
from botorch.test_functions import Branin
from botorch.utils.transforms import t_batch_mode_transform
from botorch_risk_testing import (
    LawsBrokenError,
    Report,
    check_acquisition,
    check_environment,
    check_model,
    check_risk_measure,
    check_test_problem,
)
from torch import Tensor

from botorch_risk.environments import (
    DiscreteEnvironment,
    Environment,
    IndependentEnvironment,
    KernelDensityEnvironment,
)
from botorch_risk.level_sets import Straddle
from botorch_risk.risk import ConditionalValueAtRisk, RiskMeasure

UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


class Detached(AnalyticAcquisitionFunction):
    r"""A mean and a standard deviation without its gradient."""

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        mean, sigma = self._mean_and_sigma(X)
        return (mean + 2 * sigma.detach()).squeeze(-1)


class Widened(Straddle):
    r"""Gives float64 for float32."""

    def evaluate(self, X: Tensor) -> Tensor:
        values = super().evaluate(X)
        return values.double() if X.dtype == torch.float32 else values


class Relative(AnalyticAcquisitionFunction):
    r"""Compares the entries of a t-batch, which an optimiser may divide."""

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        mean, _ = self._mean_and_sigma(X)
        return (mean - mean.mean()).squeeze(-1)


class Drawn(AnalyticAcquisitionFunction):
    r"""Draws a sample at each evaluation."""

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        return self.model.posterior(X).rsample()[0, ..., 0, 0]


class Optimist(RiskMeasure):
    r"""Calls itself monotone, and pays for spread."""

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        mean = (weights * values).sum(dim=-1, keepdim=True)
        return mean.squeeze(-1) - (weights * (values - mean) ** 2).sum(dim=-1)


class Saturated(RiskMeasure):
    r"""The most of a mean, which a sure gain may leave as it is."""

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        return (weights * values).sum(dim=-1).clamp_max(1.0)


class Unnormalised(Environment):
    r"""Weights that do not sum to 1."""

    def __init__(self, points: Tensor) -> None:
        super().__init__()
        self.register_buffer("points", points.double())

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        points = self.points.to(X).expand(*X.shape[:-1], -1, -1)
        decisions = X.unsqueeze(-2).expand(*points.shape[:-1], -1)
        return torch.cat([decisions, points], dim=-1), points.new_ones(points.shape[-2])


class Shifted(IndependentEnvironment):
    r"""Draws what its points never are."""

    def sample(self, num_samples: int, generator: Any) -> Tensor:
        return super().sample(num_samples, generator) + 0.1


def drawn_from_the_global_state(num_samples: int, generator: Any) -> Tensor:
    batch_shape = () if isinstance(generator, torch.Generator) else (len(generator),)
    return torch.rand(*batch_shape, num_samples, 2)


class Higher(Branin):
    _optimal_value = -1.0  # of its negative: far below the maximum


class Swapped(SingleTaskGP):
    r"""Predicts less noise than none."""

    def posterior(self, X: Tensor, observation_noise: bool = False, **options: Any) -> Any:
        return super().posterior(X, observation_noise=not observation_noise, **options)


def interpolated(values: Tensor, weights: Tensor) -> Tensor:
    r"""A quantile between two of the values."""
    return values.quantile(0.3, dim=-1)


def equal(observed: Tensor, seeds: list[int], n_w: int) -> Tensor:
    return torch.full_like(observed[..., 0], 1 / observed.shape[-2], dtype=torch.double)


class PartlyLost(RiskMeasure):
    r"""A mean whose gradient is lost at zeros."""

    def _evaluate(self, values: Tensor, weights: Tensor) -> Tensor:
        first = values[..., :1]
        lost = (first - first.detach()).abs().sqrt()  # of infinite slope
        return (weights * torch.cat([first + 0 * lost, values[..., 1:]], dim=-1)).sum(dim=-1)


def zero_of_one_stream(problem: Any, streams: Any) -> Tensor:
    r"""Draws for a list, and none for a generator by itself."""
    if not isinstance(streams, list):
        return torch.zeros_like(problem.bounds[0])
    draws = [torch.rand(2, generator=each, dtype=torch.double) for each in streams]
    return torch.stack(draws).to(problem.bounds)


BROKEN: list[tuple[Callable[[], Report], str, str]] = [
    (
        lambda: check_risk_measure(
            ConditionalValueAtRisk(0.3), oracle=lambda values, weights, points: values.min()
        ),
        "a_risk_has_the_shape_of_the_batch",
        r"Expected the oracle's risk",
    ),
    (
        lambda: check_risk_measure(PartlyLost()),
        "a_row_that_is_not_finite_leaves_the_others_alone",
        r"Expected finite gradients",
    ),
    (
        lambda: check_environment(
            lambda observed, seeds, n_w: KernelDensityEnvironment(
                observed, UNIT, n_w=n_w, seeds=seeds
            ),
            oracle=lambda observed, rates: 1.0,
        ),
        "a_density_is_that_of_the_distribution",
        r"Expected the oracle's expectation",
    ),
    (
        lambda: check_acquisition(
            lambda model: Widened(model, 0.5), oracle=lambda model, repeats, X: X.sum(axis=-1)
        ),
        "evaluate_equals_the_oracle",
        r"Expected `evaluate`\S* .*float32",
    ),
    (
        lambda: check_acquisition(
            lambda model: qUpperConfidenceBound(model, beta=4.0),
            oracle=lambda model, repeats, X: X.sum(axis=-1),
        ),
        "forward_equals_the_oracle",
        r"Expected the oracle's value",
    ),
    (
        lambda: check_acquisition(Detached),
        "gradients_are_those_of_finite_differences",
        r"Expected the gradient -?\d\S+ of finite differences\. Got -?\d",
    ),
    (
        lambda: check_acquisition(Relative),
        "forward_has_the_shape_of_the_t_batch",
        r"Expected the value of the entry alone: 0\. Got",
    ),
    (
        lambda: check_acquisition(Drawn),
        "values_are_repeatable_and_survive_pickling",
        r"Expected the same value again: \S+ Got",
    ),
    (
        lambda: check_model(lambda data: Swapped(data.X, data.means)),
        "a_reading_varies_more_than_the_function",
        r"Expected a larger variance of a reading than of the function\. Got -",
    ),
    (
        lambda: check_risk_measure(Optimist()),
        "raising_a_value_does_not_lower_the_risk",
        r"Expected a risk that does not fall\. Got \S+ less",
    ),
    (
        lambda: check_risk_measure(Saturated()),
        "a_shift_of_the_values_shifts_the_risk",
        r"Expected the risk before the shift\S*: \S+ Got",
    ),
    (
        lambda: check_environment(lambda observed, seeds, n_w: Unnormalised(observed)),
        "weights_are_a_distribution_over_inputs",
        r"Expected a sum of 1: 1\. Got 7",
    ),
    (
        lambda: check_environment(
            lambda observed, seeds, n_w: Shifted(observed, equal(observed, seeds, n_w)),
            density="none",
        ),
        "the_support_holds_points_and_draws_and_no_others",
        r"Expected all draws in the support\. Got some outside",
    ),
    (
        lambda: check_test_problem(lambda dtype: Higher(negate=True, dtype=dtype)),
        "nothing_is_better_than_the_stated_optimum",
        r"Expected the stated optimum 1\. Got -0\.397",
    ),
    (
        lambda: check_test_problem(
            lambda dtype: Branin(negate=True, dtype=dtype),
            sample=lambda problem, streams: drawn_from_the_global_state(5, streams),
        ),
        "draws_depend_on_the_generator_alone",
        r"Expected the draws of the same seeds",
    ),
    (
        lambda: check_test_problem(
            lambda dtype: Branin(negate=True, dtype=dtype), sample=zero_of_one_stream
        ),
        "draws_depend_on_the_generator_alone",
        r"Expected the draw of seed 1 alone",
    ),
]


class WholeContext(Branin):
    r"""One decision and one context, a whole number."""

    continuous_inds = [0]  # noqa: RUF012
    discrete_inds = [1]  # noqa: RUF012


def test_a_context_may_be_a_whole_number() -> None:
    report = check_test_problem(
        lambda dtype: WholeContext(negate=True, dtype=dtype),
        decision=1,
        objective=lambda problem, X: -X.squeeze(-1).square(),
        optimum=lambda problem: (torch.zeros(1).to(problem.bounds), 0.0),
    )
    assert "an_objective_has_the_shape_of_the_decisions" in report.held


@pytest.mark.parametrize(("check", "law", "message"), BROKEN, ids=[law for _, law, _ in BROKEN])
def test_what_is_broken_is_named(check: Callable[[], Report], law: str, message: str) -> None:
    with pytest.raises(LawsBrokenError, match=message) as raised:
        check()
    report = raised.value.report
    assert law in report.broken
    assert f"breaks `{law}`" in report.broken[law]
    assert report.held
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_what_obeys_them_passes() -> None:
    cases = (
        check_acquisition(lambda model: qUpperConfidenceBound(model, beta=4.0)),
        check_model(lambda data: SingleTaskGP(data.X, data.means)),
        check_risk_measure(ConditionalValueAtRisk(0.3)),
        check_environment(
            lambda observed, seeds, n_w: DiscreteEnvironment(observed), density="none"
        ),
    )
    assert min(len(each.held) for each in cases) > 6


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 1),
        pytest.param({"batch_dims": 0}, 0, marks=pytest.mark.slow),
        pytest.param({"batch_dims": 2}, 2, marks=pytest.mark.slow),
    ],
)
def test_a_model_is_asked_for_one_batch_dimension_unless_it_takes_more(
    options: dict[str, int], most: int
) -> None:
    seen: list[int] = []

    def build(data: Any) -> SingleTaskGP:
        seen.append(data.X.dim() - 2)
        return SingleTaskGP(data.X, data.means)

    check_model(build, **options)
    assert max(seen) == most


def test_a_law_is_skipped_by_name_with_a_reason() -> None:
    law = "a_point_may_be_given_as_two"
    options = {"equal_weights": True, "name": "mine"}
    with pytest.raises(LawsBrokenError, match=f"Got 1 broken:\n\nmine breaks `{law}` at seed=0"):
        check_risk_measure(interpolated, **options)
    reason = {law: "it interpolates"}
    assert check_risk_measure(interpolated, skip=reason, **options).skipped == reason
    with pytest.raises(ValueError, match=r"Laws not found: \['gradient'\]\. There are \['a_"):
        check_risk_measure(interpolated, skip={"gradient": "none"}, **options)


def test_an_error_of_the_part_is_a_broken_law() -> None:
    def refuse(model: Any) -> Any:
        acqf = PosteriorMean(model)
        acqf.forward = lambda X: 1 / 0
        return acqf

    with pytest.raises(LawsBrokenError, match=r"Expected no error\. Got ZeroDivisionError: "):
        check_acquisition(refuse)
