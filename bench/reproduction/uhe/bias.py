r"""Fig. 1: the posterior of a lengthscale from the data of GP-UCB and from uniform ones.

python -m bench.reproduction.uhe.bias [--functions 20] [--to results/uhe]

One input, 25 points, noise and signal variance known, log lengthscale uniform a priori. In the
first row the function is a draw of the process that is fitted; in the second its left third is
smooth and its right end rough.
"""

import math
from typing import Any

import torch
from torch import Tensor

from bench.reproduction.pictures import GREEN, LOOKS, finish, panels
from bench.reproduction.results import writing_parser
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
DESIGN_COLORS = {"GP-UCB": LOOKS["MAP"][0], "uniform": GREEN}
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


def row(every: Any, title: str, truth: Truth, num_functions: int) -> None:
    seeds = list(range(num_functions))
    functions = Functions.draw(title, truth, seeds)
    data = {
        design: collect(functions, design, seeds, NUM_POINTS) for design in ("GP-UCB", "uniform")
    }
    order = functions.domain.squeeze(-1).argsort()
    left, *others = every
    left.plot(functions.domain[order], functions.values[0, order], color="0.5", lw=1)
    for design, (X, Y) in data.items():
        left.plot(X[0], Y[0], "o", color=DESIGN_COLORS[design], ms=4, label=design)
    left.set(title=title, ylabel="f(x) of the first function")
    X, Y = data["GP-UCB"]
    drawn = pseudo_points(X, BOX, seeds=seeds)
    pseudo_data = drawn.X, drawn.of_neighbours(Y.squeeze(-1)).unsqueeze(-1)
    sets = {
        "data of GP-UCB": (data["GP-UCB"], DESIGN_COLORS["GP-UCB"]),
        "uniform data": (data["uniform"], DESIGN_COLORS["uniform"]),
        "pseudo-data of GP-UCB": (pseudo_data, LOOKS["pseudo-data"][0]),
    }
    closest = closest_lengthscales(truth).item()
    for axes, (name, ((inputs, outcomes), color)) in zip(others, sets.items(), strict=True):
        densities = posterior(inputs, outcomes)
        axes.plot(LOG_LENGTHSCALES.exp(), densities.T, color="0.8", lw=0.6)
        axes.plot(LOG_LENGTHSCALES.exp(), densities[0], color=color, lw=1.2)
        axes.plot(LOG_LENGTHSCALES.exp(), densities.mean(dim=0), color="black", lw=1.5)
        axes.axvline(closest, color="black", ls="--", lw=1)
        axes.set(title=name, xscale="log", ylim=(0, 5))
        axes.set_ylabel("posterior density of the logarithm")


def main() -> None:
    parser = writing_parser(__doc__, "results/uhe")
    parser.add_argument("--functions", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figure, every = panels(4 * len(TRUTHS), columns=4, height=2.8, width=3.3)
    for index, (title, truth) in enumerate(TRUTHS.items()):
        line = every[4 * index : 4 * (index + 1)]
        row(line, title, truth, arguments.functions)
        line[0].set_xlabel("x")
        for axes in line[1:]:
            axes.set_xlabel("lengthscale")
    title = (
        f"{NUM_POINTS} points; coloured: the first function; grey: {arguments.functions} of them; "
        "black: their mean; dashed: the truth, or the closest lengthscale"
    )
    finish(figure, arguments.to / "figure_1", title)


if __name__ == "__main__":
    main()
