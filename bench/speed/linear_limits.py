r"""Maximising within linear limits, against BoTorch's SLSQP: the value and the CPU time.

Three acquisition functions of a mixture with 8 d points: UCB, LogEI, and the bound of a conditional
value-at-risk over 8 values of w; fractions that sum to 1, or two inequalities, x_0 + x_1 <= 0.6 and
x_0 >= x_2 / 2. 10 restarts of 256 raw points, a data set for each repeat. BoTorch's `optimize_acqf`
once as it is, and once from our raw points, without its hit-and-run sampler, which has most of its
time. Run `python -m bench.speed.linear_limits`.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.optim import optimize_acqf
from torch import Tensor

from bench.speed.timing import environment, interleaved
from botorch_risk.acquisition import RiskUpperConfidenceBound
from botorch_risk.engine import Polytope, PolytopeSampler, fit_exact_gp, optimize_acqf_replicates
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.risk import ConditionalValueAtRisk

WEATHER = torch.linspace(0, 1, 8, dtype=torch.double).unsqueeze(-1)
RESTARTS, RAW, SAME = 10, 256, 1e-5


def acquisition_of(kind: str, d: int, seed: int) -> Any:
    draw = torch.Generator().manual_seed(seed)
    X = -torch.rand(8 * d, d, generator=draw, dtype=torch.double).log()
    X = X / X.sum(dim=-1, keepdim=True)
    centers = torch.rand(3, d, generator=draw, dtype=torch.double)
    away = (X.unsqueeze(-2) - centers / centers.sum(dim=-1, keepdim=True)).square().sum(dim=-1)
    Y = ((-12 * away).exp() * torch.tensor([1.0, 0.8, 0.6])).sum(dim=-1, keepdim=True)
    if kind == "CVaR-UCB":
        w = WEATHER[torch.randint(len(WEATHER), (len(X),), generator=draw)]
        X, Y = torch.cat([X, w], dim=-1), Y - 0.5 * (w - X[:, :1]).square()
    model = standardized_gp(X, Y)
    fit_exact_gp(model)
    model.eval()
    if kind == "UCB":
        return UpperConfidenceBound(model, beta=4.0)
    if kind == "LogEI":
        return LogExpectedImprovement(model, best_f=Y.max())
    environment = DiscreteEnvironment(WEATHER)
    return RiskUpperConfidenceBound(model, environment, ConditionalValueAtRisk(0.3), beta=4.0)


def limits_of(name: str, d: int) -> dict[str, Any]:
    if name == "sum":
        return {"equality_constraints": [(torch.arange(d), torch.ones(d).double(), 1.0)]}
    first = torch.tensor([0, 1]), -torch.ones(2).double(), -0.6
    ratio = torch.tensor([1.0, -0.5]).double()
    return {"inequality_constraints": [first, (torch.tensor([0, 2]), ratio, 0.0)]}


def starts_of(acqf: Any, bounds: Tensor, limits: dict[str, Any], seed: int) -> Tensor:
    raw = PolytopeSampler(Polytope.of(bounds, **limits)).sobol([seed], RAW)[0].unsqueeze(-2)
    with torch.no_grad():
        return raw[acqf(raw).topk(RESTARTS).indices]


def ways_of(d: int, limits: dict[str, Any]) -> dict[str, Callable[[Any, int], Tensor]]:
    r"""Each way to maximise an acquisition function, by a seed."""
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    numbers: dict[str, Any] = {"num_restarts": RESTARTS, "raw_samples": RAW}

    def ours(acqf: Any, seed: int) -> Tensor:
        return optimize_acqf_replicates(acqf, bounds, seeds=seed, **numbers, **limits)[0][0]

    def botorch(acqf: Any, seed: int) -> Tensor:
        return optimize_acqf(acqf, bounds, 1, options={"seed": seed}, **numbers, **limits)[0]

    def from_our_points(acqf: Any, seed: int) -> Tensor:
        starts = starts_of(acqf, bounds, limits, seed)
        return optimize_acqf(acqf, bounds, 1, RESTARTS, batch_initial_conditions=starts, **limits)[
            0
        ]

    return {"ours": ours, "BoTorch": botorch, "from our points": from_our_points}


def row(d: int, kind: str, name: str, repeats: int) -> None:
    acqfs = [acquisition_of(kind, d, seed) for seed in range(repeats)]
    values: dict[str, list[Tensor]] = {}

    def turn(way: str, maximize: Callable[[Any, int], Tensor]) -> Callable[[], None]:
        found = values.setdefault(way, [])

        def of_next_data_set() -> None:
            seed = len(found) % repeats
            X = maximize(acqfs[seed], seed)
            with torch.no_grad():
                found.append(acqfs[seed](X.unsqueeze(0)).squeeze())

        return of_next_data_set

    ways = {way: turn(way, each) for way, each in ways_of(d, limits_of(name, d)).items()}
    torch.manual_seed(0)
    seconds = interleaved(ways, repeats, clock=time.process_time)
    ours, *others = (torch.stack(found[1:]) for found in values.values())
    gain = ours - torch.stack(others).amax(dim=0)
    more, less = int((gain > SAME).sum()), int((gain < -SAME).sum())
    first = seconds["ours"]
    times = [f"{1e3 * first:.0f}"]
    times += [f"{1e3 * each:.0f} ({each / first:.1f}x)" for each in list(seconds.values())[1:]]
    print(f"| {d} | {kind} | {name} | {' | '.join(times)} |", end=" ")
    print(f"{more}, {less}, {repeats - more - less} |", flush=True)


def main(repeats: int = 8) -> None:
    print(f"\n## Linear limits\n\n{environment('cpu')}.\n")
    print("| d | acquisition | limits | ours, CPU ms | BoTorch | from our points |", end=" ")
    print("our value larger, smaller, the same |\n|---|---|---|---|---|---|---|")
    for d in (3, 6):
        for kind in ("UCB", "LogEI", "CVaR-UCB"):
            for name in ("sum", "two"):
                row(d, kind, name, repeats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=8)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main(**vars(parser.parse_args()))
