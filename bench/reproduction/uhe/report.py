r"""Writes the tables and pictures behind this folder's README from what its campaigns have stored.

Methods are compared by simple regret, the paper's metric, and then by its logarithm. The curves are
kept in `curves/`: a series whose rounds are in no store any more is read from there. Of
boosted trees and the short flights the tables alone are kept, from which their picture is drawn.
What some methods alone have played, and what is tried beyond the paper, has sections of its own.

python -m bench.reproduction.uhe.report [--results results/uhe] [--to bench/reproduction/uhe]
"""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.experiments.definition import ExperimentDefinition
from botorch_risk_bench.experiments.papers import uhe
from botorch_risk_bench.experiments.problem import decision_space
from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.metrics import INTERVAL, mean_and_standard_error
from botorch_risk_bench.reports.summary import regret_curves
from torch import Tensor

from bench.reproduction.pictures import draw_band, finish, panels
from bench.reproduction.results import Report, records_of
from bench.reproduction.stored_curves import with_kept
from bench.reproduction.tables import cell, paired, read_curves_by, table
from bench.reproduction.uhe.campaign import METHODS
from bench.reproduction.uhe.trials import TRIALS
from botorch_risk.strategies.space import decision_box

REFERENCE = "UHE-BO"
COMPARED_WITH = (REFERENCE, "MAP")
BANDITS = ("UHE-BO", "Random+EXP3", "Portfolio")
BANDITS_TRIED = ("UHE-BO", *(each for each in TRIALS if "GP" not in each))
BANDIT_COLUMNS = (
    "random arm, first half",
    "second half",
    "rewards beyond D_0",
    "random arms that improve",
    "other arms that improve",
)
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
    "figure_2_real": ("uhe-logistic-vehicle", "uhe-boosting", "uhe-lunar"),
}
ABLATION = ("UHE-BO", "Random+EXP3", "RA-BO", "pseudo-data", "MAP")  # Fig. 4, left and middle
SAMPLED = "MCMC"
LABELS = (*METHODS, SAMPLED)
SHOWN = tuple(label for label in LABELS if label not in ("pseudo-data", "Random+EXP3"))  # in Fig. 4
AGAIN = "again, by some methods, "  # begins the heading of a problem whose first tables stay
TRIAL_PICTURES = {
    "trial_rewards": ("UHE-BO", "UHE-BO-gain", "UHE-BO-improved", "Random+EXP3", "MAP"),
    "trial_one_step": ("A-GP-UCB-one-step", "A-GP-UCB", "UHE-BO", "MAP"),
}
IN_WORDS = {
    "UHE-BO-gain": "UHE-BO, arms earn their gain",
    "UHE-BO-improved": "UHE-BO, arms earn 1 if they improve",
    "A-GP-UCB-one-step": "A-GP-UCB by a prediction of one step",
    "Wang-de-Freitas": "Wang and de Freitas",
}
SUMMARIES = {"figure_2_synthetic": "functions at the end", "figure_2_real": "tasks at the end"}
TITLES = {
    "uhe-branin": "Branin",
    "uhe-deceptive": "Deceptive",
    "uhe-h1": "h1",
    "uhe-hartmann3": "Hartmann, three inputs",
    "uhe-hartmann6": "Hartmann, six inputs",
    "uhe-logistic-vehicle": "logistic regression",
    "uhe-boosting": "boosted trees, breast cancer",
    "uhe-lunar": "lunar lander",
}
UNITS = {"uhe-logistic-vehicle": "accuracy", "uhe-boosting": "accuracy", "uhe-lunar": "return"}
Bands = dict[str, tuple[Tensor, Tensor, Tensor]]
r"""Of a strategy: evaluations, and mean and half-width there."""


@dataclass(frozen=True)
class Bandit:
    r"""What a bandit did.

    Args:
        random: The share of choices that were the random arm, in the first and in the second half
            of the budget, `R` each.
        saturated: The share of rewards that lay beyond the initial outcomes, `R`.
        improved: The share of the random and of the other arms that improved on the best outcome
            so far, `R` each; NaN in a run that never chose the arm.
    """

    random: tuple[Tensor, Tensor]
    saturated: Tensor
    improved: tuple[Tensor, Tensor]


