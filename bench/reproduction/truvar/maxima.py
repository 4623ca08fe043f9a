r"""Fig. 3 of TRUVAR: maxima on the grid and anywhere in the square, support vector machines."""

from collections.abc import Iterable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.metrics import median
from torch import Tensor

from bench.reproduction.pictures import LOOKS, draw_mean, finish, panels, seeds_of
from bench.reproduction.results import records_of
from bench.reproduction.stored_curves import with_kept
from bench.reproduction.tables import cell, comparisons, paired, table

REFERENCE = "TRUVAR"
SPELLED = {  # in legends
    "TRUVAR-a-1": "TRUVAR, a = 1",
    "TRUVAR-not-monotone": "TRUVAR, not monotone",
    "GCHK-1e-06": "GCHK, noise 1e-6",
    "GCHK-0.001": "GCHK, noise 0.001",
    "GCHK-0.05": "GCHK, noise 0.05",
}
ON_GRID, ANYWHERE = "synthetic-maximum", "synthetic-maximum-anywhere"
TUNING = {  # with hyperparameters by likelihood, as in the paper, and under priors
    "svm-on-grid": "support vector machine, by likelihood",
    "svm-on-grid-priors": "support vector machine, under priors",
}
PLAYED = ("TRUVAR", "TRUVAR-a-1", "TRUVAR-not-monotone", "EI", "GP-UCB", "MRS", "ES", "MES")
SHOWN = (10, 20, 30, 50, 60)
WITHOUT_TRUVAR = (5, 10, 15, 20, 60)  # rounds
COMPARED_AT = (5, 10, 15, 20, 25, 50, 100)  # rounds of the first campaign
RESOLVED = 1e-6  # of a regret, for its logarithm: the noise is 1e-3
LOST = 1e-2
VARIANTS = ("TRUVAR", "TRUVAR-a-1", "TRUVAR-not-monotone")
SMALLEST = 1e-4  # regret below it, 0 where the best point of the grid is found, is drawn as it
TRIMMED = 0.05


def begun(results: Path, name: str) -> Iterable[tuple[ExperimentRecords, list[str]]]:
    r"""The rounds of an experiment, series by series, with the strategies that have begun."""
    with records_of(results, name) as found:
        for records in found:
            yield records, [label for label in records.labels() if len(records.rounds(label)) > 1]


def reported_regret(results: Path, name: str) -> dict[str, Tensor]:
    r"""Regret of the reported point, `R x (T + 1)`; a finished run keeps its report."""
    regret = {}
    for store, labels in begun(results, name):
        for label in labels:
            known = [record.recommended_objective for record in store.rounds(label)]
            found = torch.stack([value for value in known if value is not None], dim=-1)
            regret[label] = 0.0 - found  # not the -0 of an exact optimum
    return regret


def trimmed(values: Tensor) -> Tensor:
    r"""The values without the best and the worst 5 % of the runs, round by round."""
    cut = int(TRIMMED * len(values))
    return values.sort(dim=0).values[cut : len(values) - cut]


def validation_errors(results: Path, name: str) -> dict[str, Tensor]:
    r"""The smallest validation error so far, `R x (T + 1)`; outcomes have no noise."""
    errors = {}
    for store, labels in begun(results, name):
        for label in labels:
            best = [record.Y.mean(dim=-1).amax(dim=-1) for record in store.rounds(label)]
            errors[label] = -torch.stack(best, dim=-1).nan_to_num(-torch.inf).cummax(dim=-1).values
    return errors


