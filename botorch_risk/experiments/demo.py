r"""Risk-averse against risk-neutral tuning of a random forest, from data to decision.

Run by `make demo`. Both methods see the same initial designs and the same splits, and
report by the same rule; what they report is then measured on new splits that neither
has seen.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from botorch_risk.experiments.campaign import Campaign
from botorch_risk.experiments.one_line_errors import one_line_errors
from botorch_risk.experiments.papers.rahbo import FOREST_RISK_AVERSION
from botorch_risk.experiments.plots import COLORS, save_png
from botorch_risk.experiments.registry import get_experiment
from botorch_risk.experiments.store import ExperimentStore
from botorch_risk.experiments.workers import end_with
from botorch_risk.extras import MissingExtraError, require_extra
from botorch_risk.metrics import (
    mean_and_standard_error,
    note_on_comparisons,
    paired_difference,
)
from botorch_risk.strategies import Strategy
from botorch_risk.test_functions import ForestTuning

METHODS = ("RAHBO", "GP-UCB")
AVERSE = "RAHBO"
NEUTRAL = "GP-UCB, risk-neutral report"
# Label, method that chose the points, weight of the variance in the report.
REPORTS = (
    (AVERSE, "RAHBO", FOREST_RISK_AVERSION),
    ("GP-UCB", "GP-UCB", FOREST_RISK_AVERSION),
    (NEUTRAL, "GP-UCB", 0.0),
)
RULE = (
    "the evaluated point with the largest lower confidence bound of mean - 20 x variance under "
    "the final model, for both methods; the risk-neutral report leaves the variance out"
)


def main(quick: bool = False, out: Path = Path("results/demo"), jobs: int = 2) -> None:
    r"""Tunes a random forest with RAHBO and with GP-UCB, and measures what they report.

    Args:
        quick: Whether to take two seeds and a few rounds only.
        out: Where the results go.
        jobs: The number of processes.
    """
    for name in ("joblib", "matplotlib", "sklearn", "tqdm"):
        require_extra(name)
    seeds, rounds, fresh = (range(2), 2, 20) if quick else (range(4), 20, 100)
    out.mkdir(parents=True, exist_ok=True)
    store = out / ("quick.sqlite" if quick else "demo.sqlite")
    print(
        f"Tuning a random forest: {len(seeds)} seeds, 10 + {rounds} configurations of 5 splits "
        f"each, {jobs} processes. Stop it at any moment; it resumes."
    )
    Campaign(get_experiment("forest"), store, seeds, METHODS, rounds).run(num_jobs=jobs)
    reported = _reported(store)
    scores = _measure(reported, fresh, jobs)
    page = _page(reported, scores, len(seeds), rounds, fresh)
    (out / "demo.md").write_text(page, encoding="utf-8")
    picture = save_png(_picture(scores), out / "demo.png")
    print(f"\n{page}\nTable: {out / 'demo.md'}\nPicture: {picture}\nAll rounds: {store}")


def _reported(path: Path) -> dict[str, Tensor]:
    r"""The configurations that are reported after the last round, whole numbers, `R x 3` each.

    GP-UCB is reported by the rule of RAHBO, and as risk-neutral users would report it.
    """
    experiment = get_experiment("forest")
    reported = {}
    with ExperimentStore(path) as store:
        seeds, bounds = store.identity["seeds"], experiment.problem().bounds
        for label, method, weight in REPORTS:
            strategy = experiment.build(method, bounds, seeds)
            strategy.load_state_dict(store.progress(method)[1] or {})
            reported[label] = _recommended(strategy, weight).round()
    return reported


def _recommended(strategy: Strategy, risk_aversion: float) -> Tensor:
    r"""What a strategy would recommend if the variance had another weight, `R x d`."""
    method: Any = strategy.method
    weighed = replace(method, weights=replace(method.weights, risk_aversion=risk_aversion))
    bounds = strategy.space.bounds
    chosen = bounds.new_full((len(strategy.seeds), bounds.shape[-1]), torch.nan)
    for replicates, view in strategy.views:
        chosen[replicates] = weighed.recommend(view)
    return chosen


def _measure(reported: dict[str, Tensor], num_splits: int, jobs: int) -> dict[str, Tensor]:
    r"""Mean and standard deviation of the score on fresh splits, `R x 2` for each method."""
    joblib, tqdm = require_extra("joblib"), require_extra("tqdm").tqdm
    points = torch.cat(list(reported.values()))
    distinct, index = points.unique(dim=0, return_inverse=True)
    values = joblib.Parallel(n_jobs=jobs, backend="loky")(
        joblib.delayed(_measure_one)(x, num_splits, os.getpid())
        for x in tqdm(distinct, desc="measuring on new splits", unit="configuration")
    )
    measured = torch.stack(values)[index]
    return dict(zip(reported, measured.split([len(x) for x in reported.values()]), strict=True))


def _measure_one(x: Tensor, num_splits: int, parent: int) -> Tensor:
    end_with(parent)
    torch.set_num_threads(1)
    return torch.stack(ForestTuning().reference_values(x, num_splits, seed=2**20))


def _mean_variance(scores: Tensor) -> Tensor:
    return scores[:, 0] - FOREST_RISK_AVERSION * scores[:, 1].square()


def _page(
    reported: dict[str, Tensor], scores: dict[str, Tensor], seeds: int, rounds: int, fresh: int
) -> str:
    r"""The result as Markdown."""
    lines = [
        "# Tuning a random forest, averse to risk and neutral to it",
        "",
        f"{seeds} paired seeds, 10 + {rounds} configurations of 5 stratified splits each; every",
        f"reported configuration measured on {fresh} fresh splits. Mean-variance is the balanced",
        f"accuracy minus {FOREST_RISK_AVERSION:g} times its variance. Reporting rule: {RULE}.",
        "",
        "| method | seed | trees, features, depth | mean | standard deviation | mean-variance |",
        "|---|---|---|---|---|---|",
    ]
    for label, points in reported.items():
        for seed, (x, (mean, deviation)) in enumerate(zip(points, scores[label], strict=True)):
            value = mean - FOREST_RISK_AVERSION * deviation**2
            configuration = ", ".join(f"{int(each)}" for each in x)
            numbers = f"{mean:.4f} | {deviation:.4f} | {value:.4f}"
            lines.append(f"| {label} | {seed} | {configuration} | {numbers} |")
    lines += [
        "",
        "| mean +- Student-t interval, 95 % | mean | standard deviation | mean-variance |",
    ]
    lines.append("|---|---|---|---|")
    columns = {label: _columns(values) for label, values in scores.items()}
    for label, values in columns.items():
        cells = (_cell(mean_and_standard_error(value)) for value in values)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    for label in list(columns)[1:]:
        pairs = zip(columns[AVERSE], columns[label], strict=True)
        cells = (_cell(paired_difference(ours, theirs)) for ours, theirs in pairs)
        lines.append(f"| {AVERSE} minus {label}, paired | {' | '.join(cells)} |")
    number = sum(len(columns[label]) for label in list(columns)[1:])
    lines += ["", note_on_comparisons(number)]
    lines += ["", *(_verdict(label, scores) for label in list(scores)[1:])]
    return "\n".join(lines) + "\n"


def _verdict(label: str, scores: dict[str, Tensor]) -> str:
    r"""In words, what risk aversion bought against one of the others."""
    gain = paired_difference(_mean_variance(scores[AVERSE]), _mean_variance(scores[label]))
    seeds = len(scores[label])
    found = f"no difference that {seeds} seeds can show"
    if abs(gain.mean) > gain.half_width:
        what = "higher" if gain.mean > 0 else "lower"
        size = f"{abs(gain.mean):.4f} +- {gain.half_width:.4f}"
        found = f"mean-variance {what} by {size} over {seeds} seeds"
    return f"Risk aversion against {label}: {found}.\n"


def _columns(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return scores[:, 0], scores[:, 1], _mean_variance(scores)


def _cell(value: Any) -> str:
    return f"{value.mean:.4f} +- {value.half_width:.4f}"


def _picture(scores: dict[str, Tensor]) -> Any:
    r"""Reported configurations by standard deviation and mean, with lines of equal value."""
    figure = require_extra("matplotlib.figure").Figure(figsize=(6.0, 4.2), layout="constrained")
    axes = figure.subplots()
    every = torch.cat(list(scores.values()))
    low, high = every[:, 1].min() - 0.001, every[:, 1].max() + 0.001
    bottom, top = every[:, 0].min() - 0.002, every[:, 0].max() + 0.002
    x = torch.linspace(low.item(), high.item(), 100)
    y = torch.linspace(bottom.item(), top.item(), 100)
    value = y.unsqueeze(-1) - FOREST_RISK_AVERSION * x.square()
    lines = axes.contour(x, y, value, levels=6, colors="0.8", linewidths=0.8)
    axes.clabel(lines, fmt="%.3f", fontsize=7)
    for (label, points), color, marker in zip(scores.items(), COLORS, "os^", strict=False):
        axes.scatter(
            points[:, 1], points[:, 0], color=color, marker=marker, alpha=0.75, label=label
        )
    axes.set_xlabel("standard deviation of the balanced accuracy, fresh splits")
    axes.set_ylabel("mean of the balanced accuracy, fresh splits")
    axes.set_title(
        "Reported forests; grey: equal mean - 20 x variance (better to the upper left)", fontsize=9
    )
    axes.legend(frameon=False)
    return figure


def _arguments() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two seeds and a few rounds")
    parser.add_argument("--out", type=Path, default=Path("results/demo"), help="of the results")
    parser.add_argument("--jobs", type=int, default=2, help="the number of processes")
    return vars(parser.parse_args())


if __name__ == "__main__":
    with one_line_errors(MissingExtraError):
        main(**_arguments())
