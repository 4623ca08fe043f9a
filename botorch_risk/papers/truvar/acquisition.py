r"""Truncated variance reduction: optimisation and level sets, costs, the choice of the noise."""

from functools import partial
from typing import Any, Literal

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.input_constructors import register_input_constructor
from botorch_risk.acquisition.pointwise import PointwiseAcquisitionFunction, map_replicates
from botorch_risk.arguments import check_flags
from botorch_risk.chunks import ChunkSize, evaluate_in_chunks
from botorch_risk.engine import DomainPosterior
from botorch_risk.models.training_data import warn_if_unfitted
from botorch_risk.papers.truvar.covering import (
    GreedyCovering,
    Selection,
    candidate_mask,
    checked_weights,
    previous_row,
)
from botorch_risk.papers.truvar.gain import anticipated_gain, gain, inverse_variance
from botorch_risk.papers.truvar.sampling import Cost, Noise, NoiseLevels, SamplingTerms
from botorch_risk.papers.truvar.state import TruncatedVarianceState
from botorch_risk.points import as_points

# Covariances with points off the domain that are held at once, with their gradients.
_CHUNK_ENTRIES = ChunkSize(cpu=2**18, gpu=2**24)


class TruncatedVarianceReduction(PointwiseAcquisitionFunction):
    r"""The reduction of the truncated variances of the relevant points by a sample, per cost.

        score(x) = sum_{x' in M} w(x') beta min(max(s^2(x') - eta^2 / beta, 0), D_x(x')) / c(x)
        D_x(x') = cov(x', x)^2 / (s^2(x) + noise(x))

    This is Eq. (3) of TRUVAR [Bogunovic2016truvar]_ with the look-ahead of Eqs. (18) to (20), in an
    equal form without cancellation, in which points below the target drop out. (The paper's text
    truncates at `eta`; Eq. (3), which is right, at its square.) The set M, `beta` and `eta` are
    taken from the state; `eta = 0` is pure variance reduction. Known noise may vary over the
    domain.

    `evaluate_domain` and `select` work on the grid; `evaluate` and `forward` also work off it, with
    gradients, while M stays on the grid, whose points may have weights to represent a continuous
    domain. Single-outcome; `forward` has q = 1: use `sequential=True`, or `select(q)` for the
    greedy covering of a batch.

    Example:
        >>> from botorch.models import SingleTaskGP
        >>> from botorch_risk.papers.truvar import Maximize
        >>> domain = torch.linspace(0, 1, 60, dtype=torch.double).unsqueeze(-1)
        >>> X = domain[[4, 18, 33]]
        >>> model = SingleTaskGP(X, (6 * X).sin(), torch.full_like(X, 1e-4))
        >>> posterior = DomainPosterior(model, domain)
        >>> state = TruncatedVarianceState.initial(domain, Maximize()).update(posterior)
        >>> acqf = TruncatedVarianceReduction(posterior, state, noise=1e-4)
        >>> acqf.evaluate_domain().shape, acqf.select().X.shape
        (torch.Size([60]), torch.Size([1, 1]))

        Between the points of the domain, from the best of them:

        >>> from botorch.optim import optimize_acqf
        >>> starts = domain[acqf.evaluate_domain().topk(2).indices].unsqueeze(-2)
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> X, _ = optimize_acqf(
        ...     acqf, bounds, q=1, num_restarts=2, batch_initial_conditions=starts
        ... )
        >>> posterior.observe_at(X[0], (6 * X).sin(), noise=1e-4)
        >>> state = state.update(posterior, cost=1.0)
    """

    _q_twin = "`select(q)` on the domain"
    min_distance = 0.0  # a point of a list, or a gain per cost whose sign says when to end

    def __init__(
        self,
        posterior: DomainPosterior,
        state: TruncatedVarianceState,
        cost: Cost | None = None,
        *,
        noise: Noise | None = None,
        levels: NoiseLevels | None = None,
        candidates: Literal["domain", "unclassified"] | Tensor = "domain",
        weights: Tensor | None = None,
        previous: Tensor | None = None,
        anticipate: bool = False,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Builds the acquisition function.

        Args:
            posterior: The posterior over the domain, given all samples so far.
            state: The state, updated with this posterior.
            cost: The cost of a sample; if `None`, it is 1 or the cost of the noise level.
            noise: The known noise variance, in squared units of the outcome: a number, `|D|` values
                or a function of points. None stands for the inferred noise of the model.
            levels: Noise levels to choose from. The level, from 0, is then the last column of
                every `X`, and the last, fastest dimension of the candidates of the domain.
            candidates: Points of the domain that may be sampled: all, the points of `M` (Appendix
                A), or a mask `batch_shape x |D|` such as by `top_candidates`.
            weights: `|D|` weights > 0 of the points in the sum.
            previous: The point of the last sample, `batch_shape x d`; `None` before the first.
            anticipate: Whether to sum over the set M expected after the sample (Appendix A); with
                `monotone=False` it includes points that return.
            X_pending: `batch_shape x n' x d` points under evaluation, with levels if any.

        Raises:
            InputDataError: If the state belongs to another domain.
        """
        super().__init__(model=posterior.model)
        warn_if_unfitted(posterior.model)
        check_flags(anticipate=anticipate)
        state.check_domain(posterior)
        self.posterior, self.state = posterior, state
        self.terms = SamplingTerms(noise=noise, levels=levels, cost=cost)
        self.terms.domain_noise(posterior)  # checked now
        self.previous = previous
        self._covering = GreedyCovering(
            state=state,
            terms=self.terms,
            candidates=candidate_mask(candidates, state),
            weights=checked_weights(weights, posterior.domain),
            anticipate=anticipate,
        )
        self.set_X_pending(X_pending)

    def _condition(self, X_pending: Tensor | None) -> DomainPosterior:
        r"""The posterior with the variances that pending points leave; the means stay."""
        if X_pending is None:
            return self.posterior
        return self.terms.hallucinate(self.posterior, X_pending)

    def score(self, X: Tensor) -> Tensor:
        r"""Gains per cost at any points, differentiable in them.

        Args:
            X: `batch_shape x m x d` points that do not interact; with noise levels
                `batch_shape x m x (d + 1)`.

        Returns:
            `batch_shape x m` values.
        """
        X = as_points(X, self.model)
        posterior = self._conditioned
        targets = self._covering.targets(posterior)
        # Each point has a covariance with every target of every replicate.
        entries = _CHUNK_ENTRIES.entries(X.device)
        chunk = max(1, entries // max(1, targets.row.numel()))
        values = partial(self._at, posterior, targets)
        in_chunks = partial(evaluate_in_chunks, values, chunk_size=chunk)
        return map_replicates(in_chunks, X, posterior.batch_shape)

    def evaluate_domain(self) -> Tensor:
        r"""Gains per cost at every point of the domain and every noise level.

        Returns:
            `batch_shape x (|D| K)`, the level fastest; minus infinity where there is no candidate.
        """
        posterior = self._conditioned
        values = self._covering.values(posterior, self.previous)
        return values.reshape(*self.posterior.batch_shape, -1)

    def domain_candidates(self) -> Tensor:
        r"""The points that `evaluate_domain` scores, `(|D| K) x d`, levels in the last column."""
        domain, count = self.posterior.domain, self.terms.num_levels
        if self.terms.levels is None:
            return domain
        X = domain.repeat_interleave(count, dim=-2)
        level = torch.arange(count).to(X).repeat(domain.shape[-2]).unsqueeze(-1)
        return torch.cat([X, level.expand(*X.shape[:-1], 1)], dim=-1)

    def select(self, q: int = 1) -> Selection:
        r"""The next points by greedy covering, best first.

        M, `beta` and `eta` are not changed; each chosen point counts as sampled with its noise, and
        as the previous point of the next one. A batch is shorter if no candidate has a positive
        gain left, and empty for a finished replicate. Ties, which are exact at the end of an epoch,
        go to the larger gain without truncation, then to the lower index.

        Args:
            q: The maximum number of points to choose.
        """
        posterior = self._conditioned
        return self._covering.select(posterior, self.previous, q)

    def _at(
        self, posterior: DomainPosterior, targets: DomainPosterior.Targets, X: Tensor
    ) -> Tensor:
        r"""Values at `B x m x d` points."""
        points, level = self.terms.split(X, self.posterior.domain.shape[-1])
        at = posterior.at(points)
        covariance = posterior.cross_covariance(at, posterior.points(targets.row))
        noise = self.terms.noise_of(points, level, posterior)
        inverse = inverse_variance(at.variance + noise, posterior)
        # `cost_at` gives the costs of all levels; a point has one level.
        cost = self.terms.cost_at(points, previous_row(self.previous, len(X)))
        cost = cost.expand(*points.shape[:-1], -1).gather(-1, level.unsqueeze(-1)).squeeze(-1)
        if self._covering.anticipate:
            return anticipated_gain(covariance, inverse, targets, posterior, self.state) / cost
        return gain(covariance, inverse, targets) / cost  # Eq. (3)


def construct_inputs_truncated_variance(
    model: Model,
    state: TruncatedVarianceState,
    domain: Tensor,
    dense: bool = True,
    cost: Cost | None = None,
    noise: Noise | None = None,
    levels: NoiseLevels | None = None,
    candidates: Literal["domain", "unclassified"] | Tensor = "domain",
    weights: Tensor | None = None,
    previous: Tensor | None = None,
    anticipate: bool = False,
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of the acquisition function, from a model of all samples so far."""
    return {
        "posterior": DomainPosterior(
            model, domain, dense=dense, posterior_transform=posterior_transform
        ),
        "state": state,
        "cost": cost,
        "noise": noise,
        "levels": levels,
        "candidates": candidates,
        "weights": weights,
        "previous": previous,
        "anticipate": anticipate,
        "X_pending": X_pending,
    }


register_input_constructor(TruncatedVarianceReduction, construct_inputs_truncated_variance)
