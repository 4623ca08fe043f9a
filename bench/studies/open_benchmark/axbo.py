r"""axbo-extensions 1.5.0, the CVaR of Ax's experiments, on pairs of the open benchmark; w is drawn.

Its decisions are recommended in three ways: by its client's best point, by the best CVaR of its
surrogate over the decisions so far (as its stopping rule does), and as `risk_search` recommends.

python -m bench.studies.open_benchmark.axbo play ROWS.jsonl
python -m bench.studies.open_benchmark.axbo report ROWS.jsonl
"""

import argparse
import json
import logging
import time
import warnings
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from botorch_risk_bench.baselines import ask_tell
from botorch_risk_bench.baselines.appended_values import resampled
from botorch_risk_bench.campaigns.loop import evaluate
from botorch_risk_bench.experiments.problem import decision_space
from botorch_risk_bench.metrics import log_regret, paired_difference, pooled_difference
from botorch_risk_bench.problems.tabular import TABLES
from torch import Tensor

from bench.studies.open_benchmark.chosen_pairs import WITHOUT_MMD
from bench.studies.open_benchmark.default_pairs import FIRST_SEED
from bench.studies.open_benchmark.experiments import EXPERIMENTS, SEARCH
from bench.studies.open_benchmark.others import as_numbers
from botorch_risk.strategies import Box, Strategy, risk_search

CVAR = "-conditional-value-at-risk"
FORMS = {each.name: each for each in EXPERIMENTS}
# In a random order. Four inputs, and the whole numbers of tables, cost several times as much.
PAIRS = [
    name
    for name in WITHOUT_MMD
    if name.endswith(CVAR)
    and FORMS[name].num_initial <= 8
    and FORMS[name].settings["form"] not in TABLES
]
ALPHA = 0.9  # the worst tenth of W
N_W = 16  # its default is 10; with 32 a round takes four times as long
NUM_ROUNDS = 12
FIRST_ROUND = 7  # of those whose log regret is averaged
PACKAGES = ("axbo-extensions", "ax-platform", "botorch", "gpytorch", "torch")
REPORTS = {"client": "its best point", "surrogate": "its best CVaR", "ours": "our rule"}


