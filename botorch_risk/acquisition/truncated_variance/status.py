r"""Where a run of truncated variance reduction stands."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from botorch_risk.acquisition.truncated_variance.state import TruncatedVarianceState
from botorch_risk.posterior.domain import DomainPosterior


class Status(NamedTuple):
    r"""Where a run stands.

    Attributes:
        num_unclassified: `batch_shape`, the size of `M_t`.
        epoch: `batch_shape`, the epoch i, from 1.
        target: `batch_shape`, `eta_(i)` in units of the outcome.
        largest_deviation: `batch_shape`, the largest posterior standard deviation in `M_t`; the
            epoch ends when `sqrt(beta)` times it is at the target.
        cost: `batch_shape`, what all samples have cost so far.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.acquisition import LevelSet
        >>> domain = torch.linspace(0, 1, 40, dtype=torch.double).unsqueeze(-1)
        >>> posterior = DomainPosterior(SingleTaskGP(domain[::4], (6 * domain[::4]).sin()), domain)
        >>> state = TruncatedVarianceState.initial(domain, LevelSet(0.5)).update(posterior)
        >>> now = status(state, posterior)
        >>> now.num_unclassified, now.epoch, now.cost
        (tensor(3), tensor(2), tensor(0., dtype=torch.float64))
    """

    num_unclassified: Tensor
    epoch: Tensor
    target: Tensor
    largest_deviation: Tensor
    cost: Tensor


def status(state: TruncatedVarianceState, posterior: DomainPosterior) -> Status:
    r"""Reports where a run of TRUVAR stands.

    After Algorithm 1 of [Bogunovic2016truvar]_.

    Args:
        state: After its last update.
        posterior: Of that update.

    Raises:
        InputDataError: If the posterior is of another domain.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.acquisition.truncated_variance import LevelSet
        >>> domain = torch.linspace(0, 1, 40, dtype=torch.double).unsqueeze(-1)
        >>> X = domain[[4, 18, 33]]
        >>> posterior = DomainPosterior(SingleTaskGP(X, (6 * X).sin()), domain)
        >>> state = TruncatedVarianceState.initial(domain, LevelSet(0.5)).update(posterior)
        >>> status(state, posterior).epoch
        tensor(1)
    """
    state.check_domain(posterior)
    inside = posterior.variance.where(state.unclassified, 0.0)
    return Status(
        num_unclassified=state.unclassified.sum(dim=-1),
        epoch=state.epoch,
        target=state.eta * posterior.prior_variance.double().sqrt(),
        largest_deviation=inside.amax(dim=-1).sqrt(),
        cost=state.cost,
    )
