r"""Whether fits that begin where the last one ended lead to the decisions of fits from scratch.

    python -m bench.speed.warm_fits

After every round of a loop two copies of the strategy choose: one whose fits begin where the last
ones ended, as the loop's do, and one whose fits begin from scratch. Decisions are the same within
1e-6 of the box; a fit is as good within 1e-6 a datum of the log likelihood.
"""

import argparse
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from botorch_risk_bench.campaigns import Journal, play_rounds
from botorch_risk_bench.experiments.problem import decision_bounds
from botorch_risk_bench.experiments.registry import get_experiment
from torch import Tensor

from bench.speed.timing import environment
from botorch_risk.fit import FitResult, fit_exact_gp
from botorch_risk.strategies import Strategy

# Problem, strategy, seeds, rounds.
LOOPS = (("branin", "RAHBO", 16, 30), ("hartmann", "SBO-KDE", 8, 30))
SAME = 1e-6


def fit_from_scratch(model: Any, **options: Any) -> FitResult:
    return fit_exact_gp(model, **{**options, "previous": None})


def chosen(
    twin: Strategy, state: dict[str, Any], fit: Callable[..., FitResult]
) -> tuple[Tensor, Tensor]:
    r"""The decisions of a fresh strategy with a state, and what its fits reached, `fits x R`."""
    reached: list[Tensor] = []

    def recorded(model: Any, **options: Any) -> FitResult:
        result = fit(model, **options)
        reached.append(result.objective)
        return result

    twin.load_state_dict(state)
    with mock.patch("botorch_risk.strategies.method.fit_exact_gp", recorded):
        X = twin.ask()
    return X, torch.stack(reached)


def compare(problem: str, label: str, seeds: int, rounds: int) -> None:
    definition = get_experiment(problem)
    built = definition.problem()
    bounds = decision_bounds(built)
    width = bounds[1] - bounds[0]

    def fresh() -> Strategy:
        return definition.build(label, bounds, list(range(seeds)))

    strategy, apart, gained = fresh(), [], []

    for index in play_rounds(strategy, built, Journal(), rounds, definition.num_repeats):
        if index == 0:  # both fit from scratch
            continue
        state = strategy.state_dict()
        warm, of_warm = chosen(fresh(), state, fit_exact_gp)
        cold, of_cold = chosen(fresh(), state, fit_from_scratch)
        apart.append(((warm - cold) / width).abs().amax(dim=(-2, -1)))
        gained.append(of_warm - of_cold)
    same = torch.stack(apart) <= SAME  # rounds x R
    gain = torch.stack(gained, dim=1)  # fits x rounds x R
    alike = (gain.abs() <= SAME).all(dim=0)
    cells = [f"{problem}, {label}", f"{same.numel()}", f"{same.double().mean():.1%}"]
    cells += [f"{alike.double().mean():.1%}", f"{same[alike].double().mean():.1%}"]
    cells += [f"{(gain > SAME).double().mean():.1%}", f"{(gain < -SAME).double().mean():.1%}"]
    print(f"| {' | '.join(cells)} |", flush=True)


def main(loops: int = len(LOOPS)) -> None:
    print(f"\n## Decisions after warm fits\n\n{environment('cpu')}.\n")
    header = ["loop", "decisions", "the same", "fits as good", "of these the same decision"]
    header += ["warm fits better", "worse"]
    print(f"| {' | '.join(header)} |\n{'|---' * len(header)}|")
    for loop in LOOPS[:loops]:
        compare(*loop)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
