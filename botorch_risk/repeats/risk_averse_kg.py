r"""RAHBO's problem, solved by the knowledge gradient of repeats."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from botorch.exceptions.errors import UnsupportedError
from torch import Tensor

from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction
from botorch_risk.arguments import check_arguments, check_counts
from botorch_risk.models.heteroscedastic import MeanVarianceGP
from botorch_risk.papers.rahbo import Weights, rahbo
from botorch_risk.repeats.knowledge_gradient import LogRiskAverseKnowledgeGradient
from botorch_risk.strategies.space import Box
from botorch_risk.strategies.strategy import Strategy


def risk_averse_kg(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    num_repeats: int,
    risk_aversion: float,
    num_compared: int = 8,
    **options: Any,
) -> Strategy:
    r"""Solve RAHBO's problem by the knowledge gradient [Frazier2009kgcb]_.

    Each round maximises `LogRiskAverseKnowledgeGradient` and observes k repeats there. Model,
    initial design and recommendation are the same as in `rahbo`, so that either can replace the
    other. `adaptive_repeats` also chooses the number of repeats.

    Args:
        num_repeats: The number k of repeats at each point, at least 2.
        num_compared: The number of measured points that may become the best one.
        options: The arguments of `rahbo` except `known_noise` and `variance_link`.

    Raises:
        UnsupportedError: If the noise is known, or learnt on a scale other than the logarithm.

    Example:
        >>> import torch
        >>> bounds = torch.tensor([[0.0], [2.0]], dtype=torch.double)
        >>> options = {"num_repeats": 4, "risk_aversion": 1.0, "num_initial": 5}
        >>> strategy = risk_averse_kg(bounds, [0, 1], **options)
        >>> X = strategy.ask()
        >>> noise = 0.1 * torch.randn(2, 5, 4, dtype=torch.double)
        >>> strategy.tell(X, (3 * X).sin() + noise)
        >>> strategy.ask().shape, strategy.recommend().shape
        (torch.Size([2, 1, 1]), torch.Size([2, 1]))
    """
    check_arguments(risk_averse_kg, locals())
    link = options.get("variance_link", "log")
    if options.get("known_noise") is not None or link != "log":
        raise UnsupportedError(
            "Expected unknown noise, with `variance_link='log'`. "
            f"Got known_noise={options.get('known_noise')}, variance_link={link!r}."
        )
    gain = GainOfRepeats(num_repeats, num_compared)
    return rahbo(
        bounds,
        seeds,
        num_repeats=num_repeats,
        risk_aversion=risk_aversion,
        acquisition=gain,
        **options,
    )


@dataclass(frozen=True)
class GainOfRepeats:
    r"""The knowledge gradient of a fixed number of repeats, the same in every round."""

    num_repeats: int
    num_compared: int = 8

    def __post_init__(self) -> None:
        check_counts(num_repeats=self.num_repeats, num_compared=self.num_compared)

    def __call__(
        self, model: MeanVarianceGP, t: int, weights: Weights
    ) -> PointwiseAcquisitionFunction:
        return LogRiskAverseKnowledgeGradient(
            model, weights.risk_aversion, (self.num_repeats,), num_compared=self.num_compared
        )
