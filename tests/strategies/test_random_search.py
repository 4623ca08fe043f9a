from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_risk.strategies import Strategy, random_search
from botorch_risk.strategies.history import ReplicateWithoutOutcomesWarning

BOUNDS = torch.tensor([[-5.0, 0.0], [10.0, 1.0]], dtype=torch.double)
NAN = torch.nan


def advanced(seeds: list[int], num_rounds: int, **kwargs: Any) -> Strategy:
    strategy = random_search(BOUNDS, seeds, num_initial=3, **kwargs)
    for _ in range(num_rounds):
        X = strategy.ask()
        strategy.tell(X, outcomes(X))
    return strategy


def outcomes(X: Tensor) -> Tensor:
    return X.sum(dim=-1, keepdim=True) * torch.tensor([0.9, 1.0, 1.2], dtype=X.dtype)


def observed(Y: list[list[float]], **kwargs: float) -> Tensor:
    r"""The recommendation after repeats `Y` at the points 0, 1, ... of one replicate."""
    values = torch.tensor([Y])
    strategy = random_search(torch.tensor([[0.0], [9.0]]), 0, num_initial=len(Y), **kwargs)
    strategy.tell(torch.arange(float(len(Y))).reshape(1, -1, 1), values)
    return strategy.recommend().squeeze()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_asks_inside_the_bounds_in_their_dtype(dtype: torch.dtype) -> None:
    strategy = random_search(BOUNDS.to(dtype), [0, 1], num_initial=3, batch_size=50)
    first = strategy.ask()
    strategy.tell(first, outcomes(first))
    second = strategy.ask()
    assert (first.shape, second.shape) == ((2, 3, 2), (2, 50, 2))
    for X in (first, second):
        assert X.dtype == dtype
        assert ((BOUNDS[0].to(dtype) <= X) & (BOUNDS[1].to(dtype) >= X)).all()
    assert second[..., 0].min() < -3 < 8 < second[..., 0].max()


def test_recommends_by_mean_minus_weighted_sample_variance() -> None:
    Y = [[0.0, 0.0], [0.0, 4.0], [1.0, 1.2]]  # means 0, 2, 1.1; variances 0, 8, 0.02
    assert observed(Y) == 1
    assert observed(Y, risk_aversion=0.1) == 1
    assert observed(Y, risk_aversion=0.2) == 2
    assert observed(Y, risk_aversion=99.0) == 0


def test_passes_over_points_with_too_few_repeats() -> None:
    assert observed([[NAN, NAN], [1.0, 1.0], [9.0, NAN]], risk_aversion=1.0) == 1
    assert observed([[NAN, NAN], [1.0, 1.0], [9.0, NAN]]) == 2
    with pytest.warns(ReplicateWithoutOutcomesWarning, match=r"seeds=\[0\]"):
        assert observed([[NAN, NAN], [NAN, NAN]], risk_aversion=1.0).isnan()
    assert observed([[NAN, NAN], [1.0, NAN], [9.0, NAN]], risk_aversion=1.0) == 1


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_initial": 0}, "`num_initial` to be at least 1"),
        ({"batch_size": 0}, "`batch_size` to be at least 1"),
        ({"risk_aversion": -1.0}, r"`risk_aversion` .* Got -1\.0"),
        ({"risk_aversion": NAN}, r"`risk_aversion` .* Got nan"),
        ({"seeds": [1, 1]}, "one distinct seed"),
    ],
)
def test_refuses_bad_arguments(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        random_search(**{"bounds": BOUNDS, "seeds": 0, "num_initial": 3} | kwargs)


def test_refuses_bad_shapes_and_states() -> None:
    with pytest.raises(BotorchTensorDimensionError, match="`2 x d`"):
        random_search(BOUNDS[0], 0, num_initial=3)
    strategy = random_search(BOUNDS, [0, 1], num_initial=3, risk_aversion=1.0)
    with pytest.raises(ValueError, match="Expected the outcomes of the initial design"):
        strategy.recommend()
    X = strategy.ask()
    with pytest.raises(BotorchTensorDimensionError, match="`2 x q x d` and `Y` `2 x q x k`"):
        strategy.tell(X, X[:, :2, :1])
    with pytest.raises(ValueError, match="at least 2 repeats"):
        strategy.tell(X, X[..., :1])
    with pytest.raises(ValueError, match=r"Got seeds=\[0, 1\]"):
        strategy.load_state_dict(random_search(BOUNDS, 5, num_initial=3).state_dict())
