r"""Acquisition functions of one point at a time: the base class of this package's own."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor
from torch.nn import Module

from botorch_risk.acquisition.spacing import Spacing
from botorch_risk.arguments import as_floating, check_nonnegative, check_rows, first_wrong
from botorch_risk.gradients import differentiated
from botorch_risk.points import TBatch, as_points, check_points
from botorch_risk.steady import sent

# From points to values and the gradient of each in its own point, in NumPy.
ValueAndGradient = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class PointwiseAcquisitionFunction(AcquisitionFunction, ABC):
    r"""An acquisition function that scores points independently of each other.

    A subclass defines `score`, and `_condition` if it accepts pending points. `forward`, which
    BoTorch's optimisers call, is `evaluate` for q = 1. A batch of q points is built with
    `optimize_acqf(..., sequential=True)`, in which each point sees its predecessors through
    `X_pending`.

    The model is conditioned on pending points, and a point within `min_distance` times the diagonal
    of the unit cube of one is penalised (`Spacing`): conditioning alone proposes points next to
    pending ones, which a laboratory could hardly tell apart. Different labels are never close.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> from botorch.optim import optimize_acqf
        >>> from botorch_risk.examples import unit
        >>> class LargestMean(PointwiseAcquisitionFunction):
        ...     def score(self, X):  # batch_shape x m x d -> batch_shape x m
        ...         return self.model.posterior(X.unsqueeze(-2)).mean[..., 0, 0]
        >>> X = torch.linspace(0, 1, 7, dtype=torch.double).unsqueeze(-1)
        >>> acqf = LargestMean(SingleTaskGP(X, -((X - 0.3) ** 2)))
        >>> x, _ = optimize_acqf(acqf, unit, q=1, num_restarts=2, raw_samples=16)
        >>> round(x.item(), 1)
        0.3
    """

    has_kinks: bool = False  # whether its gradient jumps, for our optimisers
    min_distance: float = 0.05  # of a pending point, in diagonals of the unit cube; 0 for none
    _conditioned: Any
    _spacing: Spacing | None = None
    _apart: tuple[tuple[Tensor, float], ...] = ()  # further points, each with its distance
    _height: Tensor | None = None  # of the penalty, computed when first needed
    _q_twin: ClassVar[str | None] = None
    risk_constraints: tuple[Any, ...] = ()  # of a bound with constraints

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.register_load_state_dict_post_hook(_follow_the_state)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        r"""Take gradients from autograd in a subclass that overrides the values alone."""
        super().__init_subclass__(**kwargs)
        own = vars(cls).keys()
        values = {"score", "evaluate", "upper", "lower"}
        if own & values and "value_and_gradient" not in own:
            cls.value_and_gradient = PointwiseAcquisitionFunction.value_and_gradient  # type: ignore[method-assign]
        if own & (values | {"value_and_gradient"}) and "on_host" not in own:
            cls.on_host = PointwiseAcquisitionFunction.on_host  # type: ignore[method-assign]

    @property
    def of_objective(self) -> Any:
        r"""The bound of the objective alone; this one, as it has no constraints."""
        return self

    @abstractmethod
    def score(self, X: Tensor) -> Tensor:
        r"""Values at points that do not interact, without the penalty next to pending points.

        Args:
            X: `batch_shape x m x d` points, where `batch_shape` broadcasts with the batch shape
                of the model.

        Returns:
            `batch_shape x m` values.
        """

    def evaluate(self, X: Tensor) -> Tensor:
        r"""The scores of points, minus a penalty next to pending ones; shapes as in `score`."""
        score = self.score(X)
        return score if self._spacing is None else score - self._penalty(X)

    def _penalty(self, X: Tensor) -> Tensor:
        spacing: Any = self._spacing
        height = spacing.height() if self._height is None else self._height
        keep_unregistered(self, "_height", height)
        penalty: Tensor = spacing.penalty(as_points(X, self.model), height)
        return penalty

    def value_and_gradient(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Values at points that do not interact, and the gradient of each in its own point.

        This class uses autograd. A subclass with a closed form avoids the graph, which at a few
        points costs as much as the arithmetic.

        Args:
            X: `batch_shape x m x d` points with the `batch_shape` of the model.

        Returns:
            `batch_shape x m` values and `batch_shape x m x d` gradients, both detached.
        """
        return differentiated(self.evaluate, X)

    def on_host(self, num_points: int) -> ValueAndGradient | None:
        r"""`value_and_gradient` of few points in NumPy, if this is faster.

        Whatever does not depend on the points is computed once, so the model must not change.

        Args:
            num_points: The largest number of points `m`.

        Returns:
            A function of points `batch_shape x m x d`; None if there is none in NumPy, as here.
        """
        return None

    def check_points(self, X: Tensor) -> None:
        r"""Raise BotorchTensorDimensionError unless `X: batch_shape x m x d` fit `evaluate`."""
        check_points("X", X, self.model)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Condition the acquisition function on points under evaluation.

        Args:
            X_pending: `batch_shape x n' x d` points, or `None`; integers count as floats.
        """
        pending = checked_pending(X_pending, self.model)
        super().set_X_pending(pending)
        none = pending is None or pending.shape[-2] == 0
        keep_unregistered(self, "_conditioned", self._condition(None if none else self.X_pending))
        self._find_spacing()

    def keep_apart(self, X: Tensor | None, min_distance: float | None = None) -> None:
        r"""Keep the next point at a minimum distance from points other than the pending ones.

        The model is not conditioned on them, and they remain when the pending points change.

        Args:
            X: The points, `batch_shape x p x d`; None for no others.
            min_distance: In diagonals of the unit cube. Default: `self.min_distance`.
        """
        distance = self.min_distance if min_distance is None else min_distance
        keep_unregistered(self, "_apart", () if X is None else ((X, distance),))
        self._find_spacing()

    def _find_spacing(self) -> None:
        pending = getattr(self, "X_pending", None)
        apart = [*self._apart] if pending is None else [(pending, self.min_distance), *self._apart]
        apart = [(self._decisions(X), d) for X, d in apart if X.shape[-2] > 0 and d > 0]
        spacing = Spacing.of(self.model, self.score, apart) if apart else None
        keep_unregistered(self, "_spacing", spacing)
        keep_unregistered(self, "_height", None)

    def _decisions(self, X: Tensor) -> Tensor:
        r"""The columns of pending points that are searched."""
        return X

    def _follow_the_state(self) -> None:
        r"""Rebuild everything derived from the state, after `load_state_dict`."""
        if "_conditioned" in vars(self):
            self.set_X_pending(self.X_pending)

    def _condition(self, X_pending: Tensor | None) -> Any:
        r"""The object that `evaluate` reads as `self._conditioned`: here, the unchanged model.

        `X_pending` is at least one point, `batch_shape x n' x d`, or `None`.
        """
        return self.model

    @t_batch_mode_transform()  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        r"""Values of single candidates `batch_shape x 1 x d`, `batch_shape`.

        Raises:
            UnsupportedError: If q is not 1.
        """
        if X.shape[-2] != 1:
            twin = f", or use {self._q_twin} for a joint batch" if self._q_twin else ""
            raise UnsupportedError(
                f"Expected q = 1 in {type(self).__name__}. Got {X.shape[-2]} points; pass "
                f"`sequential=True` to `optimize_acqf`{twin}."
            )
        return self.evaluate(X).squeeze(-1)


def checked_pending(X_pending: Tensor | None, model: Model) -> Tensor | None:
    r"""Pending points in the dtype of the model's data; raises InputDataError unless finite."""
    if X_pending is None:
        return None
    pending = as_points(X_pending, model)
    if pending.numel():
        check_rows("X_pending", pending, "d")
    return pending


