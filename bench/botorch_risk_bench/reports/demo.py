r"""Show the benefit and cost of risk aversion: portfolios on real prices, from data to decision.

Run by `make demo`. RAHBO chooses and recommends policies for three risk aversions and for none,
from the same initial designs, from readings of the years 1991 to 2006. Its recommendations are then
measured on the unseen years from 2007 to 2022.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from botorch_risk_bench.campaigns import CampaignStore, ExperimentRecords, run_experiment
from botorch_risk_bench.campaigns.whole_files import write_text
from botorch_risk_bench.experiments.portfolio import JUDGED_BY, NEUTRAL, RISK_AVERSIONS, label_of
from botorch_risk_bench.metrics import (
    mean_and_standard_error,
    note_on_comparisons,
    paired_difference,
)
from botorch_risk_bench.problems import PortfolioPolicy
from botorch_risk_bench.problems.portfolio_policy import HELD_OUT_YEARS, TRAINING_YEARS
from botorch_risk_bench.reports.frontier import (
    bought_and_paid,
    mean_variance,
    plot_frontier,
    recommended,
)
from botorch_risk_bench.reports.plots import save_png

EXPERIMENT = "portfolio-policy"
LABELS = tuple(label_of(each) for each in (0.0, *RISK_AVERSIONS))
NUM_SEEDS, NUM_ROUNDS = 8, 40  # the seeds are 0, 1, ...
CAVEAT = (
    "An example of the method, not advice: the stocks were picked because they survived, trades "
    "and loans cost nothing, and there is one history only; the intervals are over seeds."
)


def main(quick: bool = False, out: Path = Path("results/demo"), workers: int = 2) -> None:
    r"""Find policies from risk-neutral to averse, and measure them on later years."""
    seeds, rounds = (2, 3) if quick else (NUM_SEEDS, NUM_ROUNDS)
    store = out / f"{EXPERIMENT}{'-quick' if quick else ''}.sqlite"
    print(
        f"Portfolios of real stocks: {seeds} seeds, 10 + {rounds} policies with 5 readings "
        f"each, {workers} processes. Stop it at any moment; it resumes."
    )
    run_experiment(EXPERIMENT, store, seeds, num_rounds=rounds, num_jobs=workers)
    with CampaignStore(store) as results:
        reported = recommended(ExperimentRecords(results), LABELS)
    later = PortfolioPolicy(years=HELD_OUT_YEARS)
    scores = {label: measured(later, X) for label, X in reported.items()}
    page = page_of(reported, scores, rounds)
    write_text(out / "demo.md", page)
    picture = save_png(picture_of(later, scores), out / "demo.png")
    print(f"\n{page}\nTable: {out / 'demo.md'}\nPicture: {picture}\nAll rounds: {store}")


def measured(problem: PortfolioPolicy, X: Tensor) -> Tensor:
    r"""Mean and standard deviation of the return of a year, in percent, `n x 3 -> n x 2`."""
    deviation = problem.noise_variance(X).sqrt()
    return 100 * torch.stack([problem.evaluate_true(X), deviation], dim=-1)


def sentence_of(scores: dict[str, Tensor]) -> str:
    r"""The result in a sentence, for the risk aversion in the middle."""
    averse, neutral = scores[label_of(JUDGED_BY)], scores[NEUTRAL]
    return (
        f"Measured on {HELD_OUT_YEARS[0]} to {HELD_OUT_YEARS[1]}, by which nothing was chosen, "
        f"risk aversion {JUDGED_BY:g} {bought_and_paid(averse, neutral, ' points')}, in percent of "
        f"a year's return ({len(neutral)} paired seeds)."
    )


def page_of(reported: dict[str, Tensor], scores: dict[str, Tensor], rounds: int) -> str:
    r"""The result as Markdown."""
    lines = [
        "# A portfolio, from risk-neutral to averse",
        "",
        sentence_of(scores),
        "",
        f"{CAVEAT} Policies were chosen by {TRAINING_YEARS[0]} to {TRAINING_YEARS[1]}, after 10 + "
        f"{rounds} policies with 5 readings each. Below, returns of a year on the later years, %.",
        "",
        "| strategy | seed | look-back in weeks, stocks, leverage | mean | standard deviation |",
        "|---|---|---|---|---|",
    ]
    for label, policies in reported.items():
        for seed, (x, (mean, deviation)) in enumerate(zip(policies, scores[label], strict=True)):
            policy = f"{x[0]:.0f}, {x[1]:.0f}, {x[2]:.2f}"
            lines.append(f"| {label} | {seed} | {policy} | {mean:.1f} | {deviation:.1f} |")
    return "\n".join([*lines, "", *_comparison(scores)]) + "\n"


def _comparison(scores: dict[str, Tensor]) -> list[str]:
    r"""Means over seeds, and what each risk aversion gains by its own measure."""
    lines = [
        "| mean ± Student-t interval, 95 % | mean, % | standard deviation, % | "
        f"mean - aversion x variance, less {NEUTRAL} |",
        "|---|---|---|---|",
    ]
    for risk_aversion in (0.0, *RISK_AVERSIONS):
        values = scores[label_of(risk_aversion)]
        cells = [_cell(mean_and_standard_error(column), 1) for column in values.unbind(dim=-1)]
        own, other = (mean_variance(s / 100, risk_aversion) for s in (values, scores[NEUTRAL]))
        cells.append(_cell(paired_difference(own, other), 3) if risk_aversion else "")
        lines.append(f"| {label_of(risk_aversion)} | {' | '.join(cells)} |")
    return [*lines, "", note_on_comparisons(len(RISK_AVERSIONS))]


def _cell(value: Any, digits: int) -> str:
    return f"{value.mean:.{digits}f} ± {value.half_width:.{digits}f}"


def picture_of(problem: PortfolioPolicy, scores: dict[str, Tensor]) -> Any:
    r"""The frontier, and the recommended policies on it."""
    named = {}
    for risk_aversion in (0.0, *RISK_AVERSIONS):
        mean, deviation = scores[label_of(risk_aversion)].mean(dim=0)
        name = f"risk aversion {risk_aversion:g}" if risk_aversion else NEUTRAL
        named[f"{name}: {mean:.0f} ± {deviation:.0f} %"] = scores[label_of(risk_aversion)]
    return plot_frontier(
        measured(problem, problem.policies(8)),
        named,
        xlabel="risk: standard deviation of a year's return, %",
        ylabel="mean of a year's return, %",
        title=f"Chosen by {TRAINING_YEARS[0]} to {TRAINING_YEARS[1]}, measured on "
        f"{HELD_OUT_YEARS[0]} to {HELD_OUT_YEARS[1]}",
    )


def _arguments() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two seeds and a few rounds")
    parser.add_argument("--out", type=Path, default=Path("results/demo"), help="of the results")
    parser.add_argument("--workers", type=int, default=2, help="the number of processes")
    return vars(parser.parse_args())


if __name__ == "__main__":
    main(**_arguments())