def draw_maxima(regret: dict[str, Tensor], path: Path) -> None:
    r"""Fig. 3(a), (b) on the grid, whose best point, with regret 0, is drawn as `SMALLEST`."""
    figure, (left, middle) = panels(2)
    for axes in (left, middle):
        axes.set(xlabel="round", yscale="log")
    for label, values in regret.items():
        color, line = LOOKS[label]
        for axes, summary in ((left, median(values)), (middle, trimmed(values).mean(dim=0))):
            axes.plot(summary.clamp_min(SMALLEST), color=color, linestyle=line, label=label)
    left.set_ylabel(f"median regret; {SMALLEST:g} stands for 0")
    middle.set_ylabel("mean regret, 5 % trimmed either side")
    finish(figure, path, "Synthetic functions, samples and reports on the grid")


def draw_tuning(every: dict[str, dict[str, Tensor]], path: Path) -> None:
    r"""Fig. 3(c): means with their intervals."""
    figure, all_axes = panels(len(every))
    for axes, (name, errors) in zip(all_axes, every.items(), strict=True):
        for label, values in errors.items():
            draw_mean(axes, values, label)
        axes.set(title=TUNING[name], xlabel="round", ylabel="smallest validation error")
    finish(
        figure, path, seeds_of(values for errors in every.values() for values in errors.values())
    )


def maximum_rows(values: dict[str, Tensor], rounds: list[int]) -> list[list[str]]:
    r"""Median, trimmed mean and mean at some rounds."""
    last = rounds[-1]
    return [
        [
            label,
            str(len(regret)),
            *(f"{median(regret[:, t]):.3g}" for t in rounds),
            *(cell(trimmed(regret)[:, t]) for t in rounds),
            cell(regret[:, last]),
            "" if label == REFERENCE else paired(regret[:, last], values[REFERENCE][:, last]),
        ]
        for label, regret in values.items()
    ]


def played_or_kept(path: Path, found: dict[str, Tensor]) -> dict[str, Tensor]:
    r"""One curve a strategy, from the stores or as an earlier report kept it."""
    curves = with_kept(path, {label: {"regret": values} for label, values in found.items()})
    return {label: curves[label]["regret"] for label in PLAYED if label in curves}


def anywhere_page(regret: dict[str, Tensor]) -> list[str]:
    r"""Medians, trimmed means, and paired differences of logarithms, by round."""

    def logarithm(values: Tensor, t: int) -> Tensor:
        return values[:, t].clamp_min(RESOLVED).log10()

    def rows(cell_of: Any) -> list[list[str]]:
        return [
            [
                label,
                str(len(values)),
                *(cell_of(label, values, t) if t < values.shape[-1] else "-" for t in SHOWN),
            ]
            for label, values in regret.items()
        ]

    def difference(label: str, values: Tensor, t: int) -> str:
        reference = regret[REFERENCE]
        if label == REFERENCE or t >= reference.shape[-1]:
            return ""
        return paired(logarithm(values, t), logarithm(reference, t))

    header = ["strategy", "seeds", *(f"round {t}" for t in SHOWN)]

    def ahead(label: str, values: Tensor, t: int) -> str:
        reference = regret[REFERENCE]
        if label == REFERENCE or t >= reference.shape[-1]:
            return ""
        common = min(len(values), len(reference))
        smaller = reference[:common, t] < values[:common, t]
        return f"{int(smaller.sum())} of {common}"

    parts = {
        "Median": lambda label, values, t: f"{median(values[:, t]):.2g}",
        "Mean without the best and the worst 5 %": lambda label, values, t: cell(
            trimmed(values[:, t : t + 1])[:, 0]
        ),
        f"log10 of the regret, at least {RESOLVED:g}": lambda label, values, t: cell(
            logarithm(values, t)
        ),
        f"The same, minus {REFERENCE}, paired": difference,
        f"Functions on which {REFERENCE} has the smaller regret": ahead,
    }
    page = [f"### {ANYWHERE}: regret\n"]
    for title, cell_of in parts.items():
        page += [f"{title}:\n", table(header, rows(cell_of))]
    columns = {
        f"round {t}": {
            label: logarithm(values, t) for label, values in regret.items() if t < values.shape[-1]
        }
        for t in WITHOUT_TRUVAR
    }
    others = [*product(("ES", "MRS"), ("EI", "GP-UCB")), ("GP-UCB", "EI")]
    page += ["log10 of the regret, two other methods at a time:\n", comparisons(columns, others)]
    lost = ", ".join(
        f"{label} {int((values[:, -1] > LOST).sum())} of {len(values)}"
        for label, values in regret.items()
    )
    return [*page, f"Functions whose maximum is missed by more than {LOST:g} at the end: {lost}.\n"]


