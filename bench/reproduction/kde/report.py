r"""Writes the tables and pictures behind this folder's README from what its campaigns have stored.

The curves are kept in `curves/`: a series whose rounds are in no store any more is read from there.

python -m bench.reproduction.kde.report [--results results/kde] [--to FOLDER]
"""

from pathlib import Path

import torch
from botorch_risk_bench.campaigns import ExperimentRecords
from botorch_risk_bench.experiments.papers.kde import EXPERIMENTS, portfolio
from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.metrics import INTERVAL
from botorch_risk_bench.reports.summary import RegretCurves, regret_curves
from torch import Tensor

from bench.reproduction.kde.campaign import (
    ALL,
    FITTED_KERNEL,
    LONG,
    LONGER,
    MATERN,
    NUM_LONG,
    NUM_ROUNDS,
    RELEASED,
)
from bench.reproduction.pictures import draw_mean, finish, panels, seeds_of
from bench.reproduction.results import Report, records_of
from bench.reproduction.stored_curves import Curves, with_kept
from bench.reproduction.tables import cell, comparisons, paired, table

REFERENCE = "SBO-KDE"
OF_2023 = "-Matern"
REWARDED = "hartmann-complicated"  # of which the paper shows the reward
PORTFOLIO = ("portfolio-normal", "portfolio-uniform")  # by portfolio.py
DRAWN = ("SBO-KDE", "DRBO-KDE", "StableOpt", "GP-UCB", "DRBO-MMD", "DRBO-MMD-minimax")
IN_THE_TABLES = (*DRAWN, *RELEASED, *MATERN, FITTED_KERNEL)
MODELS = {"default model of today": "", "default model of 2023": OF_2023}
COMPARED = [  # with each model: the first minus the second
    *((each, "SBO-KDE") for each in DRAWN[1:]),
    *((each, "DRBO-KDE") for each in DRAWN[2:]),
    *((each, "GP-UCB") for each in ("StableOpt", "DRBO-MMD", "DRBO-MMD-minimax")),
    ("DRBO-MMD", "StableOpt"),
    ("DRBO-MMD-minimax", "DRBO-MMD"),
]
VARIED = [
    *((each, each + OF_2023) for each in DRAWN[:4]),
    *((each, each.removesuffix("-released")) for each in RELEASED),
    *((each, "SBO-KDE") for each in RELEASED),
    *((FITTED_KERNEL, each + OF_2023) for each in DRAWN[:2]),
    (FITTED_KERNEL, "DRBO-MMD-minimax"),
]


def earned(records: ExperimentRecords, label: str) -> Tensor:
    r"""The sum of the observed outcomes so far, `R x T`."""
    outcomes = [record.Y.sum(dim=(-2, -1)) for record in records.rounds(label)[1:]]
    return torch.stack(outcomes, dim=-1).cumsum(dim=-1)


def collected(
    results: Path, kept: Path, name: str
) -> tuple[dict[str, RegretCurves], dict[str, Tensor]]:
    r"""Regret, and the sum of the observed outcomes `R x T`, of all strategies of a problem.

    From the stores of the campaigns; a series that is in none of them, or not whole, from the
    curves that an earlier report kept.
    """
    with records_of(results, name) as found:
        played = {
            label: {
                "cumulative": curve.cumulative,
                "simple": curve.simple,
                "reward": earned(records, label)[:, :NUM_ROUNDS],
            }
            for records in found
            for label, curve in regret_curves(records).items()
        }
    whole = {
        label: each for label, each in played.items() if each["cumulative"].shape[-1] >= NUM_ROUNDS
    }
    known = played | with_kept(kept / f"{name}.json.gz", whole)
    shown = {label: known[label] for label in IN_THE_TABLES if label in known}
    curves = {
        label: RegretCurves(each["cumulative"], each["simple"]) for label, each in shown.items()
    }
    return curves, {label: each["reward"] for label, each in shown.items()}


def final_rows(curves: dict[str, RegretCurves], rewards: dict[str, Tensor]) -> list[list[str]]:
    rows = []
    for label, curve in curves.items():
        if curve.cumulative.shape[-1] < NUM_ROUNDS:
            continue
        total, simple = curve.cumulative[:, -1], curve.simple[:, -1]
        of_2023 = label in (*MATERN, FITTED_KERNEL)
        name = REFERENCE + OF_2023 if of_2023 else REFERENCE  # with the same model
        is_reference = label == name
        if name not in curves:
            continue
        reference = curves[name]
        rows.append(
            [
                label,
                str(len(total)),
                cell(total),
                cell(total[:5]),
                "" if is_reference else paired(total, reference.cumulative[:, -1]),
                cell(simple),
                "" if is_reference else paired(simple, reference.simple[:, -1]),
                cell(rewards[label][:, -1]),
            ]
        )
    return rows


def by_round(curves: dict[str, RegretCurves]) -> list[list[str]]:
    return [
        [
            str(t),
            *(
                cell(curve.cumulative[:, t - 1]) if t <= curve.cumulative.shape[-1] else ""
                for curve in curves.values()
            ),
        ]
        for t in (10, 25, 50, 75, NUM_ROUNDS)
    ]


