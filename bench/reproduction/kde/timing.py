r"""Table 1: the time of 100 evaluations of Ackley (2+1), method by method, interleaved.

python -m bench.reproduction.kde.timing [--runs 3] [--to results/kde]
"""

import statistics
import time
from typing import Any

import torch
from botorch_risk_bench.campaigns.whole_files import write_text
from botorch_risk_bench.experiments.registry import get_experiment

from bench.reproduction.results import writing_parser
from bench.reproduction.tables import table
from botorch_risk.seeding import generators

PAPER = {  # seconds
    "GP-UCB": 11.35,
    "SBO-KDE": 30.57,
    "StableOpt": 32.75,
    "DRBO-MMD-minimax": 119.04,
    "DRBO-KDE": 180.61,
    "DRBO-MMD": 5254.65,
}
NUM_EVALUATIONS = 100


def seconds_of_a_run(label: str, seed: int) -> float:
    definition = get_experiment("ackley")
    problem: Any = definition.problem()
    strategy = definition.build(label, problem.decision_bounds, [seed])
    start, told = time.process_time(), 0
    while told < NUM_EVALUATIONS:
        X = strategy.ask()
        contexts = problem.draw_contexts(X, generators([seed], "context", told))
        X = torch.cat([X, contexts], dim=-1)
        strategy.tell(X, problem.sample_repeats(X, 1, generators([seed], "noise", told)))
        told += X.shape[-2]
    return time.process_time() - start


def main() -> None:
    parser = writing_parser(__doc__, "results/kde")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    runs = range(arguments.runs)
    torch.set_num_threads(1)
    found = [{label: seconds_of_a_run(label, seed) for label in PAPER} for seed in runs]
    median = {label: statistics.median(run[label] for run in found) for label in PAPER}
    rows = [
        [
            label,
            f"{median[label]:.1f}",
            f"{median[label] / median['GP-UCB']:.1f}x",
            f"{seconds:.2f}",
            f"{seconds / PAPER['GP-UCB']:.1f}x",
        ]
        for label, seconds in PAPER.items()
    ]
    header = ["method", "CPU seconds", "of GP-UCB", "paper, seconds", "of GP-UCB"]
    text = f"Median of {len(runs)} interleaved runs, one thread, seed by seed, without scoring.\n\n"
    write_text(arguments.to / "timing.md", text + table(header, rows))


if __name__ == "__main__":
    main()
