r"""Take a risk over values of W appended to a decision, as BoTorch does."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions.warnings import OptimizationWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import AppendFeatures, ChainedInputTransform, Normalize
from botorch.optim import optimize_acqf
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from botorch_risk.environments.environment import choose
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.seeding import generators
from botorch_risk.strategies.environment_risk import Turn


def resampled_values(turn: Turn, n_w: int) -> Tensor:
    r"""Draw values of W in proportion to their weights, since BoTorch's risk measures have none.

    The levels `(j + u) / n_w`, `u` uniform, of the points of the distribution in their own order
    (systematic resampling), another set for each query.

    Returns:
        `R x n_w x d_w`.
    """
    draws = generators(turn.streams("appended values"), "uniform")
    shifts = torch.stack([torch.rand(1, generator=each, dtype=torch.double) for each in draws])
    return resampled(turn.space.environment, n_w, shifts).to(turn.space.bounds)


def resampled(environment: Any, n_w: int, shifts: Tensor) -> Tensor:
    r"""Values of W at the levels `(j + u) / n_w`, `batch_shape x n_w x d_w`.

    Args:
        environment: An `IndependentEnvironment`.
        shifts: u in [0, 1), `batch_shape x 1`.
    """
    levels = (torch.arange(n_w, dtype=torch.double) + shifts) / n_w
    points = environment.points
    return choose(points, environment.weights, levels.unsqueeze(-1).to(points.device))


def model_with_values(X: Tensor, Y: Tensor, w_set: Tensor, input_range: Tensor) -> SingleTaskGP:
    r"""Build a model that appends values of W to each decision, before its fit.

    Args:
        X: Pairs (x, w), `n x d`.
        Y: Outcomes, `n x 1`.
        w_set: What is appended, `n_w x d_w`.
        input_range: The range of its inputs, `2 x d`.
    """
    transform = ChainedInputTransform(
        append=AppendFeatures(feature_set=w_set),
        normalize=Normalize(X.shape[-1], bounds=input_range),
    )
    return standardized_gp(X, Y, input_transform=transform)


def maximize_singly(
    acquisition: AcquisitionFunction,
    bounds: Tensor,
    num_restarts: int,
    raw_samples: int,
    max_iterations: int,
) -> Tensor:
    r"""Call `optimize_acqf` in batches that bound the memory, without a retry; `1 x d`."""
    batch_limits = {"batch_limit": 4, "init_batch_limit": 16}
    return optimize_acqf(
        acquisition,
        bounds,
        q=1,
        num_restarts=num_restarts,
        raw_samples=raw_samples,
        options={"maxiter": max_iterations, **batch_limits},
        retry_on_optimization_warning=False,
    )[0]


@contextmanager
def without_numerical_warnings() -> Iterator[None]:
    r"""Silence warnings of covariances that close values of w make singular to rounding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        warnings.simplefilter("ignore", OptimizationWarning)
        warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)
        yield
