r"""What giving up starts saves, and how often it loses the best end.

    python -m bench.speed.engine.given_up

In every round of a loop each multi-start is run twice from the same starts: as it is, and with each
start climbed to its end. Values are in standard deviations of the raw values.
"""

import warnings
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from botorch_risk_bench.campaigns import Journal, play_rounds
from botorch_risk_bench.experiments.problem import decision_bounds
from botorch_risk_bench.experiments.registry import get_experiment
from numpy import ndarray

from bench.speed.timing import environment
from botorch_risk.engine import minimize_rows
from botorch_risk.engine.optim import ascent
from botorch_risk.engine.projected_bfgs.minima import Minima

# Problem, strategy, seeds, rounds.
LOOPS = (
    ("sine", "RAHBO", 6, 15),
    ("branin", "RAHBO", 16, 20),
    ("branin-context", "DRBO-KDE", 6, 15),
    ("ackley", "StableOpt", 6, 15),
    ("var-hartmann12-discrete", "V-UCB-Prob", 6, 15),
    ("hartmann", "SBO-KDE", 6, 15),
    ("ackley-4", "GP-UCB", 6, 15),
)


class Comparison:
    r"""Runs each multi-start both ways; the loop goes on with the whole one."""

    def __init__(self) -> None:
        self.calls, self.points, self.lost = np.zeros(2), np.zeros(2), list[ndarray]()

    def minimize(self, objective: Any, start: ndarray, *box: ndarray, **options: Any) -> Minima:
        groups = options.pop("groups")
        ends, minima = [], None
        for way, more in enumerate(({"groups": groups}, {})):

            def counted(x: ndarray, rows: ndarray, way: int = way) -> tuple[ndarray, ndarray]:
                self.calls[way] += 1
                self.points[way] += len(rows)
                return objective(x, rows)

            minima = minimize_rows(counted, start, *box, **options, **more)
            end = np.full(groups.max() + 1, np.inf)
            np.minimum.at(end, groups, np.nan_to_num(minima.value, nan=np.inf))
            ends.append(end)
        self.lost.append(ends[0] - ends[1])
        assert minima is not None
        return minima


def compare(problem: str, strategy: str, seeds: int, rounds: int) -> ndarray:
    r"""Prints the row of a loop; returns what each multi-start lost."""
    definition, comparison = get_experiment(problem), Comparison()
    built = definition.problem()
    loop = definition.build(strategy, decision_bounds(built), list(range(seeds)))
    with patch.object(ascent, "minimize_rows", comparison.minimize):
        for _ in play_rounds(loop, built, Journal(), rounds, definition.num_repeats):
            pass
    lost = np.concatenate(comparison.lost)
    calls, points = (each[0] / each[1] for each in (comparison.calls, comparison.points))
    print(f"| {problem}, {strategy} | {calls:.2f} | {points:.2f} | {shares(lost)} |")
    return lost


def shares(lost: ndarray) -> str:
    return f"{len(lost)} | {(lost > 1e-6).sum()} | {(lost > 1e-3).sum()} | {(lost < -1e-6).sum()}"


def main(loops: int = len(LOOPS)) -> None:
    print(f"\n## Starts that are given up\n\n{environment('cpu')}.\n")
    header = "| loop | calls | points | multi-starts | lower by 1e-6 | by 1e-3 | higher by 1e-6 |"
    print(f"{header}\n|---|---|---|---|---|---|---|")
    lost = [compare(*loop) for loop in LOOPS[:loops]]
    print(f"| all |  |  | {shares(np.concatenate(lost))} |")


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
