r"""Loops of LogEI on functions that are known, and four estimates from the data of each.

    python -m bench.studies.biased_lengthscales.loops --to FOLDER [--development]

A loop fits BoTorch's `SingleTaskGP` before each reading, as its users do, and maximises LogEI over
2,048 Sobol points and 256 points near the best reading. The estimates are from the same data, the
last of them from as many readings: the loop's without its last ones, and uniformly random ones.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.test_functions import Ackley, Branin, Hartmann, Levy, SixHumpCamel, StyblinskiTang
from botorch.utils.sampling import draw_sobol_samples
from botorch_risk_bench.campaigns.whole_files import write_text
from torch import Tensor

from botorch_risk.diagnostics import leave_one_out, verdict
from botorch_risk.engine import Belief, fit_exact_gp, sample_exact_gp
from botorch_risk.fit import fit_pseudo_data
from botorch_risk.models import scaled_gp

SEEDS = {True: tuple(range(3000, 3020)), False: tuple(range(100, 125))}  # of development, to judge
NUM_READINGS = {1: 20, 2: 30, 3: 40}
NUM_RANDOM = {1: 4, 2: 8, 3: 12}  # of the readings, for the fourth estimate
NUM_CANDIDATES, NUM_NEAR, NEAR = 2048, 256, 0.02
NUM_HELD_OUT = 2000
NUM_SAMPLES = 16  # of the hyperparameters
NOISE = 0.05  # its standard deviation; functions have about 1
NUM_FEATURES = 2000


@dataclass(frozen=True)
class Truth:
    r"""Functions on the unit cube: draws from a process, or one of BoTorch's test functions.

    Args:
        name: Of the truth.
        dim: The number of inputs.
        lengthscales: Of the process; none for a test function.
        nu: The smoothness of its Matern kernel; infinite for the squared exponential.
        function: A test function, to be minimised.
        is_of_development: Whether it was looked at before the rule was fixed.
    """

    name: str
    dim: int
    lengthscales: tuple[float, ...] = ()
    nu: float = math.inf
    function: Any = None
    is_of_development: bool = False

    def of(self, seeds: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
        r"""The functions of some seeds, from `R x n x d` to `R x n`."""
        if self.function is not None:
            bounds = self.function.bounds
            grid = bounds[0] + draw_sobol_samples(unit(self.dim), 4096, 1, seed=0)[:, 0] * (
                bounds[1] - bounds[0]
            )
            values = -self.function.evaluate_true(grid)
            mean, deviation = values.mean(), values.std()

            def standardised(X: Tensor) -> Tensor:
                value = self.function.evaluate_true(bounds[0] + X * (bounds[1] - bounds[0]))
                return (-value - mean) / deviation

            return standardised
        parts = [self._features(seed) for seed in seeds]
        frequencies, phases, weights = (torch.stack(each) for each in zip(*parts, strict=True))

        def drawn(X: Tensor) -> Tensor:
            features = torch.cos(X @ frequencies.mT + phases.unsqueeze(-2))
            return (features @ weights.unsqueeze(-1)).squeeze(-1) * (2 / NUM_FEATURES) ** 0.5

        return drawn

    def _features(self, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""Random Fourier features of the process."""
        stream = torch.Generator().manual_seed(7 * seed + 1)
        normal = torch.randn(NUM_FEATURES, self.dim, generator=stream, dtype=torch.double)
        if self.nu < math.inf:  # the spectral density is Student's t
            of_t = torch.randn(NUM_FEATURES, int(2 * self.nu), generator=stream, dtype=torch.double)
            normal = normal * (2 * self.nu / of_t.square().sum(dim=-1, keepdim=True)).sqrt()
        phases = 2 * math.pi * torch.rand(NUM_FEATURES, generator=stream, dtype=torch.double)
        weights = torch.randn(NUM_FEATURES, generator=stream, dtype=torch.double)
        return normal / torch.tensor(self.lengthscales).double(), phases, weights


def unit(dim: int) -> Tensor:
    r"""The bounds of the unit cube."""
    return torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, dim)


