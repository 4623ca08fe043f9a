r"""Fig. 1: the posterior of a lengthscale from the data of GP-UCB and from uniform ones.

python -m bench.reproduction.uhe.bias [--functions 20]

One input, 25 points, noise and signal variance known, log lengthscale uniform a priori. In the
first row the function is a draw of the process that is fitted; in the second its left third is
smooth and its right end rough.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.reports.plots import COLORS
from matplotlib.figure import Figure
from torch import Tensor

from bench.reproduction.uhe.recovery import (
    NOISE,
    Functions,
    Truth,
    closest_lengthscales,
    collect,
    matern,
)
from botorch_risk.fit import pseudo_points

TRUTHS = {"well specified": Truth(2.5, (0.15,)), "rough at one end": Truth(2.5, (0.4,), warp=3.0)}
NUM_POINTS = 25
LOG_LENGTHSCALES = torch.linspace(math.log(0.01), math.log(3.0), 120, dtype=torch.double)
BOX = torch.tensor([[0.0], [1.0]]).double()


def posterior(X: Tensor, Y: Tensor) -> Tensor:
    r"""Density of the log lengthscale on the grid, `R x 120`."""
    noise = NOISE**2 * torch.eye(X.shape[-2]).double()
    logs = []
    for lengthscale in LOG_LENGTHSCALES.exp():
        factor = torch.linalg.cholesky(matern(X, lengthscale, 2.5) + noise)
        white = torch.linalg.solve_triangular(factor, Y, upper=False).squeeze(-1)
        determinant = factor.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        logs.append(-0.5 * white.square().sum(dim=-1) - determinant)
    density = torch.stack(logs, dim=-1).softmax(dim=-1)
    return density / (LOG_LENGTHSCALES[1] - LOG_LENGTHSCALES[0])


def row(panels: Any, title: str, truth: Truth, num_functions: int) -> None:
    seeds = list(range(num_functions))
    functions = Functions.draw(title, truth, seeds)
    data = {
        design: collect(functions, design, seeds, NUM_POINTS) for design in ("GP-UCB", "uniform")
    }
    order = functions.domain.squeeze(-1).argsort()
    left, *others = panels
    left.plot(functions.domain[order], functions.values[0, order], color="0.5", lw=1)
    for (design, (X, Y)), color in zip(data.items(), COLORS, strict=False):
        left.plot(X[0], Y[0], "o", color=color, ms=4, label=design)
    left.set(title=title, ylabel="f(x) of the first function")
    left.legend(frameon=False, fontsize=8)
    X, Y = data["GP-UCB"]
    drawn = pseudo_points(X, BOX, seeds=seeds)
    sets = {
        "data of GP-UCB": data["GP-UCB"],
        "uniform data": data["uniform"],
        "GP-UCB pseudo-data": (drawn.X, drawn.of_neighbours(Y.squeeze(-1)).unsqueeze(-1)),
    }
    closest = closest_lengthscales(truth).item()
    for axes, (name, (inputs, outcomes)), color in zip(others, sets.items(), COLORS, strict=False):
        densities = posterior(inputs, outcomes)
        axes.plot(LOG_LENGTHSCALES.exp(), densities.T, color="0.8", lw=0.6)
        axes.plot(LOG_LENGTHSCALES.exp(), densities[0], color=color, lw=1.2)
        axes.plot(LOG_LENGTHSCALES.exp(), densities.mean(dim=0), color="black", lw=1.5)
        axes.axvline(closest, color="black", ls="--", lw=1)
        axes.set(title=f"posterior, {name}", xscale="log", ylim=(0, 5))
        axes.set_ylabel("density of the log lengthscale")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, default=20)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figure = Figure(figsize=(13.0, 5.6), layout="constrained")
    for panels, (title, truth) in zip(figure.subplots(2, 4), TRUTHS.items(), strict=True):
        row(panels, title, truth, arguments.functions)
        panels[0].set_xlabel("x")
        for axes in panels[1:]:
            axes.set_xlabel("lengthscale")
    figure.suptitle(
        f"{NUM_POINTS} points; coloured: the first function; grey: {arguments.functions} of them; "
        "black: their mean; dashed: the truth, or the closest lengthscale",
        fontsize=10,
    )
    figure.savefig(arguments.to / "figure_1.png", dpi=100)


if __name__ == "__main__":
    main()
