r"""Writes the tables and the picture of this folder's README from what its campaign has stored.

python -m bench.studies.repeats.report [--results results/repeats] [--to FOLDER]
"""

from pathlib import Path

import torch
from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.metrics import median
from botorch_risk_bench.reports.plots import save_png
from botorch_risk_bench.reports.summary import regret_curves
from matplotlib.figure import Figure
from torch import Tensor

from bench.reproduction.results import Report, records_of
from bench.reproduction.tables import paired, table
from bench.studies.repeats.experiments import BUDGET, EXPERIMENTS, FIXED, OURS

SHOWN = (60, 100, 140, 170, BUDGET)


def regret_by_reading(store: ExperimentRecords, label: str, simple: Tensor) -> Tensor:
    r"""Simple regret after each number of readings, `R x (BUDGET + 1)`; NaN before the design ends.

    Args:
        store: What was run.
        label: The strategy.
        simple: `R x (T + 1)` regrets by round.
    """
    curves = torch.full((len(simple), BUDGET + 1), torch.nan, dtype=torch.double)
    used = torch.zeros(len(simple))
    for record in store.rounds(label):
        if record.index >= simple.shape[-1]:
            break
        used = used + record.X[..., -1].nansum(dim=-1)
        for replicate, spent in enumerate(used.long().tolist()):
            curves[replicate, spent:] = simple[replicate, record.index]
    return curves


def reached(curves: Tensor, level: float) -> int | None:
    r"""The number of readings after which the median regret is at a level for the first time."""
    medians = median(curves)
    # A median of some seeds alone would be another quantity.
    at_level = (medians <= level) & curves.isfinite().all(dim=0)
    return int(at_level.int().argmax()) if bool(at_level.any()) else None


def best_fixed(curves: dict[str, Tensor]) -> str | None:
    r"""The fixed number of readings with the least median regret at the end."""
    last = {k: median(curves[k][:, -1]).item() for k in map("k = {}".format, FIXED) if k in curves}
    return min(last, key=last.__getitem__) if last else None


def rows(curves: dict[str, Tensor]) -> list[list[str]]:
    r"""A row a strategy: medians, and what it takes to be as good as the best fixed number."""
    best = best_fixed(curves)
    shown = []
    for label, curve in curves.items():
        medians = [median(curve[:, n]).item() for n in SHOWN]
        cells = [label, str(len(curve)), *(f"{each:.3g}" for each in medians)]
        if best is not None:
            count = reached(curve, median(curves[best][:, -1]).item())
            cells.append("not within 200" if count is None else str(count))
            last, reference = curve[:, -1], curves[best][:, -1]
            cells.append("" if label == best else paired(last, reference))
        shown.append(cells)
    return shown


def headline(readings: dict[str, int | None]) -> str:
    r"""One sentence: how many readings ours takes, problem by problem."""
    parts = [
        f"{name} {'not within 200' if count is None else f'{count} ({count / BUDGET - 1:+.0%})'}"
        for name, count in readings.items()
    ]
    return (
        "Readings until `adaptive` has the median regret that the best fixed number in hindsight "
        f"has after 200: {', '.join(parts)}.\n"
    )


def draw(pages: dict[str, dict[str, Tensor]], path: Path) -> None:
    r"""Median regret by the number of readings, a panel a problem, with ours in front."""
    figure = Figure(figsize=(1.5 + 3.4 * len(pages), 3.4), layout="constrained")
    panels = figure.subplots(1, len(pages), squeeze=False)[0]
    for panel, (name, curves) in zip(panels, pages.items(), strict=True):
        for label, curve in curves.items():
            medians = median(curve)
            known = curve.isfinite().all(dim=0)
            width = 2.2 if label == OURS else 1.0
            style = "-" if label.startswith("k =") or label == OURS else "--"
            panel.step(
                torch.arange(BUDGET + 1)[known], medians[known], style, where="post",
                linewidth=width, color="black" if label == OURS else None, label=label,
            )  # fmt: skip
        panel.set(title=name, xlabel="readings", yscale="log")
    panels[0].set_ylabel("median regret, mean - variance")
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8)
    save_png(figure, path, dpi=120)


def main() -> None:
    r"""Writes tables.md and repeats.png."""
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    pages: dict[str, dict[str, Tensor]] = {}
    text, readings = [], {}
    for definition in EXPERIMENTS:
        with records_of(report.results, definition.name) as found:
            curves = {
                label: regret_by_reading(store, label, curve.simple)
                for store in found
                for label, curve in regret_curves(store).items()
            }
        if curves:
            pages[definition.name] = curves
            best = best_fixed(curves)
            if best is not None and OURS in curves:
                level = median(curves[best][:, -1]).item()
                readings[definition.name] = reached(curves[OURS], level)
            header = ["strategy", "seeds", *(f"{n} readings" for n in SHOWN)]
            extra = [] if best is None else [f"readings to {best} at 200", f"mean less {best}"]
            text += [
                f"### {definition.name}: {definition.description}\n",
                "Median simple regret:\n",
                table([*header, *extra], rows(curves)),
            ]
    page = [headline(readings), *text] if readings else text
    report.write(page)
    if pages:
        draw(pages, report.to / "repeats.png")


if __name__ == "__main__":
    main()