def collected(results: Path, curves: Path, name: str) -> dict[str, Tensor]:
    r"""Simple regret `R x (T + 1)` of all strategies of a problem; none if it was not run.

    From the stores, else from the curves that an earlier report kept. T is the number of rounds
    that all of them have.
    """
    with records_of(results, name) as records:
        found = regret_curves(*records) if records else {}
    played = {label: {"regret": each.simple} for label, each in found.items()}
    # Without a known optimum what was kept is against another best value.
    kept = with_kept(curves / f"{name}.json.gz", played, add=is_known(name))
    labels = (each for each in (*LABELS, *TRIALS) if each in kept)
    regret = {label: kept[label]["regret"] for label in labels}
    length = min((values.shape[-1] for values in regret.values()), default=0)
    return {label: values[:, :length] for label, values in regret.items()}


def bandits(results: Path, name: str, labels: tuple[str, ...]) -> dict[str, Bandit]:
    r"""The choices of the strategies with a bandit; a random point is known by its stream."""
    found, definition = {}, experiment(name)
    with records_of(results, name) as records:
        there = {label: store for store in records for label in store.labels()}
        if not there:
            return {}
        space = decision_box(decision_space(definition.problem()))
        for label in (each for each in labels if each in there):
            seeds, rounds = there[label].identity["seeds"], there[label].rounds(label)
            method: Any = definition.build(label, space, seeds).method
            steps: int = getattr(method, "report", method).steps
            best = [each.Y.mean(dim=-1).amax(dim=-1) for each in rounds]  # R, of a round
            first = rounds[0].Y.mean(dim=-1)
            chosen, saturated, improved = [], [], []
            for t in range(1, len(rounds), steps):
                point = space.random_points(seeds, 1, "random point", t)
                chosen.append(torch.isclose(rounds[t].X, point, rtol=0, atol=1e-9).all(-1).all(-1))
                if t + steps <= len(rounds):
                    reward = torch.stack(best[t : t + steps]).amax(dim=0)
                    saturated.append((reward > first.amax(dim=-1)) | (reward < first.amin(dim=-1)))
                    improved.append(reward > torch.stack(best[:t]).amax(dim=0))
            arms = torch.stack(chosen, dim=-1)  # R x choices
            half, random = arms.shape[-1] // 2, arms.double()
            gained = torch.stack(improved, dim=-1).double()
            ended = arms[:, : gained.shape[-1]]
            found[label] = Bandit(
                (random[:, : max(half, 1)].mean(dim=-1), random[:, half:].mean(dim=-1)),
                torch.stack(saturated, dim=-1).double().mean(dim=-1),
                (
                    gained.masked_fill(~ended, torch.nan).nanmean(dim=-1),
                    gained.masked_fill(ended, torch.nan).nanmean(dim=-1),
                ),
            )
    return found


def logarithm(regret: Tensor) -> Tensor:
    return regret.clamp_min(SMALLEST).log10()


def experiment(name: str) -> ExperimentDefinition:
    r"""One of the package, or on the table of vehicles, which its problem alone reads."""
    table = os.environ.get("BOTORCH_RISK_VEHICLE_TABLE", "vehicle.csv")
    return get_experiment(name, (uhe.logistic(table),))


def is_known(name: str) -> bool:
    return experiment(name).optimal_value is not None


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
        if any(line[1:]):
            lines.append(line)
    return table([f"minus {REFERENCE}", *results], lines)


