r"""Print the tables of this folder's README from the rows that are stored next to it.

python -m bench.studies.batches.report
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from scipy.stats import t as student
from torch import Tensor

from bench.reproduction.tables import Comparison, table
from bench.studies.stored_rows import read

Row = dict[str, Any]
KINDS = {
    "context": "w observed",
    "drawn": "w drawn from a known W",
    "chosen": "w chosen",
    "rahbo": "RAHBO",
    "kg": "knowledge gradient",
    "steps": "12 x 8 steps",
}
SMALLEST = 1e-6  # of a regret whose logarithm is compared
CLOSE = 0.01  # of two decisions, in widths of the box


def values_of(row: Row) -> Tensor:
    r"""What is compared, `R`: log10 regrets, and on steps, where many are 0, regrets."""
    regret = torch.tensor(row["regret"][-1], dtype=torch.double)
    return regret if row["task"].startswith("steps") else regret.clamp_min(SMALLEST).log10()


def difference(pairs: Iterable[tuple[Row, Row]]) -> str:
    r"""The mean difference, with half-widths over seeds and over problems if there are several."""
    every = torch.stack([values_of(a) - values_of(b) for a, b in pairs])
    halves = [half_width(every.mean(dim=0))]
    if len(every) > 1:
        halves.append(half_width(every.mean(dim=1)))
    return Comparison(f"{every.mean():+.2f} ± " + ", ".join(f"{each:.2f}" for each in halves))


def half_width(values: Tensor) -> float:
    r"""Of a 95 % Student-t interval of the mean."""
    count = len(values)
    return float(student.ppf(0.975, count - 1) * values.std() / math.sqrt(count))


def share(rows: Iterable[Row], name: str, limit: float) -> str:
    r"""How many distances are below a limit."""
    every = torch.cat([torch.tensor(row[name]).flatten() for row in rows])
    return f"{100 * (every < limit).double().mean():.0f}"


def median_of(rows: Iterable[Row]) -> str:
    every = torch.cat([torch.tensor(row["closest"]).flatten() for row in rows])
    return f"{every.median():.3f}"


def rows_of(rows: dict[tuple[str, Any, str], Row], kind: str, q: Any, code: str) -> list[Row]:
    r"""The rows of a kind, in the order of its problems."""
    return [
        row
        for (task, *key), row in rows.items()
        if task.startswith(f"{kind}-") and key == [q, code]
    ]


def kinds_of(rows: dict[tuple[str, Any, str], Row]) -> dict[str, str]:
    present = {task.split("-")[0] for task, *_ in rows}
    return {kind: name for kind, name in KINDS.items() if kind in present}


def by_kind(rows: dict[tuple[str, Any, str], Row]) -> str:
    cells = []
    for q in (4, 8):
        for kind, name in kinds_of(rows).items():
            after, before, one = (
                rows_of(rows, kind, *key) for key in ((q, "after"), (q, "before"), (1, "after"))
            )
            cells.append(
                [
                    name,
                    str(len(after)),
                    str(q),
                    difference(zip(after, before, strict=True)),
                    difference(zip(before, one, strict=True)),
                    difference(zip(after, one, strict=True)),
                    *(
                        f"{look(before)}, {look(after)}"
                        for look in (
                            lambda some: share(some, "closest", 1e-9),
                            lambda some: share(some, "closest", CLOSE),
                            median_of,
                        )
                    ),
                ]
            )
    header = ["kind", "problems", "q", "after - before", "before - q = 1", "after - q = 1"]
    pairs = ["identical, %", f"closer than {CLOSE}, %", "closest pair, median"]
    return table([*header, *pairs], cells)


def by_problem(rows: dict[tuple[str, Any, str], Row]) -> str:
    cells = []
    for task in dict.fromkeys(task for task, *_ in rows):
        cells.append([task])
        for q in (4, 8):
            after, before, one = (
                rows[task, *key] for key in ((q, "after"), (q, "before"), (1, "after"))
            )
            cells[-1] += [difference([(after, before)]), difference([(after, one)])]
    columns = [f"q = {q}: after - {other}" for q in (4, 8) for other in ("before", "q = 1")]
    return table(["problem", *columns], cells)


def while_running(rows: dict[tuple[str, Any, str], Row]) -> str:
    cells = []
    for kind, name in kinds_of(rows).items():
        before, after = (rows_of(rows, kind, "running", code) for code in ("before", "after"))
        cells.append(
            [
                name,
                f"{share(before, 'closest', 1e-9)}, {share(after, 'closest', 1e-9)}",
                f"{share(before, 'closest', CLOSE)}, {share(after, 'closest', CLOSE)}",
                f"{share(before, 'lengthscales', 0.1)}, {share(after, 'lengthscales', 0.1)}",
                difference(zip(after, before, strict=True)),
            ]
        )
    header = ["kind", "the same setting, %", f"closer than {CLOSE}, %"]
    return table(
        [*header, "closer than a tenth of the lengthscales, %", "regret: after - before"], cells
    )


def main() -> None:
    stored = read(Path(__file__).with_name("rows.jsonl.gz"))
    rows = {(row["task"], row["q"], row["code"]): row for row in stored}
    print("## Batches, by kind\n", by_kind(rows), sep="\n")
    print("## Batches, by problem\n", by_problem(rows), sep="\n")
    print("## While others run\n", while_running(rows), sep="\n")


if __name__ == "__main__":
    main()
