r"""Print the table of this folder's README from the runs that are stored next to it.

python -m bench.studies.safe.report

A row has, for one strategy, whether each point was safe, `rounds x R`, and the regret and the
safety of each recommendation, `(rounds + 1) x R`.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.metrics import median

from bench.reproduction.tables import table
from bench.studies.stored_rows import read

NUM_ROUNDS, SHOWN, FAR = 30, (0, 10, 20, 30), 0.1


def summary(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        broken = ~torch.tensor(row["safe"])  # rounds x R
        regret, right = torch.tensor(row["regret"]), torch.tensor(row["recommended_safe"])
        judged = regret.masked_fill(~right, torch.inf)
        cells.append(
            [
                row["strategy"],
                f"{int(broken.sum())} of {broken.numel()}",
                f"{int(broken.any(dim=0).sum())} of {broken.shape[1]}",
                *(f"{median(judged[t]):.2f}" for t in SHOWN),
                f"{judged[-1].mean():.2f}",
                f"{int((judged[-1] > FAR).sum())}",
                f"{int((~right[-1]).sum())}",
            ]
        )
    rounds = [f"regret after {t}" for t in SHOWN]
    header = ["strategy", "unsafe points", "runs with one", *rounds]
    header += [f"mean after {NUM_ROUNDS}", f"runs above {FAR}", "unsafe at the end"]
    return table(header, cells)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(summary(read(Path(__file__).with_name("violations.jsonl.gz"))))


if __name__ == "__main__":
    main()
