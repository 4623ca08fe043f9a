r"""Fig. 3: what a model knows of the function from the data, and by the loss, of MAP and UHE-BO.

python -m bench.reproduction.uhe.surrogates [--results results/uhe] [--to FOLDER]

From the runs of campaign.py: both methods' data, each fitted by either loss, so that
what the data contribute is separated from what the loss does.
"""

from pathlib import Path
from typing import Any

import torch
from botorch.models.model import Model
from botorch_risk_bench.campaigns.records import ExperimentRecords
from botorch_risk_bench.experiments.papers.models import matern_process
from botorch_risk_bench.experiments.registry import get_experiment
from matplotlib.figure import Figure
from torch import Tensor

from bench.reproduction.pictures import finish, panels
from bench.reproduction.results import Report, records_of
from bench.reproduction.tables import cell, paired, table
from botorch_risk.diagnostics import calibration
from botorch_risk.engine import Belief
from botorch_risk.fit import MaximumAPosteriori, PseudoData

PROBLEMS = ("branin", "deceptive", "h1", "hartmann3", "hartmann6")
COLLECTED = ("MAP", "UHE-BO")
LOSSES = {"MAP": MaximumAPosteriori(), "pseudo-data": PseudoData()}
OWN = {"UHE-BO": "pseudo-data", "MAP": "MAP"}  # the loss that each method fits by
DRAWN, SIZES, GRID = "deceptive", (20, 50, 100), 80
MANY = (2, 1500)  # sets and uniform points in a set, for the reference
NEAR = 0.05  # on the unit cube


class Runs:
    r"""A problem on the unit cube and what was collected of it.

    Args:
        report: Where the stores are.
        name: The problem.
    """

    def __init__(self, report: Report, name: str) -> None:
        self.problem: Any = get_experiment(f"uhe-{name}").problem()
        with records_of(report.results, f"uhe-{name}") as found:
            stores = {label: each for each in found for label in each.labels()}
            if not {*COLLECTED} <= {*stores}:
                raise SystemExit(report.missing(f"uhe-{name} by {' and '.join(COLLECTED)}"))
            self.seeds = stores["MAP"].identity["seeds"]
            self.data = {label: self._unit(stores[label], label) for label in COLLECTED}
        box = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        self.bounds = box.expand(2, self.problem.bounds.shape[-1])

    def _unit(self, store: ExperimentRecords, label: str) -> tuple[Tensor, Tensor]:
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


def lengthscales(model: Any) -> Tensor:
    r"""Geometric means over the inputs, one a seed."""
    return model.covar_module.base_kernel.lengthscale.detach().log().mean(dim=(-2, -1)).exp()


def share_near_best(X: Tensor, Y: Tensor) -> Tensor:
    r"""How much of the second half of the data lies close to the best point, one a seed."""
    best = Y.argmax(dim=-2, keepdim=True)  # R x 1 x 1
    distance = (X - X.take_along_dim(best, dim=-2)).norm(dim=-1)
    return (distance[:, X.shape[-2] // 2 :] < NEAR).double().mean(dim=-1)


def of_uniform_points(runs: Runs, num_sets: int, num_points: int) -> Tensor:
    r"""The lengthscales that MAP finds from uniform points, one a set."""
    X = torch.rand(num_sets, num_points, runs.bounds.shape[-1], dtype=torch.double)
    model = matern_process(X, runs.function(X).unsqueeze(-1))
    return lengthscales(MaximumAPosteriori()(model, range(num_sets), 1))


def measured(runs: Runs) -> list[list[str]]:
    r"""Lines of lengthscale, error as a share of the function's deviation, error over deviation."""
    X = runs.data["MAP"][0]
    uniform = torch.rand(4096, X.shape[-1], dtype=torch.double)
    scale = runs.function(uniform).std()
    lines = []
    for n in (X.shape[-2] // 2, X.shape[-2]):
        own = None
        for label in COLLECTED:
            for loss in LOSSES:
                model = runs.fitted(label, loss, n)
                found = calibration(model, runs.function, runs.bounds, seeds=runs.seeds)
                error = found.error / scale
                against, own = ("", error) if own is None else (paired(error, own), own)
                shown = [cell(each) for each in (lengthscales(model), error)]
                line = [str(n), label, loss, *shown, against, cell(found.root_mean_square)]
                lines.append(line)
    return lines


def picture(runs: Runs) -> Figure:
    r"""The function, and the mean of either method's model of seed 0 after some points."""
    axis = torch.linspace(0, 1, GRID, dtype=torch.double)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
    truth = runs.function(grid)
    levels: dict[str, Any] = {"vmin": truth.min().item(), "vmax": truth.max().item()}
    columns = 1 + len(SIZES)
    figure, every = panels(len(OWN) * columns, columns, height=2.8, width=3.2)
    for index, (label, loss) in enumerate(OWN.items()):
        first, *others = every[columns * index : columns * (index + 1)]
        mesh = first.pcolormesh(axis, axis, truth, rasterized=True, **levels)
        first.set(title="f(x)", ylabel="x2")
        for axes, n in zip(others, SIZES, strict=True):
            with torch.no_grad():
                mean, _ = Belief(runs.fitted(label, loss, n))(grid.view(1, -1, 2))
            axes.pcolormesh(axis, axis, mean[0].view(GRID, GRID), rasterized=True, **levels)
            axes.plot(*runs.data[label][0][0, :n].T, "kx", ms=5)
            axes.set_title(f"{label}, {n} points")
    for axes in every:
        axes.grid(visible=False)
    for axes in every[-columns:]:
        axes.set_xlabel("x1")
    figure.colorbar(mesh, ax=every, shrink=0.8, label="f(x), posterior mean")
    return figure


def main() -> None:
    report = Report.of_arguments(__doc__, Path(__file__).parent)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    header = ["points", "data of", "loss", "lengthscale", "error"]
    header += ["error minus MAP's on its data", "error / deviation"]
    page = []
    for name in PROBLEMS:
        runs = Runs(report, name)
        num_points = runs.data["MAP"][0].shape[-2]
        many = of_uniform_points(runs, *MANY).tolist()
        as_many = of_uniform_points(runs, len(runs.seeds), num_points)
        by_map = (lengthscales(runs.fitted(each, "MAP", num_points)) for each in COLLECTED)
        against_uniform = [paired(each, as_many) for each in by_map]
        page += [
            f"### {name}, {len(runs.seeds)} seeds\n",
            f"Lengthscale, MAP: of {num_points} uniform points {cell(as_many)}; of {MANY[1]}, "
            f"{MANY[0]} times, {', '.join(f'{each:.3g}' for each in many)}.\n",
            f"Lengthscale by MAP from a method's {num_points} points, minus the lengthscale "
            "from as many uniform points:\n",
            table([*COLLECTED], [against_uniform]),
            f"Share of the second half of the data within {NEAR} of the best point: "
            + ", ".join(f"{each} {cell(share_near_best(*runs.data[each]))}" for each in COLLECTED)
            + ".\n",
            table(header, measured(runs)),
        ]
        if name == DRAWN:
            title = "f and posterior means, crosses: the data of one run of each method"
            finish(picture(runs), report.to / "figure_3", f"{name.capitalize()}: {title}")
    text = (
        "Lengthscale: the geometric mean over inputs, on the unit cube. Error: of the posterior "
        "mean at 1,000 uniform points, root mean square, as a share of the function's standard "
        "deviation. Error / deviation: root mean square of error over claimed deviation.\n"
    )
    report.write([text, *page], "surrogates.md")


if __name__ == "__main__":
    main()
