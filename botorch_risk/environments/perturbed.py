r"""Decisions that are carried out inexactly and then meet a context."""

from __future__ import annotations

from torch import Tensor

from botorch_risk.environments.environment import Environment
from botorch_risk.environments.perturbation import InputPerturbation


class PerturbedEnvironment(Environment):
    r"""All pairs of a perturbation of the decision and a value of W, which are independent.

    W may depend on the decision that was carried out. The points equal BoTorch's
    `InputPerturbation` followed by `AppendFeatures`, in their order.

    Example:
        >>> import torch
        >>> from botorch_risk.environments import DiscreteEnvironment
        >>> perturbation = InputPerturbation(torch.tensor([[-0.1], [0.1]]))
        >>> weather = DiscreteEnvironment(torch.tensor([[0.0], [1.0], [2.0]]))
        >>> environment = PerturbedEnvironment(perturbation, weather)
        >>> inputs, weights = environment.expand(torch.rand(5, 1))
        >>> inputs.shape, weights.shape
        (torch.Size([5, 6, 2]), torch.Size([5, 6]))
    """

    def __init__(self, perturbation: InputPerturbation, environment: Environment) -> None:
        r"""Puts two distributions together.

        Args:
            perturbation: What becomes of a decision.
            environment: What a decision that was carried out meets.
        """
        super().__init__()
        self.perturbation, self.environment = perturbation, environment

    def expand(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Perturbs each decision and appends each value of W.

        Args:
            X: Decisions, `batch_shape x m x d_x`.

        Returns:
            The inputs `batch_shape x m x (n_p n_w) x d` and the weights
            `batch_shape x m x (n_p n_w)`.
        """
        carried_out, first = self.perturbation.expand(X)  # ... x m x n_p x d_x
        m, n_p = carried_out.shape[-3:-1]
        inputs, second = self.environment.expand(carried_out.flatten(-3, -2))
        inputs = inputs.unflatten(-3, (m, n_p))  # ... x m x n_p x n_w x d
        second = second.expand(*inputs.shape[:-4], m * n_p, inputs.shape[-2])
        weights = first.unsqueeze(-1) * second.unflatten(-2, (m, n_p))
        return inputs.flatten(-3, -2), weights.flatten(-2)

    def range(self, bounds: Tensor) -> Tensor:
        r"""The box of the inputs of all decisions within a box, `2 x d`."""
        return self.environment.range(self.perturbation.range(bounds))
