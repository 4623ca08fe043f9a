r"""What other packages say about f from the same readings: stated against contained.

    python -m bench.studies.coverage.peers --to FOLDER     # goes on where it was stopped
    python -m bench.studies.coverage.peers [--pack FOLDER] [--picture docs/coverage.png]

Every package fits its default process to the readings of `looks`, after 15 and 30 rounds, and
predicts f at the same 160 random (x, w). An interval is `mean -+ z * deviation` of f, without the
noise of a reading. `FOLDER/readings` keeps the readings; a file per pair, mode and package is
written once.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch_risk_bench.campaigns.whole_files import replacing, write_text
from botorch_risk_bench.reports.plots import save_png
from gpytorch.mlls import ExactMarginalLogLikelihood
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from bench.reproduction.tables import table
from bench.studies.coverage.looks import LOOKS, MODES, NUM_POINTS, SEEDS, drawn_w, pairs, readings
from bench.studies.coverage.report import Row, chosen, mean_and_half_widths
from bench.studies.stored_rows import pack, read
from botorch_risk.models import SampledGP
from botorch_risk.plot_style import COLORS, STYLE
from botorch_risk.test_functions import CertifiedProblem

STORED = Path(__file__).with_name("peers.jsonl.gz")
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
SHOWN = (0.5, 0.8, 0.95)
RISKS = ("expectation", "conditional-value-at-risk")  # whose searches chose the readings
Moments = tuple[Tensor, Tensor]


def ours(Z: Tensor, Y: Tensor, at: Tensor) -> Moments:
    r"""Sixteen samples of the hyperparameters, as in `risk_search`."""
    return of_botorch(SampledGP(Z, Y.unsqueeze(-1)), at)


def single_task_gp(Z: Tensor, Y: Tensor, at: Tensor) -> Moments:
    r"""BoTorch's defaults."""
    return of_botorch(SingleTaskGP(Z, Y.unsqueeze(-1)), at)


def of_botorch(model: SingleTaskGP, at: Tensor) -> Moments:
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    with torch.no_grad():
        found: Any = model.posterior(at)
        if isinstance(model, SampledGP):
            return found.mixture_mean.squeeze(-1), found.mixture_variance.squeeze(-1).sqrt()
        return found.mean.squeeze(-1), found.variance.squeeze(-1).sqrt()


def ax(Z: Tensor, Y: Tensor, at: Tensor) -> Moments:
    r"""The adapter of Ax's default generation strategy; `Client.predict` says the same, slower.

    It is BoTorch's `SingleTaskGP`, of readings of which the low outliers are winsorised.
    """
    from ax.adapter.registry import Generators
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig
    from ax.core.observation import ObservationFeatures

    logging.getLogger("ax.api.client").setLevel(logging.WARNING)
    names = [f"z{column}" for column in range(Z.shape[-1])]
    client = Client(random_seed=0)
    client.configure_experiment(
        name="readings",
        parameters=[RangeParameterConfig(each, (0.0, 1.0), "float") for each in names],
    )
    client.configure_optimization(objective="y")
    for z, y in zip(Z.tolist(), Y.tolist(), strict=True):
        trial = client.attach_trial(dict(zip(names, z, strict=True)))
        client.complete_trial(trial, {"y": y})
    adapter = Generators.BOTORCH_MODULAR(experiment=client._experiment)
    points = [ObservationFeatures(dict(zip(names, z, strict=True))) for z in at.tolist()]
    mean, covariance = adapter.predict(points)
    return torch.tensor(mean["y"]).double(), torch.tensor(covariance["y"]["y"]).double().sqrt()


def hetgp(Z: Tensor, Y: Tensor, at: Tensor) -> Moments:
    r"""hetGPy's process with a noise that depends on the inputs."""
    from hetgpy import hetGP

    # The default settings, in a fresh dictionary: it writes into the one that is its default.
    settings = {"returnKi": True, "factr": 1e9, "ignore_MLE_divide_invalid": True, "trace": -1}
    return of_hetgpy(hetGP(), settings, Z, Y, at)


def homgp(Z: Tensor, Y: Tensor, at: Tensor) -> Moments:
    r"""hetGPy's process with one noise, as there is here."""
    from hetgpy import homGP

    return of_hetgpy(homGP(), {"returnKi": True, "factr": 1e7}, Z, Y, at)


def of_hetgpy(model: Any, settings: dict[str, Any], Z: Tensor, Y: Tensor, at: Tensor) -> Moments:
    scale = Y.std()
    model.mle(Z.numpy(), ((Y - Y.mean()) / scale).numpy(), settings=settings)
    found = model.predict(at.numpy())  # "sd2" is of f, "nugs" would be of the noise
    mean, variance = (torch.as_tensor(found[name]).flatten().double() for name in ("mean", "sd2"))
    return Y.mean() + scale * mean, scale * variance.clamp_min(0.0).sqrt()


