r"""A risk as an objective, instead of BoTorch's own risk measures."""

from typing import Any

from botorch.acquisition.objective import MCAcquisitionObjective
from botorch.exceptions.errors import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from botorch_risk.environments import Environment
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.risk import RiskMeasure


class RiskObjective(MCAcquisitionObjective):
    r"""The risk of one outcome, from samples at all points of the environment.

        objective(x) = risk_measure([f(x, w_j)]_j, weights_j)

    Like BoTorch's `VaR` and `CVaR`, it needs a model whose input transform expands a point to `n_w`
    points, but it takes any weights and any measure. `robust` is faster, and the only way with
    constraints or several outcomes: BoTorch would pass to these the samples of all `q n_w` points.

    BoTorch's `VaR(alpha, n_w)` is `ValueAtRisk(1 - alpha, strict=True)`. Its `CVaR(alpha, n_w)`
    averages the `n_w - ceil(alpha n_w) + 1` lowest values, one more than `(1 - alpha) n_w` if
    that is a whole number: for k values in all it is `ConditionalValueAtRisk(k / n_w)`.

    The risks come from joint samples, as in [Cakmak2020risk]_.

    Args:
        environment: The points to which the model's input transform expands each, with their
            weights, in the same order.
        risk_measure: Reduces the samples.

    Raises:
        UnsupportedError: If the measure needs points and the environment has none.
        ValueError: If a BoTorch transform or measure has no counterpart here.

    Example:
        >>> import torch
        >>> from botorch.acquisition.logei import qLogExpectedImprovement
        >>> from botorch.models import SingleTaskGP
        >>> from botorch.models.transforms.input import AppendFeatures
        >>> from botorch_risk.examples import environment, inputs, outcomes
        >>> from botorch_risk.risk import TotalVariationBall
        >>> transform = AppendFeatures(environment.points)
        >>> model = SingleTaskGP(inputs, outcomes, input_transform=transform)
        >>> objective = RiskObjective(environment, TotalVariationBall(0.2))
        >>> acqf = qLogExpectedImprovement(model, best_f=0.5, objective=objective)
        >>> acqf(torch.rand(3, 1, 1, dtype=torch.double)).shape
        torch.Size([3])
    """

    def __init__(self, environment: Environment, risk_measure: RiskMeasure) -> None:
        super().__init__()
        environment, risk_measure = parts_of(environment, risk_measure)
        self.environment = environment
        self.risk_measure = risk_measure.bind(environment)

    def forward(self, samples: Tensor, X: Tensor | None = None) -> Tensor:
        r"""Risks of samples, `sample_shape x batch_shape x q`.

        Args:
            samples: `sample_shape x batch_shape x (q n_w) x 1`, the `n_w` of each decision next to
                each other.
            X: The `batch_shape x q x d_x` decisions; needed if the environment depends on them.

        Raises:
            UnsupportedError: If there are several outcomes.
        """
        if samples.shape[-1] != 1:
            raise UnsupportedError(
                "Expected samples of one outcome, because constraints on other outcomes would use "
                "the samples of all q x n_w points. Use `robust(model, environment, risk_measure, "
                f"constraints)`, which reduces each outcome. Got {samples.shape=}."
            )
        if X is None:
            if not self.environment.independent:
                raise UnsupportedError(
                    "Expected an acquisition function that passes its points to the objective, "
                    "since the environment depends on points. Got `X=None`."
                )
            independent: Any = self.environment
            weights, n_w = independent.weights.unsqueeze(-2), independent.points.shape[-2]
            q = samples.shape[-2] // n_w
        else:
            inputs, weights = self.environment.expand(X)
            q, n_w = inputs.shape[-3:-1]
        if samples.shape[-2] != q * n_w:
            raise BotorchTensorDimensionError(
                f"Expected samples at q x n_w = {q} x {n_w} points, of a model whose input "
                "transform makes these of each decision (`AppendFeatures(environment.points)`, "
                "`InputPerturbation(perturbations)`). Got samples at "
                f"{samples.shape[-2]}; a model that is reduced already, by `robust`, takes no "
                "`RiskObjective`."
            )
        values = samples.squeeze(-1).unflatten(-1, (q, n_w))
        result: Tensor = self.risk_measure(values, weights)
        return result
