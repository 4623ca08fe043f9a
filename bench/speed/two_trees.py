r"""The CPU time of a round of every strategy, in two checkouts that take turns.

    python -m bench.speed.two_trees BEFORE [AFTER] [--replicates 1 32] [--rounds 30] [--begin 25]

Each checkout has a process with one thread, which plays the cases of `tests/strategies/cases.py`;
the processes play the same round in turn, and a pair is one round of both. AFTER is this checkout
by default. Prints the geometric mean of after / before with a Student-t interval over the pairs.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

PROGRAM = Path(__file__).resolve()
HERE = PROGRAM.parents[2]


def play() -> None:
    r"""Plays what the parent asks for: one line names a case, each further one asks for a round."""
    import warnings

    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from tests.strategies.cases import STRATEGIES
    from tests.strategies.loops import evaluate, meet

    cases = {case.name: case for case in STRATEGIES}
    strategy: Any = None
    index = 0
    for line in sys.stdin:
        request = json.loads(line)
        answer: Any = sorted(cases)
        if "case" in request:
            case = cases[request["case"]]
            torch.manual_seed(0)
            strategy, index = case.build(tuple(range(request["replicates"]))), 0
            answer = None
        elif "round" in request:
            try:
                begin = time.process_time()
                asked = strategy.ask()
                spent = time.process_time() - begin
                X = meet(strategy, asked, index, case.problem)
                Y = evaluate(strategy, X, index, case.problem)
                begin = time.process_time()
                strategy.tell(X, Y)
                strategy.recommend()
                answer, index = spent + time.process_time() - begin, index + 1
            except Exception as error:  # a finished search, or a case of three replicates
                answer = f"{type(error).__name__}: {error}"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


class Player:
    r"""A process that plays the code of one checkout, by a program of this one."""

    def __init__(self, tree: Path, program: Path = PROGRAM) -> None:
        path = os.pathsep.join([str(tree), str(tree / "bench")])
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": path}
        self.process = subprocess.Popen(
            [sys.executable, str(program), "--play"],
            cwd=tree,
            env=os.environ | threads,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        stdin: Any = self.process.stdin
        stdout: Any = self.process.stdout
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        line = stdout.readline()
        return json.loads(line)


def interval(logs: np.ndarray) -> tuple[float, float, float]:
    r"""Geometric mean and the ends of its 95 % interval, from logarithms of ratios."""
    reach = student.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    mean = logs.mean()
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=HERE)
    parser.add_argument("--replicates", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--begin", type=int, default=0, help="rounds before those that count")
    parser.add_argument("--only", nargs="+", default=[])
    options = parser.parse_args()
    players = [Player(tree.resolve()) for tree in (options.before, options.after)]
    names = options.only or players[0].ask()
    every = []
    for replicates in options.replicates:
        for name in names:
            for player in players:
                player.ask(case=name, replicates=replicates)
            times = np.zeros((options.begin + options.rounds, 2))
            for index in range(len(times)):
                for which in (0, 1) if index % 2 else (1, 0):
                    answer = players[which].ask(round=True)
                    times[index, which] = answer if isinstance(answer, float) else np.nan
            times = times[options.begin :]
            times = times[~np.isnan(times).any(axis=1)]
            if len(times) < 2:
                print(f"R = {replicates:2} {name:40} not played: {answer}", flush=True)
                continue
            logs = np.log(times[:, 1] / times[:, 0])
            every.append(logs.mean())
            mean, low, high = interval(logs)
            print(
                f"R = {replicates:2} {name:40} {mean:.3f} ({low:.3f} to {high:.3f}), "
                f"{len(times)} pairs, {1e3 * np.median(times[:, 0]):.0f} ms",
                flush=True,
            )
    mean, low, high = interval(np.array(every))
    print(f"pooled over {len(every)}: {mean:.3f} ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    play() if sys.argv[1:] == ["--play"] else main()
