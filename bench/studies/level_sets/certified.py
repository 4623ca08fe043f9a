r"""Level sets of a risk on certified problems, next to methods that know nothing of the risk.

python -m bench.studies.level_sets.certified [--seeds 20] [--rounds 60] [--results FOLDER]
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.experiments.problem import decision_bounds
from botorch_risk_bench.metrics import level_set_scores, median
from torch import Tensor

from bench.reproduction.tables import cell, table
from bench.studies import stored_rows
from bench.studies.open_benchmark.experiments import EXPERIMENTS
from botorch_risk.acquisition import LevelSet
from botorch_risk.environments import InputPerturbation
from botorch_risk.posterior import MarginalPredictor
from botorch_risk.risk import Expectation
from botorch_risk.seeding import generators
from botorch_risk.strategies import (
    ClassifyRisk,
    EnvironmentRisk,
    EnvironmentSpace,
    FiniteDomain,
    ReadingOfClasses,
    RiskRecipe,
    Strategy,
    level_set_search,
)

# Development used ridges, rosenbrock, shifted-mccormick and hartmann-2-1.
FORMS = ("branin", "goldstein-price", "mccormick", "hartmann-1-2")
RISKS = ("expectation", "conditional-value-at-risk", "value-at-risk")
METHODS = ("straddle", "x-alone", "uncertainty", "classified", "straddle-observed")
SHARE_ABOVE = 0.25  # of the listed decisions
EVERY = 3  # rounds from one look at the classes to the next
NOISE = 0.1  # in standard deviations of the outcome over all pairs


@dataclass(frozen=True)
class Task:
    r"""Listed decisions, of which a quarter have a risk above the level."""

    problem: Any
    decisions: Tensor
    level: float
    above: Tensor
    noise: float

    @classmethod
    def of(cls, form: str, risk: str) -> "Task":
        named = f"{form}-{risk}"
        problem = next(each for each in EXPERIMENTS if each.name == named).problem_of([0])
        bounds = decision_bounds(problem)
        side = 101 if len(problem.environment.points) < 50 else 51  # 33 values of W, or 81
        axes = [torch.linspace(*edge.tolist(), side, dtype=torch.double) for edge in bounds.T]
        decisions = torch.cartesian_prod(*axes).reshape(-1, len(axes))
        pairs, weights = problem.environment.expand(decisions)
        values = problem.evaluate_true(pairs.flatten(0, 1)).reshape(pairs.shape[:-1])
        risks = problem.risk_measure.bind(problem.environment)(values, weights)
        level = float(risks.quantile(1 - SHARE_ABOVE))
        return cls(problem, decisions, level, risks > level, NOISE * float(values.std()))

    def observe(self, rows: Tensor, seeds: list[int], turn: int) -> Tensor:
        r"""Outcomes `R x q x 1` of pairs; the noise is the same for all methods of a seed."""
        values = self.problem.evaluate_true(rows.flatten(0, -2)).reshape(rows.shape[:-1])
        shape, draws = rows.shape[1:-1], generators(seeds, "noise", turn)
        numbers = torch.stack([torch.randn(shape, generator=g, dtype=torch.double) for g in draws])
        return (values + self.noise * numbers).unsqueeze(-1)


def most_uncertain(turn: Any) -> Tensor:
    r"""The pair with the largest posterior variance, whatever the risk."""
    domain: Tensor = turn.space.box.domain
    pairs, weights = turn.environment.expand(domain)
    every = pairs[(weights > 0).expand(pairs.shape[:-1])]
    predictor = MarginalPredictor(turn.model)
    variance = torch.cat(
        [
            predictor(part.expand(len(turn.view.seeds), -1, -1)).variance
            for part in every.split(2048)
        ],
        dim=-1,
    )
    return every[variance.argmax(dim=-1)].unsqueeze(-2)


def strategy_of(method: str, task: Task, seeds: list[int], num_initial: int) -> Strategy:
    environment, measure = task.problem.environment, task.problem.risk_measure
    goal = LevelSet(task.level)
    if method == "x-alone":  # a perturbation of 0: what w does is noise
        nothing = InputPerturbation(torch.zeros(1, task.decisions.shape[-1], dtype=torch.double))
        environment, measure, method = nothing, Expectation(), "straddle"
        chosen = False
    else:
        chosen = method != "straddle-observed"
    if method == "uncertainty":
        classes = ReadingOfClasses((goal,))
        space = EnvironmentSpace(FiniteDomain(task.decisions), environment, True, measure)
        of_pairs = EnvironmentRisk(RiskRecipe(measure), most_uncertain)
        return Strategy(space, ClassifyRisk(of_pairs, classes), seeds, num_initial=num_initial)
    return level_set_search(
        task.decisions,
        seeds,
        environment=environment,
        risk_measure=measure,
        goal=goal,
        w_is_chosen=chosen,
        criterion=method.removesuffix("-observed"),  # type: ignore[arg-type]
        num_initial=num_initial,
    )


def play(form: str, risk: str, method: str, num_seeds: int, rounds: int) -> dict[str, Any]:
    r"""F1 and the share of wrongly classified decisions after every third round, `.. x R` each."""
    task, seeds = Task.of(form, risk), list(range(num_seeds))
    d = task.decisions.shape[-1] + task.problem.environment.points.shape[-1]
    strategy = strategy_of(method, task, seeds, 2 * d + 2)
    f1, wrong, classified = [], [], []
    for turn in range(rounds + 1):
        X = strategy.ask()
        if X.shape[-1] < d:
            W = task.problem.draw_contexts(X, generators(seeds, "contexts", turn))
            rows = torch.cat([X, W], dim=-1)
        else:
            rows = X
        told = X if method == "x-alone" else rows
        strategy.tell(told, task.observe(rows, seeds, turn))
        if turn % EVERY:
            continue
        found = strategy.classify()
        f1.append(level_set_scores(found.probability >= 0.5, task.above).f1.tolist())
        mistaken = (found.high & ~task.above) | (found.low & task.above)
        wrong.append(mistaken.double().mean(dim=-1).tolist())
        classified.append((~found.unclassified).double().mean(dim=-1).tolist())
    case = {"form": form, "risk": risk, "method": method}
    return {**case, "f1": f1, "wrong": wrong, "classified": classified}


def summary(path: Path) -> str:
    r"""F1 after the last round, the paired difference, and rounds to F1 0.95 in the median."""
    found = {(row["form"], row["risk"], row["method"]): row for row in stored_rows.read(path)}
    shown, rows = ("straddle", "uncertainty", "x-alone"), []
    for form in FORMS:
        for risk in RISKS:
            f1 = {each: torch.tensor(found[form, risk, each]["f1"]) for each in shown}
            ends = [cell(each[-1]) for each in f1.values()]
            difference = cell(f1["straddle"][-1] - f1["uncertainty"][-1])
            rounds = [rounds_to(each, EVERY) for each in f1.values()]
            rows.append([form, risk, *ends, difference, ", ".join(rounds)])
    header = ["problem", "risk", *shown, "ours less uncertainty", "rounds to F1 0.95"]
    wrong = [torch.tensor(found[key]["wrong"]).mean() for key in found if key[2] == "straddle"]
    share = f"\nWrongly classified by ours, all rounds: {torch.stack(wrong).mean():.3f}"
    return table(header, rows) + share


def rounds_to(f1: Tensor, every: int, enough: float = 0.95) -> str:
    r"""Rounds until F1, `looks x R`, is large enough, in the median; a look every few rounds."""
    reached = f1 >= enough
    first = reached.int().argmax(dim=0).double().where(reached.any(dim=0), torch.inf)
    rounds = every * median(first).item()
    return f"{rounds:g}" if rounds < torch.inf else f"> {every * (len(f1) - 1)}"


def run(
    description: str | None,
    name: str,
    key: Sequence[str],
    cases: Sequence[stored_rows.Case],
    play: Callable[..., dict[str, Any]],
    summary: Callable[[Path], str],
) -> None:
    r"""Plays the cases that are not stored, from the command line, and prints the table."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--results", type=Path, default=Path("results/level_sets"))
    arguments = parser.parse_args()
    path = arguments.results / f"{name}.jsonl"
    missing = stored_rows.missing_cases(path, key, cases)
    rows = (play(*case, arguments.seeds, arguments.rounds) for case in missing)
    for number in stored_rows.append(path, rows):
        print(f"{number} of {len(missing)}", flush=True)
    print(summary(path))


def main() -> None:
    every = [(form, risk, method) for form in FORMS for method in METHODS for risk in RISKS]
    run(__doc__, "certified", ("form", "risk", "method"), every, play, summary)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
