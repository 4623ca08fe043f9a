r"""Print the tables of two looks and of check points, from the looks that `replay` has stored.

python -m bench.studies.stopping.two_looks

A gap is made a statement by comparing it with epsilon; check points make another one, without a
model. Each is counted where it is made, and where it is false.
"""

import argparse
import inspect
from collections import Counter
from typing import Any

import torch
from botorch_risk_bench.metrics import binomial_interval, median
from torch import Tensor

from bench.reproduction.tables import table
from bench.studies.coverage.looks import DEVELOPMENT, LOOKS, NOISE
from bench.studies.stopping.replay import DELTA, LEVELS, STORED
from bench.studies.stored_rows import read
from botorch_risk.stopping import num_check_points, share_better
from botorch_risk.test_functions import CertifiedProblem

SHARES = (0.3, 0.1, 0.03)  # epsilon, in median regrets of the first recommendation
LIMIT, OVERLOOKED = 0.1, 0.1  # of the share of better decisions, and how many of them a check
NUM_TRUTH = 20_000  # random decisions that tell the share itself
Row = dict[str, Any]


def of_row(row: Row, name: str) -> Tensor:
    return torch.tensor(row[name], dtype=torch.double)


def epsilon_of(row: Row, share: float) -> float:
    return share * float(median(of_row(row, "first")))


def of_coverage(rows: list[Row]) -> str:
    r"""How often the regret was within a quantile of its samples."""
    cells = []
    for index, t in enumerate(LOOKS):
        held = torch.stack(
            [of_row(row, "regret")[index] <= of_row(row, "quantiles")[index] + 1e-6 for row in rows]
        ).double()  # rows x levels x seeds
        cells.append([str(t), *(f"{each:.3f}" for each in held.mean(dim=(0, 2)).tolist())])
    return table(["round", *(f"{level:g}" for level in LEVELS)], cells)


def of_gaps(rows: list[Row]) -> str:
    r"""Gaps within epsilon: where the rule ends a run, and where the regret is larger.

    At the first look that says so, or if both looks do.
    """
    cells = []
    for share in SHARES:
        for rule in ("either look", "both looks"):
            stops, wrong, rounds, of_forms = 0, 0, [], Counter[str]()
            for row in rows:
                epsilon, regret = epsilon_of(row, share), of_row(row, "regret")
                within = of_row(row, "quantiles")[:, -1] <= epsilon  # looks x seeds
                at = torch.where(within[0], 0, 1)
                ends = within.any(dim=0)
                if rule == "both looks":
                    at, ends = torch.ones_like(at), within.all(dim=0)
                too_far = ends & (regret.gather(0, at.unsqueeze(0))[0] > epsilon)
                stops, wrong = stops + int(ends.sum()), wrong + int(too_far.sum())
                rounds += torch.tensor(LOOKS)[at].where(ends, LOOKS[-1]).tolist()
                of_forms[row["form"]] += int(too_far.sum())
            saved = torch.tensor([LOOKS[-1] - each for each in rounds]).double()
            cells.append([f"{share:g}", rule, f"{stops} of {len(rounds)}", rate(wrong, stops)])
            where = ", ".join(f"{form} {count}" for form, count in of_forms.most_common() if count)
            cells[-1] += [f"{median(saved):g}, {saved.mean():.1f}", where]
    header = ["epsilon", "rule", "made", "false", "rounds saved of 30: median, mean", "where"]
    return table(header, cells)


def of_checks(rows: list[Row]) -> str:
    r"""Check points that say: at most a tenth of all decisions are better by epsilon.

    29 random decisions after the last round, whose risks are read exactly; or 40 with noise, an
    expectation by one reading of every w. *Best of all*: the best of the recommendation and the
    check points is recommended then.
    """
    rules: dict[str, list[tuple[bool, bool]]] = {}
    for row in rows:
        problem = CertifiedProblem(row["form"], row["risk"])
        d_x, num_seeds = problem.num_decision, len(row["first"])
        stream = torch.Generator().manual_seed(77)
        every = problem.objective(torch.rand(NUM_TRUTH, d_x, generator=stream).double())
        x = of_row(row, "recommended")[-1]
        recommended = problem.objective(x)
        points = num_check_points(LIMIT)
        # Half of delta is spent on the error of the recommendation's risk.
        noisy_points = num_check_points(LIMIT, DELTA / 2, OVERLOOKED)
        checks = torch.rand(num_seeds, noisy_points, d_x, generator=stream, dtype=torch.double)
        noisy = problem.objective(checks)
        risks = noisy[:, :points]
        best = torch.maximum(recommended, risks.amax(dim=-1))
        cases = {"exact, best of all, epsilon 0": (0.0, best, risks, best, 0.0)}
        for share in (0.0, *SHARES[:2]):
            name = f"exact, epsilon {share:g}"
            cases[name] = (epsilon_of(row, share), recommended, risks, recommended, 0.0)
        if row["risk"] == "expectation":
            error = NOISE * float(problem.environment.weights.square().sum().sqrt())
            noise = torch.randn(num_seeds, noisy_points + 1, generator=stream, dtype=torch.double)
            read = torch.cat([noisy, recommended.unsqueeze(-1)], dim=-1) + error * noise
            for share in SHARES[:2]:
                epsilon = epsilon_of(row, share)
                case = (epsilon, read[:, -1], read[:, :-1], recommended, error)
                cases[f"noise .1, epsilon {share:g}"] = case
        for name, (epsilon, reference, of_points, truth, error) in cases.items():
            errors = {"error": error, "recommended_error": error, "overlooked": OVERLOOKED}
            said = share_better(of_points, reference, epsilon, DELTA, **errors).share
            share_of_all = (every > truth.unsqueeze(-1) + epsilon).double().mean(dim=-1)
            made = said <= LIMIT
            false = made & (share_of_all > said)
            pairs = zip(made.tolist(), false.tolist(), strict=True)
            rules.setdefault(name, []).extend(pairs)
    cells = []
    for name, found in rules.items():
        made, false = (sum(each[k] for each in found) for k in (0, 1))
        cells.append([name, f"{made} of {len(found)}", rate(false, made)])
    return table(["risks of the check points", "made", "false"], cells)


def rate(number: int, of_all: int) -> str:
    if not of_all:
        return "-"
    low, high = binomial_interval(number, of_all)
    return f"{number / of_all:.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    rows = read(STORED)
    judged = [row for row in rows if row["form"] not in DEVELOPMENT]
    print(f"{inspect.getdoc(of_coverage)}\n\n{of_coverage(rows)}")
    print(f"{inspect.getdoc(of_gaps)}\n\n{of_gaps(rows)}")
    print(f"The same without the functions of development.\n\n{of_gaps(judged)}")
    print(f"{inspect.getdoc(of_checks)}\n\n{of_checks(rows)}")


if __name__ == "__main__":
    main()
