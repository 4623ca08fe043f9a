r"""RAHBO's loop on Branin for all replicates at once, with BoTorch's own batches.

What an expert of BoTorch would write: models with a batch of replicates, and BoTorch's
parallel L-BFGS-B for both the fits and the starts of the searches. That optimiser drops starts as
they end and expects every row of its batch to be treated alike, so that the replicate is a feature
of the points, which is fixed.
Designs, draws, restarts and raw samples are of `bench.speed.rahbo_loop`.
"""

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.generation.gen import gen_candidates_scipy
from botorch.models import SingleTaskGP
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from bench.speed.rahbo_loop import (
    NUM_REPEATS,
    PROBLEM,
    RAW,
    RESTARTS,
    RISK_AVERSION,
    UNIT,
    plain_models,
)
from botorch_risk.seeding import derive_seed, generators
from botorch_risk.strategies import initial_design


class BoundOfReplicates(AcquisitionFunction):
    r"""`ucb_f - risk_aversion * lcb_var`, or its pessimistic twin.

    The last entry of a point is its replicate.
    """

    def __init__(self, model: SingleTaskGP, noise_model: SingleTaskGP, sign: float = 1.0) -> None:
        super().__init__(model)
        self.noise_model, self.sign = noise_model, sign

    def forward(self, X: Tensor) -> Tensor:
        r"""Values of `b x 1 x (d + 1)` points, in any order and number a replicate."""
        replicate = X[:, 0, -1].detach().round().long()
        order = replicate.argsort(stable=True)
        counts = replicate.bincount(minlength=self.model.batch_shape.numel())
        first = counts.cumsum(0) - counts
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order)) - first[replicate[order]]
        points = X.new_full((len(counts), int(counts.max()), X.shape[-1] - 1), 0.5)
        points = points.index_put((replicate, place), X[:, 0, :-1])
        return self.values(points)[replicate, place]

    def values(self, X: Tensor) -> Tensor:
        r"""Values `R x m` at `R x m x d` points, each replicate's own."""
        f, log_noise = self.model.posterior(X), self.noise_model.posterior(X)
        bound = f.mean + 2 * self.sign * f.variance.sqrt()
        noise = (log_noise.mean - 2 * self.sign * log_noise.variance.sqrt()).exp()
        return (bound - RISK_AVERSION * noise).squeeze(-1)


def best_decisions(bound: BoundOfReplicates, seeds: list[int]) -> Tensor:
    r"""The maximum of each replicate, `R x 1 x d`, from its highest raw points."""
    raw = torch.cat([draw_sobol_samples(UNIT, n=1, q=RAW, seed=seed) for seed in seeds])
    with torch.no_grad():
        places = bound.values(raw).topk(RESTARTS, dim=-1).indices
    starts = raw.gather(-2, places.unsqueeze(-1).expand(-1, -1, raw.shape[-1]))
    replicate = torch.arange(len(seeds), dtype=raw.dtype).repeat_interleave(RESTARTS)
    rows = torch.cat([starts.flatten(0, 1), replicate.unsqueeze(-1)], dim=-1)
    found, values = gen_candidates_scipy(
        rows.unsqueeze(-2),
        bound,
        lower_bounds=torch.tensor([0.0, 0.0, 0.0], dtype=raw.dtype),
        upper_bounds=torch.tensor([1.0, 1.0, len(seeds)], dtype=raw.dtype),
        fixed_features={raw.shape[-1]: replicate},
        use_parallel_mode=True,
    )
    best = values.view(len(seeds), RESTARTS).argmax(dim=-1)
    found = found[..., :-1].view(len(seeds), RESTARTS, 1, -1)
    return found[torch.arange(len(seeds)), best]


def batched_botorch_loop(num_replicates: int, num_rounds: int) -> Tensor:
    r"""The decision that each replicate reports, `R x d`."""
    lower, upper = PROBLEM.bounds
    seeds = list(range(num_replicates))
    X = initial_design(PROBLEM.bounds, seeds, 10)
    Y = PROBLEM.sample_repeats(X, NUM_REPEATS, generators(seeds, "observations", 0))
    for index in range(1, num_rounds + 1):
        bound = BoundOfReplicates(*plain_models((X - lower) / (upper - lower), Y))
        draws = [derive_seed(seed, "raw", index) % 2**31 for seed in seeds]
        candidates = lower + (upper - lower) * best_decisions(bound, draws)
        streams = generators(seeds, "observations", index)
        X = torch.cat([X, candidates], dim=-2)
        Y = torch.cat([Y, PROBLEM.sample_repeats(candidates, NUM_REPEATS, streams)], dim=-2)
    unit = (X - lower) / (upper - lower)
    bound = BoundOfReplicates(*plain_models(unit, Y), sign=-1.0)
    with torch.no_grad():
        scores = bound.values(unit)
    return X[torch.arange(num_replicates), scores.argmax(dim=-1)]
