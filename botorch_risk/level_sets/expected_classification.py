r"""The expected number of decisions that one reading classifies by their risk."""

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models.model import Model
from botorch.utils.probability.utils import ndtr
from torch import Tensor

from botorch_risk.acquisition.compared_risks import ComparedRisks
from botorch_risk.acquisition.input_constructors import construct_from_own_arguments
from botorch_risk.acquisition.pointwise import as_finite, register_weights
from botorch_risk.acquisition.risk_lookahead import RiskLookahead
from botorch_risk.arguments import check_nonnegative
from botorch_risk.environments import Environment
from botorch_risk.risk import RiskMeasure

# The least slope, relative to the standard deviation of the risk: a reading that moves a risk by
# less says nothing, and quotients by it have no derivative.
_LEAST_SLOPE = 1e-6


@construct_from_own_arguments
class ExpectedClassification(RiskLookahead):
    r"""The expected number of further decisions that one reading classifies by their risk.

        score(x, w) = sum_p P( |a_p + s_p Z - h| > sqrt(beta (v_p - s_p^2)) )  -  classified now
        P(..)       = Phi((a_p - h - c_p) / s_p) + Phi((h - a_p - c_p) / s_p),
                      c_p = sqrt(beta (v_p - s_p^2))

    A decision is classified once the interval of its risk, `a_p +- sqrt(beta v_p)`, excludes the
    level h. One reading moves its centre by `s_p Z` and reduces its variance by `s_p^2`; see
    `RiskLookahead`, which describes the other arguments and the errors. The score follows (3.2) of
    [Inatsu2021drlse]_, who only count decisions above the level and step through the outcomes of
    the reading; here it has a closed form for every measure, if the risk's posterior is normal.

    While no single reading can classify anything, the count is 0 everywhere. As in Definition 3.1
    of that paper, another term is added, which then decides: `variance_weight sum_p s_p^2 / v_p`,
    the share of the variances that the reading explains.

    Args:
        X_compared: The decisions to classify, `batch_shape x P x d_x`; certain ones add 0.
        threshold: The level h, a number or `batch_shape`; or several levels, `batch_shape x K`,
            whose counts are summed.
        beta: Squared width of the interval of a risk, a number or `batch_shape`; 3.84 is 95 %.
        variance_weight: The weight of the second term, >= 0.

    Example:
        >>> from botorch.optim import optimize_acqf
        >>> from botorch_risk.examples import environment, model, unit
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> decisions = torch.linspace(0, 1, 21, dtype=torch.double)[:, None]
        >>> acqf = ExpectedClassification(
        ...     model, environment, ConditionalValueAtRisk(0.2), decisions, threshold=1.0,
        ...     w_is_chosen=True,
        ... )
        >>> x, _ = optimize_acqf(acqf, unit, q=1, num_restarts=2, raw_samples=16)
        >>> acqf.best_value(x).shape  # what to query
        torch.Size([1, 2])
    """

    threshold: Tensor
    beta: Tensor

    def __init__(
        self,
        model: Model,
        environment: Environment,
        risk_measure: RiskMeasure,
        X_compared: Tensor,
        threshold: float | Tensor,
        beta: float | Tensor = 1.96**2,
        w_is_chosen: bool = False,
        variance_weight: float = 1e-3,
        num_samples: int = 16,
        X_pending: Tensor | None = None,
    ) -> None:
        check_nonnegative(variance_weight=variance_weight)
        super().__init__(
            model, environment, risk_measure, X_compared, w_is_chosen, num_samples, X_pending
        )
        register_weights(self, model, beta=beta)
        level = as_finite("threshold", threshold)
        batch, dims = model.batch_shape, len(model.batch_shape)
        fits = level.shape[:dims] == batch and level.dim() <= dims + 1
        if not level.numel() or (level.dim() and not fits):
            raise BotorchTensorDimensionError(
                "Expected `threshold` to be a number, or to have the shape `batch_shape` or "
                f"`batch_shape x K` with batch_shape={tuple(batch)}. Got {tuple(level.shape)}."
            )
        self.register_buffer("threshold", level.to(self.X_compared).clone())
        self.variance_weight = variance_weight

    def _average_score(self, scores: Tensor, weights: Tensor) -> Tensor:
        return (weights * scores).sum(dim=-1)

    def _score(self, slopes: Tensor) -> Tensor:
        compared: ComparedRisks = self._conditioned
        tiny = torch.finfo(slopes.dtype).tiny
        readings = [1] * (slopes.dim() - 2)

        def beside_slopes(values: Tensor) -> Tensor:
            return values.reshape(-1, *readings, values.shape[-1])  # B x 1 x .. x P

        deviation = beside_slopes(compared.variance.clamp_min(tiny).sqrt())
        least = _LEAST_SLOPE * deviation
        moved = slopes.abs().maximum(least).minimum(deviation)
        left = (deviation.square() - moved.square()).clamp_min(least.square()).sqrt()
        width = beside_slopes(self.beta.to(slopes).sqrt().unsqueeze(-1))
        score = self.variance_weight * (moved / deviation).square().sum(dim=-1)
        has_several = self.threshold.dim() > len(self.model.batch_shape)
        for level in self.threshold.unbind(dim=-1) if has_several else [self.threshold]:
            excess = beside_slopes(compared.risk) - beside_slopes(level.unsqueeze(-1))
            above, below = ((sign * excess - width * left) / moved for sign in (1, -1))
            now = excess.abs() > width * deviation
            score = score + (ndtr(above) + ndtr(below) - now.to(score)).sum(dim=-1)
        return score