TRUTHS = (
    Truth("squared exponential, .15 and .4", 2, (0.15, 0.4), is_of_development=True),
    Truth("squared exponential, .5 and .5", 2, (0.5, 0.5), is_of_development=True),
    Truth("Matern-5/2, .2 and 1", 2, (0.2, 1.0), 2.5, is_of_development=True),
    Truth("Branin", 2, function=Branin(), is_of_development=True),
    Truth("Hartmann, 3 inputs", 3, function=Hartmann(3), is_of_development=True),
    Truth("squared exponential, .15", 1, (0.15,)),
    Truth("squared exponential, .3 and .3", 2, (0.3, 0.3)),
    Truth("Matern-5/2, .15 and .6", 2, (0.15, 0.6), 2.5),
    Truth("squared exponential, .4, .4 and .4", 3, (0.4, 0.4, 0.4)),
    Truth("six-hump camel", 2, function=SixHumpCamel()),
    Truth("Styblinski-Tang", 2, function=StyblinskiTang(2)),
    Truth("Levy", 2, function=Levy(2)),
    Truth("Ackley", 2, function=Ackley(2)),
)


def loop(truth: Truth, seeds: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    r"""The data of a loop of each seed, `R x n x d` and `R x n x 1`."""
    function, streams = truth.of(seeds), [torch.Generator().manual_seed(seed) for seed in seeds]
    X = uniform(streams, 2 * truth.dim + 2, truth.dim)
    Y = read(function, X, streams)
    for t in range(X.shape[1], NUM_READINGS[truth.dim]):
        model = SingleTaskGP(X, Y)
        fit_exact_gp(model)
        best = X.gather(1, Y.argmax(dim=1, keepdim=True).expand(-1, 1, truth.dim))
        near = best + NEAR * torch.stack(
            [torch.randn(NUM_NEAR, truth.dim, generator=s, dtype=torch.double) for s in streams]
        )
        sobol = draw_sobol_samples(unit(truth.dim), NUM_CANDIDATES, 1, seed=t)[:, 0]
        candidates = torch.cat([near.clamp(0, 1), sobol.expand(len(seeds), -1, -1)], dim=1)
        mean, deviation = moments(model, candidates, is_sampled=False)
        gain = (mean - Y.amax(dim=1)) / deviation
        best = (deviation.log() + log_ei(gain)).argmax(dim=1)
        new = candidates[torch.arange(len(seeds)), best].unsqueeze(1)
        X, Y = torch.cat([X, new], dim=1), torch.cat([Y, read(function, new, streams)], dim=1)
    return X, Y


def log_ei(u: Tensor) -> Tensor:
    r"""log(phi(u) + u Phi(u)); for u below -5 by its expansion."""
    normal = torch.distributions.Normal(u.new_zeros(()), u.new_ones(()))
    log_density = normal.log_prob(u)
    whole = (log_density.exp() + u * normal.cdf(u)).clamp_min(1e-300).log()
    return whole.where(u > -5, log_density - 2 * u.clamp_max(-1).abs().log())


def uniform(streams: list[torch.Generator], n: int, dim: int) -> Tensor:
    r"""Random points of the cube, `R x n x d`."""
    return torch.stack([torch.rand(n, dim, generator=s, dtype=torch.double) for s in streams])


def read(function: Callable[[Tensor], Tensor], X: Tensor, streams: list[torch.Generator]) -> Tensor:
    r"""Readings `R x n x 1`."""
    noise = [torch.randn(X.shape[1], generator=s, dtype=torch.double) for s in streams]
    return (function(X) + NOISE * torch.stack(noise)).unsqueeze(-1)


def estimates(X: Tensor, Y: Tensor, mixed: tuple[Tensor, Tensor]) -> dict[str, Any]:
    r"""The models of each estimate."""
    models: dict[str, Any] = {"point": SingleTaskGP(X, Y), "pseudo": SingleTaskGP(X, Y)}
    fit_exact_gp(models["point"])
    fit_pseudo_data(models["pseudo"], unit(X.shape[-1]), seeds=list(range(len(X))))
    models["random"] = SingleTaskGP(*mixed)
    fit_exact_gp(models["random"])
    every = (part.expand(NUM_SAMPLES, *part.shape) for part in (X, Y))
    models["sampled"] = scaled_gp(*every)
    sample_exact_gp(models["sampled"], seeds=list(range(len(X))))
    return models


def moments(model: Any, X: Tensor, is_sampled: bool) -> tuple[Tensor, Tensor]:
    r"""Mean and standard deviation of f, of the mixture if hyperparameters are sampled, `R x n`."""
    with torch.no_grad():
        mean, variance = Belief(model)(X.expand(NUM_SAMPLES, *X.shape) if is_sampled else X)
    if is_sampled:
        mean, variance = mean.mean(dim=0), variance.mean(dim=0) + mean.var(dim=0, correction=0)
    return mean, variance.clamp_min(1e-12).sqrt()


def row_of(truth: Truth, seeds: tuple[int, ...]) -> dict[str, Any]:
    r"""What the estimates from the data of a truth's loops are worth."""
    X, Y = loop(truth, seeds)
    function = truth.of(seeds)
    streams = [torch.Generator().manual_seed(90_000 + seed) for seed in seeds]
    kept, number = X.shape[1] - NUM_RANDOM[truth.dim], NUM_RANDOM[truth.dim]
    random = uniform(streams, number, truth.dim)
    readings = read(function, random, streams)
    mixed = torch.cat([X[:, :kept], random], dim=1), torch.cat([Y[:, :kept], readings], dim=1)
    models = estimates(X, Y, mixed)
    held_out = uniform(streams, NUM_HELD_OUT, truth.dim)
    values = function(held_out)
    row: dict[str, Any] = {"truth": truth.name, "X": X.tolist(), "Y": Y[..., 0].tolist()}
    for name, model in models.items():
        mean, deviation = moments(model, held_out, name == "sampled")
        error = values - mean
        density = torch.distributions.Normal(0.0, deviation).log_prob(error)
        row[name] = {
            "held": (error.abs() <= 1.96 * deviation).double().mean(dim=-1).tolist(),
            "rmse": error.square().mean(dim=-1).sqrt().tolist(),
            "nlpd": density.mean(dim=-1).neg().tolist(),
        }
        if name != "sampled":
            row[name]["lengthscale"] = model.covar_module.lengthscale.detach()[:, 0].tolist()
        if name in ("point", "random"):
            row[name] |= judged(*((X, Y) if name == "point" else mixed), error, deviation)
    return row


def judged(X: Tensor, Y: Tensor, error: Tensor, deviation: Tensor) -> dict[str, Any]:
    r"""The verdict on the fit of each loop, and how far its intervals hold if they are widened."""
    found: dict[str, Any] = {
        "verdict": [],
        "verdict of rows": [],
        "expected": [],
        "probability": [],
    }
    found |= {"factor": [], "widened": []}
    for rows, readings, off, width in zip(X, Y, error, deviation, strict=True):
        model = SingleTaskGP(rows, readings)
        fit_exact_gp(model)
        check = leave_one_out(model, unit(X.shape[-1]))
        assert check.box is not None
        found["verdict"].append(verdict(check).kind)
        found["verdict of rows"].append(verdict(leave_one_out(model)).kind)
        for name in ("expected", "probability", "factor"):
            found[name].append(getattr(check.box, name).item())
        within = off.abs() <= 1.96 * check.box.factor * width
        found["widened"].append(within.double().mean().item())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--development", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.double)
    arguments.to.mkdir(parents=True, exist_ok=True)
    for truth in TRUTHS:
        path = arguments.to / f"{truth.name.replace(' ', '-').replace('/', '-')}.json"
        if truth.is_of_development == arguments.development and not path.exists():
            write_text(path, json.dumps(row_of(truth, SEEDS[arguments.development])))
            print(path.name, flush=True)


if __name__ == "__main__":
    main()
