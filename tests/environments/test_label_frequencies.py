r"""Frequencies of labels: their posterior, its coverage, and the known frequencies as its limit."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from scipy import stats
from torch import Tensor

from botorch_risk.environments import (
    DiscreteEnvironment,
    EmpiricalGrid,
    KernelDensityEnvironment,
    LabelFrequencies,
    ObservedContexts,
    bootstrap_radius,
)
from botorch_risk.environments.environment import inputs_of_readings
from botorch_risk.risk import TotalVariationBall, WassersteinBall
from tests.devices import home

LOTS = torch.tensor([[0.0], [2.0]], dtype=torch.double)  # three labels
FIXED = [0.7, 0.25, 0.05]
# A number, then a label of four codes from 3 on.
MIXED = torch.tensor([[10.0, 3.0], [20.0, 6.0]], dtype=torch.double)


def column(*codes: float) -> Tensor:
    return torch.tensor(codes, dtype=torch.double).unsqueeze(-1)


def drawn(frequencies: Tensor, t: int, seed: int = 0) -> Tensor:
    r"""Labels of each replicate, `R x t x 1`, from its own frequencies `R x K`."""
    generator = torch.Generator().manual_seed(seed)
    return frequencies.multinomial(t, replacement=True, generator=generator).double().unsqueeze(-1)


def share_inside(learner: LabelFrequencies, frequencies: Tensor, t: int, **options: Any) -> Tensor:
    r"""How often the interval of each label contains its frequency, `K`."""
    bounds = torch.tensor([[0.0], [frequencies.shape[-1] - 1.0]], dtype=torch.double)
    ends = learner.interval(drawn(frequencies, t), bounds=bounds, **options)
    inside = (ends[..., 0] <= frequencies) & (frequencies <= ends[..., 1])
    return inside.double().mean(dim=0)


# -- the posterior ---------------------------------------------------------------------------------


def test_counts_and_the_prior_are_the_weights() -> None:
    learnt = LabelFrequencies()(column(0, 2, 0, 0), bounds=LOTS)
    assert learnt.points.flatten().tolist() == [0.0, 1.0, 2.0]
    assert learnt.weights.tolist() == pytest.approx([3.5 / 5.5, 0.5 / 5.5, 1.5 / 5.5])
    assert learnt.categories == (0,)
    mine = LabelFrequencies(prior=torch.tensor([3.0, 2.0, 1.0]))
    assert mine(column(0, 2, 0, 0), bounds=LOTS).weights.tolist() == pytest.approx([0.6, 0.2, 0.2])


def test_before_any_context_the_prior_alone_counts() -> None:
    nothing = torch.zeros(2, 0, 1).double()
    assert (
        LabelFrequencies()(nothing, bounds=LOTS).weights.tolist()
        == [pytest.approx([1 / 3] * 3)] * 2
    )


def test_the_intervals_are_quantiles_of_beta_distributions() -> None:
    ends = LabelFrequencies(prior=1.0).interval(column(0, 2, 0, 0), bounds=LOTS, coverage=0.8)
    for found, own in zip(ends, [4.0, 1.0, 2.0], strict=True):
        assert found.tolist() == pytest.approx(stats.beta(own, 7 - own).interval(0.8))


@pytest.mark.parametrize("prior", [0.5, 1.0, torch.tensor([4.0, 0.2, 1.3])], ids=str)
@pytest.mark.parametrize("t", [3, 40])
def test_intervals_contain_frequencies_drawn_from_the_prior_as_often_as_they_say(
    prior: Any, t: int
) -> None:
    r"""Which is exact: 20,000 data sets scatter by 0.0015."""
    shapes = np.broadcast_to(np.asarray(prior, dtype=float), 3)
    truth = np.random.default_rng(7).dirichlet(shapes, size=20_000)
    learner = LabelFrequencies(prior=prior)
    for coverage, slack in ((0.95, 0.006), (0.5, 0.014)):  # four standard errors
        found = share_inside(learner, torch.from_numpy(truth), t, coverage=coverage)
        torch.testing.assert_close(found, torch.full_like(found, coverage), atol=slack, rtol=0)


def coverage_at(
    frequencies: np.ndarray, t: int, prior: float = 0.5, num_labels: int = 3
) -> np.ndarray:
    r"""How often an interval of 95 % contains each fixed frequency of one of several labels.

    Exactly: it depends on nothing but how many of t contexts have the label, which is binomial.
    """
    count = torch.arange(t + 1).unsqueeze(-1)
    contexts = (torch.arange(t) >= count).double().unsqueeze(-1)  # t + 1 replicates, label 0 first
    bounds = torch.tensor([[0.0], [num_labels - 1.0]])
    ends = LabelFrequencies(prior=prior).interval(contexts, bounds=bounds)[:, 0].numpy()
    inside = (ends[:, :1] <= frequencies) & (frequencies <= ends[:, 1:])
    probability = stats.binom(t, frequencies[:, None]).pmf(np.arange(t + 1)).T
    return (probability * inside).sum(axis=0)


@pytest.mark.parametrize(
    ("t", "average", "least", "uniform"),
    [(5, 0.954, 0.78, 0.926), (20, 0.951, 0.88, 0.943), (50, 0.950, 0.88, 0.947)],
)
def test_intervals_of_fixed_frequencies_are_right_on_average_over_frequencies(
    t: int, average: float, least: float, uniform: float
) -> None:
    r"""Of one frequency it is no law, as counts are whole numbers. The table of the docs."""
    frequencies = np.linspace(0.03, 0.97, 941)
    found = coverage_at(frequencies, t)
    assert found.mean() == pytest.approx(average, abs=1e-3)
    assert found.min() == pytest.approx(least, abs=0.01)
    others = coverage_at(frequencies, t, prior=1.0)
    assert others.mean() == pytest.approx(uniform, abs=1e-3)
    assert others.min() < found.min()


def test_many_contexts_contain_each_frequency_and_five_are_too_few_for_ten_labels() -> None:
    found = coverage_at(np.array(FIXED), 200)
    np.testing.assert_allclose(found, 0.95, atol=4e-3)
    of_ten = [coverage_at(np.array([0.55]), t, num_labels=10).item() for t in (5, 20, 200)]
    assert of_ten == pytest.approx([0.59, 0.87, 0.94], abs=5e-3)


def test_many_contexts_make_the_frequencies_known() -> None:
    known = torch.tensor(FIXED).double()
    off = []
    for t in (100, 10_000, 1_000_000):
        contexts = drawn(known.expand(8, 3), t)
        learnt = LabelFrequencies()(contexts, bounds=LOTS)
        off.append((learnt.weights - known).abs().mean().item())
    assert off[0] > 3 * off[1] > 9 * off[2]
    assert off[2] < 1e-3


# -- shapes, dtypes and replicates -----------------------------------------------------------------


def test_a_replicate_is_what_it_is_alone() -> None:
    observed = torch.stack([column(0, 1, 1), column(2, 2, 2)])
    both = LabelFrequencies()(observed, bounds=LOTS)
    assert both.points.shape == (2, 3, 1)
    for row in (0, 1):
        alone = LabelFrequencies()(observed[row], bounds=LOTS)
        assert torch.equal(both.weights[row], alone.weights)
        ends = LabelFrequencies().interval(observed, bounds=LOTS)[row]
        assert torch.equal(ends, LabelFrequencies().interval(observed[row], bounds=LOTS))


@pytest.mark.every_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_dtype_and_device_come_from_the_contexts(dtype: torch.dtype) -> None:
    observed = mixed_contexts(6).to(home(), dtype)
    learner = LabelFrequencies([1])
    environment = learner(observed, bounds=MIXED.to(home()), seeds=[0, 1])
    ends = learner.interval(observed, bounds=MIXED.to(home()))
    for found in (environment.points, environment.weights, ends):
        assert (found.dtype, found.device) == (dtype, observed.device)


def test_of_two_columns_each_combination_is_a_label() -> None:
    bounds = torch.tensor([[0.0, 5.0], [1.0, 7.0]]).double()
    pairs = torch.tensor([[0.0, 7.0], [1.0, 5.0], [0.0, 7.0]]).double()
    learnt = LabelFrequencies()(pairs, bounds=bounds)
    assert LabelFrequencies().labels(bounds).tolist() == learnt.points.tolist()
    assert learnt.points.tolist() == [[a, b] for a in (0.0, 1.0) for b in (5.0, 6.0, 7.0)]
    counts = torch.tensor([0.0, 0.0, 2.0, 1.0, 0.0, 0.0]).double()
    torch.testing.assert_close(learnt.weights, (counts + 0.5) / 6)
    assert learnt.categories == (0, 1)


# -- numbers and labels ----------------------------------------------------------------------------


def mixed_contexts(t: int, num_replicates: int = 2) -> Tensor:
    r"""The label says where the number is: about 11, 13 or 15; label 6 is not seen."""
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(3, (num_replicates, t, 1), generator=generator).double()
    number = 11 + 2 * label + torch.rand(num_replicates, t, 1, generator=generator).double()
    return torch.cat([number, 3 + label], dim=-1)


def test_frequencies_are_the_same_with_numbers_in_other_columns() -> None:
    observed = mixed_contexts(30)
    learner = LabelFrequencies([1], density=partial(KernelDensityEnvironment, n_w=32, n_ball=8))
    learnt = learner(observed, bounds=MIXED, seeds=[0, 1])
    assert learnt.points.shape == (2, 4 * 40, 2)
    alone = LabelFrequencies()(observed[..., 1:], bounds=MIXED[:, 1:])
    for place, code in enumerate((3.0, 4.0, 5.0, 6.0)):
        own = learnt.weights.masked_fill(learnt.points[..., 1] != code, 0.0).sum(dim=-1)
        torch.testing.assert_close(own, alone.weights[:, place])
    assert learnt.categories == (1,)
    assert int((learnt.weights == 0).sum()) == 2 * 4 * 8  # where a ball may put mass


def test_labels_and_numbers_have_a_product_of_kernels() -> None:
    r"""The joint density by loops, on the nodes of a quadrature."""
    observed = mixed_contexts(12, 1)[0]
    density = partial(KernelDensityEnvironment, n_w=48, rule="quadrature", bandwidth="silverman")
    learnt = LabelFrequencies([1], density=density)(observed, bounds=MIXED, seeds=0)
    numbers = density(observed[:, :1], bounds=MIXED[:, :1], seeds=0)
    (h,) = numbers.bandwidth.tolist()
    t, prior = len(observed), 0.5
    expected = []
    for node, weight in zip(numbers.points[:, 0].tolist(), numbers.weights.tolist(), strict=True):
        kernels = []
        for value in observed[:, 0].tolist():
            kernel = stats.norm(value, h)
            kernels.append(kernel.pdf(node) / (kernel.cdf(20.0) - kernel.cdf(10.0)))
        for code in (3.0, 4.0, 5.0, 6.0):
            same = [float(label == code) for label in observed[:, 1].tolist()]
            own = sum(k * (one + prior / t) for k, one in zip(kernels, same, strict=True))
            expected.append(weight * own / sum(kernels) / (1 + 4 * prior / t))
    np.testing.assert_allclose(learnt.weights.numpy(), expected, atol=2e-4)


def test_a_label_says_where_the_number_is_and_an_unseen_one_nothing() -> None:
    observed = mixed_contexts(60, 1)[0]
    density = partial(KernelDensityEnvironment, n_w=256, bandwidth="leave_one_out")
    learnt = LabelFrequencies([1], density=density)(observed, bounds=MIXED, seeds=0)
    number, label = learnt.points.unbind(dim=-1)

    def mean_of(code: float) -> float:
        own = learnt.weights * (label == code)
        return float((own * number).sum() / own.sum())

    assert [mean_of(code) for code in (3.0, 4.0, 5.0)] == pytest.approx([11.5, 13.5, 15.5], abs=0.3)
    everything = float((learnt.weights * number).sum())
    assert mean_of(6.0) == pytest.approx(everything, abs=0.1)


def test_columns_in_another_order_are_the_same_distribution() -> None:
    observed = mixed_contexts(9)
    first = LabelFrequencies([1])(observed, bounds=MIXED, seeds=[0, 1])
    second = LabelFrequencies([0])(observed.flip(-1), bounds=MIXED.flip(-1), seeds=[0, 1])
    assert torch.equal(first.points.flip(-1), second.points)
    assert torch.equal(first.weights, second.weights)
    for row in (0, 1):
        alone = LabelFrequencies([1])(observed[row], bounds=MIXED, seeds=row)
        torch.testing.assert_close(first.points[row], alone.points)
        torch.testing.assert_close(first.weights[row], alone.weights)


def test_a_decision_whose_w_is_not_known_is_read_at_eight_numbers_of_each_label() -> None:
    r"""At values that the label has, whatever its code, and as if the replicate were alone."""
    observed, X = mixed_contexts(30), torch.zeros(2, 1, 1).double()
    density = partial(KernelDensityEnvironment, n_w=32, n_ball=16)
    learner = LabelFrequencies([1], density=density)
    learnt = learner(observed, bounds=MIXED, seeds=[0, 1])
    read = inputs_of_readings(learnt, X)[..., 1:]
    assert read.shape == (2, 4 * 8, 2)
    assert learnt.supports(read).all()
    assert read[0, :, 1].unique(return_counts=True)[1].tolist() == [8] * 4
    weights = learnt.weights.masked_fill(learnt.points[..., 1] != 4.0, 0.0)
    own = weights / weights.sum(dim=-1, keepdim=True)
    expected = (own * learnt.points[..., 0]).sum(dim=-1)
    of_label = read[..., 0].masked_fill(read[..., 1] != 4.0, 0.0).sum(dim=-1) / 8
    torch.testing.assert_close(of_label, expected, atol=0.6, rtol=0)
    alone = learner(observed[1], bounds=MIXED, seeds=1)
    torch.testing.assert_close(inputs_of_readings(alone, X[1])[:, 1:], read[1])
    renamed = learnt.points.clone()
    renamed[..., 1] = 9 - renamed[..., 1]
    others = DiscreteEnvironment(renamed, learnt.weights, [1])
    torch.testing.assert_close(inputs_of_readings(others, X)[..., 1], read[..., 0])


def test_numbers_that_may_leave_their_bounds_are_clipped_and_labels_are_refused() -> None:
    contexts = ObservedContexts(MIXED, LabelFrequencies([1]), may_leave=True)
    observed = mixed_contexts(8)
    observed[..., 0] += 8
    contexts.check(observed)
    learnt = contexts.learnt(observed, seeds=[0, 1])
    assert learnt.points[..., 0].amax() == 20.0
    torch.testing.assert_close(learnt.weights.sum(dim=-1), torch.ones(2).double())
    with pytest.raises(InputDataError, match=r"column 1 .* code of 3 to 6. Got 7 at \(0, 0\)"):
        contexts.check(observed + torch.tensor([0.0, 7 - observed[0, 0, 1]]))


# -- radii, and what is refused --------------------------------------------------------------------


def test_radii_of_balls_are_read_from_labels() -> None:
    r"""A Wasserstein ball, in which labels are 1 apart, is one in half the total variation."""
    observed = drawn(torch.tensor([FIXED]).double(), 40)[0]
    contexts = ObservedContexts(LOTS, LabelFrequencies())
    total = bootstrap_radius(TotalVariationBall(0.0), observed, contexts)
    assert 0.05 < total < 0.5
    apart = bootstrap_radius(WassersteinBall(0.0), observed, contexts)
    assert apart == pytest.approx(total / 2)


@pytest.mark.parametrize("code", [3.0, -1.0, 0.5])
def test_an_unknown_code_is_named(code: float) -> None:
    observed = torch.stack([column(0, 1), column(2, code)])
    with pytest.raises(
        InputDataError, match=rf"column 0 of contexts .* 0 to 2. Got {code:g} at \(1, 1\)"
    ):
        LabelFrequencies()(observed, bounds=LOTS)


def test_what_is_no_frequency_is_refused() -> None:
    for prior in (0.0, -1.0, float("inf"), [1.0, float("nan"), 1.0]):
        with pytest.raises(ValueError, match="Expected `prior` to be finite and > 0"):
            LabelFrequencies(prior=prior)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"one for each of 3 labels\. Got 2"):
        LabelFrequencies(prior=torch.ones(2))(column(0), bounds=LOTS)
    for categories in ([1], [-1], [0, 0], []):
        with pytest.raises(BotorchTensorDimensionError, match="columns 0 to 0 of contexts"):
            ObservedContexts(LOTS, LabelFrequencies(categories))
    with pytest.raises(ValueError, match=r"bounds of the labels in column 0 .*\[0.0, 2.5\]"):
        ObservedContexts(torch.tensor([[0.0], [2.5]]), LabelFrequencies())
    with pytest.raises(BotorchTensorDimensionError, match=r"`batch_shape x t x 1`. Got \(4, 2\)"):
        LabelFrequencies()(torch.zeros(4, 2), bounds=LOTS)
    with pytest.raises(InputDataError, match="finite `observed`"):
        LabelFrequencies()(column(0, float("nan")), bounds=LOTS)
    with pytest.raises(ValueError, match=r"`coverage` in \(0, 1\)"):
        LabelFrequencies().interval(column(0), bounds=LOTS, coverage=1.0)


def test_numbers_next_to_labels_need_a_kernel_density() -> None:
    def on_a_grid(observed: Tensor, bounds: Tensor, seeds: Any) -> EmpiricalGrid:
        return EmpiricalGrid(observed, bounds)

    learner = LabelFrequencies([1], density=on_a_grid)
    with pytest.raises(UnsupportedError, match=r"columns \[0\] of contexts.* Got EmpiricalGrid"):
        learner(mixed_contexts(4), bounds=MIXED, seeds=[0, 1])


def test_the_learnt_distribution_is_a_known_one_with_the_same_weights() -> None:
    learnt = ObservedContexts(LOTS, LabelFrequencies()).learnt(column(0, 1, 1), seeds=0)
    assert type(learnt) is DiscreteEnvironment
    known = DiscreteEnvironment(column(0, 1, 2), torch.tensor([1.5, 2.5, 0.5]) / 4.5, [0])
    torch.testing.assert_close(learnt.weights, known.weights)
    assert learnt.supports(column(2)).all()