def by_round(curves: dict[str, Tensor], last: int) -> list[list[str]]:
    shown = sorted({0, last // 4, last // 2, 3 * last // 4, last})
    return [[str(t), *(cell(regret[:, t]) for regret in curves.values())] for t in shown]


def early_rows(curves: dict[str, Tensor], last: int) -> list[list[str]]:
    r"""How much worse each method is than UHE-BO after a quarter and half of the budget."""
    others = [label for label in curves if label != REFERENCE]
    return [
        [str(t), *(paired(curves[each][:, t], curves[REFERENCE][:, t]) for each in others)]
        for t in (last // 4, last // 2)
    ]


def bands(name: str, curves: dict[str, Tensor], page: str) -> Bands:
    r"""The regret of all strategies: of curves, else from tables."""
    if not curves:
        kept = read_curves_by(page, f"{name}: ", "evaluation")
        evaluations, _ = kept.pop("", (torch.empty(0), None))
        return {label: (evaluations, *each) for label, each in kept.items()}
    found = {label: mean_and_standard_error(each) for label, each in curves.items()}
    return {
        label: (torch.arange(len(each.mean)), each.mean, each.half_width)
        for label, each in found.items()
    }


def draw(
    results: dict[str, dict[str, Tensor]], labels: tuple[str, ...], page: str, path: Path
) -> None:
    r"""A panel a problem: simple regret, on a logarithmic axis where the optimum is known."""
    there = {name: bands(name, curves, page) for name, curves in results.items()}
    there = {name: each for name, each in there.items() if each}
    if not there:
        return
    figure, every = panels(len(there))
    for axes, (name, curves) in zip(every, there.items(), strict=True):
        if is_known(name):
            axes.set_yscale("log")
        for label in (each for each in labels if each in curves):
            draw_band(axes, *curves[label], label, IN_WORDS.get(label))
        unit = f", {UNITS[name]}" if name in UNITS else ""
        axes.set(title=TITLES[name], ylabel=f"simple regret{unit}")
        axes.set_xlabel("evaluations after the initial design")
    finish(figure, path, seeds_in_words({name: results[name] for name in there}, labels))


def seeds_in_words(results: dict[str, dict[str, Tensor]], labels: tuple[str, ...]) -> str:
    r"""Of how many seeds a picture is; ten where the tables alone are kept."""
    numbers = {name: max(map(len, each.values()), default=10) for name, each in results.items()}
    (most, _), *others = Counter(numbers.values()).most_common()
    text = f"{most} seeds, mean and {INTERVAL}"
    for number, _ in others:
        names = ", ".join(TITLES[name] for name, each in numbers.items() if each == number)
        text += f"; {number}: {names}"
    sampled = {name: len(each[SAMPLED]) for name, each in results.items() if SAMPLED in each}
    fewer = {f"{few} of {numbers[name]}" for name, few in sampled.items() if few < numbers[name]}
    if SAMPLED in labels and fewer:
        text += f"; {SAMPLED} {' and '.join(sorted(fewer))}"
    return text


def trial_tables(results: dict[str, dict[str, Tensor]]) -> list[str]:
    r"""What the trials change: minus what they stand in for, and minus MAP."""
    there = {name: curves for name, curves in results.items() if {*TRIALS} & {*curves}}
    if not there:
        return []
    columns, page = [name.removeprefix("uhe-") for name in there], []
    kinds: dict[str, Callable[[Tensor], Tensor]] = {
        "at the end: simple regret": lambda each: each[:, -1],
        "at the end: log10 regret": lambda each: logarithm(each[:, -1]),
        "after half the budget: simple regret": lambda each: each[:, each.shape[-1] // 2],
    }
    for kind, compared in kinds.items():
        names = [each for each in there if "log10" not in kind or is_known(each)]
        rows = []
        for trial, instead_of in TRIALS.items():
            for reference in (instead_of, "MAP"):
                ends = [{k: compared(v) for k, v in there[each].items()} for each in names]
                cells = [
                    paired(each[trial], each[reference]) if {trial, reference} <= {*each} else ""
                    for each in ends
                ]
                rows.append([trial, reference, *cells])
        page += [f"### trials {kind}\n", table(["trial", "minus", *columns], rows)]
    rows = []
    for label in dict.fromkeys([*TRIALS.values(), "MAP", *TRIALS]):
        line = [label]
        for name, curves in there.items():
            end = curves[label][:, -1] if label in curves else torch.empty(0)
            few = f"; {int((end < FOUND).sum())} of {len(end)}" if is_known(name) else ""
            line.append(cell(end) + few if len(end) else "")
        rows.append(line)
    title = f"### trials at the end: each method, and runs below {FOUND}\n"
    return [*page, title, table(["strategy", *columns], rows)]


def bandit_rows(bandits: dict[str, Bandit]) -> list[list[str]]:
    return [
        [
            label,
            *(cell(share) for share in each.random),
            cell(each.saturated),
            *(cell(share[share.isfinite()]) for share in each.improved),
        ]
        for label, each in bandits.items()
    ]


def page_of(results: Path, name: str, curves: dict[str, Tensor], again: str = "") -> list[str]:
    reference = "the optimum" if is_known(name) else "the best value that any method found"
    num_initial, last = experiment(name).num_initial, curves[REFERENCE].shape[-1] - 1
    header = ["strategy", "seeds", "simple regret", "first ten seeds"]
    header += [f"minus {each}'s" for each in COMPARED_WITH]
    if is_known(name):
        header += ["log10 regret", f"below {FOUND}"]
        header += [f"log10 regret minus {each}'s" for each in COMPARED_WITH]
    page = [
        f"### {again}{name}: {num_initial} initial points, against {reference}\n",
        f"After {last} evaluations:\n",
        table(header, final_rows(name, curves, last)),
        "Simple regret by evaluation:\n",
        table(["evaluation", *curves], by_round(curves, last)),
        f"Simple regret minus {REFERENCE}'s:\n",
        table(["after", *(each for each in curves if each != REFERENCE)], early_rows(curves, last)),
    ]
    if lines := bandit_rows(bandits(results, name, BANDITS)):
        page.append(f"### {again}{name}: what the bandits chose\n")
        page.append(table(["strategy", *BANDIT_COLUMNS], lines))
    return page


def main() -> None:
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    results, to = report.results, report.to
    page: list[str] = []
    names = [name for group in GROUPS.values() for name in group]
    found = {name: collected(results, to / "curves", name) for name in names}
    whole = {  # runs of all methods; otherwise the tables of the first campaign stay
        name: {label: each for label, each in curves.items() if label in LABELS}
        if {*METHODS} <= {*curves}
        else {}
        for name, curves in found.items()
    }
    for figure, group in GROUPS.items():
        there = {name: whole[name] for name in group if whole[name]}
        if not there:
            continue
        some = f" of {', '.join(there)}" if len(there) < len(group) else ""
        title = f"### {SUMMARIES[figure]}{some}: simple regret\n"
        page += [title, summary(there, lambda each: each)]
        if figure == "figure_2_synthetic":
            page += [f"### {SUMMARIES[figure]}: log10 regret\n", summary(there, logarithm)]
        for name, curves in there.items():
            page += page_of(results, name, curves)
    for name, curves in found.items():
        some = {label: each for label, each in curves.items() if label in LABELS}
        if {*COMPARED_WITH} <= {*some} and not whole[name]:
            page += page_of(results, name, some, AGAIN)
    page += trial_tables(found)
    for name in names:
        tried = bandit_rows(bandits(results, name, BANDITS_TRIED))
        if len(tried) > 1:
            title = f"### trials: what the bandits chose on {name}\n"
            page += [title, table(["strategy", *BANDIT_COLUMNS], tried)]
    report.write(page)
    text = (to / "tables.md").read_text(encoding="utf-8")
    for figure, group in GROUPS.items():
        draw({name: whole[name] for name in group}, SHOWN, text, to / figure)
    if found["uhe-lunar"] and not whole["uhe-lunar"]:
        draw({"uhe-lunar": found["uhe-lunar"]}, LABELS, text, to / "lander")
    functions = {name: whole[name] for name in GROUPS["figure_2_synthetic"]}
    draw(functions, ABLATION, text, to / "figure_4")
    for picture, labels in TRIAL_PICTURES.items():
        some = {
            name: {each: curves[each] for each in labels if each in curves}
            for name, curves in found.items()
            if {*TRIALS} & {*curves}
        }
        draw(some, labels, "", to / picture)


if __name__ == "__main__":
    main()
