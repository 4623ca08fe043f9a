r"""Base classes for the distribution of the environmental variable W."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from torch import Generator, Tensor
from torch.nn import Module

from botorch_risk.arguments import as_floating
from botorch_risk.environments.uniforms import draw_uniforms
from botorch_risk.steady import moved


class Environment(Module, ABC):
    r"""Base class for the distribution of W, or of a perturbation of the decision `x`.

    It is represented by weighted points. Weights are at least 0 and sum to 1. A point of weight 0
    is not in the support, but a ball around the distribution may put mass there. Every draw is made
    when an environment is built; nothing in `expand` is random.

    An acquisition function needs only `expand`. Strategies accept an `IndependentEnvironment` or an
    `InputPerturbation`, and also use `contains`, `range` and `num_inputs`.

    Attributes:
        independent: Whether `points` and `weights` are the same for every decision.
        categories: The columns of W whose values are whole numbers without an order.

    Example:
        >>> class RelativeError(Environment):  # a machine sets the decision to within a tenth of it
        ...     def expand(self, X):
        ...         errors = torch.tensor([-0.1, 0.0, 0.1]).to(X)
        ...         inputs = X.unsqueeze(-2) * (1 + errors).unsqueeze(-1)  # ... x n_w x d
        ...         return inputs, torch.full_like(errors, 1 / 3)
        >>> decisions = torch.tensor([[1.0], [5.0]])
        >>> inputs, weights = RelativeError().expand(decisions)
        >>> inputs.squeeze(-1)
        tensor([[0.9000, 1.0000, 1.1000],
                [4.5000, 5.0000, 5.5000]])
    """

    independent: ClassVar[bool] = False
    categories: tuple[int, ...] = ()

    @abstractmethod
    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Pair each decision with each point of the distribution.

        Args:
            X: Decisions, `batch_shape x m x d_x`.

        Returns:
            The inputs of the model, `batch_shape x m x n_w x d` with W in the last columns, in
            the dtype of `X` (float64 for integers); and their weights, broadcastable to
            `batch_shape x m x n_w`.
        """

    def num_inputs(self, d_x: int) -> int:
        r"""The number of columns of the model's inputs: `d_x`, plus `d_w` if W has columns."""
        inputs, _ = self.expand(torch.zeros(1, d_x, dtype=torch.double))
        return inputs.shape[-1]

    def range(self, bounds: Tensor) -> Tensor:
        r"""A box `2 x d` that holds the model's inputs for all decisions in a box `2 x d_x`.

        Raises:
            UnsupportedError: If the environment does not know it.
        """
        raise UnsupportedError(
            f"Expected an environment with a known range. Got {type(self).__name__}."
        )

    def contains(self, X: Tensor, W: Tensor) -> Tensor:
        r"""Whether W may take a value: here, whether a point of positive weight has it.

        Args:
            X: Decisions, `batch_shape x m x d_x`.
            W: The observed values, `batch_shape x m x d_w`, or the perturbed decisions if there are
                no columns of W.

        Returns:
            `batch_shape x m` booleans; values may be off by rounding errors.
        """
        W = as_floating(W, "W")
        inputs, weights = self.expand(X)
        possible = inputs[..., -W.shape[-1] :]
        scale = torch.maximum(possible.abs(), possible.new_ones(()))
        tolerance = torch.finfo(W.dtype).eps ** 0.5 * scale
        near = ((possible - W.unsqueeze(-2)).abs() <= tolerance).all(dim=-1)
        return (near & (weights > 0)).any(dim=-1)

    def log_probability(self, weights: Tensor) -> Tensor:
        r"""The log probability of the points of `expand`: here, the logarithm of their weights.

        Only differences of the numbers have a meaning. They have the shape of the weights.

        Raises:
            UnsupportedError: If the distribution is continuous and has no density.
        """
        return weights.log()


