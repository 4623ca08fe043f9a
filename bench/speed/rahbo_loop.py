r"""RAHBO on Branin: R replicates in one batch against the same loop in plain BoTorch.

    python -m bench.speed.rahbo_loop [--replicates 32] [--plain 32] [--device cuda]

The plain loop is what a user would write today: two `SingleTaskGP`s, `fit_gpytorch_mll`, an
acquisition function on two posteriors, `optimize_acqf`, one seed after another, with the same
initial designs, noise streams, restarts and raw samples. Both fit in every round and report by
the largest lower confidence bound of the final model. The batch takes its turn again with
`noise_evidence="readings"`, in which both processes are fitted at once.
"""

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.utils.transforms import t_batch_mode_transform
from botorch_risk_bench.metrics import paired_difference
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from bench.speed.timing import environment
from botorch_risk.papers import rahbo
from botorch_risk.seeding import derive_seed, generators
from botorch_risk.strategies import initial_design
from botorch_risk.test_functions import HeteroscedasticBranin

NUM_REPEATS, RISK_AVERSION, RESTARTS, RAW = 10, 1.0, 10, 256
PROBLEM = HeteroscedasticBranin()
UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


class PlainBound(AcquisitionFunction):
    r"""`ucb_f - risk_aversion * lcb_var`, or its pessimistic twin, on two posteriors."""

    def __init__(self, model: SingleTaskGP, noise_model: SingleTaskGP, sign: float = 1.0) -> None:
        super().__init__(model)
        self.noise_model, self.sign = noise_model, sign

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        f, log_noise = self.model.posterior(X), self.noise_model.posterior(X)
        bound = f.mean + 2 * self.sign * f.variance.sqrt()
        noise = (log_noise.mean - 2 * self.sign * log_noise.variance.sqrt()).exp()
        return (bound - RISK_AVERSION * noise)[..., 0, 0]


def plain_models(X: Tensor, Y: Tensor) -> tuple[SingleTaskGP, SingleTaskGP]:
    half = torch.full_like(X[..., :1], (NUM_REPEATS - 1) / 2)
    logs = Y.var(dim=-1, keepdim=True).log() - half.digamma() + half.log()
    noise_model = SingleTaskGP(X, logs, torch.polygamma(1, half))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(noise_model.likelihood, noise_model))
    with torch.no_grad():
        at = noise_model.posterior(X)
        noise = (at.mean + 2 * at.variance.sqrt()).exp() / NUM_REPEATS
    model = SingleTaskGP(X, Y.mean(dim=-1, keepdim=True), noise)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model, noise_model


def plain_loop(seed: int, num_rounds: int) -> float:
    r"""One seed in plain BoTorch; the final simple regret."""
    lower, upper = PROBLEM.bounds
    X = initial_design(PROBLEM.bounds, seed, 10)
    Y = PROBLEM.sample_repeats(X, NUM_REPEATS, generators(seed, "observations", 0))
    for index in range(1, num_rounds + 1):
        models = plain_models(((X - lower) / (upper - lower))[0], Y[0])
        candidate, _ = optimize_acqf(
            PlainBound(*models),
            UNIT,
            q=1,
            num_restarts=RESTARTS,
            raw_samples=RAW,
            options={"seed": derive_seed(seed, "raw", index) % 2**31},
        )
        candidate = (lower + (upper - lower) * candidate).unsqueeze(0)
        streams = generators(seed, "observations", index)
        X = torch.cat([X, candidate], dim=-2)
        Y = torch.cat([Y, PROBLEM.sample_repeats(candidate, NUM_REPEATS, streams)], dim=-2)
    models = plain_models(((X - lower) / (upper - lower))[0], Y[0])
    with torch.no_grad():
        scores = PlainBound(*models, sign=-1.0)(((X - lower) / (upper - lower))[0].unsqueeze(-2))
    return regret(X[0, scores.argmax()])


def regret(X: Tensor) -> float:
    _, best = PROBLEM.optimal_mean_variance(RISK_AVERSION)
    return best - PROBLEM.mean_variance(X.cpu(), RISK_AVERSION).item()


def batched_loop(
    num_replicates: int, num_rounds: int, device: str, evidence: str = "spread"
) -> list[float]:
    strategy = rahbo(
        PROBLEM.bounds.to(device),
        list(range(num_replicates)),
        num_repeats=NUM_REPEATS,
        risk_aversion=RISK_AVERSION,
        num_restarts=RESTARTS,
        raw_samples=RAW,
        noise_evidence=evidence,
    )
    for index in range(num_rounds + 1):
        X = strategy.ask().cpu()
        streams = generators(strategy.seeds, "observations", index)
        strategy.tell(X, PROBLEM.sample_repeats(X, NUM_REPEATS, streams))
    return [regret(x) for x in strategy.recommend()]


def timed(
    clock: Callable[[], float], loop: object, *arguments: object
) -> tuple[float, list[float]]:
    start = clock()
    value = loop(*arguments)  # type: ignore[operator]
    return clock() - start, value if isinstance(value, list) else [value]


def main(replicates: int = 32, plain: int = 32, rounds: int = 30, device: str = "cpu") -> None:
    print(f"\n## RAHBO on Branin, T = {rounds}, n0 = 10\n\n{environment(device)}.\n")
    # CPU time, which another program beside this one changes less; a GPU works outside of it.
    clock = time.process_time if device == "cpu" else time.perf_counter
    timed(clock, batched_loop, 2, 2, device)
    timed(clock, batched_loop, 2, 2, device, "readings")
    plain_seconds, plain_regret, batch_seconds, single_seconds = [], [], [], []
    readings_seconds = []
    for seed in range(plain):
        seconds, value = timed(clock, plain_loop, seed, rounds)
        plain_seconds.append(seconds)
        plain_regret += value
        if seed % max(1, plain // 5) == 0:  # the batch takes its turns in between
            seconds, batch_regret = timed(clock, batched_loop, replicates, rounds, device)
            batch_seconds.append(seconds)
            both = timed(clock, batched_loop, replicates, rounds, device, "readings")
            readings_seconds.append(both[0])
            single_seconds.append(timed(clock, batched_loop, 1, rounds, device)[0])
    each, batch, single = (np.median(s) for s in (plain_seconds, batch_seconds, single_seconds))
    print("| loop | seconds | seconds a replicate | ratio |\n|---|---|---|---|")
    print(f"| plain BoTorch, one seed after another | {each * replicates:.1f} | {each:.2f} | 1 |")
    print(f"| one batch, R = {replicates} | {batch:.2f} | {batch / replicates:.3f} | ", end="")
    print(f"{each * replicates / batch:.1f} |")
    both = np.median(readings_seconds)
    print(f"| the same, noise of all readings | {both:.2f} | {both / replicates:.3f} | ", end="")
    print(f"{each * replicates / both:.1f} |")
    print(f"| one batch, R = 1 | {single:.2f} | {single:.2f} | {each / single:.1f} |")
    pairs = min(len(plain_regret), len(batch_regret))
    ours, theirs = torch.tensor(batch_regret[:pairs]), torch.tensor(plain_regret[:pairs])
    difference = paired_difference(ours, theirs)
    print(
        f"\nFinal simple regret over {pairs} seeds: batch {ours.mean():.4f}, plain "
        f"{theirs.mean():.4f}, paired difference {difference.mean:.4f} +- "
        f"{difference.half_width:.4f} (Student-t interval, 95 %)."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=32)
    parser.add_argument("--plain", type=int, default=32, help="seeds of the plain loop")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--device", default="cpu")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
