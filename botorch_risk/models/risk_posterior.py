r"""The joint distribution of risks of decisions, reduced from joint samples of outcomes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.posteriors.posterior import Posterior
from botorch.posteriors.transformed import TransformedPosterior
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor
from torch.nn import Module, ModuleList

from botorch_risk.environments import Environment
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.joint_posterior import JointPosterior
from botorch_risk.risk import RiskMeasure
from botorch_risk.steady import one_look

_MOMENT_SAMPLES = 64  # and as many with the opposite sign


@dataclass(frozen=True)
class Column:
    r"""One risk of one outcome.

    It reduces the values `start` to `stop` of a decision. The measure is bound to its
    environment. `sign` is 1, or -1 for the risk of an outcome that should be small.
    """

    outcome: int
    start: int
    stop: int
    risk_measure: RiskMeasure
    sign: float = 1.0


def reduce_columns(values: Tensor, weights: Sequence[Tensor], columns: Sequence[Column]) -> Tensor:
    r"""The risks of decisions, `... x q x len(columns)`, of outcomes `... x q x n_w x m`.

    The weights, one tensor for each risk, are broadcastable to `... x q x n_w`.
    """
    risks = []
    with one_look():
        for column, weight in zip(columns, weights, strict=True):
            part = values[..., column.start : column.stop, column.outcome]
            part = part if column.sign == 1 else column.sign * part
            risks.append(column.risk_measure(part, weight))
    return risks[0].unsqueeze(-1) if len(risks) == 1 else torch.stack(risks, dim=-1)


class RiskPosterior(TransformedPosterior):
    r"""The joint distribution of the risks of `q` decisions.

    Samples are `sample_shape x batch_shape x q x m` with `m` risks, each reduced from joint samples
    of the outcomes at the `n_w` points of each decision. Mean and variance come from 128 samples in
    antithetic pairs: the mean of an expectation is exact, other errors are a few percent of the
    standard deviation.

    Args:
        posterior: The posterior of the `q n_w` outcomes in each entry of the batch.
        columns: The risks.
        weights: For each risk, the weights of the decisions that are not shared.
        q: The number of decisions, including the shared ones.
        shared: The leading decisions, if all entries of the batch share them.
    """

    def __init__(
        self,
        posterior: Posterior,
        columns: Sequence[Column],
        weights: Sequence[Tensor],
        q: int,
        shared: SharedRisks | None = None,
    ) -> None:
        super().__init__(posterior=posterior, sample_transform=self._reduce)
        self.columns, self.weights, self.q, self.shared = columns, weights, q, shared

    @property
    def batch_shape(self) -> torch.Size:
        return self._posterior._extended_shape()[:-2]

    def _extended_shape(self, sample_shape: torch.Size = torch.Size()) -> torch.Size:  # noqa: B008
        inner = self._posterior._extended_shape(sample_shape)
        return inner[:-2] + torch.Size([self.q, len(self.columns)])

    def _reduce(self, samples: Tensor) -> Tensor:
        r"""Risks `... x q x m` of outcomes `... x (q n_w) x m`."""
        values = samples.unflatten(-2, (self.q, -1))
        return reduce_columns(values, self.weights, self.columns)

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Tensor:
        shape = self._extended_shape(sample_shape)
        if 0 in shape:  # an empty t-batch, of which GPyTorch cannot tell the shape
            return torch.zeros(shape, dtype=self.dtype, device=self.device)
        if not isinstance(self._posterior, JointPosterior) or self.shared is None:
            return super().rsample_from_base_samples(sample_shape, base_samples)
        first, rest = self._posterior.parts(sample_shape, base_samples)
        known = self.shared.risks(first, self.columns)
        values = rest.unflatten(-1, (self.q - known.shape[-2], -1)).unsqueeze(-1)
        risks = reduce_columns(values, self.weights, self.columns)
        known = known.expand(*risks.shape[:-2], *known.shape[-2:])
        return torch.cat([known, risks], dim=-2)

    def rsample(self, sample_shape: torch.Size | None = None) -> Tensor:
        shape = torch.Size([1]) if sample_shape is None else sample_shape
        if not isinstance(self._posterior, JointPosterior) and 0 not in self.batch_shape:
            return super().rsample(shape)
        base = torch.randn(*shape, *self.base_sample_shape, dtype=self.dtype, device=self.device)
        return self.rsample_from_base_samples(shape, base)

    @property
    def mean(self) -> Tensor:
        return self._moment_samples().mean(dim=0)

    @property
    def variance(self) -> Tensor:
        samples = self._moment_samples()
        return (samples - samples.mean(dim=0)).square().mean(dim=0)

    def _moment_samples(self) -> Tensor:
        posterior: Any = self._posterior
        sampler = SobolQMCNormalSampler(torch.Size([_MOMENT_SAMPLES]), seed=0)
        sampler._construct_base_samples(posterior)
        half: Any = sampler.base_samples
        # The errors of a linear risk cancel in each pair.
        base = torch.cat([half, -half])
        shape = base.shape[:1]
        return self.rsample_from_base_samples(shape, base.expand(*shape, *self.base_sample_shape))


class SharedRisks:
    r"""Risks of decisions that a whole batch shares, kept while their samples are the same."""

    def __init__(self, weights: Sequence[Tensor], count: int) -> None:
        self.weights, self.count = weights, count
        self._known: tuple[Tensor, Tensor] | None = None

    def risks(self, samples: Tensor, columns: Sequence[Column]) -> Tensor:
        r"""Risks `... x count x m` of outcomes `... x (count n_w)`."""
        if self._known is None or self._known[0] is not samples:
            values = samples.unflatten(-1, (self.count, -1)).unsqueeze(-1)
            # Shared decisions are constants, and hyperparameters have no gradient here.
            with torch.no_grad():
                self._known = samples, reduce_columns(values, self.weights, columns)
        return self._known[1]


class Reduction(NamedTuple):
    r"""One output of a `RobustModel`.

    Attributes:
        outcome: The index of the outcome in the underlying model.
        environment: The distribution of W, or of perturbations of the decision.
        risk_measure: Reduces the outcomes.
        minimized: Whether a small outcome is good: its negative is then reduced.
    """

    outcome: int
    environment: Environment
    risk_measure: RiskMeasure
    minimized: bool = False


class Expansion(NamedTuple):
    r"""The points at which decisions are evaluated.

    Attributes:
        inputs: `batch_shape x q x n_w x d`, the points of all environments.
        weights: For each risk, broadcastable to `batch_shape x q x n_w` of its environment.
        columns: For each risk, the positions of its values among the `n_w`.
    """

    inputs: Tensor
    weights: list[Tensor]
    columns: list[Column]


class Reductions(Module):
    r"""Risks of outcomes at the points of one or more environments.

    Two risks over the same environment share its points. Risks over two environments come from one
    joint sample at the points of both.
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
        r"""Whether an environment has one distribution for each replicate."""
        return any(getattr(each, "batch_shape", ()) for each in self.environments)

    def expand(self, X: Tensor, chosen: Sequence[int], widths: Sequence[int] | None) -> Expansion:
        r"""The points of decisions `batch_shape x q x d_x`, for the chosen risks.

        `widths` are the numbers of columns that the model allows, if known.
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
