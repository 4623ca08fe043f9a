r"""Writes the tables and pictures behind this folder's README from what its campaigns have stored.

Methods are compared by simple regret, the paper's metric, and then by its logarithm. A section of
tables.md stays as it is if no store has the rounds of its problem, or if the rounds of a strategy
are missing; its picture is then drawn from the table.

python -m bench.reproduction.uhe.report [--results results/uhe] [--to bench/reproduction/uhe]
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.metrics import INTERVAL, mean_and_standard_error
from botorch_risk_bench.reports.replay import replay
from botorch_risk_bench.reports.summary import regret_curves
from torch import Tensor

from bench.reproduction.pictures import draw_band, finish, panels, seeds_of
from bench.reproduction.results import records_of, report_parser
from bench.reproduction.stored_curves import read_curves, write_curves
from bench.reproduction.tables import cell, paired, read_curves_by, table, write_sections
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
SHOWN = tuple(label for label in LABELS if label not in ("pseudo-data", "Random+EXP3"))  # in Fig. 4
SUMMARIES = {"figure_2_synthetic": "functions at the end", "figure_2_real": "tasks at the end"}
TITLES = {
    "uhe-branin": "Branin",
    "uhe-deceptive": "Deceptive",
    "uhe-h1": "h1",
    "uhe-hartmann3": "Hartmann, three inputs",
    "uhe-hartmann6": "Hartmann, six inputs",
    "uhe-logistic": "logistic regression, digits",
    "uhe-boosting": "boosted trees, breast cancer",
    "uhe-lunar": "lunar lander",
}
TEN_SEEDS = ("uhe-hartmann6", "uhe-boosting", "uhe-lunar")
Bands = dict[str, tuple[Tensor, Tensor]]


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


def collected(results: Path, curves: Path, name: str) -> dict[str, Tensor]:
    r"""Simple regret `R x (T + 1)` of all strategies of a problem; none if it was not run."""
    path = curves / f"{name}.json.gz"
    with records_of(results, name) as records:
        if not records:
            return {label: each["regret"] for label, each in read_curves(path).items()}
        found = regret_curves(*records)
    regret = {label: found[label].simple for label in LABELS if label in found}
    write_curves(path, {label: {"regret": values} for label, values in regret.items()})
    return regret


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


def final_rows(name: str, curves: dict[str, Tensor], last: int) -> list[list[str]]:
    at_end = {label: each[:, last] for label, each in curves.items()}
    lines = []
    for label, regret in at_end.items():
        line = [label, str(len(regret)), cell(regret), cell(regret[:10])]
        line += [difference(at_end, label, each) for each in COMPARED_WITH]
        if is_known(name):
            logs = {each: logarithm(values) for each, values in at_end.items()}
            line += [cell(logs[label]), f"{int((regret < FOUND).sum())} of {len(regret)}"]
            line += [difference(logs, label, each) for each in COMPARED_WITH]
        lines.append(line)
    return lines


def difference(at_end: dict[str, Tensor], label: str, reference: str) -> str:
    return "" if label == reference else paired(at_end[label], at_end[reference])


def summary(results: dict[str, dict[str, Tensor]], compared: Callable[[Tensor], Tensor]) -> str:
    r"""How much worse each method is than UHE-BO at the end, in every problem."""
    lines = []
    for label in (each for each in LABELS if each != REFERENCE):
        line = [label]
        for curves in results.values():
            ends = {each: compared(curves[each][:, -1]) for each in curves}
            line.append(paired(ends[label], ends[REFERENCE]) if label in ends else "")
        lines.append(line)
    return table([f"minus {REFERENCE}", *results], lines)


def by_round(curves: dict[str, Tensor], last: int) -> list[list[str]]:
    shown = sorted({0, last // 4, last // 2, 3 * last // 4, last})
    return [[str(t), *(cell(regret[:, t]) for regret in curves.values())] for t in shown]


def bands(name: str, curves: dict[str, Tensor], page: str) -> tuple[Tensor, Bands]:
    r"""Evaluations, and mean and half-width there, by strategy: of curves, else from tables."""
    if curves:
        found = {label: mean_and_standard_error(each) for label, each in curves.items()}
        length = next(iter(curves.values())).shape[-1]
        return torch.arange(length), {
            label: (each.mean, each.half_width) for label, each in found.items()
        }
    kept = read_curves_by(page, f"{name}: ", "evaluation")
    evaluations, _ = kept.pop("", (torch.empty(0), None))
    return evaluations, kept


def draw(
    results: dict[str, dict[str, Tensor]], labels: tuple[str, ...], page: str, path: Path
) -> None:
    r"""A panel a problem: simple regret, on a logarithmic axis where the optimum is known."""
    there = {name: bands(name, curves, page) for name, curves in results.items()}
    there = {name: each for name, each in there.items() if each[1]}
    if not there:
        return
    figure, every = panels(len(there))
    for axes, (name, (evaluations, curves)) in zip(every, there.items(), strict=True):
        if is_known(name):
            axes.set_yscale("log")
        for label in (each for each in labels if each in curves):
            draw_band(axes, evaluations, *curves[label], label)
        axes.set(title=TITLES[name], ylabel="simple regret")
        axes.set_xlabel("evaluations after the initial design")
    rounds = [values for name in there for values in results[name].values()]
    known = all(results[name] for name in there)
    finish(figure, path, seeds_of(rounds) if known else seeds_of_tables(there, labels))


def seeds_of_tables(names: Iterable[str], labels: tuple[str, ...]) -> str:
    r"""The seeds of the tables in this folder, which keep means and intervals alone."""
    few = ", ".join(TITLES[name] for name in names if name in TEN_SEEDS)
    mcmc = "; MCMC ten" if "MCMC" in labels else ""
    return f"20 seeds, mean and {INTERVAL}" + (f"; ten: {few}{mcmc}" if few else mcmc)


def page_of(results: Path, name: str, curves: dict[str, Tensor]) -> list[str]:
    reference = "the optimum" if is_known(name) else "the best value that any method found"
    num_initial, last = get_experiment(name).num_initial, curves[REFERENCE].shape[-1] - 1
    header = ["strategy", "seeds", "simple regret", "first ten seeds"]
    header += [f"minus {each}'s" for each in COMPARED_WITH]
    if is_known(name):
        header += ["log10 regret", f"below {FOUND}"]
        header += [f"log10 regret minus {each}'s" for each in COMPARED_WITH]
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
    path: Path = arguments.to / "tables.md"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    page: list[str] = []
    every: dict[str, dict[str, dict[str, Tensor]]] = {}
    for figure, names in GROUPS.items():
        every[figure] = {
            name: collected(arguments.results, arguments.to / "curves", name) for name in names
        }
        there = {name: curves for name, curves in every[figure].items() if curves}
        if not there:
            continue
        page += [f"### {SUMMARIES[figure]}: simple regret\n", summary(there, lambda each: each)]
        if figure == "figure_2_synthetic":
            page += [f"### {SUMMARIES[figure]}: log10 regret\n", summary(there, logarithm)]
        for name, curves in there.items():
            kept = read_curves_by(old, f"{name}: ", "evaluation")
            if {*kept} <= {"", *curves}:
                page += page_of(arguments.results, name, curves)
    write_sections(path, page)
    text = path.read_text(encoding="utf-8")
    for figure, found in every.items():
        draw(found, SHOWN, text, arguments.to / figure)
    draw(every["figure_2_synthetic"], ABLATION, text, arguments.to / "figure_4")


if __name__ == "__main__":
    main()
