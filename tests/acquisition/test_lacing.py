r"""Lacing values against enumeration, the bounds that they owe, and how one is chosen."""

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel
from torch import Tensor
from torch.distributions import Normal

from botorch_risk.acquisition import (
    RiskUpperConfidenceBound,
    bayesian_beta,
    lacing_mask,
    select_lacing_value,
)
from botorch_risk.acquisition.lacing import _best_at_random, covering_mask
from botorch_risk.environments import (
    ContinuousEnvironment,
    DiscreteEnvironment,
    Environment,
    InputPerturbation,
    KernelDensityEnvironment,
)
from botorch_risk.risk import (
    ConditionalValueAtRisk,
    Expectation,
    MeanVariance,
    RiskMeasure,
    TotalVariationBall,
    ValueAtRisk,
    WorstCase,
)
from tests import oracles

COHERENT = [Expectation(), ConditionalValueAtRisk(0.3), WorstCase(), TotalVariationBall(0.4)]
LEVELS = (1e-9, 0.1, 0.25, 0.5, 0.9, 1 - 1e-9)


def posteriors(rows: int, n_w: int = 7, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    r"""Bounds with ties and points without width; weights in eighths, some of them 0."""
    generator = np.random.default_rng(seed)
    lower = generator.integers(-3, 4, (rows, n_w)) + 0.0
    upper = lower + generator.integers(0, 4, (rows, n_w))
    cuts = np.sort(generator.integers(0, 9, (rows, n_w - 1)), axis=1)
    weights = np.diff(cuts, axis=1, prepend=0, append=8) / 8
    return tuple(torch.from_numpy(array) for array in (lower, upper, weights))  # type: ignore


def brute_force(lower: np.ndarray, upper: np.ndarray, p: np.ndarray, level: float) -> list[bool]:
    r"""Definition 1, value by value."""
    low = oracles.value_at_risk(lower, p, level)
    high = oracles.value_at_risk(upper, p, level)
    return [
        w > 0 and l_w <= low and high <= u_w for l_w, u_w, w in zip(lower, upper, p, strict=True)
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_lacing_values_equal_enumeration_and_exist(level: float) -> None:
    lower, upper, weights = posteriors(1000)
    mask = lacing_mask(lower, upper, weights, level)
    expected = [
        brute_force(*row, level)
        for row in zip(lower.numpy(), upper.numpy(), weights.numpy(), strict=True)
    ]
    np.testing.assert_array_equal(mask, expected)
    assert mask.any(dim=-1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("strict", [False, True])
def test_lacing_values_exist_for_weights_that_round(dtype: torch.dtype, strict: bool) -> None:
    r"""Tenths, whose sums hit the levels but for rounding, and weights of any kind."""
    generator = torch.Generator().manual_seed(0)
    lower = torch.randn(2000, 10, generator=generator, dtype=dtype)
    upper = lower + torch.rand(2000, 10, generator=generator, dtype=dtype)
    for weights in (torch.full((10,), 0.1, dtype=dtype), torch.rand(2000, 10, dtype=dtype)):
        weights = weights / weights.sum(dim=-1, keepdim=True)
        for k in range(1, 10):
            mask = lacing_mask(lower, upper, weights, k / 10, strict)
            assert mask.any(dim=-1).all()
            measure = ValueAtRisk(k / 10, strict)
            low, high = measure(lower, weights), measure(upper, weights)
            assert ((lower <= low[:, None]) & (high[:, None] <= upper))[mask].all()


def test_example_1_of_the_paper() -> None:
    r"""Neither w_l nor w_u laces: both are known already."""
    lower, upper = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([4.0, 1.0, 2.0])
    mask = lacing_mask(lower, upper, torch.full((3,), 1 / 3), 0.4)
    assert mask.tolist() == [True, False, False]


@pytest.mark.parametrize("measure", COHERENT, ids=lambda m: type(m).__name__)
def test_covering_values_bound_the_regret(measure: RiskMeasure) -> None:
    lower, upper, weights = posteriors(1000, seed=1)
    mask = covering_mask(measure, lower, upper, weights)
    width = measure(upper, weights) - measure(lower, weights)
    assert mask.any(dim=-1).all()
    assert ((upper - lower)[mask] >= (width - 1e-9).unsqueeze(-1).expand_as(mask)[mask]).all()
    if not isinstance(measure, TotalVariationBall):
        assert (weights[mask] > 0).all()


def test_covering_values_of_the_worst_case_minimise_the_lower_bound() -> None:
    lower, upper, weights = posteriors(200, seed=2)
    mask = covering_mask(WorstCase(), lower, upper, weights)
    least = WorstCase()(lower, weights)
    assert (lower[mask] == least.unsqueeze(-1).expand_as(mask)[mask]).all()


@pytest.mark.parametrize("measure", COHERENT, ids=lambda m: type(m).__name__)
def test_covering_values_of_a_row_do_not_depend_on_the_other_rows(measure: RiskMeasure) -> None:
    lower, upper, weights = posteriors(60, seed=3)
    scale = torch.arange(1.0, 61.0, dtype=torch.float64).unsqueeze(-1)
    rows = (lower * scale, upper * scale, weights)
    alone = torch.stack([covering_mask(measure, *row) for row in zip(*rows, strict=True)])
    assert torch.equal(covering_mask(measure, *rows), alone)
    deep = covering_mask(measure, *(each.reshape(3, 4, 5, 7) for each in rows))
    assert torch.equal(deep, alone.reshape(3, 4, 5, 7))


def test_covering_values_of_cvar_are_in_the_tail() -> None:
    generator = torch.Generator().manual_seed(0)
    lower = torch.randn(50, 10, generator=generator, dtype=torch.float64)
    weights = torch.full((10,), 0.1, dtype=torch.float64)
    mask = covering_mask(ConditionalValueAtRisk(0.3), lower, lower + 1.0, weights)
    assert torch.equal(mask, lower <= lower.sort(dim=-1).values[:, 2:3])  # all are as wide


def test_values_as_wide_but_for_rounding_cover() -> None:
    r"""The bounds round by far more at 1e8 than at 0."""
    lower = torch.tensor([[0.0, 1e8], [1e8, 0.0]], dtype=torch.float64)
    mask = covering_mask(Expectation(), lower, lower + 0.2, torch.full((2,), 0.5))
    assert mask.all()


def test_value_at_risk_is_not_covered_by_the_widest_alone() -> None:
    r"""What lacing values do that a wide bound does not: they enclose the bounds of the risk."""
    lower, upper = torch.tensor([0.0, 5.0, 6.0]), torch.tensor([1.0, 9.0, 7.0])
    mask = lacing_mask(lower, upper, torch.full((3,), 1 / 3), 0.3)
    assert mask.tolist() == [True, False, False]


# Selection


def build_model(batch: tuple[int, ...] = (), d: int = 2, **options: Any) -> SingleTaskGP:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(*batch, 8, d, generator=generator, dtype=torch.float64)
    return SingleTaskGP(X, (5 * X).sin().sum(dim=-1, keepdim=True), **options)


def bell(n_w: int = 21) -> DiscreteEnvironment:
    w = torch.linspace(0, 1, n_w, dtype=torch.float64)
    p = torch.exp(-((w - 0.5) ** 2) / 0.1)
    return DiscreteEnvironment(w.unsqueeze(-1), p / p.sum())


def build(
    environment: Environment | None = None,
    measure: RiskMeasure | None = None,
    batch: tuple[int, ...] = (),
    beta: float = 4.0,
    d: int = 2,
) -> RiskUpperConfidenceBound:
    return RiskUpperConfidenceBound(
        build_model(batch, d), environment or bell(), measure or ValueAtRisk(0.3), beta=beta
    )


def rows_of(queries: Tensor, points: Tensor) -> Tensor:
    r"""Which point each w is."""
    return (queries[..., None, -1] == points[:, 0]).long().argmax(dim=-1)


def test_rules_choose_among_the_lacing_values() -> None:
    acqf, X = build(), torch.rand(40, 1, dtype=torch.float64)
    lower, upper, weights = acqf.pointwise_bounds(X)
    mask = lacing_mask(lower, upper, weights, 0.3)
    assert (mask.sum(dim=-1) > 2).any()  # else there is nothing to choose
    points = acqf.environment.points
    for rule in ("probability", "uniform", "variance"):
        queries = select_lacing_value(acqf, X, rule, seeds=0)
        assert torch.equal(queries[:, :1], X)
        chosen = rows_of(queries, points).unsqueeze(-1)
        assert mask.gather(-1, chosen).all()
        score = {"probability": weights.expand_as(mask), "variance": upper - lower}.get(rule)
        if score is not None:
            best = score.masked_fill(~mask, -1.0).amax(dim=-1, keepdim=True)
            torch.testing.assert_close(score.gather(-1, chosen), best)


def test_uniform_choice_and_ties_are_even() -> None:
    environment = DiscreteEnvironment(torch.linspace(0, 1, 9, dtype=torch.float64)[:, None])
    acqf, x = build(environment), torch.tensor([[0.4]], dtype=torch.float64)
    lower, upper, weights = acqf.pointwise_bounds(x)
    (lacing,) = lacing_mask(lower, upper, weights, 0.3)
    for rule in ("uniform", "probability"):  # all are as probable
        queries = select_lacing_value(acqf, x.expand(6000, 1), rule, seeds=3)
        counts = rows_of(queries, environment.points).bincount(minlength=9)
        assert (counts[~lacing] == 0).all()
        expected = 6000 / lacing.sum()
        assert ((counts[lacing] - expected).abs() < 5 * expected**0.5).all()


def test_rounding_breaks_no_tie() -> None:
    score = torch.tensor([0.3, 0.1 + 0.2, 0.4, 0.2], dtype=torch.float64).log().expand(400, 4)
    mask = torch.tensor([True, True, False, True]).expand(400, 4)
    counts = _best_at_random(score, mask, seeds=0).bincount(minlength=4)
    assert counts[2:].tolist() == [0, 0]
    assert (counts[:2] > 150).all()


@pytest.mark.filterwarnings("ignore:Data .* is not standardized")
@pytest.mark.parametrize("rule", ["probability", "uniform", "variance"])
def test_batch_equals_loop(rule: Any) -> None:
    generator = torch.Generator().manual_seed(3)
    points = torch.rand(3, 8, 1, generator=generator, dtype=torch.float64)
    model = build_model((3,), outcome_transform=None)
    together = RiskUpperConfidenceBound(
        model, DiscreteEnvironment(points), ValueAtRisk(0.3), beta=4.0
    )
    X = torch.rand(3, 5, 1, generator=generator, dtype=torch.float64)
    queries = select_lacing_value(together, X, rule, seeds=[7, 8, 9])
    assert queries.shape == (3, 5, 2)
    for index in range(3):
        (inputs,), targets = model.train_inputs, model.train_targets
        alone = SingleTaskGP(inputs[index], targets[index, :, None], outcome_transform=None)
        one = RiskUpperConfidenceBound(
            alone, DiscreteEnvironment(points[index]), ValueAtRisk(0.3), beta=4.0
        )
        assert torch.equal(
            queries[index], select_lacing_value(one, X[index], rule, seeds=7 + index)
        )


@pytest.mark.parametrize(
    "distribution",
    [
        lambda: ContinuousEnvironment(
            Normal(0.5, 0.125), torch.tensor([[0.25], [0.75]]).double(), 64, seeds=0
        ),
        lambda: ContinuousEnvironment(
            Normal(0.5, 0.125), torch.tensor([[0.25], [0.75]]).double(), 32, rule="quadrature"
        ),
        lambda: KernelDensityEnvironment(
            torch.rand(9, 1, generator=torch.Generator().manual_seed(0)).double(),
            torch.tensor([[0.0], [1.0]]).double(),
            64,
            seeds=0,
        ),
    ],
    ids=["sobol", "quadrature", "kernel_density"],
)
def test_continuous_distributions_are_ranked_by_the_loss_of_the_paper(distribution: Any) -> None:
    r"""Sec. 3.5: the minimiser of L_LV-P over the points of the distribution."""
    environment = distribution()
    acqf, X = build(environment), torch.rand(10, 1, dtype=torch.float64)
    queries = select_lacing_value(acqf, X, "probability", seeds=0)
    lower, upper, weights = acqf.pointwise_bounds(X)
    measure = ValueAtRisk(0.3)
    d_u = upper - measure(upper, weights).unsqueeze(-1)
    d_l = measure(lower, weights).unsqueeze(-1) - lower
    density = environment.density.log_prob(environment.points).exp()
    loss = (-d_u).relu() + (-d_l).relu() - ((d_u >= 0) & (d_l >= 0)) * density  # L_LV-P
    chosen = loss.gather(-1, rows_of(queries, environment.points).unsqueeze(-1))
    torch.testing.assert_close(chosen, loss.amin(dim=-1, keepdim=True))
    assert (chosen < 0).all()  # it laces


def test_perturbed_decisions_are_what_to_query() -> None:
    delta = torch.tensor([[-0.1, 0.0], [0.0, 0.1], [0.1, -0.1]], dtype=torch.float64)
    acqf = build(InputPerturbation(delta, torch.tensor([0.2, 0.5, 0.3])))
    X = torch.rand(6, 2, dtype=torch.float64)
    queries = select_lacing_value(acqf, X, "probability", seeds=0)
    offsets = (queries - X).unsqueeze(-2) - delta
    assert (offsets.abs().amax(dim=-1) < 1e-12).any(dim=-1).all()
    lower, upper, weights = acqf.pointwise_bounds(X)
    mask = lacing_mask(lower, upper, weights, 0.3)
    chosen = offsets.abs().amax(dim=-1).argmin(dim=-1, keepdim=True)
    assert mask.gather(-1, chosen).all()


@pytest.mark.parametrize("rule", ["probability", "uniform", "variance"])
def test_level_to_zero_is_stable_opt(rule: Any) -> None:
    r"""Corollary 2.2: the lacing values become the minimisers of the lower bound."""
    X = torch.rand(20, 1, dtype=torch.float64)
    limit = select_lacing_value(build(measure=ValueAtRisk(1e-9)), X, rule, seeds=0)
    stable_opt = select_lacing_value(build(measure=WorstCase()), X, "uniform", seeds=0)
    assert torch.equal(limit, stable_opt)
    lower, _, _ = build().pointwise_bounds(X)
    assert torch.equal(limit[:, 1:], bell().points[lower.argmin(dim=-1)])


# Lemma 2


def covered(beta: float, num_functions: int = 1000) -> float:
    r"""The share of functions whose value-at-risk is in its band at all decisions."""
    generator = torch.Generator().manual_seed(0)
    x, w = torch.linspace(0, 1, 6).double(), torch.linspace(0, 1, 8).double()
    grid = torch.cartesian_prod(x, w)
    kernel = RBFKernel().double()
    kernel.lengthscale = 0.3
    root = torch.linalg.cholesky(kernel(grid).to_dense().detach() + 1e-9 * torch.eye(48).double())
    f = torch.randn(num_functions, 48, generator=generator, dtype=torch.float64) @ root.mT
    rows = torch.rand(num_functions, 48, generator=generator).argsort(dim=-1)[:, :5]
    noise = 0.1 * torch.randn(num_functions, 5, generator=generator, dtype=torch.float64)
    Y = (f.gather(-1, rows) + noise).unsqueeze(-1)
    kernel = RBFKernel(batch_shape=torch.Size([num_functions])).double()
    kernel.lengthscale = 0.3
    model = SingleTaskGP(
        grid[rows], Y, 0.01 * torch.ones_like(Y), covar_module=kernel, outcome_transform=None
    )
    model.mean_module.constant.data.zero_()
    weights = torch.rand(8, generator=generator, dtype=torch.float64)
    environment = DiscreteEnvironment(w.unsqueeze(-1), weights / weights.sum())
    measure = ValueAtRisk(0.2)
    acqf = RiskUpperConfidenceBound(model, environment, measure, beta=beta)
    X = x.unsqueeze(-1).expand(num_functions, 6, 1)
    truth = measure(f.reshape(num_functions, 6, 8), environment.weights)
    with torch.no_grad():
        inside = (acqf.lower(X) <= truth) & (truth <= acqf.upper(X))
    return inside.all(dim=-1).double().mean().item()


@pytest.mark.filterwarnings("ignore:Data .* is not standardized")
def test_lemma_2_the_band_holds_the_value_at_risk() -> None:
    for delta in (0.1, 0.5):
        assert covered(bayesian_beta(1, delta, num_points=48)) >= 1 - delta
    assert covered(0.3) < 0.9  # a narrow band does not


# Bad input


def test_bad_bounds_and_weights() -> None:
    lower, upper, weights = posteriors(3)
    for level in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"`risk_level` in \(0, 1\)\. Got risk_level="):
            lacing_mask(lower, upper, weights, level)
    with pytest.raises(BotorchTensorDimensionError, match=r"`weights` that broadcast to them"):
        lacing_mask(lower, upper, weights[:, :-1], 0.1)
    with pytest.raises(InputDataError, match=r"Expected finite bounds\. Got nan"):
        lacing_mask(lower, upper * torch.nan, weights, 0.1)
    with pytest.raises(InputDataError, match=r"Expected finite bounds\. Got inf"):
        covering_mask(WorstCase(), lower, upper + torch.inf, weights)
    with pytest.raises(ValueError, match=r"Expected `lower <= upper`\. Got `lower` 1\.0 larger"):
        lacing_mask(lower, lower - 1.0, weights, 0.1)
    with pytest.raises(InputDataError, match="`weights` >= 0 that sum to 1"):
        lacing_mask(lower, upper, 2 * weights, 0.1)


def test_an_empty_set_is_an_error_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    from botorch_risk.acquisition import lacing

    lower, upper, weights = posteriors(2)
    checked = lacing._checked_risks

    def rounded_in_the_second_row(*arguments: Any) -> tuple[Tensor, Tensor]:
        low, high = checked(*arguments)
        low[1] = lower[1].min() - 1
        return low, high

    monkeypatch.setattr(lacing, "_checked_risks", rounded_in_the_second_row)
    with pytest.raises(
        InputDataError, match=r"Got none at \(1,\), where the values-at-risk are .* of \["
    ):
        lacing_mask(lower, upper, weights, 0.1)


def test_bad_choices() -> None:
    X = torch.rand(2, 1, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"Expected `rule` to be one of .* Got 'best'"):
        select_lacing_value(build(), X, "best", seeds=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"for each of 1 replicates\. Got 2 seeds"):
        select_lacing_value(build(), X, seeds=[0, 1])
    with pytest.raises(UnsupportedError, match=r"among ValueAtRisk, .* Got MeanVariance"):
        select_lacing_value(build(measure=MeanVariance(1.0)), X, seeds=0)
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    clipped = ContinuousEnvironment(Normal(0.5, 0.5), unit, 32, seeds=0, beyond="clip")
    with pytest.raises(UnsupportedError, match=r"with a density\. Got a cl"):
        select_lacing_value(build(clipped), X, seeds=0)
    assert select_lacing_value(build(clipped), X, "uniform", seeds=0).shape == (2, 2)


@pytest.mark.parametrize(
    ("risk_measure", "rule", "beta"),
    [(TotalVariationBall(2.0), "probability", 4.0), (ValueAtRisk(0.3), "variance", 0.0)],
)
def test_scores_that_are_all_of_zero_stay_within_the_mask(
    risk_measure: RiskMeasure, rule: Any, beta: float
) -> None:
    r"""A covering value may have weight 0, and bounds may have no width."""
    X = torch.rand(12, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True)).eval()
    points = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)
    weights = torch.tensor([0.5, 0.5, 0.0, 0.0, 0.0], dtype=torch.double)
    environment = DiscreteEnvironment(points, weights)
    acqf = RiskUpperConfidenceBound(model, environment, risk_measure, beta=beta)
    decision = torch.full((1, 1), 0.3, dtype=torch.double)
    lower, upper, weights = acqf.pointwise_bounds(decision)
    if isinstance(risk_measure, ValueAtRisk):
        mask = lacing_mask(lower, upper, weights, 0.3)
    else:
        mask = covering_mask(risk_measure, lower, upper, weights)
    chosen = {select_lacing_value(acqf, decision, rule, seeds=s)[0, 1].item() for s in range(40)}
    assert chosen == set(points[mask[0], 0].tolist())
