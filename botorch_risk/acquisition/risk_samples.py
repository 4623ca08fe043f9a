r"""Samples of the risk of decisions under the posterior."""

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.expected_risk import sampled_risks, sobol_normal_numbers
from botorch_risk.arguments import check_counts, check_rows
from botorch_risk.chunks import ChunkSize
from botorch_risk.engine import Belief
from botorch_risk.environments import Environment
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.outcomes import refuse_reduced
from botorch_risk.models.sampled_gp import SampledGP
from botorch_risk.points import as_points, check_made_inputs, input_widths
from botorch_risk.risk import RiskMeasure

# Joint samples and covariances over W, all decisions counted, held at once.
_CHUNK_ENTRIES = ChunkSize(cpu=2**20, gpu=2**26)


@torch.no_grad()
def risk_samples(
    model: Model,
    environment: Environment,
    risk_measure: RiskMeasure,
    X: Tensor,
    num_samples: int = 256,
    posterior_transform: PosteriorTransform | None = None,
) -> Tensor:
    r"""The risk of each decision under samples of its outcomes, drawn jointly over W.

    Their quantiles give an interval of the risk, and the share of samples above a level estimates
    the probability that the risk is above it, even for a step function such as `ShareAbove`. Each
    decision is sampled by itself, with the same random numbers.

    Args:
        model: A fitted model of (x, w) with one output and a Gaussian posterior, or of x for an
            environment that perturbs x. Each member of a `SampledGP` is sampled `num_samples`
            times.
        environment: The distribution of W.
        risk_measure: Any measure. A ball in maximum mean discrepancy solves a program per sample.
        X: Decisions, `batch_shape x m x d_x`.
        num_samples: Number of Sobol samples, best a power of 2.
        posterior_transform: Reduces the outcomes of the model to one, or flips its sign.

    Returns:
        `batch_shape x m x num_samples`, in the unit of the risk.

    Raises:
        UnsupportedError: If the posterior is not Gaussian, or the model is one of risks already.

    Example:
        >>> from botorch_risk.examples import environment, model
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> x = torch.linspace(0, 1, 3, dtype=torch.double)[:, None]
        >>> risks = risk_samples(model, environment, ConditionalValueAtRisk(0.2), x)
        >>> risks.quantile(torch.tensor([0.05, 0.95]).double(), dim=-1).shape  # intervals
        torch.Size([2, 3])
    """
    check_counts(num_samples=num_samples)
    refuse_reduced(model)
    if isinstance(model, SampledGP):
        X = as_points(X, model).unsqueeze(-3)
        each = risk_samples(
            model.members, environment, risk_measure, X, num_samples, posterior_transform
        )
        # The samples of all members in one dimension, behind the decisions.
        return each.movedim(-3, -2).flatten(-2)
    environment, measure = parts_of(environment, risk_measure)
    measure = measure.bind(environment)
    X = as_points(X, model)
    check_rows("X", X, "d_x")
    joint = Belief(model, posterior_transform).joint()
    n_w = environment.expand(X[..., :1, :])[0].shape[-2]
    # A decision needs n_w^2 covariances and n_w x num_samples values.
    rows = _CHUNK_ENTRIES.rows(X.device, n_w * max(n_w, num_samples) * X[..., 0, 0].numel())
    numbers = sobol_normal_numbers(num_samples, n_w, X.dtype, X.device)
    parts = []
    for part in X.split(rows, dim=-2):
        inputs, weights = environment.expand(part)
        check_made_inputs(input_widths(model), inputs.shape[-1])
        batch_shape = torch.broadcast_shapes(inputs.shape[:-3], model.batch_shape)
        mean, covariance = joint(inputs.expand(*batch_shape, *inputs.shape[-3:]))
        parts.append(sampled_risks(measure, mean, covariance, weights, numbers))
    return torch.cat(parts, dim=-2)
