r"""Replay stored rounds of `risk_search` and look at the regret that the model allows.

OMP_NUM_THREADS=1 python -m bench.studies.stopping.replay STORE
    [--pairs 60] [--results results/stopping]

The store comes from `bench.studies.open_benchmark.default_pairs`, w chosen. It resumes, and prints
the tables of the README. The first pairs of a random order are played.
"""

import argparse
import json
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.campaigns.store import CampaignStore
from botorch_risk_bench.experiments.problem import decision_bounds
from botorch_risk_bench.metrics import binomial_interval, median
from torch import Tensor

from bench.reproduction.tables import table
from bench.studies import stored_rows
from bench.studies.open_benchmark.default_pairs import FIRST_SEED, NUM_SEEDS, WITHOUT_MMD
from bench.studies.open_benchmark.experiments import EXPERIMENTS

LABEL, LOOKS, DELTA = "chosen", (5, 10, 15, 20, 25, 30), 0.05
SHARES = (0.3, 0.1, 0.03)  # epsilon, in median regrets of the first recommendation
FACTORS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0)  # of the gap: the first remedy
IN_A_ROW = 2  # looks at which the gap has to be small: the second
LEVELS = (0.5, 0.8, 0.95, 1 - DELTA / len(LOOKS))
EXPERIMENT = {each.name: each for each in EXPERIMENTS}


def pairs() -> list[str]:
    return random.Random(2).sample(WITHOUT_MMD, len(WITHOUT_MMD))


def replay(store: CampaignStore, pair: str) -> dict[str, Any]:
    r"""Quantiles of the regret under the model at each look, and the regret, `looks x R`."""
    seeds = list(range(FIRST_SEED, FIRST_SEED + NUM_SEEDS))
    experiment = EXPERIMENT[pair]
    problem = experiment.problem_of(seeds)
    assert experiment.optimal_value is not None
    best = float(experiment.optimal_value(problem))
    strategy = experiment.build(LABEL, decision_bounds(problem), seeds)
    query = (
        "SELECT round, X, Y, recommended_objective FROM rounds "
        "WHERE experiment = ? AND strategy = ? ORDER BY round, seed"
    )
    rows = [(t, *map(json.loads, rest)) for t, *rest in store.select(query, pair, LABEL)]
    found: dict[str, list[Any]] = {"quantiles": [], "expected": [], "regret": []}
    for t in range(LOOKS[-1] + 1):
        X, Y, values = (
            torch.tensor([row[column] for row in rows if row[0] == t], dtype=torch.double)
            for column in (1, 2, 3)
        )
        strategy.tell(X, Y)
        if t == 0:
            found["first"] = (best - values).tolist()
        if t in LOOKS:
            levels = torch.tensor(LEVELS, dtype=torch.double)
            for _, view in strategy.views:  # all seeds have equally many outcomes
                samples = strategy.method.regret(view)
            found["quantiles"].append(samples.quantile(levels, dim=-1).tolist())
            found["expected"].append(samples.mean(dim=-1).tolist())
            found["regret"].append((best - values).tolist())
    return {"pair": pair, **found}


def rows_of(store: CampaignStore, names: list[str]) -> Iterator[dict[str, Any]]:
    yield from (replay(store, name) for name in names)


def first_stop(gap: Tensor, epsilon: Tensor, in_a_row: int = 1) -> Tensor:
    r"""The look at which each run stops, `len(LOOKS)` for never, of gaps `looks x R`.

    That is the first look at which the gap is small, here and at the looks before, `in_a_row`.
    """
    enough = (gap <= epsilon).unfold(0, in_a_row, 1).all(dim=-1)
    first = enough.int().argmax(dim=0) + in_a_row - 1
    return first.where(enough.any(dim=0), len(LOOKS))


