r"""Writes the tables and pictures behind this folder's README from what its campaigns have stored.

The curves are kept in `curves/`: a series whose rounds are in no store any more is read from there.

python -m bench.reproduction.kde.report [--results results/kde] [--to FOLDER]
"""

from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.experiments.papers.kde import EXPERIMENTS, portfolio
from botorch_risk_bench.experiments.registry import get_experiment
from botorch_risk_bench.metrics import INTERVAL, MeanAndStandardError
from botorch_risk_bench.reports.summary import RegretCurves, regret_curves
from torch import Tensor
from torch.distributions import Cauchy, Normal

from bench.reproduction.kde.campaign import ALL, FITTED_KERNEL, MATERN, NUM_ROUNDS, RELEASED
from bench.reproduction.pictures import draw_mean, finish, panels
from bench.reproduction.results import records_of, report_parser
from bench.reproduction.stored_curves import read_curves, write_curves
from bench.reproduction.tables import cell, paired, table
from botorch_risk.environments import KernelDensity, leave_one_out_bandwidth, silverman_bandwidth

REFERENCE = "SBO-KDE"
OF_2023 = "-Matern"
PORTFOLIO = ("portfolio-normal", "portfolio-uniform")  # by portfolio.py
DRAWN = ("SBO-KDE", "DRBO-KDE", "StableOpt", "GP-UCB", "DRBO-MMD", "DRBO-MMD-minimax")
IN_THE_TABLES = (*DRAWN, *RELEASED, *MATERN, FITTED_KERNEL)
# Table 2: mean total variation and its standard error, 20 runs.
PAPER_TABLE_2 = {
    "normal": {
        10: (0.3222, 0.0327),
        100: (0.1315, 0.0088),
        200: (0.1156, 0.0079),
        300: (0.0962, 0.0083),
    },
    "complicated": {
        10: (0.6216, 0.0190),
        100: (0.5380, 0.0333),
        200: (0.4853, 0.0233),
        300: (0.4724, 0.0258),
    },
}
NORMALS = ((0.1, 0.02), (0.3, 0.075), (0.4, 0.1), (0.5, 0.1), (0.7, 0.075), (0.8, 0.03))
DISTRIBUTIONS: dict[str, list[Any]] = {
    "normal": [Normal(0.5, 0.1)],
    "complicated": [
        *(Normal(mean, deviation) for mean, deviation in NORMALS),
        Cauchy(0.2, 0.02),
        Cauchy(0.8, 0.02),
    ],
}


def collected(
    results: Path, kept: Path, name: str
) -> tuple[dict[str, RegretCurves], dict[str, Tensor]]:
    r"""Regret, and the sum of the observed outcomes `R x T`, of all strategies of a problem.

    From the stores of the campaigns; a series that is in none of them, or not whole, from the
    curves that an earlier report kept.
    """
    path = kept / f"{name}.json.gz"
    known = read_curves(path)
    whole = dict(known)
    with records_of(results, name) as found:
        for records in found:
            for label, curve in regret_curves(records).items():
                outcomes = [record.Y.sum(dim=(-2, -1)) for record in records.rounds(label)[1:]]
                played = {
                    "cumulative": curve.cumulative,
                    "simple": curve.simple,
                    "reward": torch.stack(outcomes, dim=-1)[:, :NUM_ROUNDS].cumsum(dim=-1),
                }
                if curve.num_rounds >= NUM_ROUNDS:
                    whole[label] = played
                known.setdefault(label, played)
    if whole:
        write_curves(path, whole)
    shown = {label: (known | whole)[label] for label in IN_THE_TABLES if label in known}
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
    models = {"": "default model of today"}
    if any(label in curves for label in MATERN):
        models[OF_2023] = "default model of 2023"
    figure, panes = panels(2 * len(models), columns=2)
    for row, (suffix, model) in enumerate(models.items()):
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


def total_variation(name: str, num_values: int, seed: int) -> dict[str, float]:
    r"""l1 distance over the line between a distribution and densities learnt from draws of it."""
    generator = torch.Generator().manual_seed(seed)
    parts = DISTRIBUTIONS[name]
    uniforms = torch.rand(2, num_values, generator=generator, dtype=torch.double)
    which = (uniforms[0] * len(parts)).long()
    draws = torch.stack([part.icdf(uniforms[1]) for part in parts])
    observed = draws[which, torch.arange(num_values)].unsqueeze(-1)
    # Finely where the mass is, then ever more coarsely into Cauchy's tails.
    inner = torch.linspace(-1.0, 2.0, 30_001, dtype=torch.double)
    tail = torch.logspace(0, 6, 6_001, dtype=torch.double)
    grid = torch.cat([inner[0] + 1 - tail.flip(0), inner[1:-1], inner[-1] - 1 + tail])
    truth = torch.stack([part.log_prob(grid).exp() for part in parts]).mean(dim=0)
    floor = torch.full((1,), 1e-6, dtype=torch.double)
    widths = {
        "Silverman": silverman_bandwidth(observed),
        "leave-one-out": leave_one_out_bandwidth(observed, floor),
    }
    return {
        rule: torch.trapezoid(
            (KernelDensity(observed, width, None).log_prob(grid.unsqueeze(-1)).exp() - truth).abs(),
            grid,
        ).item()
        for rule, width in widths.items()
    }


def table_2() -> list[list[str]]:
    rows = []
    for name, paper in PAPER_TABLE_2.items():
        for num_values, (mean, error) in paper.items():
            found = [total_variation(name, num_values, seed) for seed in range(20)]
            ours = (torch.tensor([run[rule] for run in found]) for rule in found[0])
            band = MeanAndStandardError(*torch.tensor([mean, error]), torch.tensor(20)).half_width
            cells = [f"{mean:.4f} ± {band:.4f}", *(cell(o) for o in ours)]
            rows.append([name, str(num_values), *cells])
    return rows


def main() -> None:
    arguments = report_parser(__doc__, "results/kde", Path(__file__).parent).parse_args()
    results, to = arguments.results, arguments.to
    page = []
    for name in (*ALL, *PORTFOLIO):
        curves, rewards = collected(results, to / "curves", name)
        if REFERENCE not in curves:
            continue
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
    page += ["### Total variation between the learnt and the true density (Table 2)\n"]
    header = ["distribution", "contexts", "paper", "Silverman's rule", "leave-one-out likelihood"]
    page += [table(header, table_2())]
    (to / "tables.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
