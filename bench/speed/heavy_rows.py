r"""The CPU time of decisions over many points, in two checkouts that take turns.

    python -m bench.speed.heavy_rows BEFORE [AFTER] [--rounds 10] [--only table]

35 readings each; one thread. TRUVAR on 900 points decides in a loop and after its state was loaded;
a table of 1,000 conditions x 100 contexts asks for one pair and for a plate of eight, and
recommends; `LogRiskKnowledgeGradient` is maximised by `optimize_acqf`; an experiment in DataFrames
plays rounds of RAHBO. Prints what `two_trees` prints: the geometric mean of after / before, with
its interval.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from torch import Tensor

from bench.speed.two_trees import HERE, Player, interval
from botorch_risk.acquisition import LogRiskKnowledgeGradient
from botorch_risk.environments import DiscreteEnvironment
from botorch_risk.frames import FrameExperiment
from botorch_risk.papers import Maximize, rahbo, truvar
from botorch_risk.risk import ConditionalValueAtRisk, Expectation, RiskMeasure, WorstCase
from botorch_risk.strategies import Strategy
from botorch_risk.tables import table_search

NUM_READINGS = 35
LINE = torch.linspace(0, 1, 30, dtype=torch.double)
# Prepares a case, and returns the function to time.
Case = Callable[[int], Callable[[], Any]]


def _truvar() -> Strategy:
    domain = torch.cartesian_prod(LINE, LINE)
    return truvar(domain, 0, goal=Maximize(), noise=1e-3, num_initial=6)


def _played() -> Strategy:
    strategy = _truvar()
    while strategy.history.num_rows < NUM_READINGS:
        _tell(strategy)
    return strategy


def _tell(strategy: Strategy) -> None:
    X = strategy.ask()
    strategy.tell(X, (6 * X).sin().sum(dim=-1, keepdim=True))


def truvar_in_a_loop(number: int) -> Callable[[], Any]:
    strategy = _played()

    def rounds() -> None:
        for _ in range(5):
            _tell(strategy)

    return rounds


def truvar_after_loading(number: int) -> Callable[[], Any]:
    state, strategy = _played().state_dict(), _truvar()
    strategy.load_state_dict(state)
    return strategy.ask


def table(decide: Callable[[Any], Any], measure: RiskMeasure) -> Case:
    def build(number: int) -> Callable[[], Any]:
        generator = torch.Generator().manual_seed(number)
        conditions, contexts = (
            torch.rand(size, 3, generator=generator, dtype=torch.double) for size in (1000, 100)
        )
        search = table_search(
            conditions, contexts, risk_measure=measure, seed=number, num_initial=NUM_READINGS
        )
        pairs = search.ask(NUM_READINGS)
        x, w = (torch.tensor(each) for each in zip(*pairs, strict=True))
        search.tell(pairs, (3 * conditions[x]).sin().sum(dim=-1) - contexts[w, 0] ** 2)
        search.cancel(search.ask(1))  # fits the hyperparameters, which both decisions share
        return lambda: decide(search)

    return build


def knowledge_gradient(d: int, num_restarts: int) -> Case:
    def build(number: int) -> Callable[[], Any]:
        torch.manual_seed(number)
        X = torch.rand(NUM_READINGS, d + 1, dtype=torch.double)
        Y = (4 * X).sin().sum(dim=-1, keepdim=True) + 0.1 * torch.randn(NUM_READINGS, 1)
        w = DiscreteEnvironment(torch.linspace(0, 1, 20, dtype=torch.double).unsqueeze(-1))
        compared = torch.rand(28, d, dtype=torch.double)
        acqf = LogRiskKnowledgeGradient(
            SingleTaskGP(X, Y), w, ConditionalValueAtRisk(0.2), compared, w_is_chosen=True
        )
        box = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, d)

        def maximize() -> Tensor:
            torch.manual_seed(number)
            X, _ = optimize_acqf(acqf, box, q=1, num_restarts=num_restarts, raw_samples=64)
            return X

        return maximize

    return build


def experiment_in_frames(number: int) -> Callable[[], Any]:
    heat_and_time = {"heat": (20.0, 80.0), "time": (1.0, 9.0)}
    experiment = FrameExperiment(
        heat_and_time,
        {"yield": "maximize"},
        rahbo,
        seed=number,
        num_repeats=2,
        risk_aversion=0.5,
        num_initial=NUM_READINGS,
    )
    generator = np.random.default_rng(number)

    def play_round() -> None:
        settings = experiment.ask()
        readings = settings.loc[settings.index.repeat(2)].reset_index(drop=True)
        mean = np.sin(readings["heat"] / 20) - (readings["time"] / 9 - 0.4) ** 2
        readings["yield"] = mean + 0.1 * generator.standard_normal(len(readings))
        experiment.tell(readings)
        experiment.recommend()

    play_round()

    def rounds() -> None:
        for _ in range(3):
            play_round()

    return rounds


RISKS = {
    "CVaR": ConditionalValueAtRisk(0.2),
    "expectation": Expectation(),
    "worst case": WorstCase(),
}
CASES: dict[str, Case] = {
    "frames, rahbo, three rounds of a loop": experiment_in_frames,
    "truvar, five rounds of a loop": truvar_in_a_loop,
    "truvar, loaded": truvar_after_loading,
    "LogRiskKnowledgeGradient, d = 2, 4 starts": knowledge_gradient(2, 4),
    "LogRiskKnowledgeGradient, d = 6, 10 starts": knowledge_gradient(6, 10),
}
for risk, measure in RISKS.items():
    CASES[f"table, {risk}, ask(1)"] = table(lambda search: search.ask(1), measure)
    CASES[f"table, {risk}, ask(8)"] = table(lambda search: search.ask(8), measure)
    CASES[f"table, {risk}, recommend"] = table(lambda search: search.recommend(), measure)


def play() -> None:
    r"""Plays what the parent asks for: a line names a case and the number of its data."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        decide = CASES[request["case"]](request["number"])
        begin = time.process_time()
        decide()
        sys.stdout.write(json.dumps(time.process_time() - begin) + "\n")
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=HERE)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    program = Path(__file__).resolve()
    players = [Player(tree.resolve(), program) for tree in (options.before, options.after)]
    for name in (each for each in CASES if options.only in each):
        for player in players:
            player.ask(case=name, number=0)  # the first call of a process is slower
        times = np.array(
            [
                [player.ask(case=name, number=number) for player in players]
                for number in range(options.rounds)
            ]
        )
        mean, low, high = interval(np.log(times[:, 1] / times[:, 0]))
        before, after = 1e3 * np.median(times, axis=0)
        print(
            f"{name:45} {mean:.3f} ({low:.3f} to {high:.3f}), {before:.0f} -> {after:.0f} ms",
            flush=True,
        )


if __name__ == "__main__":
    play() if sys.argv[1:] == ["--play"] else main()
