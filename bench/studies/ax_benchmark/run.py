r"""Runs Ax's benchmark runner on the problems of this folder; stop it at any moment, it resumes.

OMP_NUM_THREADS=1 python -m bench.studies.ax_benchmark.run [PROBLEM ...]
    [--out results/ax_benchmark] [--seeds 20] [--first 0] [--methods NAME ...]
"""

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from ax.adapter.registry import Generators
from ax.api.utils.generation_strategy_dispatch import choose_generation_strategy
from ax.api.utils.structs import GenerationStrategyDispatchStruct
from ax.benchmark.benchmark import benchmark_replication, get_benchmark_runner, get_best_parameters
from ax.benchmark.benchmark_method import BenchmarkMethod
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec

from bench.studies.ax_benchmark.problems import (
    NUM_INITIAL,
    NUM_TRIALS,
    SETTINGS,
    Setting,
    benchmark_problem,
    decision,
)
from bench.studies.stored_rows import append, missing_cases
from botorch_risk.ax.best_arm import recommended_arm
from botorch_risk.ax.fitted import fitted_adapter

NUM_SEEDS = 20
CHECKPOINTS = (10, 15, 20, 25, NUM_TRIALS)
KEY = ("problem", "seed", "method")
Parameters = Mapping[str, Any]


def default_of_ax(setting: Setting, seed: int) -> GenerationStrategy:
    r"""What Ax's client chooses, with as many initial trials as ours; the first is the centre."""
    return choose_generation_strategy(
        GenerationStrategyDispatchStruct(
            initialization_budget=NUM_INITIAL, initialization_random_seed=seed
        )
    )


def quasi_random(setting: Setting, seed: int) -> GenerationStrategy:
    r"""A Sobol sequence."""
    sobol = GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": seed})
    return GenerationStrategy(nodes=[GenerationNode("Sobol", [sobol])], name="Sobol")


OURS = "botorch_risk"
METHODS: dict[str, Callable[[Setting, int], GenerationStrategy]] = {
    OURS: lambda setting, seed: setting.strategy(seed),
    "Ax": default_of_ax,
    "Sobol": quasi_random,
}


def run_one(name: str, seed: int, method: str) -> dict[str, Any]:
    r"""A replication of Ax's runner.

    Returns:
        The key; `regret` of the arm that `best_arm` recommends after each of `CHECKPOINTS`, for all
        methods alike; `regret_by_ax` of what Ax calls the best at the end; `seconds` of CPU time.
    """
    setting = SETTINGS[name]()
    problem = benchmark_problem(setting, seed, tracked=method == OURS)
    strategy = METHODS[method](setting, seed)
    start = time.process_time()
    result = benchmark_replication(
        problem=problem,
        method=BenchmarkMethod(name=method, generation_strategy=strategy),
        seed=seed,
        orchestrator_logging_level=logging.WARNING,
        strip_runner_before_saving=False,
    )
    seconds = time.process_time() - start
    experiment = result.experiment
    assert experiment is not None
    found = get_best_parameters(experiment, strategy)
    assert found is not None
    arms = [experiment.trials[index].arms[0].parameters for index in sorted(experiment.trials)]
    recommended = [by_risk(setting, seed, arms[:trials]) for trials in CHECKPOINTS]
    return {
        **dict(zip(KEY, (name, seed, method), strict=True)),
        "regret": [setting.optimum - setting.risk(decision(each)) for each in recommended],
        "regret_by_ax": setting.optimum - setting.risk(decision(found)),
        "seconds": seconds,
    }


def by_risk(setting: Setting, seed: int, arms: Sequence[Parameters]) -> Parameters:
    r"""The arm with the best lower bound of the risk, from what trials of these arms observe."""
    problem = benchmark_problem(setting, seed, tracked=True)
    runner = get_benchmark_runner(problem)
    experiment = Experiment(
        search_space=problem.search_space,
        optimization_config=problem.optimization_config,
        tracking_metrics=[*problem.opt_config_metrics, *(problem.tracking_metrics or [])],
        runner=runner,
    )
    for parameters in arms:
        trial = experiment.trials[experiment.attach_trial([dict(parameters)])[1]]
        trial.update_run_metadata(runner.run(trial))
        trial.mark_completed()
    experiment.fetch_data()
    adapter = fitted_adapter(experiment, setting.strategy(seed))
    return recommended_arm(experiment, adapter, "lower_confidence_bound").parameters


def cases(arguments: argparse.Namespace) -> Iterator[tuple[str, int, str]]:
    r"""A problem, a seed and a method at a time, seed by seed."""
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        for name in arguments.names or SETTINGS:
            for method in arguments.methods:
                yield name, seed, method


def run(arguments: argparse.Namespace) -> None:
    r"""Runs what is not stored, and stores each row as it comes."""
    path = arguments.out / "rows.jsonl"
    missing = missing_cases(path, KEY, cases(arguments))
    for number in append(path, (run_one(*case) for case in missing)):
        print(f"{number} of {len(missing)}", flush=True)


def parser() -> argparse.ArgumentParser:
    r"""The arguments."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="*", choices=[*SETTINGS, []], metavar="PROBLEM")
    arguments.add_argument("--out", type=Path, default=Path("results/ax_benchmark"))
    arguments.add_argument("--seeds", type=int, default=NUM_SEEDS)
    arguments.add_argument("--first", type=int, default=0, help="the first of the seeds")
    arguments.add_argument("--methods", nargs="+", choices=[*METHODS], default=[*METHODS])
    return arguments


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of fits that stop early; a NaN would show in the tables
    logging.disable(logging.WARNING)  # Ax announces every trial
    run(parser().parse_args())


if __name__ == "__main__":
    main()
