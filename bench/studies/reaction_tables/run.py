r"""Ten random pairs, then forty experiments, by each rule on each table under each risk.

    python -m bench.studies.reaction_tables.run --out rows.jsonl

All seeds of a cell run as one batch. A run that is stopped goes on where it ended.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bench.studies import stored_rows
from bench.studies.reaction_tables.reactions import TABLES, ReactionTable, read
from botorch_risk.risk import RiskMeasure
from botorch_risk.seeding import argmax_at_random, generators
from botorch_risk.tables import (
    TableBelief,
    TablePosterior,
    TableReadings,
    TableRule,
    choose_plate,
    fit_table,
    rule_for,
)
from botorch_risk.tables.kernel import FittedTable
from botorch_risk.tables.report import report_risks

RISKS = ("mean", "CVaR 20 %", "worst case", "share above")
RULES: tuple[TableRule, ...] = (
    "outcome_variance",
    "knowledge_gradient",
    "risk_variance",
    "lacing",
    "random_context",
    "random_pair",
)
NUM_INITIAL, NUM_EXPERIMENTS = 10, 40
NUM_REPORTED = 24  # the first seeds, of which the final report is made


def play(
    table: ReactionTable, risk: str, rule: TableRule, seeds: Sequence[int], plate: int = 1
) -> dict[str, Any]:
    r"""One cell: the regret of the recommended condition after each number of experiments.

    Returns:
        `average` over the rounds and at the `end`, for each seed; and of the final reports whether
        their interval `held` the risk, its `width`, its `chance` to be the best, whether it `was`
        the best, and the regret of what it recommends, `reported`.
    """
    measure, n_w = table.measures()[risk], table.Y.shape[-1]
    true = measure(table.Y, torch.full((n_w,), 1 / n_w, dtype=torch.double))
    start = time.process_time()
    regrets = []
    for last in rounds(table, measure, rule, seeds, NUM_EXPERIMENTS, plate):
        regrets.append(true.max() - true[last.recommended])
    seconds = time.process_time() - start
    final = [_report(table, true, last, row, seed) for row, seed in enumerate(seeds[:NUM_REPORTED])]
    each = torch.stack(regrets, dim=-1)
    row = {
        "average": each.mean(dim=-1),
        "end": each[:, -1],
        **{name: torch.tensor([one[name] for one in final]) for name in final[0]},
    }
    listed = {name: [round(v, 4) for v in values.tolist()] for name, values in row.items()}
    return {"seconds": round(seconds, 2), **listed}


class Round(NamedTuple):
    r"""What is believed after some experiments, and the condition that is recommended, `R`."""

    readings: TableReadings
    fitted: FittedTable
    belief: TableBelief
    recommended: Tensor


def rounds(
    table: ReactionTable,
    measure: RiskMeasure,
    rule: TableRule,
    seeds: Sequence[int],
    num_experiments: int,
    plate: int = 1,
) -> Iterator[Round]:
    r"""The random pairs, then experiments by a rule; the last round is the end."""
    n_x, n_w = table.Y.shape
    weights = torch.full((n_w,), 1 / n_w, dtype=torch.double)
    outcomes = table.Y.flatten()
    pairs = torch.stack(
        [
            torch.randperm(n_x * n_w, generator=generator)[:NUM_INITIAL]
            for generator in generators(seeds, "initial pairs")
        ]
    )
    streams, lotteries = generators(seeds, "pairs"), generators(seeds, "recommendations")
    fitted: FittedTable | None = None
    for experiments in range(0, num_experiments + 1, plate):
        readings = TableReadings(table.conditions, table.contexts, pairs, outcomes[pairs])
        fitted = fit_table(readings, fitted)
        posterior = TablePosterior.of(readings, fitted.hyperparameters)
        free = torch.ones(len(seeds), n_x * n_w, dtype=torch.bool).scatter(1, pairs, False)
        free = free.reshape(-1, n_x, n_w)
        belief = TableBelief(posterior, measure, weights, free)
        risks = belief.risk.value  # untried conditions may be equal: their order is not to help
        lots = [torch.rand(n_x, generator=each, dtype=torch.double) for each in lotteries]
        yield Round(readings, fitted, belief, argmax_at_random(risks, torch.stack(lots)))
        if experiments < num_experiments:
            pairs = torch.cat([pairs, choose_plate(belief, rule, plate, streams)], dim=-1)


def _report(
    table: ReactionTable, true: Tensor, last: Round, row: int, seed: int
) -> dict[str, float]:
    r"""The final report of one seed, as `table_search` gives it."""
    readings, fitted, belief, _ = last
    own = TableReadings(table.conditions, table.contexts, readings.pairs[[row]], readings.Y[[row]])
    fit = FittedTable(fitted.theta[[row]], fitted.metric[[row]])
    posterior = TablePosterior.of(own, fit.hyperparameters)
    alone = TableBelief(posterior, belief.risk_measure, belief.weights, belief.free[[row]])
    chances = alone.promising()[0]
    (stream,) = generators([seed], "report")
    report = report_risks(own, fit, belief.risk_measure, belief.weights, chances, stream)
    best = int(report.risk.argmax())
    risk = true[chances[best]].item()
    lower, upper = report.lower[best].item(), report.upper[best].item()
    return {
        "held": float(lower - 1e-9 <= risk <= upper + 1e-9),
        "width": upper - lower,
        "chance": report.probability_best[best].item(),
        "was": float(risk >= true.max().item() - 1e-12),
        "reported": true.max().item() - risk,
    }


def rows(cases: Sequence[tuple[Any, ...]], seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    for name, risk, rule, plate in cases:
        found = play(read(name), risk, rule, seeds, plate)
        print(name, risk, rule, plate, found["seconds"], "s", flush=True)
        yield {"table": name, "risk": risk, "rule": rule, "plate": plate, **found}


def wanted(all_rules: bool) -> list[tuple[Any, ...]]:
    r"""The cells: four rules, of which one is the default of the risk; or all six."""
    cases = []
    for name, risk in product(TABLES, RISKS):
        default = rule_for(read(name).measures()[risk])
        few = ("outcome_variance", default, "random_context", "random_pair")
        cases += [(name, risk, rule, 1) for rule in (RULES if all_rules else few)]
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--num-seeds", type=int, default=48)
    parser.add_argument("--all-rules", action="store_true")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.num_seeds)
    key = ("table", "risk", "rule", "plate")
    cases = stored_rows.missing_cases(arguments.out, key, wanted(arguments.all_rules))
    for _ in stored_rows.append(arguments.out, rows(cases, list(seeds))):
        pass


if __name__ == "__main__":
    main()