PACKAGES: dict[str, Callable[[Tensor, Tensor, Tensor], Moments]] = {
    "SampledGP": ours,
    "BoTorch": single_task_gp,
    "hetGPy homGP": homgp,
    "hetGPy hetGP": hetgp,
    "Ax": ax,
}


def at_random(problem: CertifiedProblem, seeds: Sequence[int]) -> Tensor:
    r"""The random (x, w) of `looks`, `R x 160 x d`."""
    streams = [torch.Generator().manual_seed(50_000 + seed) for seed in seeds]
    shape = (NUM_POINTS, problem.num_decision)
    x = [torch.rand(shape, generator=each, dtype=torch.double) for each in streams]
    return torch.cat([torch.stack(x), drawn_w(problem, NUM_POINTS, streams)], dim=-1)


def kept_readings(folder: Path, form: str, risk: str, mode: str) -> tuple[Tensor, Tensor]:
    r"""The readings of `looks`, which are drawn at the first call."""
    path, seeds = folder / "readings" / f"{form}.{risk}.{mode}.pt", list(SEEDS[False])
    if not path.exists():
        Z, Y = readings(CertifiedProblem(form, risk), mode, seeds)
        with replacing(path) as written:
            torch.save({"Z": Z, "Y": Y, "seeds": seeds}, written)
    kept = torch.load(path, weights_only=True)
    if kept["seeds"] != seeds:
        raise ValueError(f"Expected readings of the seeds {seeds} in {path}. Got {kept['seeds']}.")
    return kept["Z"], kept["Y"].reshape(len(seeds), -1)


def rows_of(folder: Path, form: str, risk: str, mode: str, package: str) -> list[Row]:
    r"""After each look, what a package says and how much of it holds, by seed."""
    problem, seeds = CertifiedProblem(form, risk), SEEDS[False]
    Z, Y = kept_readings(folder, form, risk, mode)
    at, rows = at_random(problem, seeds), []
    truth = problem.evaluate_true(at)
    for t in LOOKS:
        n, begin = 2 * problem.dim + 2 + t, time.process_time()
        names = {"form": form, "risk": risk, "mode": mode, "round": t, "package": package}
        found = [
            held(*moments(package, *parts), true)
            for *parts, true in zip(Z[:, :n], Y[:, :n], at, truth, strict=True)
        ]
        quantities = {name: [each[name] for each in found] for name in found[0]}
        rows.append({**names, **quantities, "seconds": time.process_time() - begin})
    return rows


