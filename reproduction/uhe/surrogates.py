r"""Fig. 3: what a model knows of the function from the data, and by the loss, of MAP and UHE-BO.

python -m reproduction.uhe.surrogates [--out results/uhe]

From the runs of `reproduction.uhe.run`: both methods' data, each fitted by either loss, so that
what the data and what the loss contribute are told apart.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from botorch.models.model import Model
from matplotlib.figure import Figure
from torch import Tensor

from botorch_risk.experiments.registry import get_experiment
from botorch_risk.experiments.store import ExperimentStore
from botorch_risk.experiments.uhe import matern_process
from botorch_risk.fit import MaximumAPosteriori, PseudoData, calibration
from botorch_risk.models.marginals import MarginalPredictor
from reproduction.parts import stores
from reproduction.tables import cell, paired, table
from reproduction.uhe.run import PARTS

PROBLEMS = ("branin", "deceptive", "h1", "hartmann3", "hartmann6")
COLLECTED = ("MAP", "UHE-BO")
LOSSES = {"MAP": MaximumAPosteriori(), "pseudo-data": PseudoData()}
OWN = {"UHE-BO": "pseudo-data", "MAP": "MAP"}  # the loss that each method fits by
DRAWN, SIZES, GRID = "deceptive", (20, 50, 100), 80


class Runs:
    r"""A problem on the unit cube and what was collected of it.

    Args:
        out: The folder of the stores.
        name: The problem.
    """

    def __init__(self, out: Path, name: str) -> None:
        self.problem: Any = get_experiment(f"uhe-{name}").problem()
        (path, *_) = stores(PARTS, out, f"uhe-{name}")
        with ExperimentStore(path) as store:
            self.seeds = store.identity["seeds"]
            self.data = {label: self._unit(store, label) for label in COLLECTED}

    def _unit(self, store: ExperimentStore, label: str) -> tuple[Tensor, Tensor]:
        records = store.rounds(label)
        lower, upper = self.problem.bounds
        X = (torch.cat([record.X for record in records], dim=-2) - lower) / (upper - lower)
        return X, torch.cat([record.Y for record in records], dim=-2)

    def function(self, X: Tensor) -> Tensor:
        r"""The function, of points of the unit cube."""
        lower, upper = self.problem.bounds
        return self.problem.objective(lower + (upper - lower) * X)

    def fitted(self, label: str, loss: str, n: int) -> Model:
        r"""One model a seed, of the first `n` points."""
        X, Y = (each[:, :n] for each in self.data[label])
        return LOSSES[loss](matern_process(X, Y), self.seeds, n)


def measured(runs: Runs) -> list[list[str]]:
    r"""Lines of error, as a share of the function's deviation, and of error over deviation."""
    X = runs.data["MAP"][0]
    bounds = torch.stack([torch.zeros(X.shape[-1]), torch.ones(X.shape[-1])]).double()
    uniform = torch.rand(4096, X.shape[-1], dtype=torch.double)
    scale = runs.function(uniform).std()
    lines = []
    for n in (X.shape[-2] // 2, X.shape[-2]):
        errors = {}
        for label in COLLECTED:
            for loss in LOSSES:
                model = runs.fitted(label, loss, n)
                found = calibration(model, runs.function, bounds, seeds=runs.seeds)
                errors[label, loss] = found.error / scale, found.root_mean_square
        own = errors["MAP", "MAP"][0]
        for (label, loss), (error, ratio) in errors.items():
            against = "" if (label, loss) == ("MAP", "MAP") else paired(error, own)
            lines.append([str(n), label, loss, cell(error), against, cell(ratio)])
    return lines


def picture(runs: Runs) -> Figure:
    r"""The function, and the mean of either method's model of seed 0 after some points."""
    axis = torch.linspace(0, 1, GRID, dtype=torch.double)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
    truth = runs.function(grid)
    figure = Figure(figsize=(13.0, 6.0), layout="constrained")
    levels: dict[str, Any] = {"vmin": truth.min().item(), "vmax": truth.max().item()}
    for panels, (label, loss) in zip(
        figure.subplots(2, 1 + len(SIZES), sharex=True, sharey=True), OWN.items(), strict=True
    ):
        mesh = panels[0].pcolormesh(axis, axis, truth, shading="auto", **levels)
        panels[0].set(title="f(x)", ylabel="x2")
        for axes, n in zip(panels[1:], SIZES, strict=True):
            with torch.no_grad():
                mean, _ = MarginalPredictor(runs.fitted(label, loss, n))(grid.view(1, -1, 2))
            axes.pcolormesh(axis, axis, mean[0].view(GRID, GRID), shading="auto", **levels)
            axes.plot(*runs.data[label][0][0, :n].T, "kx", ms=5)
            axes.set(title=f"{label}, mean after {n} points")
    for axes in figure.axes[-4:]:
        axes.set_xlabel("x1")
    figure.colorbar(mesh, ax=figure.axes, shrink=0.8)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/uhe"))
    parser.add_argument("--to", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    header = ["points", "data of", "loss", "error", "minus MAP's on its data", "error / deviation"]
    page = []
    for name in PROBLEMS:
        runs = Runs(arguments.out, name)
        page += [f"### {name}, {len(runs.seeds)} seeds\n", table(header, measured(runs))]
        if name == DRAWN:
            picture(runs).savefig(arguments.to / "figure_3.png", dpi=90)
    text = (
        "Root mean square error of the posterior mean at 1,000 uniform points, as a share of the "
        "function's standard deviation, and root mean square of error over claimed deviation.\n"
    )
    (arguments.to / "surrogates.md").write_text("\n".join([text, *page]), encoding="utf-8")


if __name__ == "__main__":
    main()