class IndependentEnvironment(Environment):
    r"""A distribution of W that does not depend on the decision.

    By default W is one of the points. A subclass for any other W maps uniform numbers to W, which
    is all that sampling needs.

    Args:
        points: Values of W, `batch_shape x n_w x d_w`.
        weights: The probabilities of points, `batch_shape x n_w`.
    """

    independent: ClassVar[bool] = True
    points: Tensor
    weights: Tensor

    def __init__(self, points: Tensor, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("points", as_floating(points, "points").detach().clone())
        self.register_buffer("weights", as_floating(weights, "weights").detach().clone())

    @property
    def batch_shape(self) -> torch.Size:
        r"""Each entry has its distribution; `[]` if any batch of decisions may share the one."""
        return self.points.shape[:-2]

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Append each point of the distribution to each decision.

        Decisions may have dimensions in front of the batch shape; the weights are
        `batch_shape x 1 x n_w`.
        """
        X = as_floating(X)
        n_w, d_w = self.points.shape[-2:]
        batch = X.shape[:-2]
        try:
            if self.batch_shape not in (torch.Size(), batch):
                batch = torch.broadcast_shapes(batch, self.batch_shape)
        except RuntimeError as error:
            raise BotorchTensorDimensionError(
                "Expected `X` to have shape `batch_shape x m x d_x`. "
                f"Got {X.shape=} for {self.batch_shape=}."
            ) from error
        shape = (*batch, X.shape[-2], n_w)
        decisions = X.unsqueeze(-2).expand(*shape, X.shape[-1])
        points = moved(self.points, X).unsqueeze(-3).expand(*shape, d_w)
        return torch.cat([decisions, points], dim=-1), moved(self.weights, X).unsqueeze(-2)

    def sample(self, num_samples: int, generator: Generator | Sequence[Generator]) -> Tensor:
        r"""Draw W independently from the distribution itself, not only from its points.

        Args:
            num_samples: The number of values to draw, `n`.
            generator: A CPU generator; or one for each replicate, whose draws then do not depend on
                the other replicates.

        Returns:
            `batch_shape x n x d_w`, or `R x n x d_w` if `R` generators draw from one distribution.
        """
        shape = (*self.batch_shape, num_samples, self._num_uniforms)
        if not isinstance(generator, Generator):
            if self.batch_shape not in (torch.Size(), torch.Size([len(generator)])):
                raise BotorchTensorDimensionError(
                    "Expected one generator for each replicate. "
                    f"Got {len(generator)} generators for {self.batch_shape=}."
                )
            shape = shape[-2:]
        uniforms = draw_uniforms(shape, generator).to(self.points.device)
        return self._from_uniforms(uniforms).to(self.points)

    def log_density(self, W: Tensor) -> Tensor | None:
        r"""Log density of `batch_shape x n x d_w` values, -inf outside the support.

        None if there is no density: W is one of the `points`, or anywhere in a box
        (`StandardDeviationBox`).

        Raises:
            UnsupportedError: If W is continuous and has no density, for example if it is clipped.
        """
        return None

    def log_probability(self, weights: Tensor) -> Tensor:
        density = self.log_density(self.points)
        return weights.log() if density is None else density.to(weights).unsqueeze(-2)

    def as_values(self, W: Tensor) -> Tensor:
        r"""Values `... x n x d_w` of W, expanded to the batch shape of the environment."""
        W = as_floating(W, "W")
        if W.dim() > 1 and W.shape[-1] == self.points.shape[-1]:
            with suppress(RuntimeError):
                batch = torch.broadcast_shapes(W.shape[:-2], self.batch_shape)
                return W.expand(*batch, *W.shape[-2:])
        raise BotorchTensorDimensionError(
            f"Expected `W` to have shape `... x n x {self.points.shape[-1]}`, with the batch shape "
            f"{tuple(self.batch_shape)} or none. Got {tuple(W.shape)}."
        )

    def num_inputs(self, d_x: int) -> int:
        return d_x + self.points.shape[-1]

    def range(self, bounds: Tensor) -> Tensor:
        bounds = as_floating(bounds, "bounds")
        return torch.cat([bounds, self.support_bounds.to(bounds)], dim=-1)

    def contains(self, X: Tensor, W: Tensor) -> Tensor:
        return self.supports(W)

    @property
    def support_bounds(self) -> Tensor:
        r"""A box that holds the support, `2 x d_w`: here, the points of positive weight."""
        support = (self.weights > 0).unsqueeze(-1)
        lower = self.points.masked_fill(~support, torch.inf).flatten(0, -2).amin(dim=0)
        upper = self.points.masked_fill(~support, -torch.inf).flatten(0, -2).amax(dim=0)
        return torch.stack([lower, upper])

    def supports(self, W: Tensor) -> Tensor:
        r"""Whether `batch_shape x n x d_w` values are in the support: at points of weight > 0."""
        W = self.as_values(W)
        points = self.points.to(W)
        scale = points.abs().amax(dim=-2, keepdim=True)  # of each column: their units may differ
        tolerance = torch.finfo(W.dtype).eps ** 0.5 * scale.unsqueeze(-3)
        near = ((W.unsqueeze(-2) - points.unsqueeze(-3)).abs() <= tolerance).all(dim=-1)
        return (near & (self.weights.to(W) > 0).unsqueeze(-2)).any(dim=-1)

    @property
    def _num_uniforms(self) -> int:
        r"""The number of uniform numbers that make one value of W."""
        return 1

    def _from_uniforms(self, uniforms: Tensor) -> Tensor:
        r"""Values `... x n x d_w` from `... x n x num_uniforms` numbers in (0, 1), float64."""
        return choose(self.points, self.weights, uniforms)


def inputs_at(inputs: Tensor, index: Tensor) -> Tensor:
    r"""The inputs of one value of W for each decision, `batch_shape x m x d`.

    The inputs of `Environment.expand` may be shared by replicates; the index is `batch_shape x m`.
    """
    inputs = inputs.expand(*index.shape, *inputs.shape[-2:])
    rows = index[..., None, None].expand(*index.shape, 1, inputs.shape[-1])
    return inputs.gather(-2, rows).squeeze(-2)


# Of a decision under evaluation whose w is not known yet.
_NUM_READINGS = 8
_TINY = 1e-30  # a weight that leaves something to choose from if all of a category have none


def inputs_of_readings(environment: Environment, X: Tensor) -> Tensor:
    r"""Inputs that stand for decisions whose w is not known yet, `batch_shape x n' x d`.

    Eight values of the support stand for w, at equal steps of probability. Their average may be
    outside the support, and an average of codes means nothing. Categories have no order to step
    through, so each value of the support stands for W with categories; if other columns are
    numbers, at most eight values per combination of categories. The decisions are
    `batch_shape x m x d_x`.
    """
    inputs, weights = environment.expand(X)  # batch_shape x m x n_w x d
    shares, n_w = weights.expand(inputs.shape[:-1]), inputs.shape[-2]
    steps = torch.arange(_NUM_READINGS, dtype=torch.double, device=inputs.device)
    steps = (steps + 0.5).unsqueeze(-1) / _NUM_READINGS
    if not environment.categories:
        return choose(inputs, shares, steps).flatten(-3, -2)
    index = torch.arange(n_w, device=inputs.device)
    if weights.dim() <= 2:
        index = index[(weights > 0).reshape(-1, n_w).any(dim=0)]
    groups = _groups_of_categories(environment, index)
    if groups is not None:
        few = [
            choose(each.double().unsqueeze(-1), shares[..., each] + _TINY, steps).squeeze(-1).long()
            if len(each) > _NUM_READINGS
            else each.expand(*shares.shape[:-1], -1)
            for each in groups
        ]
        index = torch.cat(few, dim=-1)
    # In a batch, the most probable value stands in for those that one replicate does not have.
    index = index.expand(*shares.shape[:-1], -1)
    index = index.where(shares.gather(-1, index) > 0, shares.argmax(dim=-1, keepdim=True))
    rows = index.unsqueeze(-1).expand(*index.shape, inputs.shape[-1])
    return inputs.gather(-2, rows).flatten(-3, -2)


def _groups_of_categories(environment: Environment, index: Tensor) -> list[Tensor] | None:
    r"""The places among `index` of each combination of categories.

    None unless W has numbers too, more values than readings, and the same combinations at the same
    places in all replicates.
    """
    columns = list(environment.categories)
    if not isinstance(environment, IndependentEnvironment) or len(index) <= _NUM_READINGS:
        return None
    codes = environment.points[..., index, :][..., columns].reshape(-1, len(index), len(columns))
    if len(columns) == environment.points.shape[-1] or (codes != codes[:1]).any():
        return None
    combination = codes[0].unique(dim=0, return_inverse=True)[1].tolist()
    places: dict[int, list[int]] = {one: [] for one in combination}  # in this order, for any codes
    for place, one in enumerate(combination):
        places[one].append(place)
    return [index[each] for each in places.values()]


def choose(points: Tensor, weights: Tensor, uniforms: Tensor) -> Tensor:
    r"""The points in whose part of the unit interval uniform numbers fall, `... x n x d_w`.

    The points are `batch_shape x n_w x d_w`. The numbers are `... x n x 1`, with the batch shape in
    front or no dimension there. A point of weight 0 is never chosen.
    """
    cumulative = weights.double().cumsum(dim=-1)
    cumulative = cumulative / cumulative[..., -1:]  # rounding must not lead past the end
    u = uniforms.squeeze(-1)
    batch = torch.broadcast_shapes(u.shape[:-1], weights.shape[:-1])
    u = u.expand(*batch, u.shape[-1]).contiguous()
    index = torch.searchsorted(cumulative.expand(*batch, -1).contiguous(), u, right=True)
    points = points.expand(*batch, *points.shape[-2:])
    return points.gather(-2, index.unsqueeze(-1).expand(*index.shape, points.shape[-1]))


def inside(W: Tensor, box: Tensor) -> Tensor:
    r"""Whether values `... x n x d_w` are within a box `... x 2 x d_w`, up to rounding."""
    lower, upper = box.to(W).split(1, dim=-2)
    slack = 8 * torch.finfo(W.dtype).eps * torch.maximum(lower.abs(), upper.abs())
    return ((lower - slack <= W) & (upper + slack >= W)).all(dim=-1)
