r"""Fig. 4, right: the time of a fit at |D| = 100 by MAP, by pseudo-data and by MCMC, interleaved.

python -m bench.reproduction.uhe.timing [--runs 9] [--mcmc-runs 1] [--to results/uhe]
"""

import importlib.util
from typing import Any

import torch
from botorch_risk_bench.campaigns.whole_files import write_text
from botorch_risk_bench.experiments.papers.models import matern_process
from botorch_risk_bench.experiments.registry import get_experiment
from torch import Tensor

from bench.reproduction.results import writing_parser
from bench.reproduction.tables import table
from bench.speed.timing import environment, interleaved
from botorch_risk.fit import FullyBayesian, MaximumAPosteriori, PseudoData

PROBLEMS = ("deceptive", "hartmann3", "boosting")  # the paper's three
LABELS = ("MAP", "pseudo-data", "MCMC")
NUM_DATA = 100


def data(problem: Any) -> tuple[Tensor, Tensor]:
    r"""Half of the points uniform on the unit cube, half close to the best of these."""
    bounds, generator = problem.bounds, torch.Generator().manual_seed(0)
    shape = (NUM_DATA // 2, bounds.shape[-1])
    uniform = torch.rand(shape, generator=generator, dtype=torch.double)
    values = problem.objective(bounds[0] + (bounds[1] - bounds[0]) * uniform)
    spread = 0.03 * torch.randn(shape, generator=generator, dtype=torch.double)
    X = torch.cat([uniform, (uniform[values.argmax()] + spread).clamp(0.0, 1.0)])
    return X, problem.objective(bounds[0] + (bounds[1] - bounds[0]) * X).unsqueeze(-1)


def main() -> None:
    parser = writing_parser(__doc__, "results/uhe")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--mcmc-runs", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sampling = all(importlib.util.find_spec(each) for each in ("numpyro", "jax"))
    rows = []
    for name in PROBLEMS:
        if name == "boosting" and importlib.util.find_spec("xgboost") is None:
            print("boosting: left out, it needs xgboost")
            continue
        X, Y = data(get_experiment(f"uhe-{name}").problem())
        fits = {
            label: lambda estimate=estimate: estimate(matern_process(X, Y), [0], 1)  # noqa: B023
            for label, estimate in (("MAP", MaximumAPosteriori()), ("pseudo-data", PseudoData()))
        }
        seconds = interleaved(fits, arguments.runs)
        if sampling:
            mcmc = {"MCMC": lambda: FullyBayesian()(matern_process(X, Y), [0], 1)}  # noqa: B023
            seconds |= interleaved(mcmc, arguments.mcmc_runs)
        times = {label: f"{1e3 * value:.0f}" for label, value in seconds.items()}
        ratios = {label: f"{value / seconds['MAP']:.1f}x" for label, value in seconds.items()}
        shown = [found.get(label, "") for found in (times, ratios) for label in LABELS]
        rows.append([name, *shown])
    header = ["problem", *(f"{label}, {what}" for what in ("ms", "of MAP") for label in LABELS)]
    text = (
        f"{environment('cpu')}. |D| = {NUM_DATA}, M = {2 * NUM_DATA}, one replicate; medians.\n\n"
    )
    write_text(arguments.to / "timing.md", text + table(header, rows))


if __name__ == "__main__":
    main()