def moments(package: str, Z: Tensor, Y: Tensor, at: Tensor) -> Moments:
    r"""Means and deviations; not a number if the package fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return PACKAGES[package](Z, Y, at)
        except Exception as error:  # of another package
            print(f"{package}: {type(error).__name__}: {error}", flush=True)
            return (torch.full((len(at),), torch.nan, dtype=torch.double),) * 2


def held(mean: Tensor, deviation: Tensor, truth: Tensor) -> Row:
    r"""The number of points within each interval, and scores; None if there is no prediction."""
    if not (mean.isfinite() & deviation.isfinite()).all():
        return {"held": None, "log score": None, "nlpd": None, "rmse": None}
    error, deviation = truth - mean, deviation.clamp_min(1e-9)
    within = 2 * torch.special.ndtr(error.abs() / deviation) - 1
    missed = (error.abs() - 1.96 * deviation).clamp_min(0.0)
    score = (2 * 1.96 * deviation + 2 / 0.05 * missed).mean()  # smaller is better
    return {
        "held": [int((within <= level).sum()) for level in LEVELS],
        "log score": score.log10().item(),
        "nlpd": -torch.distributions.Normal(0.0, deviation).log_prob(error).mean().item(),
        "rmse": error.square().mean().sqrt().item(),
    }


def complete(rows: Sequence[Row]) -> list[Row]:
    r"""The rows of searches that every package has predicted."""
    keys = [{key(row) for row in chosen(rows, package=name)} for name in PACKAGES]
    common = set.intersection(*keys)
    return [row for row in rows if key(row) in common]


def key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("form", "risk", "mode", "round"))


def by_form(rows: Sequence[Row], quantity: Callable[[Row, int], float | None]) -> Tensor:
    r"""Averages over the looks of a form without those that failed, `forms x seeds`."""
    forms, seeds = dict.fromkeys(row["form"] for row in rows), range(len(rows[0]["held"]))
    values = [
        [[quantity(row, seed) for row in chosen(rows, form=form)] for seed in seeds]
        for form in forms
    ]
    numbers = torch.tensor(
        [[[math.nan if v is None else v for v in looks] for looks in form] for form in values]
    )
    return numbers.double().nanmean(dim=-1)


def contained(rows: Sequence[Row], level: float) -> Tensor:
    r"""The share of f within the interval of a level, `forms x seeds`."""
    position = LEVELS.index(level)

    def share(row: Row, seed: int) -> float | None:
        counts = row["held"][seed]
        return None if counts is None else counts[position] / NUM_POINTS

    return by_form(rows, share)


def less_ours(rows: Sequence[Row], every: Sequence[Row], name: str) -> Tensor:
    r"""The difference of a quantity from `SampledGP` on the same readings, `forms x seeds`."""
    reference = {key(row): row[name] for row in chosen(every, package="SampledGP")}

    def difference(row: Row, seed: int) -> float | None:
        value = row[name][seed]
        if value is None:
            return None
        other = reference[key(row)][seed]
        return float(math.log10(value / other) if name == "rmse" else value - other)

    return by_form(rows, difference)


def of_looks(rows: Sequence[Row]) -> str:
    r"""Of stated 50, 80 and 95 %, the contained share of f by package and look."""
    cells = []
    for mode in MODES:
        for t in LOOKS:
            for package in PACKAGES:
                some = chosen(rows, mode=mode, round=t, package=package)
                shares = [mean_and_half_widths(contained(some, level)) for level in SHOWN]
                cells.append([mode, str(t), package, *shares])
    return table(["w", "round", "package", *(f"{level:.0%}" for level in SHOWN)], cells)


def of_packages(rows: Sequence[Row]) -> str:
    r"""Shares over all looks, and differences of scores from SampledGP on the same readings."""
    cells = []
    for package in PACKAGES:
        some = chosen(rows, package=package)
        failed = sum(each is None for row in some for each in row["held"])
        fits = sum(len(row["held"]) for row in some)
        cells.append([package, f"{fits}, {failed}"])
        cells[-1] += [mean_and_half_widths(contained(some, level)) for level in SHOWN]
        for name in ("log score", "nlpd", "rmse"):
            difference = mean_and_half_widths(less_ours(some, rows, name))
            cells[-1].append("" if package == "SampledGP" else difference)
        seconds = sum(row["seconds"] for row in some) / fits
        cells[-1].append(f"{1e3 * seconds:.0f}")
    header = ["package", "fits, failed", *(f"{level:.0%}" for level in SHOWN)]
    scores = ["log10 interval score at 95 %", "NLPD", "log10 RMSE", "CPU ms"]
    return table([*header, *scores], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, help="fit, and write here")
    parser.add_argument("--pack", type=Path, help="collect what was written there")
    parser.add_argument("--picture", type=Path, help="draw it here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.to:
        fit(arguments.to)
        return
    if arguments.pack:
        pack(arguments.pack, STORED)
    rows = complete(read(STORED))
    print(f"{len({key(row)[:3] for row in rows})} searches")
    for part in (of_packages, of_looks):
        print(f"{part.__doc__}\n\n{part(rows)}")
    if arguments.picture:
        draw(rows, arguments.picture)


def fit(folder: Path) -> None:
    r"""Fit every package to every search, except what is there."""
    for risk in RISKS:
        for form in dict.fromkeys(form for form, _ in pairs(development=False)):
            for mode in MODES:
                for package in PACKAGES:
                    path = folder / f"{form}.{risk}.{mode}.{package.replace(' ', '-')}.json"
                    if not path.exists():
                        write_text(path, json.dumps(rows_of(folder, form, risk, mode, package)))
                        print(path.name, flush=True)


LABELS = {
    "SampledGP": "botorch_risk, 16 samples",
    "hetGPy homGP": "hetGPy, one noise",
    "hetGPy hetGP": "hetGPy, noise by input",
    "BoTorch": "BoTorch's SingleTaskGP",
    "Ax": "Ax's default",
}
GAP = 0.036  # between labels


def draw(rows: Sequence[Row], path: Path) -> None:
    r"""Stated against contained of each package, over all looks."""
    ends: list[float] = []
    with matplotlib.rc_context({**STYLE, "font.size": 11.0}):
        figure = Figure(figsize=(7.6, 4.6), layout="constrained")
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color="0.45", linestyle=(0, (4, 3)), linewidth=1.2, zorder=1)
        angle = {"rotation": 45, "transform_rotates_text": True, "rotation_mode": "anchor"}
        axes.text(0.61, 0.62, "holds what it says", color="0.35", **angle)
        for (name, label), color in zip(LABELS.items(), COLORS, strict=False):
            some = chosen(rows, package=name)
            shares = [float(contained(some, level).mean()) for level in LEVELS[4:10]]
            width = 2.6 if name == "SampledGP" else 1.6
            axes.plot(LEVELS[4:10], shares, "o-", color=color, linewidth=width, markersize=4.5)
            ends.append(min(shares[-1], ends[-1] - GAP) if ends else shares[-1])
            link = {"linewidth": 0.8, "clip_on": False}
            axes.plot([0.955, 0.981], [shares[-1], ends[-1]], color=color, **link)
            text = f"{shares[-1]:.0%}  {label}"
            axes.text(0.985, ends[-1], text, color=color, va="center")
        axes.set(xlim=(0.48, 0.975), ylim=(0.4, 1.0))
        axes.set(xlabel="stated", ylabel="contained")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xticks(SHOWN)
        axes.set_title("Intervals of f, from the same readings", loc="left", fontsize=12)
    save_png(figure, path, dpi=130)


if __name__ == "__main__":
    main()
