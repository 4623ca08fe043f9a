r"""Perturbations of the decision, for decisions that are carried out inexactly."""

from typing import NoReturn

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor, check_bounds, check_rows
from botorch_risk.environments.discrete import checked_probabilities
from botorch_risk.environments.environment import Environment
from botorch_risk.steady import moved


class InputPerturbation(Environment):
    r"""The outcome is evaluated at `x + delta`; W has no columns, so that `d = d_x`.

    The distribution of the model's inputs moves with `x`, so it has no `points` of its own, and a
    measure that needs them (an MMD ball) cannot be bound to it.

    As in [Nguyen2021vucb]_, Sec. 3.4; there the perturbation may depend on x.

    Args:
        perturbations: `batch_shape x n_w x d_x`, in the units of the decisions.
        probabilities: `batch_shape x n_w`. Default: equal.
        bounds: `2 x d_x`. Perturbed decisions are clipped to them; without bounds, they may leave
            the domain of the model.

    Example:
        >>> delta = torch.tensor([[-0.1], [0.1]])
        >>> environment = InputPerturbation(delta, bounds=torch.tensor([[0.0], [1.0]]))
        >>> environment.expand(torch.tensor([[0.95]]))[0].flatten()
        tensor([0.8500, 1.0000])
    """

    perturbations: Tensor
    weights: Tensor
    bounds: Tensor | None

    def __init__(
        self,
        perturbations: Tensor,
        probabilities: Tensor | None = None,
        bounds: Tensor | None = None,
    ) -> None:
        super().__init__()
        perturbations = as_floating(perturbations, "perturbations")
        bounds = as_tensor("bounds", bounds)
        check_rows("perturbations", perturbations)
        if bounds is not None:
            check_bounds(bounds, perturbations.shape[-1])
        weights = checked_probabilities(probabilities, perturbations)
        self.register_buffer("perturbations", perturbations.detach().clone())
        self.register_buffer("weights", weights.clone())
        self.register_buffer("bounds", None if bounds is None else bounds.detach().clone())

    @property
    def points(self) -> NoReturn:
        raise UnsupportedError(
            "Expected a distribution that does not depend on the decision. Got perturbations of "
            "the decision, which have no fixed `points`; use a risk measure that needs no points."
        )

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Add each perturbation to each decision; the weights are `batch_shape x 1 x n_w`."""
        X = as_floating(X, "X")
        if X.shape[-1] != self.perturbations.shape[-1]:
            raise BotorchTensorDimensionError(
                f"Expected `X` to have shape `batch_shape x m x {self.perturbations.shape[-1]}`. "
                f"Got {X.shape=}."
            )
        perturbed = X.unsqueeze(-2) + moved(self.perturbations, X).unsqueeze(-3)
        if self.bounds is not None:
            lower, upper = moved(self.bounds, X)
            perturbed = torch.minimum(torch.maximum(perturbed, lower), upper)
        return perturbed, moved(self.weights, X).unsqueeze(-2)

    def range(self, bounds: Tensor) -> Tensor:
        corners, _ = self.expand(bounds)  # ... x 2 x n_w x d_x
        corners = corners.flatten(0, -2)
        return torch.stack([corners.amin(dim=0), corners.amax(dim=0)])


class PerturbedEnvironment(Environment):
    r"""All pairs of a perturbation of the decision and a value of W, which are independent.

    W may depend on the decision that was carried out. BoTorch's
    `InputPerturbation` followed by `AppendFeatures` gives the same points in the same order.

    Args:
        perturbation: Turns the chosen decision into the one that is carried out.
        environment: The distribution of W for the decision that was carried out.

    Example:
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> perturbation = InputPerturbation(torch.tensor([[-0.1], [0.1]]))
        >>> weather = DiscreteEnvironment(torch.tensor([[0.0], [1.0], [2.0]]))
        >>> environment = PerturbedEnvironment(perturbation, weather)
        >>> inputs, weights = environment.expand(torch.rand(5, 1))
        >>> inputs.shape, weights.shape
        (torch.Size([5, 6, 2]), torch.Size([5, 6]))
    """

    def __init__(self, perturbation: InputPerturbation, environment: Environment) -> None:
        super().__init__()
        self.perturbation, self.environment = perturbation, environment
        self.categories = environment.categories

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        carried_out, first = self.perturbation.expand(X)  # ... x m x n_p x d_x
        m, n_p = carried_out.shape[-3:-1]
        inputs, second = self.environment.expand(carried_out.flatten(-3, -2))
        inputs = inputs.unflatten(-3, (m, n_p))  # ... x m x n_p x n_w x d
        second = second.expand(*inputs.shape[:-4], m * n_p, inputs.shape[-2])
        weights = first.unsqueeze(-1) * second.unflatten(-2, (m, n_p))
        return inputs.flatten(-3, -2), weights.flatten(-2)

    def range(self, bounds: Tensor) -> Tensor:
        return self.environment.range(self.perturbation.range(bounds))
