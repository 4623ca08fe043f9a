r"""What the noise is learnt from, and what it does to decisions: all readings, or their spread.

OMP_NUM_THREADS=1 python -m bench.studies.repeats.evidence [PROBLEM ...]
    [--out results/repeats_evidence] [--seeds 20] [--first 2000]

RAHBO and the knowledge gradient with three readings a point, and the adaptive number of readings,
each with both kinds of `noise_evidence`, on the same noise. It resumes, and prints the paired
difference of the decimal logarithm of the regret after 100 and 200 readings.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.experiments.chosen_repeats import ChosenRepeats
from botorch_risk_bench.metrics import paired_difference

from bench.studies.repeats.experiments import (
    BUDGET,
    CHOSEN,
    MAX_REPEATS,
    PROBLEMS,
    RISK_AVERSION,
    SEARCH,
    initial_points,
)
from bench.studies.stored_rows import append, missing_cases, read
from botorch_risk.seeding import generators
from botorch_risk.strategies import FixedRepeats, adaptive_repeats

STRATEGIES: dict[str, dict[str, Any]] = {
    "RAHBO, k = 3": {"rule": FixedRepeats(3)},
    "knowledge gradient, k = 3": {"num_repeats": (3,)},
    "adaptive": {"num_repeats": CHOSEN},
}
EVIDENCE = ("spread", "readings")
KEY = ("problem", "strategy", "evidence")
LEAST = 1e-6  # regrets below it are equal
REPORTED = (100, BUDGET)


def play(name: str, label: str, evidence: str, seeds: list[int]) -> dict[str, Any]:
    r"""The regret of each seed after each number of readings that is reported."""
    problem = PROBLEMS[name][1]()
    chosen = ChosenRepeats(problem, MAX_REPEATS)
    _, best = problem.optimal_mean_variance(RISK_AVERSION)
    strategy = adaptive_repeats(
        problem.bounds,
        seeds,
        risk_aversion=RISK_AVERSION,
        budget=BUDGET,
        initial_repeats=3,
        num_initial=initial_points(3),
        noise_evidence=evidence,
        **STRATEGIES[label],
        **SEARCH,
    )
    start, used, index = time.process_time(), torch.zeros(len(seeds)), 0
    regrets = {str(budget): [float("nan")] * len(seeds) for budget in REPORTED}
    while bool((used < BUDGET).any()):
        X = strategy.ask()
        streams = generators(seeds, "observations", index)
        Y = chosen.sample_repeats(X, MAX_REPEATS, streams)
        strategy.tell(X, Y)
        before, used, index = used, used + Y.isfinite().sum(dim=(1, 2)), index + 1
        for budget in REPORTED:
            late = (before < budget) & (used >= budget)
            if bool(late.any()):
                value = best - problem.mean_variance(strategy.recommend(), RISK_AVERSION)
                for i in late.nonzero().flatten().tolist():
                    regrets[str(budget)][i] = value.flatten()[i].item()
    row = dict(zip(KEY, (name, label, evidence), strict=True))
    return {**row, "seeds": seeds, "regrets": regrets, "seconds": time.process_time() - start}


def report(rows: list[dict[str, Any]]) -> None:
    r"""Print one row per problem and strategy, and one over all problems."""
    stored = {tuple(row[name] for name in KEY): row for row in rows}
    after = " | ".join(f"after {budget}" for budget in REPORTED)
    print(f"| strategy | problem | {after} | CPU time, ratio |\n|---|---|---|---|---|")
    for label in STRATEGIES:
        every: dict[int, list[torch.Tensor]] = {budget: [] for budget in REPORTED}
        for name in PROBLEMS:
            pair = [stored.get((name, label, evidence)) for evidence in EVIDENCE]
            if None in pair:
                continue
            cells = []
            for budget in REPORTED:
                spread, readings = (
                    torch.tensor(row["regrets"][str(budget)]).clamp_min(LEAST).log10()
                    for row in pair
                )
                every[budget].append(readings - spread)
                cells.append(_shown(readings - spread))
            ratio = pair[1]["seconds"] / pair[0]["seconds"]
            print(f"| {label} | {name} | {' | '.join(cells)} | {ratio:.2f} |")
        if every[BUDGET]:
            cells = [_shown(torch.cat(every[budget])) for budget in REPORTED]
            print(f"| {label} | all | {' | '.join(cells)} | |")


def _shown(difference: torch.Tensor) -> str:
    found = paired_difference(difference, torch.zeros_like(difference))
    return f"{found.mean:+.3f} ± {found.half_width:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*PROBLEMS, []], metavar="PROBLEM")
    parser.add_argument("--out", type=Path, default=Path("results/repeats_evidence"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=2000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    seeds = list(range(given.first, given.first + given.seeds))
    cases = [
        (name, label, evidence)
        for name in given.names or PROBLEMS
        for label in STRATEGIES
        for evidence in EVIDENCE
    ]
    path = given.out / "rows.jsonl"
    missing = missing_cases(path, KEY, cases)
    played = (play(name, label, evidence, seeds) for name, label, evidence in missing)
    for _ in append(path, played):
        pass
    report(read(path))


if __name__ == "__main__":
    main()
