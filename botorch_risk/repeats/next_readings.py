r"""Where to measure next and how often, for a user's own loop."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.optim.multistart import optimize_acqf_replicates
from botorch_risk.repeats.knowledge_gradient import LogRiskAverseKnowledgeGradient, Readings


def next_readings(
    model: MeanVarianceGP,
    bounds: Tensor,
    seeds: int | Sequence[int] = 0,
    *,
    num_restarts: int = 10,
    raw_samples: int = 256,
    **options: Any,
) -> Readings:
    r"""The most valuable readings per cost: at a new point, or more of them at a measured one.

    It maximises `LogRiskAverseKnowledgeGradient` over the box, and compares the maximiser with
    further readings at each point of the model. `repeat_advice` compares points that are given,
    by the width of their bounds.

    Args:
        model: A fitted mean-variance model that learns its noise with the log link.
        bounds: The lower and the upper bounds of the box, `2 x d`, in the units of the model's
            inputs.
        seeds: One for each replicate of the model; other ones in every round.
        num_restarts: Starts of the acquisition optimiser.
        raw_samples: Raw points of the acquisition optimiser.
        options: Further arguments of `LogRiskAverseKnowledgeGradient`: `risk_aversion`,
            `num_repeats` to choose from, `moving_cost`, `returning_cost`, `reading_cost`.

    Raises:
        UnsupportedError: If the model does not learn its noise with the log link.
        ValueError: If a weight, a cost or a number is out of its range.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> train_X = torch.rand(10, 1, dtype=torch.double)
        >>> train_Y = (6 * train_X).sin() + train_X * torch.randn(10, 4, dtype=torch.double)
        >>> model = MeanVarianceGP(train_X, train_Y)
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> readings = next_readings(model, bounds, moving_cost=2.0)
        >>> readings.X.shape, bool(readings.num_repeats >= 1)
        (torch.Size([1]), True)
    """
    acquisition = LogRiskAverseKnowledgeGradient(model, **options)
    X, _ = optimize_acqf_replicates(
        acquisition, bounds, seeds=seeds, num_restarts=num_restarts, raw_samples=raw_samples
    )
    readings = acquisition.choose(X.reshape(*model.batch_shape, *X.shape[-2:]))
    return readings
