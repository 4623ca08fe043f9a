r"""Select the value of W whose reading is most informative about the risk of a decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.expected_risk import expected_risk
from botorch_risk.arguments import check_even, check_rows, in_short
from botorch_risk.engine import Belief
from botorch_risk.environments import Environment
from botorch_risk.environments.environment import inputs_at
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.outcomes import refuse_reduced, single_outcome, spread_of
from botorch_risk.points import as_points, check_made_inputs, input_widths
from botorch_risk.risk import RiskMeasure


@runtime_checkable
class RiskWithLimit(Protocol):
    r"""A risk that has to reach a given value, such as a `RiskConstraint`."""

    @property
    def outcome(self) -> int: ...

    @property
    def distribution(self) -> Environment: ...

    @property
    def risk_measure(self) -> RiskMeasure: ...

    @property
    def at_most(self) -> bool: ...

    @property
    def limit(self) -> float: ...


def select_value(
    model: Model,
    environment: Environment,
    risk_measure: RiskMeasure | Sequence[RiskMeasure],
    X: Tensor,
    num_samples: int = 16,
    *,
    constraints: Sequence[RiskWithLimit] = (),
    posterior_transform: PosteriorTransform | None = None,
) -> Tensor:
    r"""Choose the value of W whose reading most reduces the variance of the risk.

        w* = argmax_w  (q' C e_w)^2 / (C_ww + noise_w),   q = E[grad risk(f)]

    where `C` is the joint posterior covariance of `f(x, .)` over W. By Stein's identity `q' C e_w`
    is the covariance of the risk with the outcome at w, so this is the part of the risk's variance
    that one reading at (x, w) is expected to explain. It is exact for measures that are linear in
    the outcomes, and otherwise assumes that risk and reading are jointly normal. Compare
    `select_lacing_value`, the rule of V-UCB.

    If a reading shows several outcomes, the reductions of their risks are summed, each in units of
    the squared standard deviation of the observed outcome. A constraint that holds with probability
    `p` has the weight `4 p (1 - p)`: a certain constraint needs no reading.

    Args:
        model: A fitted model of (x, w), or of x for an environment that perturbs x. Its first
            outcomes are the objectives.
        environment: The distribution of W.
        risk_measure: Any measure of the first outcome; or a list with one for each objective.
        X: Decisions that do not interact, `batch_shape x m x d_x`.
        num_samples: Number of antithetic joint samples of `f(x, .)`, even, for measures without a
            closed form of the expectation.
        constraints: Risks that have to reach a given value, such as `RiskConstraint`.
        posterior_transform: A `ScalarizedPosteriorTransform` with one weight that is not 0: it
            selects the objective's outcome and its unit; BoTorch's weight of -1 minimises it.

    Returns:
        What to query, `batch_shape x m x d`: the decision with w in the last d_w columns, or the
        perturbed decision for an `InputPerturbation`. w has a positive weight.

    Raises:
        UnsupportedError: If the posterior of the model is not Gaussian, the model is one of risks
            already, or the transform does not select one outcome.

    Example:
        >>> from botorch_risk.examples import environment, model
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> decision = torch.tensor([[0.3]], dtype=torch.double)
        >>> select_value(model, environment, ConditionalValueAtRisk(0.2), decision).shape
        torch.Size([1, 2])
    """
    check_even(num_samples=num_samples)
    refuse_reduced(model)
    several = isinstance(risk_measure, Sequence)
    measures: Any = risk_measure if several else [risk_measure]
    if not measures:
        raise ValueError("Expected at least one `risk_measure`. Got none.")
    for each in constraints:
        if not isinstance(each, RiskWithLimit):
            raise TypeError(
                f"Expected `constraints` such as `RiskConstraint`. Got {in_short(each)}."
            )
    parts = [parts_of(environment, measure) for measure in measures]
    X = as_points(X, model)
    if X.dim() < 2 or X.numel():
        check_rows("X", X, "d_x")
    inputs, weights = parts[0][0].expand(X)
    check_made_inputs(input_widths(model), inputs.shape[-1])
    reading = _Reading(model, parts[0][0], X, inputs, num_samples)
    outcome, unit, offset = _selected(posterior_transform, len(parts))
    reductions = [
        reading.reduction(outcome + i, *of_risk, unit, offset)[0] for i, of_risk in enumerate(parts)
    ]
    total = torch.stack(reductions).sum(dim=0)
    for each in constraints:
        sign = -1.0 if each.at_most else 1.0
        reduction, held = reading.reduction(
            each.outcome, each.distribution, each.risk_measure, sign, limit=each.limit
        )
        total = total + 4 * held * (1 - held) * reduction
    # A w of weight 0 marks where a ball may put mass, but is not in the support.
    supported = (weights > 0).expand(inputs.shape[:-1])
    best = total.masked_fill(~supported, -torch.inf).argmax(dim=-1)
    return inputs_at(inputs, best)


@dataclass(frozen=True)
class _Reading:
    r"""The readings that are possible with a decision.

    `inputs` are the possible queries with each decision, `batch_shape x m x n_w x d`.
    """

    model: Any
    environment: Environment
    X: Tensor
    inputs: Tensor
    num_samples: int

    def reduction(
        self,
        outcome: int,
        environment: Environment,
        risk_measure: RiskMeasure,
        unit: float = 1.0,
        offset: float = 0.0,
        limit: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        r"""The part of the variance of a scaled and shifted risk that each reading explains.

        It is `batch_shape x m x n_w`, in squared spreads of the outcome. Also returns the
        probability that the risk reaches the limit, `batch_shape x m x 1`.
        """
        model, points, first = single_outcome(self.model, outcome), self.inputs, 0
        inputs, weights = environment.expand(self.X)
        if environment is not self.environment:  # the risk is over points of its own
            points, first = torch.cat([inputs, self.inputs], dim=-2), inputs.shape[-2]
        n_w = inputs.shape[-2]
        points = points.expand(*model.batch_shape, *points.shape[-3:])
        mean, covariance, noise = Belief(model).joint().moments(points)
        own, with_readings = covariance[..., :n_w, :n_w], covariance[..., :n_w, first:]
        measure = risk_measure.bind(environment)
        variances = covariance.diagonal(dim1=-2, dim2=-1)
        risk = expected_risk(
            measure,
            offset + unit * mean[..., :n_w],
            unit**2 * variances[..., :n_w],
            weights,
            lambda: unit**2 * own,
            self.num_samples,
        )
        # An outcome that is known without noise explains nothing more: 0 / tiny instead of 0 / 0.
        smallest = torch.finfo(mean.dtype).tiny
        read = (variances + noise)[..., first:].clamp_min(smallest)
        reduction = _along(risk.gradient, with_readings).square() / read
        # q' C q, the variance of the risk as far as it is linear in the outcomes.
        variance = (_along(risk.gradient, own) * risk.gradient).sum(dim=-1, keepdim=True)
        variance = unit**2 * variance
        surplus = (risk.value - limit).unsqueeze(-1)
        held = torch.special.ndtr(surplus / variance.clamp_min(smallest).sqrt())
        return reduction / spread_of(model, 0).to(read)[..., None, None].square(), held


def _selected(transform: PosteriorTransform | None, num_risks: int) -> tuple[int, float, float]:
    r"""The outcome that is the objective, its factor and its offset."""
    if transform is None:
        return 0, 1.0, 0.0
    weights = getattr(transform, "weights", torch.zeros(0)).flatten()
    chosen = weights.nonzero().flatten().tolist()
    if type(transform) is not ScalarizedPosteriorTransform or len(chosen) != 1 or num_risks != 1:
        raise UnsupportedError(
            "Expected a `ScalarizedPosteriorTransform` with one weight that is not 0, and one "
            f"risk. Got {type(transform).__name__} of weights {in_short(weights)}, {num_risks} "
            "risk(s)."
        )
    return chosen[0], weights[chosen[0]].item(), float(transform.offset)


def _along(gradient: Tensor, covariance: Tensor) -> Tensor:
    return (gradient.unsqueeze(-2) @ covariance).squeeze(-2)
