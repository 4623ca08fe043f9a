r"""Writes the tables and pictures behind this folder's README from what its campaigns have stored.

python -m bench.reproduction.rahbo.report [--results results/rahbo] [--to FOLDER]
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import torch
from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.campaigns.whole_files import write_text
from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.problems import ForestTuning
from botorch_risk_bench.reports.replay import final_strategy
from botorch_risk_bench.reports.summary import regret_curves
from torch import Tensor

from bench.reproduction.pictures import BLACK, LOOKS, draw_mean, finish, panels, seeds_of
from bench.reproduction.rahbo.campaign import BRANINS, SINES
from bench.reproduction.results import Report, records_of
from bench.reproduction.tables import cell, comparisons, paired, table

PICTURES = {
    "sine": ("", "-paper"),
    "branin": ("", "-paper"),
    "sine-variance": ("",),
    "branin-variance": ("",),
}
SYNTHETIC = (*PICTURES, *SINES, *BRANINS)
RULES = (
    "lower_confidence_bound",
    "recorded_lower_confidence_bound",
    "posterior_mean",
    "best_observed",
)
# What who does not mind risk would report: the authors report GP-UCB by its own bound.
NEUTRAL = {
    "lower bound, risk-neutral": "lower_confidence_bound",
    "best observed mean, risk-neutral": "best_observed",
}
FIRST_STAGE = 10
STAGED = (("RAHBO-US", "RAHBO"), ("RAHBO-US-paper", "RAHBO-paper"))
NUM_SPLITS = 60
OPTIMA = {"A": (9.42478, 2.475), "B": (torch.pi, 2.275), "C": (-torch.pi, 12.275)}


def strategy_of(store: ExperimentRecords, name: str, label: str) -> Any:
    r"""The strategy as it was after its last round."""
    return final_strategy(store, get_experiment(name), label)


def regret_rows(store: ExperimentRecords) -> list[list[str]]:
    curves, later = regret_curves(store), later_regret(store)
    rows = []
    for label, curve in curves.items():
        charged = curve.cumulative[:, -1]
        uncharged = cell(later[label]) if "US" in label and label in later else ""
        reference = curves["RAHBO-paper" if label.endswith("paper") else "RAHBO"]
        is_reference = label in ("RAHBO", "RAHBO-paper")
        differences = (
            paired(charged, reference.cumulative[:, -1]),
            paired(curve.simple[:, -1], reference.simple[:, -1]),
        )
        of_sum, of_last = ("", "") if is_reference else differences
        rows.append([label, cell(charged), uncharged, of_sum, cell(curve.simple[:, -1]), of_last])
    return rows


def later_regret(store: ExperimentRecords) -> dict[str, Tensor]:
    r"""Cumulative regret of the rounds after the first stage, `R`, where there are such rounds."""
    sums = {label: curve.cumulative for label, curve in regret_curves(store).items()}
    return {
        label: each[:, -1] - each[:, FIRST_STAGE - 1]
        for label, each in sums.items()
        if each.shape[-1] > FIRST_STAGE
    }


def recommended(strategy: Any, rule: str, **weights: float) -> Tensor:
    r"""What the method would recommend of the same data by another rule and other weights."""
    method = strategy.method
    method = replace(method, rule=rule, weights=replace(method.weights, **weights))
    [(_, view)] = strategy.views  # all seeds have equally many outcomes
    return method.recommend(view)


def rule_rows(store: ExperimentRecords, name: str) -> list[list[str]]:
    r"""Final simple regret of the same data under every reporting rule.

    The last column has the regret of f alone, at the point with the best lower bound, Fig. 2(d).
    """
    problem: Any = get_experiment(name).problem()
    optimum = problem.optimal_mean_variance(problem.risk_aversion)[1]
    rows = []
    for label in store.labels():
        strategy = strategy_of(store, name, label)
        by_rule = [recommended(strategy, rule) for rule in RULES]
        neutral = [recommended(strategy, rule, risk_aversion=0.0) for rule in NEUTRAL.values()]
        cells = [
            cell(optimum - problem.objective(points.unsqueeze(-2)).squeeze(-1))
            for points in (*by_rule, *neutral)
        ]
        of_mean = problem.optimal_value - problem.evaluate_true(by_rule[0])
        rows.append([label, *cells, cell(of_mean)])
    return rows


def draw_regret(store: ExperimentRecords, name: str, suffix: str, path: Path) -> None:
    curves = {
        label: each
        for label, each in regret_curves(store).items()
        if label.endswith("-paper") == (suffix == "-paper")
    }
    figure, (left, right) = panels(2, columns=2)
    right.set_yscale("log")
    for label, each in curves.items():
        draw_mean(left, each.cumulative, label, first=1)
        draw_mean(right, each.simple, label)
    left.set(xlabel="round", ylabel="cumulative mean-variance regret")
    right.set(xlabel="round", ylabel="simple mean-variance regret")
    choice = "as in the paper" if suffix else "defaults of the package"
    seeds = seeds_of(each.simple for each in curves.values())
    title = name.capitalize().replace("-variance", ", sigmoid as variance")
    finish(figure, path, f"{title}, {choice}: {seeds}")


def histogram_rows(store: ExperimentRecords) -> list[list[str]]:
    r"""Fig. 1(c): the share of the rounds spent within 1.5 of each optimum of Branin."""
    rows = []
    for label in store.labels():
        X = torch.cat([record.X for record in store.rounds(label)[1:]], dim=-2)  # R x T x 2
        near = [
            ((X - torch.tensor(optimum, dtype=X.dtype)).norm(dim=-1) < 1.5).double().mean(dim=-1)
            for optimum in OPTIMA.values()
        ]
        rows.append([label, *(cell(100 * share) for share in near)])
    return rows


def draw_queries(rows: list[list[str]], path: Path) -> None:
    r"""Fig. 1(c), in the run as in the paper, from the rows of `histogram_rows`."""
    problem: Any = get_experiment("branin").problem()
    optima = torch.tensor(list(OPTIMA.values()), dtype=torch.float64)
    deviations = problem.noise_variance(optima).sqrt().flatten().tolist()
    shares = {label: [each.split(" ± ") for each in cells] for label, *cells in rows}
    figure, (axes,) = panels(1)
    for place, label in enumerate(("GP-UCB", "RAHBO", "RAHBO-US")):
        means, widths = torch.tensor(
            [[float(number) for number in each] for each in shares[f"{label}-paper"]]
        ).T
        at = torch.arange(len(optima)) + 0.27 * (place - 1)
        look: dict[str, Any] = {"color": LOOKS[label][0], "ecolor": BLACK, "capsize": 3}
        error = torch.stack([widths.minimum(means), widths])  # a share is not below 0
        axes.bar(at, means, 0.25, yerr=error, label=label, **look)
    names = [f"{name}\nnoise sd {each:.1f}" for name, each in zip(OPTIMA, deviations, strict=True)]
    axes.set_xticks(range(len(optima)), names)
    axes.set(xlabel="optimum of Branin", ylabel="% of queries within 1.5")
    finish(figure, path, "Where they query, as in the paper")


def forest_rows(results: Path) -> list[list[str]]:
    r"""Figs. 5(b, c): reported forests, measured on fresh splits, by two rules."""
    reports: dict[str, Tensor] = {}
    for weight, runs in (
        (20.0, (("forest", "RAHBO"), ("forest", "GP-UCB"))),
        (100.0, (("forest-100", "RAHBO"), ("forest", "GP-UCB"))),
    ):
        for name, label in runs:
            with records_of(results, name) as [records]:
                strategy = strategy_of(records, name, label)
            for rule in ("best_observed", "lower_confidence_bound"):
                points = recommended(strategy, rule, risk_aversion=weight)
                reports[f"{weight:g}|{rule}|{label}"] = points.round()
    scores = measured(torch.cat(list(reports.values())), results / "forest_scores.json")
    rows = []
    for weight in ("20", "100"):
        for rule in ("best_observed", "lower_confidence_bound"):
            ours, theirs = (
                torch.tensor([scores[key(x)] for x in reports[f"{weight}|{rule}|{label}"]])
                for label in ("RAHBO", "GP-UCB")
            )
            columns = []
            for label, values in (("RAHBO", ours), ("GP-UCB", theirs)):
                mean, deviation = values.T
                objective = mean - float(weight) * deviation.square()
                cells = [cell(mean), cell(deviation), cell(objective)]
                rows.append([weight, rule, label, *cells])
                columns.append((mean, deviation, objective))
            gains = [paired(*pair) for pair in zip(*columns, strict=True)]
            rows.append([weight, rule, "difference, paired", *gains])
    return rows


def key(x: Tensor) -> str:
    return ",".join(f"{int(each)}" for each in x)


def measured(points: Tensor, path: Path) -> dict[str, list[float]]:
    r"""Mean and standard deviation on fresh splits of each configuration, kept on disk."""
    scores = json.loads(path.read_text()) if path.exists() else {}
    missing = [x for x in points.unique(dim=0) if key(x) not in scores]
    for batch in (missing[i : i + 8] for i in range(0, len(missing), 8)):
        values = joblib.Parallel(n_jobs=2)(joblib.delayed(measure)(x) for x in batch)
        scores |= dict(zip(map(key, batch), values, strict=True))
        write_text(path, json.dumps(scores))
    return scores


def measure(x: Tensor) -> list[float]:
    torch.set_num_threads(1)
    mean, deviation = ForestTuning().reference_values(x, NUM_SPLITS, seed=2**20)
    return [mean.item(), deviation.item()]


def main() -> None:
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    results, to = report.results, report.to
    page, later = [], {}
    for name in SYNTHETIC:
        with records_of(results, name) as found:
            if not found:
                continue
            (store,) = found
            later[name] = later_regret(store)
            seeds = len(store.identity["seeds"])
            rounds = max(each.num_rounds for each in regret_curves(store).values())
            page += [f"### {name}: {seeds} seeds, {rounds} rounds\n"]
            header = [
                "strategy",
                "cumulative regret",
                "first stage not charged",
                "minus RAHBO, paired",
                "simple regret",
                "minus RAHBO, paired",
            ]
            page.append(table(header, regret_rows(store)))
            header = ["strategy", *RULES, *NEUTRAL, "of the mean alone"]
            page += [
                "Final simple regret of the same data by reporting rule:\n",
                table(header, rule_rows(store, name)),
            ]
            for suffix in PICTURES.get(name, ()):
                draw_regret(store, name, suffix, to / f"{name}{suffix}")
            if name == "branin":
                header = ["strategy", "% near A (noisiest)", "% near B", "% near C (quietest)"]
                rows = histogram_rows(store)
                page += ["Queries within 1.5 of each optimum, Fig. 1(c):\n", table(header, rows)]
                draw_queries(rows, to / "branin_queries")
    if differences := comparisons(later, STAGED):
        title = f"### cumulative regret after the first {FIRST_STAGE} rounds of both\n"
        page += [title, differences]
    with records_of(results, "forest") as forest, records_of(results, "forest-100") as averse:
        num_forests = len(forest[0].identity["seeds"]) if forest and averse else 0
    if num_forests:
        header = [
            "risk aversion",
            "rule",
            "strategy",
            "mean",
            "standard deviation",
            "mean-variance",
        ]
        page += [f"### forest: {num_forests} seeds, 50 rounds, {NUM_SPLITS} fresh splits\n"]
        page.append(table(header, forest_rows(results)))
    report.write(page)


if __name__ == "__main__":
    main()