def draw(name: str, curves: dict[str, RegretCurves], path: Path) -> None:
    r"""Cumulative and simple regret; below, with the model that was BoTorch's default in 2023."""
    models = MODELS if any(label in curves for label in MATERN) else {"default model of today": ""}
    figure, panes = panels(2 * len(models), columns=2)
    for row, (model, suffix) in enumerate(models.items()):
        left, right = panes[2 * row : 2 * row + 2]
        right.set_yscale("log")
        for label in (each for each in DRAWN if each + suffix in curves):
            curve = curves[label + suffix]
            shown = f"{label} ({len(curve.simple)} seeds)" if not suffix else "_"
            draw_mean(left, curve.cumulative, label, first=1, shown=shown)
            draw_mean(right, curve.simple, label, shown=shown)
        left.set(xlabel="round", ylabel=f"cumulative regret, {model}")
        right.set(xlabel="round", ylabel=f"simple regret, {model}")
    definition = get_experiment(name, (*EXPERIMENTS, *portfolio("none")))  # whose table is not read
    title = definition.description.partition(", distribution")[0]
    number = len(curves[REFERENCE + OF_2023].simple) if len(models) > 1 else 0
    below = f"; below, {number} seeds" if number else ""
    finish(figure, path, f"{title}: mean and {INTERVAL}{below}")


def played_long(results: Path, kept: Path, name: str) -> Curves:
    r"""Cumulative regret and reward, `R x T` each, of runs as long as the authors' program has."""
    with records_of(results, name, LONGER) as found:
        played = {
            label: {"cumulative": curve.cumulative, "reward": earned(records, label)}
            for records in found
            for label, curve in regret_curves(records).items()
            if curve.num_rounds >= NUM_LONG
        }
    whole = with_kept(kept / f"{name}-long.json.gz", played)
    return {label: whole[label + OF_2023] for label in DRAWN if label + OF_2023 in whole}


def draw_long(found: dict[str, Curves], path: Path) -> None:
    figure, every = panels(len(found), columns=2)
    for axes, (name, curves) in zip(every, found.items(), strict=True):
        for label, each in curves.items():
            draw_mean(axes, each["cumulative"], label, first=1)
        title = get_experiment(name).description.partition(", distribution")[0]
        axes.set(title=title, xlabel="round", ylabel="cumulative regret")
    seeds = seeds_of(each["cumulative"] for curves in found.values() for each in curves.values())
    separator = ", " if len(found) > 1 else "\n"  # a single panel is narrow
    finish(figure, path, f"Default model of 2023{separator}{seeds}")


def main() -> None:
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    results, to = report.results, report.to
    page, ends, paid = [], {}, {}
    for name in (*ALL, *PORTFOLIO):
        curves, rewards = collected(results, to / "curves", name)
        if REFERENCE not in curves:
            continue
        ends[name] = {
            label: curve.cumulative[:, NUM_ROUNDS - 1]
            for label, curve in curves.items()
            if curve.cumulative.shape[-1] >= NUM_ROUNDS
        }
        header = [
            "strategy",
            "seeds",
            "cumulative regret",
            "first five seeds",
            f"minus {REFERENCE} with the same model, paired",
            "simple regret",
            f"minus {REFERENCE} with the same model, paired",
            "observed reward",
        ]
        page += [f"### {name}: {NUM_ROUNDS} rounds\n", table(header, final_rows(curves, rewards))]
        page += ["Cumulative regret by round:\n", table(["round", *curves], by_round(curves))]
        draw(name, curves, to / name)
        if name == REWARDED:
            paid = {
                f"{model}, {NUM_ROUNDS} rounds": {
                    label: rewards[label + suffix][:, -1]
                    for label in DRAWN
                    if label + suffix in rewards
                }
                for model, suffix in MODELS.items()
            }
    for model, suffix in MODELS.items():
        differences = comparisons(ends, [(a + suffix, b + suffix) for a, b in COMPARED])
        page += [f"### cumulative regret, {model}\n", differences] if differences else []
    if differences := comparisons(ends, VARIED):
        page += ["### cumulative regret, what text and program do differently\n", differences]
    played = {name: played_long(results, to / "curves", name) for name in LONG}
    long = {name: curves for name, curves in played.items() if REFERENCE in curves}
    for t in (NUM_ROUNDS, NUM_LONG) if long else ():
        ends = {
            name: {label: each["cumulative"][:, t - 1] for label, each in curves.items()}
            for name, curves in long.items()
        }
        title = f"### long runs, cumulative regret after {t} rounds, default model of 2023\n"
        page += [title, comparisons(ends, COMPARED)]
    if long:
        draw_long(long, to / "long")
    if REWARDED in long:
        paid[f"default model of 2023, {NUM_LONG} rounds"] = {
            label: each["reward"][:, NUM_LONG - 1] for label, each in long[REWARDED].items()
        }
    if differences := comparisons(paid, COMPARED):
        page += [f"### observed reward, {REWARDED}: the larger the better\n", differences]
    report.write(page)


if __name__ == "__main__":
    main()
