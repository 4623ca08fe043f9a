r"""Ask `advise` what the trials of a campaign say, a file for each run; it resumes.

python -m bench.studies.advice.advised results/advice.sqlite results/advised

The decisions, the drawn w and the readings of each run are tensors `(X, Y)`. `advise` learns the
distribution of w, as users of these packages do not state it. Regrets are of the true risk.
"""

import argparse
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.campaigns.store import CampaignStore
from botorch_risk_bench.campaigns.whole_files import write_text
from botorch_risk_bench.experiments.problem import decision_space
from botorch_risk_bench.experiments.registry import get_experiment
from torch import Tensor

from bench.studies.advice.campaign import OURS, PACKAGES
from bench.studies.open_benchmark.experiments import EXPERIMENTS, NUM_ROUNDS
from botorch_risk.frames import advise
from botorch_risk.strategies.space import decision_box


def runs(store: CampaignStore) -> Iterator[tuple[str, str, int, list[Any]]]:
    r"""The pair, the label, the seed and the rounds of each finished run."""
    for (pair, label, seed), rows in groupby(
        store.rows(), key=lambda row: (row[0], row[1], row[3])
    ):
        rounds = list(rows)
        if len(rounds) == NUM_ROUNDS + 1:
            yield pair, label, seed, rounds


def regrets(pair: str, label: str, seed: int, rounds: list[Any]) -> dict[str, Any]:
    r"""The regret of what the run recommends and, of other packages, of what advice says."""
    definition = get_experiment(pair, EXPERIMENTS)
    problem: Any = definition.problem()
    optimum = float(problem.optimal_risk)
    row: dict[str, Any] = {"pair": pair, "label": label, "seed": seed}
    row["own"] = optimum - json.loads(rounds[-1][9])
    if label in OURS:
        return row
    X = torch.cat([torch.tensor(json.loads(each[5]), dtype=torch.double) for each in rounds])
    Y = torch.cat([torch.tensor(json.loads(each[6]), dtype=torch.double) for each in rounds])
    d_x = problem.num_decision
    columns = problem.bounds.T.tolist()
    whole = decision_box(decision_space(problem)).integers
    advice = advise(
        (X, Y),
        settings={
            f"x{i}": (*ends, 1) if i in whole else tuple(ends)
            for i, ends in enumerate(columns[:d_x])
        },
        conditions={f"w{i}": tuple(ends) for i, ends in enumerate(columns[d_x:])},
        risk=problem.risk_measure,
        seed=seed,
    )
    names = [f"x{i}" for i in range(d_x)]
    for part in ("luckiest", "tried", "anywhere"):
        found = getattr(advice, part)
        decision: Tensor = torch.tensor(found[names].to_numpy(dtype=float))
        value = problem.objective(decision).item()
        lower, upper = (float(found[f"y_risk_{end}"].iloc[0]) for end in ("lower", "upper"))
        row[part] = optimum - value
        row[f"{part} held"] = lower <= value <= upper
    return row | {"verdict": advice.verdict.kind}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with CampaignStore(arguments.store) as store:
        for pair, label, seed, rounds in runs(store):
            path = arguments.folder / f"{pair}-{label}-{seed}.json"
            if label in {*OURS, *PACKAGES} and not path.exists():
                write_text(path, json.dumps(regrets(pair, label, seed, rounds)))
                print(path.stem, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
