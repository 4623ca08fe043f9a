r"""Ten rounds of every strategy as an earlier version played them, in `trajectories.json`.

`python -m tests.strategies.trajectories` plays and stores those that the file does not have yet. A
change of the code alone is no reason to store any again.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from botorch_risk.strategies.arguments import to_json
from tests.strategies.cases import STRATEGIES, StrategyCase
from tests.strategies.loops import play

FILE = Path(__file__).with_suffix(".json")
SEEDS = (11, 12, 13)
ROUNDS = 10


def record(case: StrategyCase) -> dict[str, Any]:
    r"""The state of a strategy after the rounds, and what it asks for next."""
    torch.manual_seed(0)
    strategy = case.build(SEEDS)
    play(strategy, ROUNDS, problem=case.problem)
    return {"state": strategy.state_dict(), "next": to_json(strategy.ask())}


def stored() -> dict[str, dict[str, Any]]:
    r"""The trajectories by the names of their cases."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found


def main() -> None:
    r"""Adds what is missing, and writes after each."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = stored()
    for case in STRATEGIES:
        if case.name not in found:
            found[case.name] = record(case)
            rows = (f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
            FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
            sys.stdout.write(f"{case.name}\n")


if __name__ == "__main__":
    main()