def draw_anywhere(regret: dict[str, Tensor], path: Path) -> None:
    r"""Fig. 3(a), (b), and TRUVAR's variants where they have begun."""
    variants = [label for label in regret if label in VARIANTS]
    figure, every = panels(2 + (len(variants) > 1))
    for axes in every:
        axes.set(xlabel="round", ylabel="regret of the report", yscale="log")
    for label, values in regret.items():
        color, line = LOOKS[label]
        shown = f"{SPELLED.get(label, label)} ({len(values)} functions)"
        look = {"color": color, "linestyle": line, "label": shown}
        middle, mean = median(values), trimmed(values).mean(dim=0)
        if label not in variants or label == REFERENCE:
            every[0].plot(middle, **look)
            every[1].plot(mean, **look)
        if label in variants and len(every) > 2:
            every[2].plot(middle, **look)
    titles = ("median", "mean without the best and worst 5 %", "median, variants of TRUVAR")
    for axes, title in zip(every, titles, strict=False):
        axes.set_title(title)
    finish(figure, path, "Synthetic functions, samples and reports anywhere in the square")


def not_found(regret: dict[str, Tensor]) -> str:
    r"""How many searches miss the maximum, and when the median search is at it."""
    ends = []
    for label, values in regret.items():
        missed = int((values[:, -1] > 0).sum())
        at_it = median(values) <= 0
        since = f"round {int(at_it.double().argmax())}" if at_it.any() else "no round"
        ends.append(f"{label} {missed} of {len(values)} (the median is at it in {since})")
    return ", ".join(ends)


def maxima_page(results: Path, to: Path) -> list[str]:
    r"""The sections of tables.md, and the pictures; nothing where there are no rounds."""
    page: list[str] = []
    kept = to / "curves"
    regret = played_or_kept(kept / f"{ON_GRID}.json.gz", reported_regret(results, ON_GRID))
    tuning = {
        name: played_or_kept(kept / f"{name}.json.gz", validation_errors(results, name))
        for name in TUNING
    }
    errors = {f"{name}: validation error": values for name, values in tuning.items()}
    for title, values in {f"{ON_GRID}: regret": regret, **errors}.items():
        if REFERENCE in values:
            last = min(each.shape[-1] for each in values.values()) - 1
            rounds = [last // 4, last // 2, last]
            header = ["strategy", "seeds", *(f"median, round {t}" for t in rounds)]
            header += [*(f"trimmed mean, round {t}" for t in rounds), f"mean, round {last}"]
            header.append(f"minus {REFERENCE}, paired")
            page += [f"### {title}\n", table(header, maximum_rows(values, rounds))]
            at = {
                f"round {t}": {label: each[:, t] for label, each in values.items()}
                for t in COMPARED_AT
                if t <= last
            }
            page += ["Two methods at a time:\n", comparisons(at, combinations(values, 2))]
            if values is regret:
                page.append(f"Functions whose maximum is not found: {not_found(regret)}.\n")
    if regret:
        draw_maxima(regret, to / "maxima")
    if all(tuning.values()):
        draw_tuning(tuning, to / "tuning")
    off_grid = played_or_kept(kept / f"{ANYWHERE}.json.gz", reported_regret(results, ANYWHERE))
    if REFERENCE in off_grid:
        page += anywhere_page(off_grid)
        draw_anywhere(off_grid, to / "maxima_anywhere")
    return page
