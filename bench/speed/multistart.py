r"""Maximising a confidence bound for R replicates at once, against `optimize_acqf` in a loop.

Negated Branin on the unit square, n = 40 with half of the points clustered at the incumbent,
UCB with beta = 4, 10 restarts of 256 raw points. The gap is to the best of a 201 x 201 grid and a
polish of its ten highest points, in standard deviations of the outcomes. Three ways to call the
batched optimiser: BoTorch's UpperConfidenceBound as it is, the same through the model's posterior
pointwise, and a closed form with cached factors. Run `python -m bench.speed.multistart`.
"""

import argparse
import time
import warnings

import numpy as np
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.test_functions import Branin
from torch import Generator, Tensor

from bench.speed.timing import environment
from botorch_risk.fit import fit_exact_gp
from botorch_risk.optim import optimize_acqf_replicates
from botorch_risk.posterior import MarginalPredictor
from botorch_risk.projected_bfgs import minimize_rows

BETA = 4.0
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


class PosteriorBound:
    r"""UCB through the model's posterior, pointwise."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def evaluate(self, X: Tensor) -> Tensor:
        posterior = self.model.posterior(X)
        return (posterior.mean + (BETA * posterior.variance).sqrt()).squeeze(-1)


class CachedBound:
    r"""UCB through the cached marginals."""

    def __init__(self, model: SingleTaskGP) -> None:
        self.model = model
        self.marginals = MarginalPredictor(model)
        self.scale = model.outcome_transform.stdvs.squeeze(-1)

    def evaluate(self, X: Tensor) -> Tensor:
        mean, variance = self.marginals(X)
        return mean + (BETA * variance).sqrt()


def fitted_model(seeds: list[int]) -> SingleTaskGP:
    problem, sets = Branin(negate=True), []
    for seed in seeds:
        generator = Generator().manual_seed(seed)
        X = torch.rand(40, 2, generator=generator, dtype=torch.float64)
        best = problem(X * 15 + torch.tensor([-5.0, 0.0])).argmax()
        near = X[best] + 0.05 * torch.randn(20, 2, generator=generator, dtype=torch.float64)
        X[20:] = near.clamp(0, 1)
        sets.append((X, problem(X * 15 + torch.tensor([-5.0, 0.0])).unsqueeze(-1)))
    X, Y = (torch.stack(tensors) for tensors in zip(*sets, strict=True))
    model = SingleTaskGP(X, Y)
    fit_exact_gp(model)
    return model


def single(model: SingleTaskGP, replicate: int) -> SingleTaskGP:
    r"""One replicate as a model of its own."""
    X, targets = model.train_inputs[0][replicate], model.train_targets[replicate]
    Y = model.outcome_transform.untransform(model.train_targets.unsqueeze(-1))[0][replicate]
    one = SingleTaskGP(X, Y)
    assert torch.allclose(one.train_targets, targets)
    one.covar_module.lengthscale = model.covar_module.lengthscale[replicate].detach()
    one.likelihood.noise = model.likelihood.noise[replicate].detach()
    one.mean_module.constant = model.mean_module.constant[replicate].detach()
    return one.eval()


def optimum(acqf: CachedBound) -> Tensor:
    r"""The best of a grid and a polish of its ten highest points, for each replicate."""
    axis = torch.linspace(0, 1, 201, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    num_replicates = len(acqf.scale)
    values = torch.cat(
        [
            acqf.evaluate(chunk.expand(num_replicates, *chunk.shape)).detach()
            for chunk in grid.split(2048)
        ],
        dim=-1,
    )
    starts = grid[values.topk(10, dim=-1).indices]  # R x 10 x 2

    def objective(points: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        X = starts.clone().view(-1, 2)
        X[rows] = torch.as_tensor(points)
        X = X.view(starts.shape).requires_grad_()
        value = -acqf.evaluate(X)
        (gradient,) = torch.autograd.grad(value.sum(), X)
        return value.detach().flatten().numpy()[rows], gradient.view(-1, 2).numpy()[rows]

    zero, one = BOUNDS.numpy()
    minima = minimize_rows(
        objective, starts.view(-1, 2).numpy(), zero, one, gradient_tolerance=1e-9
    )
    return -torch.as_tensor(minima.value).view(num_replicates, 10).amin(dim=-1)


def run(num_replicates: int, repeats: int) -> None:
    seeds = list(range(num_replicates))
    model = fitted_model(seeds)
    cached = CachedBound(model)
    best, scale = optimum(cached), cached.scale
    loop = [UpperConfidenceBound(single(model, r), beta=BETA) for r in seeds]
    batched = {
        "optimize_acqf, looped": None,
        "UpperConfidenceBound": UpperConfidenceBound(model, beta=BETA),
        "posterior, pointwise": PosteriorBound(model),
        "cached, pointwise": cached,
    }
    gaps = {name: [] for name in batched}
    seconds = {name: [] for name in batched}
    for repeat in range(repeats):
        draws = [1000 * repeat + seed for seed in seeds]
        for name, acqf in batched.items():
            start = time.perf_counter()
            if acqf is None:
                X = torch.stack([looped(one, seed) for one, seed in zip(loop, draws, strict=True)])
            else:
                X, _ = optimize_acqf_replicates(acqf, BOUNDS, seeds=draws)
            seconds[name].append(time.perf_counter() - start)
            value = cached.evaluate(X).squeeze(-1).detach()
            gaps[name].append((best - value) / scale)
    reference = np.array(seconds["optimize_acqf, looped"])
    for name in batched:
        gap = torch.cat(gaps[name])
        ratio = np.median(reference / np.array(seconds[name]))
        print(
            f"| {num_replicates} | {name} | {1e3 * np.median(seconds[name]):.0f} | {ratio:.1f} | "
            f"{gap.median():.0e} | {(gap > 1e-2).sum()} of {len(gap)} |"
        )


def looped(acqf: UpperConfidenceBound, seed: int) -> Tensor:
    options = {"seed": seed}
    X, _ = optimize_acqf(acqf, BOUNDS, q=1, num_restarts=10, raw_samples=256, options=options)
    return X


def main(repeats: int = 5) -> None:
    print(f"\n## Multi-start\n\n{environment('cpu')}.\n")
    print("| R | way | ms | ratio to the loop | median gap | gap > 1e-2 |")
    print("|---|---|---|---|---|---|")
    for count in (1, 8, 32):
        run(count, repeats if count > 1 else 4 * repeats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