def _follow_the_state(acquisition: Any, incompatible_keys: Any) -> None:
    acquisition._follow_the_state()  # a function, so that a copy by pickle calls its own


def keep_unregistered(module: Module, name: str, value: Any) -> None:
    r"""Set an attribute without making it a submodule.

    `nn.Module` would register a conditioned model, and put its data and parameters into the state
    of the acquisition function, although they follow from the rest of that state.
    """
    object.__setattr__(module, name, value)


def as_nonnegative(name: str, value: float | Tensor) -> Tensor:
    r"""A copy of a finite weight >= 0 in double precision; raises ValueError otherwise."""
    check_nonnegative(**{name: value})
    return torch.as_tensor(value, dtype=torch.double).clone()


def as_nonnegative_each(name: str, value: Any) -> Tensor:
    r"""As `as_nonnegative`, for one number or one per replicate, in any form."""
    several = isinstance(value, list | tuple | np.ndarray)
    return as_nonnegative(name, as_floating(value, name) if several else value)


def as_finite(name: str, numbers: float | Tensor) -> Tensor:
    r"""A copy of numbers in double precision; raises ValueError unless all are finite."""
    found = as_floating(numbers, name).detach().double().clone()
    if not (finite := found.isfinite()).all():
        raise ValueError(f"Expected a finite `{name}`. Got {first_wrong(found, finite)}.")
    return found


def register_weights(module: Module, model: Model, **weights: float | Tensor | None) -> None:
    r"""Keep finite weights >= 0 (or None) as buffers; see `register_buffers`."""
    checked = {
        k: None if value is None else as_nonnegative_each(k, value) for k, value in weights.items()
    }
    register_buffers(module, model, **checked)


def register_buffers(module: Module, model: Model, **numbers: Tensor | None) -> None:
    r"""Keep numbers, one for all or one per replicate, on the device of a model."""
    device = device_of(model)
    for name, value in numbers.items():
        if value is not None and value.dim() and value.shape != model.batch_shape:
            raise BotorchTensorDimensionError(
                f"Expected `{name}` to be a number or to have the batch shape of the model, "
                f"{tuple(model.batch_shape)}. Got {tuple(value.shape)}."
            )
        module.register_buffer(name, None if value is None else sent(value, device))


def device_of(model: Module) -> torch.device:
    r"""The device of a model's parameters; the CPU if it has none."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def per_point(weight: Tensor, X: Tensor) -> Tensor:
    r"""A weight, one for all or one per replicate, broadcastable to `batch_shape x m`."""
    X = as_floating(X, "X")  # a weight is not to be cut off to a whole number
    return weight.to(X).unsqueeze(-1) if weight.dim() else weight.to(X)


def map_replicates(
    function: Callable[[Tensor], Tensor], X: Tensor, batch_shape: torch.Size
) -> Tensor:
    r"""Apply a function that takes one list of points per replicate to points of any batch shape.

    The function maps `B x m x d` points to `B x m` values, for the `B` replicates of the model's
    `batch_shape`, `[]` (then `B` is 1) or `[R]`. Here it is given points `... x m x d`, where `...`
    broadcasts with the batch shape from the right; the result is `... x m` values.
    """
    t_batch = TBatch.of(X, batch_shape)
    folded = t_batch.fold(X)  # batch_shape x m' x d
    values = function(folded.reshape(batch_shape.numel(), *folded.shape[-2:]))
    return t_batch.unfold(values.reshape(folded.shape[:-1]))
