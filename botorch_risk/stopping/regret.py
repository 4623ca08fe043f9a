r"""Samples of the regret of a recommendation under the posterior."""

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.models.model import Model
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Tensor

from botorch_risk.acquisition.compared_risks import ComparedRisks
from botorch_risk.arguments import check_counts, check_even, check_rows
from botorch_risk.environments import Environment
from botorch_risk.matrices import safe_root
from botorch_risk.models.botorch_parts import parts_of
from botorch_risk.models.outcomes import refuse_reduced
from botorch_risk.models.sampled_gp import SampledGP
from botorch_risk.points import as_points, check_made_inputs, input_widths
from botorch_risk.risk import RiskMeasure


@torch.no_grad()
def regret_samples(
    model: Model,
    environment: Environment,
    risk_measure: RiskMeasure,
    x: Tensor,
    X_compared: Tensor,
    num_samples: int = 4096,
    num_expected: int = 16,
) -> Tensor:
    r"""Samples of how much better the best compared decision is than the recommended one.

        max( 0, max_p risk(f(x_p, W)) - risk(f(x, W)) )

    under joint samples of all risks, each normal as far as it is linear in the outcomes
    (`ComparedRisks`). The share of samples up to epsilon is the probability that the regret is at
    most epsilon, the probabilistic regret bound of [Wilson2024stopping]_; a quantile bounds the
    regret. Both are conditional on the hyperparameters of the model, unless the model has samples
    of them.

    Args:
        model: An exact GP of (x, w) with one output, batch shape `[]` or `[R]`, or `[S, R]` with
            samples of the hyperparameters; or of x for an environment that perturbs x. A
            `SampledGP` gives `num_samples` of each of its members.
        environment: The distribution of W.
        risk_measure: Any measure.
        x: The recommendation, `batch_shape x d_x`.
        X_compared: Decisions that may be better, `batch_shape x P x d_x`, such as those with the
            largest upper bounds of many.
        num_samples: The number of joint samples of the risks, preferably a power of 2.
        num_expected: Antithetic samples for the expected risks, an even number.

    Returns:
        `batch_shape x num_samples`, in the unit of the risk.

    Raises:
        UnsupportedError: If the likelihood is not Gaussian, or the model is one of risks already.

    Example:
        >>> from botorch_risk.examples import environment, model
        >>> from botorch_risk.risk import Expectation
        >>> compared = torch.linspace(0, 1, 51, dtype=torch.double)[:, None]
        >>> x = torch.tensor([0.4])
        >>> regret = regret_samples(model, environment, Expectation(), x, compared)
        >>> probability, gap = (regret <= 0.1).double().mean(), regret.quantile(0.95)
    """
    check_counts(num_samples=num_samples)
    check_even(num_expected=num_expected)
    refuse_reduced(model)
    if isinstance(model, SampledGP):
        parts = environment, risk_measure, x, X_compared, num_samples, num_expected
        return regret_samples(model.members, *parts).flatten()
    environment, measure = parts_of(environment, risk_measure)
    X, x = as_points(X_compared, model), as_points(x, model)
    if not x.dim():
        raise BotorchTensorDimensionError(
            f"Expected `x` to have shape `batch_shape x d_x`. Got the number {x}."
        )
    x = x.unsqueeze(-2)
    check_rows("X_compared", X, "d_x")
    check_rows("x", x, "d_x")
    try:
        batch = torch.broadcast_shapes(x.shape[:-2], X.shape[:-2], model.batch_shape)
        X = torch.cat([part.expand(*batch, *part.shape[-2:]) for part in (x, X)], dim=-2)
        X = X.reshape(*model.batch_shape, *X.shape[-2:])
    except RuntimeError as error:
        raise BotorchTensorDimensionError(
            "Expected `x` and `X_compared` to have as many columns and the batch shape of the "
            f"model, {tuple(model.batch_shape)}, or none. Got {tuple(x.squeeze(-2).shape)}, "
            f"{tuple(X.shape)}."
        ) from error
    check_made_inputs(input_widths(model), environment.expand(X)[0].shape[-1])
    compared = ComparedRisks.of(model, environment, measure.bind(environment), X, num_expected)
    covariance = compared.covariance
    scale = covariance.diagonal(dim1=-2, dim2=-1).amax(dim=-1)
    root = safe_root(covariance, scale.clamp_min(torch.finfo(X.dtype).tiny))
    numbers = draw_sobol_normal_samples(X.shape[-2], num_samples, X.device, X.dtype, seed=0)
    risks = compared.risk.unsqueeze(-2) + numbers @ root.mT  # B x S x (1 + P)
    regret = risks.amax(dim=-1) - risks[..., 0]
    return regret.reshape(*batch, num_samples)
