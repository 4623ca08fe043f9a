r"""A few promising points of a domain, where valuing all of them is too much."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from botorch_risk.acquisition.arguments import as_nonnegative
from botorch_risk.posterior.domain import DomainPosterior


def top_candidates(
    posterior: DomainPosterior,
    num_candidates: int,
    score: Literal["upper_confidence_bound", "expected_improvement"] = "upper_confidence_bound",
    beta: float | Tensor = 4.0,
) -> Tensor:
    r"""The points of a domain with the best scores (Appendix A of TRUVAR).

        upper_confidence_bound: mean + sqrt(beta) sigma
        expected_improvement:   sigma (z Phi(z) + phi(z)),   z = (mean - best) / sigma

    where `best` is the largest outcome so far.

    Args:
        posterior: Over the domain.
        num_candidates: How many points.
        score: By which score.
        beta: Squared width of the bound, one for all or `batch_shape`.

    Returns:
        A mask `batch_shape x |D|`, ties to the lower index.

    Raises:
        ValueError: If the score is not known, or a number is out of its range.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> domain = torch.linspace(0, 1, 50, dtype=torch.double).unsqueeze(-1)
        >>> posterior = DomainPosterior(SingleTaskGP(domain[:9:2], domain[:9:2].sin()), domain)
        >>> top_candidates(posterior, 8).sum()
        tensor(8)
    """
    mean, deviation = posterior.mean, posterior.variance.sqrt()
    if not 1 <= num_candidates <= mean.shape[-1]:
        raise ValueError(
            f"Expected `num_candidates` from 1 to {mean.shape[-1]}. Got {num_candidates}."
        )
    if score == "upper_confidence_bound":
        values = mean + as_nonnegative("beta", beta).to(mean).sqrt().unsqueeze(-1) * deviation
    elif score == "expected_improvement":
        _, best = posterior.outcome_range
        improvement = mean - best.unsqueeze(-1)
        z = improvement / deviation.clamp_min(torch.finfo(mean.dtype).tiny)
        normal = torch.distributions.Normal(torch.zeros_like(z), 1.0)
        values = improvement * normal.cdf(z) + deviation * normal.log_prob(z).exp()
    else:
        raise ValueError(
            f"Expected `score` 'upper_confidence_bound' or 'expected_improvement'. Got {score!r}."
        )
    order = values.argsort(dim=-1, descending=True, stable=True)[..., :num_candidates]
    return torch.zeros_like(values, dtype=torch.bool).scatter(-1, order, True)
