r"""Writes the tables and pictures behind this folder's README from what its campaigns have stored.

python -m bench.reproduction.uhe.report [--results results/uhe] [--to bench/reproduction/uhe]
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.reports.replay import replay
from botorch_risk_bench.reports.summary import regret_curves
from torch import Tensor

from bench.reproduction.pictures import draw_mean, finish, panels, seeds_of
from bench.reproduction.results import records_of, report_parser
from bench.reproduction.tables import cell, paired, table
from bench.reproduction.uhe.campaign import METHODS

REFERENCE = "UHE-BO"
COMPARED_WITH = (REFERENCE, "MAP")
BANDITS = ("UHE-BO", "Random+EXP3", "Portfolio")
SMALLEST = 1e-6  # of a regret, for its logarithm
FOUND = 0.05  # the regret below which a run has found the top
GROUPS = {
    "figure_2_synthetic": (
        "uhe-branin",
        "uhe-deceptive",
        "uhe-h1",
        "uhe-hartmann3",
        "uhe-hartmann6",
    ),
    "figure_2_real": ("uhe-logistic", "uhe-boosting", "uhe-lunar"),
}
ABLATION = ("UHE-BO", "Random+EXP3", "RA-BO", "pseudo-data", "MAP")  # Fig. 4, left and middle
LABELS = (*METHODS, "MCMC")


@dataclass(frozen=True)
class Bandit:
    r"""What a bandit did.

    Args:
        random: The share of choices that were the random arm, in the first and in the second half
            of the budget, `R` each.
        saturated: The share of rewards that lay beyond the initial outcomes, `R`.
    """

    random: tuple[Tensor, Tensor]
    saturated: Tensor


def collected(results: Path, name: str) -> dict[str, Tensor]:
    r"""Simple regret `R x (T + 1)` of all strategies of a problem; none if it was not run."""
    with records_of(results, name) as records:
        if not records:
            return {}
        found = regret_curves(*records)
    return {label: found[label].simple for label in LABELS if label in found}


def bandits(results: Path, name: str) -> dict[str, Bandit]:
    r"""The choices of the strategies with a bandit, found by telling them their data again."""
    found = {}
    with records_of(results, name) as records:
        there = [(store, label) for store in records for label in store.labels()]
        for store, label in (each for each in there if each[1] in BANDITS):
            chosen, last = [], len(store.rounds(label)) - 1
            for t, strategy in enumerate(replay(store, get_experiment(name), label), 1):
                method, [(_, view)] = strategy.method, strategy.views
                if (t - 1) % method.steps == 0 and t <= last:
                    chosen.append(method.chosen(view, t) == 0)
            state = strategy.state
            arms = torch.stack(chosen, dim=-1).double()  # R x choices
            half = arms.shape[-1] // 2
            found[label] = Bandit(
                (arms[:, : max(half, 1)].mean(dim=-1), arms[:, half:].mean(dim=-1)),
                state["num_saturated"] / state["num_rewards"].clamp_min(1),
            )
    return found


def logarithm(regret: Tensor) -> Tensor:
    return regret.clamp_min(SMALLEST).log10()


def is_known(name: str) -> bool:
    return get_experiment(name).optimal_value is not None


def compared(name: str, regret: Tensor) -> Tensor:
    r"""What methods are compared by: log10 regret where the optimum is known, else regret."""
    return logarithm(regret) if is_known(name) else regret


def final_rows(name: str, curves: dict[str, Tensor], last: int) -> list[list[str]]:
    at_end = {label: compared(name, each[:, last]) for label, each in curves.items()}
    lines = []
    for label, values in at_end.items():
        regret = curves[label][:, last]
        line = [label, str(len(regret)), cell(regret), cell(regret[:10])]
        if is_known(name):
            line += [cell(values), f"{int((regret < FOUND).sum())} of {len(regret)}"]
        line += ["" if label == each else paired(values, at_end[each]) for each in COMPARED_WITH]
        lines.append(line)
    return lines


def summary(results: dict[str, dict[str, Tensor]]) -> str:
    r"""How much worse each method is than UHE-BO at the end, in every problem."""
    lines = []
    for label in (each for each in LABELS if each != REFERENCE):
        line = [label]
        for name, curves in results.items():
            ends = {each: compared(name, curves[each][:, -1]) for each in curves}
            line.append(paired(ends[label], ends[REFERENCE]) if label in ends else "")
        lines.append(line)
    return table([f"minus {REFERENCE}", *results], lines)


def by_round(curves: dict[str, Tensor], last: int) -> list[list[str]]:
    shown = sorted({0, last // 4, last // 2, 3 * last // 4, last})
    return [[str(t), *(cell(regret[:, t]) for regret in curves.values())] for t in shown]


def draw(results: dict[str, dict[str, Tensor]], labels: tuple[str, ...], path: Path) -> None:
    r"""A panel a problem."""
    figure, every = panels(len(results))
    for axes, (name, curves) in zip(every, results.items(), strict=True):
        for label in (each for each in labels if each in curves):
            draw_mean(axes, compared(name, curves[label]), label)
        what = "log10 simple regret" if is_known(name) else "simple regret"
        title = name.removeprefix("uhe-").capitalize()
        axes.set(title=title, ylabel=what, xlabel="evaluations after the initial design")
    finish(figure, path, seeds_of(each for curves in results.values() for each in curves.values()))


def page_of(results: Path, name: str, curves: dict[str, Tensor]) -> list[str]:
    reference = "the optimum" if is_known(name) else "the best value that any method found"
    what = "log10 regret" if is_known(name) else "simple regret"
    num_initial, last = get_experiment(name).num_initial, curves[REFERENCE].shape[-1] - 1
    header = ["strategy", "seeds", "simple regret", "first ten seeds"]
    header += ["log10 regret", f"below {FOUND}"] if is_known(name) else []
    header += [f"{what} minus {each}'s" for each in COMPARED_WITH]
    page = [
        f"### {name}: {num_initial} initial points, against {reference}\n",
        f"After {last} evaluations:\n",
        table(header, final_rows(name, curves, last)),
        "Simple regret by evaluation:\n",
        table(["evaluation", *curves], by_round(curves, last)),
    ]
    lines = [
        [label, *(cell(share) for share in bandit.random), cell(bandit.saturated)]
        for label, bandit in bandits(results, name).items()
    ]
    header = ["strategy", "random arm, first half", "second half", "rewards beyond D_0"]
    return [*page, "What the bandits chose:\n", table(header, lines)] if lines else page


def main() -> None:
    arguments = report_parser(__doc__, "results/uhe", Path(__file__).parent).parse_args()
    page: list[str] = []
    for figure, names in GROUPS.items():
        found = {name: collected(arguments.results, name) for name in names}
        there = {name: curves for name, curves in found.items() if curves}
        if not there:
            continue
        unit = "log10 regret" if figure == "figure_2_synthetic" else "regret"
        page += [f"## {unit} at the end, paired by seed\n", summary(there)]
        for name, curves in there.items():
            page += page_of(arguments.results, name, curves)
        draw(there, LABELS, arguments.to / figure)
        if figure == "figure_2_synthetic":
            draw(there, ABLATION, arguments.to / "figure_4")
    (arguments.to / "tables.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
