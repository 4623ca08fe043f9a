r"""Level sets of a mean, without an environment: ours next to the criteria of other packages.

python -m bench.studies.level_sets.of_the_mean [--seeds 20] [--rounds 60] [--results FOLDER]
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from botorch.test_functions import Branin, Hartmann, Levy, SixHumpCamel
from botorch.utils.transforms import unnormalize
from botorch_risk_bench import baselines
from botorch_risk_bench.baselines.domain_search import StraddleScore, take_best
from botorch_risk_bench.metrics import level_set_scores
from torch import Tensor
from torch.quasirandom import SobolEngine

from bench.reproduction.tables import cell, paired, table
from bench.studies import stored_rows
from bench.studies.level_sets.certified import NOISE, SHARE_ABOVE, rounds_to, run
from bench.studies.level_sets.criteria import OF_A_POINT, OF_ALL_POINTS, Criterion
from botorch_risk.acquisition import LevelSet
from botorch_risk.seeding import generators
from botorch_risk.strategies import Strategy, truvar

FUNCTIONS = {
    "branin": Branin(),
    "camel": SixHumpCamel(),
    "levy": Levy(2),
    "hartmann-3": Hartmann(3),
}
METHODS = ("truvar", "straddle", *OF_A_POINT, *OF_ALL_POINTS, "variance")
NUM_POINTS = 512


@dataclass(frozen=True)
class Task:
    r"""Listed points, of which a quarter are above the level; values have variance 1."""

    domain: Tensor
    values: Tensor
    level: float

    @classmethod
    def of(cls, name: str) -> "Task":
        function = FUNCTIONS[name]
        unit = SobolEngine(function.dim, scramble=True, seed=0).draw(NUM_POINTS).double()
        values = -function(unnormalize(unit, function.bounds.double()))
        values = (values - values.mean()) / values.std()
        return cls(unit, values, float(values.quantile(1 - SHARE_ABOVE)))

    def observe(self, X: Tensor, seeds: list[int], turn: int) -> Tensor:
        r"""Outcomes `R x q x 1`; the noise is the same for all methods of a seed."""
        row = (X.unsqueeze(-2) == self.domain).all(dim=-1).long().argmax(dim=-1)
        draws = generators(seeds, "noise", turn)
        noise = torch.stack([torch.randn(X.shape[1], generator=g).double() for g in draws])
        return (self.values[row] + NOISE * noise).unsqueeze(-1)


def strategy_of(method: str, task: Task, seeds: list[int]) -> Strategy:
    options: dict[str, Any] = {"num_initial": 2 * task.domain.shape[-1] + 2, "refit_every": 3}
    if method == "truvar":
        return truvar(task.domain, seeds, goal=LevelSet(task.level), **options)
    if method == "variance":
        return baselines.maximum_variance_search(task.domain, seeds, **options)
    score: Any = Criterion(method, task.level)
    if method == "straddle":
        score = StraddleScore(task.level)
    return take_best(score, task.domain, seeds, **options)


def play(function: str, method: str, num_seeds: int, rounds: int) -> dict[str, Any]:
    r"""F1 of the more probable classes after every round, `rounds x R`."""
    task, seeds = Task.of(function), list(range(num_seeds))
    strategy, above, f1 = strategy_of(method, task, seeds), task.values > task.level, []
    for turn in range(rounds + 1):
        X = strategy.ask()
        finished = X.isnan().any(dim=-1, keepdim=True)
        Y = task.observe(X, seeds, turn)
        strategy.tell(X, Y.where(~finished, torch.nan))
        mean = torch.empty(num_seeds, NUM_POINTS, dtype=torch.double)
        for replicates, view in strategy.views:  # a search may end before the others
            mean[replicates] = view.belief.posterior.mean
        f1.append(level_set_scores(mean > task.level, above).f1.tolist())
    return {"function": function, "method": method, "f1": f1}


def summary(path: Path) -> str:
    r"""Rounds to F1 0.95 in the median, mean F1 over the rounds, and its difference to TRUVAR."""
    found = {(row["function"], row["method"]): row["f1"] for row in stored_rows.read(path)}
    rows = []
    for method in METHODS:
        f1 = {name: torch.tensor(found[name, method]) for name in FUNCTIONS}
        first = {name: torch.tensor(found[name, METHODS[0]]) for name in FUNCTIONS}
        pooled, reference = (
            torch.stack([each.mean(dim=0) for each in some.values()]).mean(dim=0)
            for some in (f1, first)
        )
        difference = "" if method == METHODS[0] else paired(pooled, reference)
        cells = [rounds_to(each, every=1) for each in f1.values()]
        rows.append([method, *cells, cell(pooled), difference])
    header = ["criterion", *FUNCTIONS, "mean F1", f"less {METHODS[0]}"]
    return table(header, rows)


def main() -> None:
    every = [(function, method) for method in METHODS for function in FUNCTIONS]
    run(__doc__, "of_the_mean", ("function", "method"), every, play, summary)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