def stops(
    rows: list[dict[str, Any]], share: float, factor: float, in_a_row: int = 1
) -> tuple[int, int, Tensor]:
    r"""How many runs stopped, how many of these exceed epsilon, and the look of each run."""
    wrong, looks = 0, []
    for row in rows:
        gap = factor * torch.tensor(row["quantiles"], dtype=torch.double)[:, -1]
        regret = torch.tensor(row["regret"], dtype=torch.double)
        epsilon = share * median(torch.tensor(row["first"], dtype=torch.double))
        look = first_stop(gap, epsilon, in_a_row)
        stopped = look < len(LOOKS)
        at = regret.gather(0, look.clamp_max(len(LOOKS) - 1).unsqueeze(0)).squeeze(0)
        wrong += int((stopped & (at > epsilon)).sum())
        looks.append(look)
    every = torch.cat(looks)
    return int((every < len(LOOKS)).sum()), wrong, every


def coverage(rows: list[dict[str, Any]]) -> str:
    r"""How often quantiles of the regret held it, and the 95 % one widened, by the round."""
    columns = [(level, 1.0) for level in range(len(LEVELS))]
    columns += [(LEVELS.index(0.95), factor) for factor in FACTORS[1:]]
    cells = []
    for index, t in enumerate(LOOKS):
        cells.append([str(t)])
        for level, factor in columns:
            held = [
                torch.tensor(row["regret"][index])
                <= factor * torch.tensor(row["quantiles"][index][level])
                for row in rows
            ]
            cells[-1].append(f"{torch.cat(held).double().mean():.3f}")
    names = [f"{level:.3f}" for level in LEVELS] + [f"0.950 x {each:g}" for each in FACTORS[1:]]
    return table(["round", *names], cells)


def summary(rows: list[dict[str, Any]]) -> str:
    r"""Stops and errors of the rule, of two looks in a row, and of gaps widened by a factor."""
    known, judged = rows[::2], rows[1::2]
    cells = []
    for share in SHARES:
        cases = [("all", rows, 1.0, 1), ("all, two looks in a row", rows, 1.0, IN_A_ROW)]
        cases += [("judged", judged, factor, 1) for factor in FACTORS]
        for name, some, factor, in_a_row in cases:
            number, wrong, looks = stops(some, share, factor, in_a_row)
            low, high = binomial_interval(wrong, number) if number else (0.0, 1.0)
            rounds = torch.tensor([*LOOKS, LOOKS[-1]])[looks].double()
            error = f"{wrong / max(number, 1):.3f} ({low:.3f} to {high:.3f})"
            saved = f"{LOOKS[-1] - median(rounds):g}, {LOOKS[-1] - rounds.mean():.1f}"
            count = f"{number} of {len(looks)}"
            cells.append([str(share), name, str(factor), count, error, saved])
    chosen = {share: calibrated(known, share) for share in SHARES}
    header = ["epsilon", "pairs", "factor", "stops", "exceed epsilon", "rounds saved"]
    return f"{table(header, cells)}\nFactors by the other half: {chosen}"


def calibrated(rows: list[dict[str, Any]], share: float) -> float:
    r"""The smallest factor with which at most delta of the stops are wrong."""
    for factor in FACTORS:
        number, wrong, _ = stops(rows, share, factor)
        if wrong <= DELTA * number:
            return factor
    return float("inf")


def report(
    path: Path, names: Sequence[str], play: Callable[[list[str]], Iterable[dict[str, Any]]]
) -> None:
    r"""Plays the pairs that are not stored yet, and prints the tables."""
    cases = [(name,) for name in names]
    missing = [name for (name,) in stored_rows.missing_cases(path, ("pair",), cases)]
    for number in stored_rows.append(path, play(missing)):
        print(f"{number} of {len(missing)}", flush=True)
    rows = stored_rows.read(path)
    print(f"{coverage(rows)}\n\n{summary(rows)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--results", type=Path, default=Path("results/stopping"))
    arguments = parser.parse_args()
    with CampaignStore(arguments.store) as store:
        path, names = arguments.results / "replay.jsonl", pairs()[: arguments.pairs]
        report(path, names, partial(rows_of, store))


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    main()
