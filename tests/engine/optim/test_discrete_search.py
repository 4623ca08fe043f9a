r"""Search over spaces with discrete columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound, qUpperConfidenceBound
from botorch.exceptions.warnings import OptimizationWarning
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf_mixed_alternating
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_risk.engine import optimize_acqf_replicates
from botorch_risk.engine.optim.discrete_columns import discrete_columns

BOUNDS = torch.tensor([[0.0, 1.0, -2.0, 0.0], [1.0, 8.0, 2.0, 3.0]], dtype=torch.double)
STEPS = {1: [1.0, 2.0, 3.0, 5.0, 8.0]}
KINDS = {3: [0.0, 1.0, 3.0]}
Values = Mapping[int, Sequence[float]]


class Landscape:
    r"""A wavy function of continuous columns, steps and kinds, another one for every replicate."""

    def __init__(self, count: int, d: int = 4) -> None:
        generator = torch.Generator().manual_seed(5)
        self.waves = torch.randn(count, 6, d, generator=generator, dtype=torch.double)
        self.shifts = 6 * torch.rand(count, 6, generator=generator, dtype=torch.double)

    def evaluate(self, X: Tensor) -> Tensor:
        phase = X @ self.waves.to(X).mT + self.shifts.to(X).unsqueeze(-2)
        return phase.sin().sum(dim=-1)


def enumerated(acqf: Landscape, bounds: Tensor, discrete: Values, size: int = 201) -> Tensor:
    r"""The largest value of each replicate on a fine grid for every combination, by brute force."""
    axes = [
        torch.tensor(discrete[column], dtype=torch.double)
        if column in discrete
        else torch.linspace(*bounds[:, column].tolist(), size, dtype=torch.double)
        for column in range(bounds.shape[-1])
    ]
    grid = torch.cartesian_prod(*axes).reshape(-1, bounds.shape[-1])
    with torch.no_grad():
        return acqf.evaluate(grid.expand(len(acqf.waves), -1, -1)).amax(dim=-1)


def mixed_model(*batch_shape: int) -> SingleTaskGP:
    r"""A smooth function of a continuous column, a step and a kind."""
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(*batch_shape, 14, 3, generator=generator, dtype=torch.double)
    X[..., 1] = (5 * X[..., 1]).floor() / 4
    X[..., 2] = (3 * X[..., 2]).floor() / 2
    model = SingleTaskGP(X, (4 * X).sin().sum(dim=-1, keepdim=True)).eval()
    model.covar_module.lengthscale = torch.tensor([0.3, 0.5, 0.5])
    return model


MODEL_BOUNDS = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.double)

MODEL_DIMS: dict[str, Any] = {
    "discrete_dims": {1: [0.0, 0.25, 0.5, 0.75, 1.0]},
    "cat_dims": {2: [0.0, 0.5, 1.0]},
}


def on_the_grid(X: Tensor, discrete: Values) -> bool:
    return all(
        bool(
            (X[..., column, None] == torch.tensor(values, dtype=torch.double).to(X))
            .any(dim=-1)
            .all()
        )
        for column, values in discrete.items()
    )


@pytest.mark.slow
def test_the_best_of_every_combination_is_found() -> None:
    acqf = Landscape(5)
    X, values = optimize_acqf_replicates(
        acqf, BOUNDS, seeds=range(5), num_restarts=60, discrete_dims=STEPS, cat_dims=KINDS
    )  # of 20 starts one search in 40 misses
    assert on_the_grid(X, {**STEPS, **KINDS})
    lower, upper = BOUNDS
    assert ((lower <= X) & (upper >= X)).all()
    torch.testing.assert_close(values, acqf.evaluate(X).squeeze(-1), rtol=0, atol=0)
    assert (values >= enumerated(acqf, BOUNDS, {**STEPS, **KINDS}) - 1e-9).all()


@pytest.mark.parametrize("dims", ["discrete_dims", "cat_dims"])
def test_without_a_continuous_column(dims: str) -> None:
    values = {column: [0.0, 0.25, 1.0] for column in range(4)}
    acqf, box = Landscape(3), torch.tensor([[0.0] * 4, [1.0] * 4], dtype=torch.double)
    X, found = optimize_acqf_replicates(acqf, box, seeds=range(3), **{dims: values})
    assert on_the_grid(X, values)
    torch.testing.assert_close(found, enumerated(acqf, box, values))


@pytest.mark.slow
def test_as_good_as_botorch() -> None:
    acqf = UpperConfidenceBound(mixed_model(), beta=4.0)
    X, value = optimize_acqf_replicates(acqf, MODEL_BOUNDS, seeds=0, **MODEL_DIMS)
    with manual_seed(0):
        theirs, their_value = optimize_acqf_mixed_alternating(
            acqf, MODEL_BOUNDS, **MODEL_DIMS, q=1, num_restarts=10, raw_samples=256
        )
    assert value.item() >= their_value.item() - 1e-6
    torch.testing.assert_close(X[0], theirs, atol=1e-3, rtol=0)


def test_every_start_ends_where_neither_search_improves() -> None:
    acqf, discrete = Landscape(4), {**STEPS, **KINDS}
    X, values = optimize_acqf_replicates(
        acqf, BOUNDS, seeds=range(4), num_restarts=1, raw_samples=1,
        discrete_dims=STEPS, cat_dims=KINDS,
    )  # fmt: skip
    for row, value in enumerate(values):
        near = []
        for column, listed in discrete.items():
            index = listed.index(X[row, 0, column].item())
            for other, candidate in enumerate(listed):
                if column in KINDS or abs(other - index) == 1:
                    point = X.clone()
                    point[row, 0, column] = candidate
                    near.append(acqf.evaluate(point)[row, 0])
        assert (torch.stack(near) <= value + 1e-6).all()


@pytest.mark.slow
def test_a_seed_gives_the_same_alone_and_in_a_batch() -> None:
    whole = mixed_model(6)
    together, values = optimize_acqf_replicates(
        UpperConfidenceBound(whole, beta=4.0), MODEL_BOUNDS, seeds=range(6), **MODEL_DIMS
    )
    for seed in range(6):
        part = mixed_model(6)
        # The same six models, of which one is asked through a batch of one seed.
        alone = UpperConfidenceBound(part, beta=4.0)

        class One:
            def evaluate(self, X: Tensor, row: int = seed, acqf: Any = alone) -> Tensor:
                points = X.expand(6, -1, -1).transpose(0, 1).unsqueeze(-2)
                return acqf(points).transpose(0, 1)[row : row + 1]

        X, value = optimize_acqf_replicates(One(), MODEL_BOUNDS, seeds=[seed], **MODEL_DIMS)
        torch.testing.assert_close(X[0], together[seed], atol=1e-6, rtol=0)
        torch.testing.assert_close(value[0], values[seed], atol=1e-6, rtol=0)


def test_of_equal_categories_the_same_one_is_taken_in_any_company() -> None:
    class Flat:
        r"""Categories are worth the same but for rounding, which differs between calls."""

        calls = 0

        def evaluate(self, X: Tensor) -> Tensor:
            Flat.calls += 1
            rounding = 1e-15 * (X[..., 1] * Flat.calls).sin()
            return -(X[..., 0] - 0.3).square() + rounding

    box = torch.tensor([[0.0, 0.0], [1.0, 4.0]], dtype=torch.double)
    options: dict[str, Any] = {"cat_dims": {1: range(5)}, "num_restarts": 5, "raw_samples": 16}
    alone, _ = optimize_acqf_replicates(Flat(), box, seeds=[3], **options)
    together, _ = optimize_acqf_replicates(Flat(), box, seeds=[1, 3, 2], **options)
    torch.testing.assert_close(alone[0], together[1], atol=1e-6, rtol=0)


def test_fixed_columns_stay_fixed_even_off_their_grid() -> None:
    acqf = Landscape(3)
    X, values = optimize_acqf_replicates(
        acqf, BOUNDS, seeds=range(3), discrete_dims=STEPS, cat_dims=KINDS, num_restarts=20,
        fixed_features={0: 0.5, -1: 2.5},
    )  # fmt: skip
    assert (X[..., 0] == 0.5).all() and (X[..., 3] == 2.5).all()
    held = {0: [0.5], 3: [2.5]}
    assert on_the_grid(X, STEPS)
    assert (values >= enumerated(acqf, BOUNDS, {**STEPS, **held}) - 1e-6).all()
    only, _ = optimize_acqf_replicates(
        acqf, BOUNDS, seeds=range(3), cat_dims=KINDS, fixed_features={3: 2.5}
    )
    plain, _ = optimize_acqf_replicates(acqf, BOUNDS, seeds=range(3), fixed_features={3: 2.5})
    assert torch.equal(only, plain)


@pytest.mark.filterwarnings("ignore:A not p.d.")
@pytest.mark.parametrize("batch_shape", [(), (2,)])
@pytest.mark.slow
def test_several_points_are_chosen_with_those_before_them_pending(
    batch_shape: tuple[int, ...],
) -> None:
    model = mixed_model(*batch_shape)
    sampler = SobolQMCNormalSampler(torch.Size([32]), seed=0)
    acqf = qUpperConfidenceBound(model, beta=4.0, sampler=sampler)
    options: dict[str, Any] = {"num_restarts": 3, "raw_samples": 32, **MODEL_DIMS}
    seeds = range(model.batch_shape.numel())
    X, _ = optimize_acqf_replicates(acqf, MODEL_BOUNDS, q=2, seeds=seeds, **options)
    assert X.shape == (len(seeds), 2, 3) and acqf.X_pending is None
    assert on_the_grid(X, {**MODEL_DIMS["discrete_dims"], **MODEL_DIMS["cat_dims"]})
    first, _ = optimize_acqf_replicates(acqf, MODEL_BOUNDS, seeds=seeds, **options)
    torch.testing.assert_close(first, X[:, :1])
    assert (X[:, 0] != X[:, 1]).any(dim=-1).all()


def test_values_keep_their_dtype_and_their_bits() -> None:
    listed = [0.1, 0.3, 1 / 3, 0.7]
    box = torch.tensor([[0.0], [1.0]])
    acqf = Landscape(2, d=1)
    for dtype in (torch.float, torch.double):
        X, _ = optimize_acqf_replicates(acqf, box.to(dtype), seeds=[0, 1], cat_dims={0: listed})
        assert X.dtype == dtype
        assert on_the_grid(X, {0: listed})


def test_gradients_that_are_not_finite_leave_the_best_neighbour() -> None:
    class Cliff(Landscape):
        def evaluate(self, X: Tensor) -> Tensor:
            return super().evaluate(X) + 0.0 * (X[..., 0] - X[..., 0].detach()).abs().sqrt()

    with pytest.warns(OptimizationWarning, match=r"starts of replicates \[0, 1\]"):
        X, values = optimize_acqf_replicates(
            Cliff(2), BOUNDS, seeds=[0, 1], discrete_dims=STEPS, cat_dims=KINDS
        )
    assert values.isfinite().all() and on_the_grid(X, {**STEPS, **KINDS})


def test_every_value_is_as_probable_at_raw_points() -> None:
    seen: list[Tensor] = []

    class Recording(Landscape):
        def evaluate(self, X: Tensor) -> Tensor:
            seen.append(X.detach())
            return super().evaluate(X)

    optimize_acqf_replicates(
        Recording(2), BOUNDS, seeds=[0, 1], discrete_dims=STEPS, cat_dims=KINDS, raw_samples=960
    )
    for column, listed in (*STEPS.items(), *KINDS.items()):
        for value in listed:
            share = (seen[0][..., column] == value).double().mean(dim=-1)
            torch.testing.assert_close(share, share * 0 + 1 / len(listed), atol=0.01, rtol=0)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"discrete_dims": {1: []}}, r"within \[1, 8\] for column 1 .* at least one\. Got \[\]"),
        ({"cat_dims": {3: [0.0, 4.0]}}, r"within \[0, 3\] for column 3 in `cat_dims`.* 4\.0\]"),
        ({"cat_dims": {3: [0.0, torch.nan]}}, r"within \[0, 3\] .* nan\]"),
        ({"discrete_dims": {1: [1.0]}, "cat_dims": {-3: [2.0]}}, "Got column 1 twice"),
        ({"discrete_dims": {4: [1.0]}}, r"columns in \[0, 4\) in `discrete_dims`\. Got 4"),
        ({"cat_dims": {-5: [1.0]}}, r"columns in \[0, 4\) in `cat_dims`\. Got -5"),
    ],
)
def test_bad_input(dims: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        optimize_acqf_replicates(Landscape(2), BOUNDS, seeds=[0, 1], **dims)


BOX = torch.tensor([[0.0, 0.0, 0.0], [1.0, 9.0, 5.0]], dtype=torch.double)


def test_neighbours_are_a_step_or_any_other_category_away() -> None:
    columns = discrete_columns({1: [9.0, 0.0, 2.0, 2.0]}, {2: [5.0, 0.0, 1.0]}, BOX)
    assert columns is not None
    points = np.array([[0.5, 0.0, 1.0], [0.25, 1.0, 2.0]])
    neighbours, rows = columns.neighbors(points)
    assert rows.tolist() == [0, 0, 0, 1, 1, 1, 1]
    found = {tuple(point) for point in neighbours[rows == 0].tolist()}
    assert found == {(0.5, 1.0, 1.0), (0.5, 0.0, 0.0), (0.5, 0.0, 2.0)}
    X = columns.put(torch.as_tensor(neighbours), torch.as_tensor(neighbours))
    second = {tuple(point) for point in X[torch.as_tensor(rows == 1)].tolist()}
    assert second == {(0.25, 0.0, 5.0), (0.25, 9.0, 5.0), (0.25, 2.0, 0.0), (0.25, 2.0, 1.0)}


def test_uniform_numbers_become_indices_within_range() -> None:
    columns = discrete_columns(None, {-1: [0.0, 1.0, 2.0]}, BOX)
    assert columns is not None and columns.listed == [2]
    points = np.array([[0.3, 0.3, 0.0], [0.3, 0.3, 0.34], [0.3, 0.3, 1.0]])
    assert columns.indexed(points)[:, 2].tolist() == [0.0, 1.0, 2.0]
    assert (columns.indexed(points)[:, :2] == 0.3).all()


@pytest.mark.parametrize("raw_dtype", [torch.float, torch.double])
def test_given_points_start_at_the_nearest_value_and_at_their_category(raw_dtype: Any) -> None:
    class Flat:
        def evaluate(self, X: Tensor) -> Tensor:
            return 0.0 * X.sum(dim=-1)

    bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 7.0, 1.0]], dtype=torch.double)
    options: dict[str, Any] = {
        "seeds": 0, "num_restarts": 1, "max_iterations": 0,
        "discrete_dims": {0: [1.0, 0.0, 0.3]}, "cat_dims": {-2: [0, 7, 2.1]},
    }  # fmt: skip
    for given, expected in ((0.3, 0.3), (0.64, 0.3), (0.66, 1.0), (0.0, 0.0), (1.0, 1.0)):
        raw = torch.tensor([[[given, 2.1, 0.25]]], dtype=raw_dtype)
        X, _ = optimize_acqf_replicates(Flat(), bounds, raw_points=raw, **options)
        assert X.flatten().tolist() == [expected, 2.1, 0.25]
    with pytest.raises(ValueError, match=r"Expected `raw_points` .* \[0, 2.1, 7\] .* Got 2\.5"):
        raw = torch.tensor([[[0.3, 2.5, 0.25]]], dtype=raw_dtype)
        optimize_acqf_replicates(Flat(), bounds, raw_points=raw, **options)


def test_nothing_is_searched_where_nothing_is_discrete_or_all_is_fixed() -> None:
    assert discrete_columns(None, None, BOX) is None
    assert discrete_columns({1: [0.0, 1.0]}, {2: [3.0]}, BOX, fixed=[-2, 2]) is None
