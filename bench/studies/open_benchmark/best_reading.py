r"""What other packages reach if each recommends the decision with the best reading so far.

The campaign `outside_pairs` recommends them as `risk_search` does. Their users recommend the best
trial, which is known once the rounds are played; w is drawn, so that a lucky one misleads.

python -m bench.studies.open_benchmark.best_reading results/outside.sqlite FOUND.json.gz
"""

import argparse
import json
from itertools import groupby
from pathlib import Path

import torch
from botorch_risk_bench.campaigns.store import CampaignStore
from botorch_risk_bench.reports.board import ExperimentRegrets, Regrets
from torch import Tensor

from bench.studies.open_benchmark.outside_pairs import DRAWN, OF_AX

LABELS = {
    label: label.replace("expected", "reading")
    for label in (*DRAWN[1:], OF_AX[0])  # not of random decisions
}


def handed_over(Y: Tensor, objective: Tensor) -> Tensor:
    r"""The objective of the decision with the best reading so far; of the first one, if any tie.

    Args:
        Y: One reading of each decision, `n`; NaN if it is missing.
        objective: Of each decision, `n`.
    """
    best = torch.tensor([Y[: t + 1].nan_to_num(nan=-torch.inf).argmax() for t in range(len(Y))])
    return objective[best]


def regrets(store: CampaignStore) -> Regrets:
    r"""The regrets of `LABELS` in a store, after the initial design and each round."""
    known = Regrets.of(store)
    by_label = [each.runs[label] for each in known.experiments for label in each.runs]
    num_rounds = max(len(run) for by_seed in by_label for run in by_seed.values())
    optima = {
        name: settings["default"]["optimal_value"]
        for name, settings in store.identity["experiments"].items()
    }
    runs: dict[str, dict[str, dict[int, list[float]]]] = {name: {} for name in optima}
    rows = (row for row in store.rows() if row[1] in LABELS)
    for (name, label, seed), rounds in groupby(rows, key=lambda row: (row[0], row[1], row[3])):
        Y, objective, ends = [], [], []
        for row in rounds:
            Y += [reading for (reading,) in json.loads(row[6])]
            objective += json.loads(row[7])
            ends.append(len(Y) - 1)
        found = handed_over(torch.tensor(Y), torch.tensor(objective, dtype=torch.double))
        left = optima[name] - found[ends]
        if len(left) < num_rounds:  # hetGPy ended early on four pairs
            continue
        runs[name].setdefault(LABELS[label], {})[seed] = [float(f"{each:.6g}") for each in left]
    experiments = tuple(
        ExperimentRegrets(each.experiment, each.setting, each.settings, runs[each.experiment])
        for each in known.experiments
        if runs[each.experiment]
    )
    return Regrets("the best reading", tuple(LABELS.values()), experiments, known.unknown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("found", type=Path)
    arguments = parser.parse_args()
    with CampaignStore(arguments.store) as store:
        found = regrets(store)
    found.write(arguments.found)


if __name__ == "__main__":
    main()
