r"""Proves the optima of all pairs of function and risk.

python -m bench.studies.open_benchmark.certify_all [FUNCTION ...] [--to results/open_benchmark]

The file has the name of the one that `botorch_risk.test_functions` reads.
Two independent routes have to agree: ascents from the best points of a dense grid, and branching
with interval bounds, which may not find anything better by more than 1e-6.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import torch
from botorch_risk_bench.campaigns.whole_files import write_text
from scipy.optimize import minimize
from torch import Tensor

from bench.reproduction.results import writing_parser
from bench.studies.open_benchmark.bounds import TooManyCellsError, certify, risk_of
from botorch_risk.test_functions.certified import OPTIMA, RISKS, environment_of, measure_of
from botorch_risk.test_functions.closed_forms import FORMS, ClosedForm

# Symmetric in x whatever w is, so that every risk has the same optimum.
LEFT_OUT = ("camel",)
TOLERANCE = 1e-6
GRID = {1: 20_001, 2: 201}
COARSE = {1: 1_001, 2: 41}  # for the MMD ball, whose risk is a convex program at each decision
NUM_STARTS = 10


def dense_search(risk: Callable[[Tensor], Tensor], d: int, size: int) -> tuple[Tensor, float]:
    r"""The best of ascents from grid points that lie apart, without gradients: risks have kinks."""
    axes = [torch.linspace(0, 1, size, dtype=torch.double)] * d
    grid = torch.cartesian_prod(*axes).view(-1, d)
    values = torch.cat([risk(part) for part in grid.split(2048)])
    best, decision = -torch.inf, grid[0]
    for _ in range(NUM_STARTS):
        start = grid[values.argmax()]
        x, value = _climb(risk, start, 2 / size)
        if value > best:
            best, decision = value, x
        values[((grid - start).abs() < 0.05).all(dim=-1)] = -torch.inf
    return decision, best


def _climb(risk: Callable[[Tensor], Tensor], start: Tensor, size: float) -> tuple[Tensor, float]:
    def loss(x: Any) -> float:
        return -risk(torch.as_tensor(x).clamp(0, 1).unsqueeze(0)).item()

    simplex = torch.cat([start.unsqueeze(0), start + size * torch.eye(start.numel()).double()])
    options = {"xatol": 1e-12, "fatol": 1e-13, "maxiter": 2000, "initial_simplex": simplex.numpy()}
    found = minimize(loss, start.numpy(), method="Nelder-Mead", options=options)
    return torch.as_tensor(found.x).clamp(0, 1), -float(found.fun)


def prove(form: ClosedForm, risk: str) -> dict[str, Any]:
    r"""The certificate of a pair."""
    environment = environment_of(form.num_environment)
    measure = measure_of(risk, environment)
    points, weights = environment.points, environment.weights
    objective = risk_of(form, measure, points, weights)
    sizes = COARSE if risk == "mmd-ball" else GRID
    decision, value = dense_search(objective, form.num_decision, sizes[form.num_decision])
    found = certify(form, measure, points, weights, decision, TOLERANCE, max_cells=3_000_000)
    if found.best > value + TOLERANCE:
        raise RuntimeError(f"Expected both routes to agree. Got {value} and {found}.")
    return {"value": found.best, "decision": found.decision, "boxes": found.num_cells}


def main() -> None:
    parser = writing_parser(__doc__, "results/open_benchmark")
    parser.add_argument(
        "names", nargs="*", default=[name for name in FORMS if name not in LEFT_OUT]
    )
    arguments = parser.parse_args()
    path = arguments.to / OPTIMA.name
    known: dict[str, Any] = {}
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    for name in arguments.names:
        for risk in RISKS:
            start = time.process_time()
            try:
                proof = prove(FORMS[name], risk)
            except TooManyCellsError as error:
                print(f"{name}, {risk}: not proved. {error}", flush=True)
                continue
            known.setdefault(name, {})[risk] = proof
            write_text(path, f"{json.dumps(known, indent=1)}\n")
            print(f"{name}, {risk}: {proof}, {time.process_time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
