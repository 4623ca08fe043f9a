r"""Which risks of which outcomes are computed, over which environments."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor
from torch.nn import Module, ModuleList

from botorch_risk.environments import Environment
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.risk import RiskMeasure
from botorch_risk.robust.risk_posterior import Column


class Reduction(NamedTuple):
    r"""One output of a `RobustModel`.

    Attributes:
        outcome: Which outcome of the underlying model.
        environment: What a decision may meet.
        risk_measure: Reduces the outcomes.
        minimized: Whether a small outcome is good: the risk is then that of its negative.
    """

    outcome: int
    environment: Environment
    risk_measure: RiskMeasure
    minimized: bool = False


class Expansion(NamedTuple):
    r"""All that decisions may meet.

    Attributes:
        inputs: `batch_shape x q x n_w x d`, the points of all environments.
        weights: For each risk, broadcastable to `batch_shape x q x n_w` of its environment.
        columns: For each risk, where its values are among the `n_w`.
    """

    inputs: Tensor
    weights: list[Tensor]
    columns: list[Column]


class Reductions(Module):
    r"""Risks of outcomes at the points of one or more environments.

    Two risks over the same environment share its points; those over two environments come
    from one joint sample at the points of both.
    """

    def __init__(self, reductions: Sequence[Reduction]) -> None:
        super().__init__()
        if not reductions:
            raise ValueError("Expected at least one reduction. Got none.")
        reductions = [_of_ours(each) for each in reductions]
        environments = {id(each.environment): each.environment for each in reductions}
        self.reductions = tuple(reductions)
        self.environments = ModuleList(environments.values())
        order = list(environments)
        self._place = [order.index(id(each.environment)) for each in reductions]
        self._measures = [each.risk_measure.bind(each.environment) for each in reductions]

    @property
    def batched(self) -> bool:
        r"""Whether an environment is one distribution for each replicate."""
        return any(getattr(each, "batch_shape", ()) for each in self.environments)

    def expand(self, X: Tensor, chosen: Sequence[int], widths: Sequence[int] | None) -> Expansion:
        r"""What decisions `batch_shape x q x d_x` may meet, for the chosen risks.

        Raises:
            BotorchTensorDimensionError: If the inputs of the model have none of the `widths`.
        """
        made = [environment.expand(X) for environment in self.environments]  # type: ignore[operator]
        for environment, (inputs, _) in zip(self.environments, made, strict=True):
            if widths is not None and inputs.shape[-1] not in widths:
                wanted = " or ".join(str(width) for width in widths)
                raise BotorchTensorDimensionError(
                    f"Expected decisions and environment to make the {wanted} inputs of the model. "
                    f"Got {inputs.shape[-1]}, of {X.shape=} and a {type(environment).__name__}."
                )
        stops = list(itertools.accumulate(inputs.shape[-2] for inputs, _ in made))
        columns = []
        for index in chosen:
            each, place = self.reductions[index], self._place[index]
            start, stop = stops[place] - made[place][0].shape[-2], stops[place]
            sign = -1.0 if each.minimized else 1.0
            columns.append(Column(each.outcome, start, stop, self._measures[index], sign))
        weights = [made[self._place[index]][1] for index in chosen]
        every = [inputs for inputs, _ in made]
        if len(every) == 1:
            return Expansion(every[0], weights, columns)
        batch = torch.broadcast_shapes(*(inputs.shape[:-2] for inputs in every))
        every = [inputs.expand(*batch, *inputs.shape[-2:]) for inputs in every]
        return Expansion(torch.cat(every, dim=-2), weights, columns)


def _of_ours(reduction: Reduction) -> Reduction:
    environment, risk_measure = parts_of(reduction.environment, reduction.risk_measure)
    return reduction._replace(environment=environment, risk_measure=risk_measure)