class AxboExtensions:
    r"""Ax with its CVaR, told the w of each trial: the package has equal weights, `N_W` values.

    Args:
        box: The decisions.
        seed: The seed of the client and of the values of W.
        problem: Its environment and its bounds.
        looks: Where what it recommends is written down, with the seconds of its CPU.
    """

    def __init__(self, box: Box, seed: int, *, problem: Any, looks: list[dict[str, Any]]) -> None:
        from ax.api.client import Client
        from ax.api.configs import RangeParameterConfig
        from axbo_extensions.robustness import RobustOptimizationConfig, augment_generator_specs

        for name in ("ax.api.client", "axbo_extensions.robustness"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self.box, self.looks, self.seed = box, looks, seed % 2**31
        self.d_x, self.start = box.bounds.shape[-1], time.process_time()
        self.names = [f"p{column}" for column in range(problem.dim)]
        kinds = ["int" if column in box.integers else "float" for column in range(problem.dim)]
        parameters: list[Any] = [
            RangeParameterConfig(name=name, bounds=tuple(pair), parameter_type=kind)
            for name, pair, kind in zip(self.names, problem.bounds.T.tolist(), kinds, strict=True)
        ]
        stream = torch.Generator().manual_seed(seed)
        shift = torch.rand(1, generator=stream, dtype=torch.double)
        self.w = resampled(problem.environment, N_W, shift)
        of_w = self.names[self.d_x :]
        self.client = Client(random_seed=self.seed)
        self.client.configure_experiment(name="outside", parameters=parameters)
        self.client.configure_optimization(objective="y")
        self.client.configure_generation_strategy(initialization_budget=0)
        config = RobustOptimizationConfig(
            context_groups=["w"],
            robustness=ALPHA,
            context_points=[dict(zip(of_w, w, strict=True)) for w in self.w.tolist()],
        )
        groups = [["w"] if each.name in of_w else [] for each in parameters]
        with_groups = [
            _InGroup(each.name, each.bounds, each.parameter_type, group)
            for each, group in zip(parameters, groups, strict=True)
        ]
        augment_generator_specs(self.client, with_groups, config)
        for node in self.client._generation_strategy._nodes:
            for spec in node.generator_specs:  # Ax's 20 starts take three times as long
                spec.generator_gen_kwargs["model_gen_options"] = {"optimizer_kwargs": dict(SEARCH)}

    def tell(self, X: Tensor, Y: Tensor) -> None:
        self.X = X
        for x, y in zip(as_numbers(X, self.box), Y.nanmean(dim=-1).tolist(), strict=True):
            index = self.client.attach_trial(dict(zip(self.names, x, strict=True)))
            self.client.complete_trial(index, {"y": y})

    def ask(self, num_points: int) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            trials = self.client.get_next_trials(max_trials=num_points)
        seconds = time.process_time() - self.start
        best = self.client.get_best_parameterization(use_model_predictions=True)[0]
        self.looks.append(
            {
                "client": [best[name] for name in self.names[: self.d_x]],
                "surrogate": self.X[self._cvar().argmax(), : self.d_x].tolist(),
                "seconds": seconds,
            }
        )
        rows = [[trial[name] for name in self.names[: self.d_x]] for trial in trials.values()]
        return torch.tensor(rows, dtype=torch.double)

    def _cvar(self) -> Tensor:
        r"""Of the posterior mean, in the decisions so far, `n`: `stopping.robust_incumbent`."""
        from axbo_extensions.stopping import _cvar_objective, objective_models

        models, _ = objective_models(self.client._generation_strategy)
        (model,) = models
        with torch.no_grad():
            mean = model.posterior(model._original_train_inputs).mean
            return _cvar_objective(ALPHA, N_W, minimize=False)(mean.unsqueeze(0)).flatten()


@dataclass(frozen=True)
class _InGroup:
    r"""A parameter with the groups that the package asks for; Ax's configurations have none."""

    name: str
    bounds: tuple[float, float]
    parameter_type: str
    groups: list[str]


def play(name: str, seed: int) -> dict[str, Any]:
    r"""Both loops of a pair and a seed: the regrets after each round, and seconds of CPU."""
    experiment = FORMS[name]
    problem: Any = experiment.problem()
    known = {"environment": problem.environment, "risk_measure": problem.risk_measure, **SEARCH}
    sizes = {"num_initial": experiment.num_initial}
    space = decision_space(problem)
    row: dict[str, Any] = {"pair": name, "seed": seed}

    def loop(strategy: Strategy) -> tuple[list[float], list[float]]:
        regrets, seconds = [], []
        for index in range(NUM_ROUNDS + 1):
            start = time.process_time()
            X = strategy.ask()
            asked = time.process_time() - start
            X, Y = evaluate(problem, X, strategy.seeds, 1, index)
            start = time.process_time()
            strategy.tell(X, Y)
            found = strategy.recommend()
            seconds.append(asked + time.process_time() - start)
            regrets.append(problem.optimal_risk - problem.objective(found).item())
        return regrets, seconds

    looks: list[dict[str, Any]] = []
    optimizer = partial(AxboExtensions, problem=problem, looks=looks)
    row["search"], row["search_seconds"] = loop(risk_search(space, seed, **known, **sizes))
    strategy = ask_tell(space, seed, optimizer=optimizer, **known, **sizes)
    row["ours"], _ = loop(strategy)
    strategy.ask()  # so that it looks at the last round as well
    for report in ("client", "surrogate"):
        X = torch.tensor([each[report] for each in looks], dtype=torch.double)
        row[report] = (problem.optimal_risk - problem.objective(X)).tolist()
    row["seconds"] = [each["seconds"] for each in looks]
    return row


def report(rows: list[dict[str, Any]]) -> None:
    r"""Differences in log regret, paired by seed: below 0, `risk_search` is ahead."""
    print(f"log10 of the regret, rounds {FIRST_ROUND} to {NUM_ROUNDS}: risk_search less axbo")
    print("± 95 % by Student's t over seeds; 'ours' or 'axbo' is ahead; CPU a round, axbo / ours")
    print(f"{'pair':32}{'seeds':>6}", *(f"{title:>22}" for title in REPORTS.values()), "   CPU")
    pooled: dict[str, list[Tensor]] = {each: [] for each in REPORTS}
    for name in dict.fromkeys(row["pair"] for row in rows):
        here = sorted((row for row in rows if row["pair"] == name), key=lambda row: row["seed"])
        scale = torch.tensor([row["search"][0] for row in here]).median().item()
        of = {
            each: torch.stack(
                [log_regret(torch.tensor(row[each]).double(), scale, 1e-3) for row in here]
            )[:, FIRST_ROUND:].mean(dim=-1)
            for each in ("search", *REPORTS)
        }
        cells = []
        for each in REPORTS:
            gap = paired_difference(of["search"], of[each])
            pooled[each].append(of["search"] - of[each])
            cells.append(said(gap))
        ratio = sum(sum(row["seconds"][:-1]) for row in here) / sum(
            sum(row["search_seconds"][1:]) for row in here
        )
        short = name.removesuffix(CVAR)
        print(f"{short:32}{len(here):>6}", *(f"{cell:>22}" for cell in cells), f"{ratio:6.1f}")
    for over in ("over_seeds", "over_problems"):
        cells = [said(getattr(pooled_difference(pooled[each]), over)) for each in REPORTS]
        print(f"{'all, ' + over.replace('_', ' '):38}", *(f"{cell:>22}" for cell in cells))


def said(gap: Any) -> str:
    r"""A difference with its 95 % interval by Student's t, and who is ahead."""
    mean, half = gap.mean.item(), gap.half_width.item()
    verdict = "undecided" if not abs(mean) > half else "ours" if mean < 0 else "axbo"
    return f"{mean:+.2f} ± {half:.2f} {verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["play", "report"])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    lines = arguments.rows.read_text("utf-8").splitlines() if arguments.rows.exists() else []
    rows = [json.loads(line) for line in lines]
    if arguments.action == "report":
        print(f"{date.today()}:", ", ".join(f"{name} {version(name)}" for name in PACKAGES))
        report(rows)
        return
    warnings.simplefilter("ignore")
    done = {(row["pair"], row["seed"]) for row in rows}
    for seed in range(FIRST_SEED, FIRST_SEED + arguments.seeds):  # all pairs of a seed first
        for name in PAIRS[: arguments.pairs]:
            if (name, seed) not in done:
                with arguments.rows.open("a", encoding="utf-8") as file:
                    print(json.dumps(play(name, seed)), file=file, flush=True)


if __name__ == "__main__":
    main()
