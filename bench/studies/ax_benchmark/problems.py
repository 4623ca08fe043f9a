r"""Three noisy problems for Ax's benchmark runner, whose ground truth is the risk of an arm."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from ax.benchmark.benchmark_metric import BenchmarkMetric
from ax.benchmark.benchmark_problem import BenchmarkProblem, get_soo_opt_config
from ax.benchmark.benchmark_test_function import BenchmarkTestFunction
from ax.benchmark.noise import Noise
from ax.core.base_trial import BaseTrial
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.generation_strategy.generation_strategy import GenerationStrategy
from torch import Tensor

from botorch_risk.ax import risk_averse, under_uncertain_context
from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.seeding import generators
from botorch_risk.test_functions import (
    CertifiedProblem,
    HeteroscedasticBranin,
    HeteroscedasticHartmann,
)
from botorch_risk.test_functions.heteroscedastic import HeteroscedasticTestProblem

NUM_TRIALS, NUM_INITIAL, NUM_READINGS = 30, 5, 3
OUTCOME = "outcome"
NOISE = 0.1  # of the context's problem, in units of the function's standard deviation


class Setting(ABC):
    r"""What is optimised: the risk of an arm, and what a trial of it observes."""

    @property
    @abstractmethod
    def decisions(self) -> Tensor:
        r"""Their bounds, `2 x d`."""

    @property
    @abstractmethod
    def optimum(self) -> float:
        r"""The best risk."""

    @property
    @abstractmethod
    def beside(self) -> list[str]:
        r"""The tracking metrics."""

    @abstractmethod
    def risk(self, x: Tensor) -> float:
        r"""The risk of a decision, `d`."""

    @abstractmethod
    def observe(self, x: Tensor, seed: int, trial: int) -> dict[str, tuple[float, float]]:
        r"""The mean and standard error of each metric in a trial, the outcome first."""

    @abstractmethod
    def strategy(self, seed: int) -> GenerationStrategy:
        r"""Ours."""


@dataclass(frozen=True)
class RepeatedReadings(Setting):
    r"""Mean minus noise variance; a trial is the mean of a few readings, with its error."""

    problem: HeteroscedasticTestProblem

    @property
    def decisions(self) -> Tensor:
        r"""The bounds."""
        return self.problem.bounds

    @property
    def optimum(self) -> float:
        r"""The largest mean minus variance."""
        return self.problem.optimal_mean_variance(1.0)[1]

    def risk(self, x: Tensor) -> float:
        r"""Mean minus noise variance."""
        return self.problem.mean_variance(x, 1.0).item()

    def observe(self, x: Tensor, seed: int, trial: int) -> dict[str, tuple[float, float]]:
        r"""The mean of the readings, its standard error, and their number."""
        (generator,) = generators(seed, "noise", trial)
        draws = torch.randn(NUM_READINGS, generator=generator, dtype=torch.double)
        mean, level = self.problem.evaluate_true(x), self.problem.noise_variance(x).sqrt()
        values = mean + level * draws
        error = values.std().item() / NUM_READINGS**0.5
        return {OUTCOME: (values.mean().item(), error), f"{OUTCOME}_count": (NUM_READINGS, 0.0)}

    def strategy(self, seed: int) -> GenerationStrategy:
        r"""RAHBO."""
        return risk_averse(OUTCOME, risk_aversion=1.0, num_initial=NUM_INITIAL, seed=seed)

    @property
    def beside(self) -> list[str]:
        r"""The number of readings."""
        return [f"{OUTCOME}_count"]


@dataclass(frozen=True)
class ObservedContext(Setting):
    r"""Conditional value-at-risk over a context that is observed, at level 0.1."""

    problem: CertifiedProblem

    @property
    def decisions(self) -> Tensor:
        r"""The bounds of the decision."""
        return self.problem.bounds[:, : self.problem.num_decision]

    @property
    def optimum(self) -> float:
        r"""The certified optimum."""
        return self.problem.optimal_risk

    def risk(self, x: Tensor) -> float:
        r"""The conditional value-at-risk."""
        return self.problem.objective(x.unsqueeze(0)).item()

    def observe(self, x: Tensor, seed: int, trial: int) -> dict[str, tuple[float, float]]:
        r"""The outcome under a context that is drawn, and the context."""
        environment = self.problem.environment
        (generator,) = generators(seed, "context and noise", trial)
        row = torch.multinomial(environment.weights, 1, generator=generator)
        w = environment.points[row].squeeze(0)
        noise = NOISE * torch.randn((), generator=generator, dtype=torch.double).item()
        outcome = self.problem.evaluate_true(torch.cat([x, w]).unsqueeze(0)).item() + noise
        return {OUTCOME: (outcome, float("nan")), "context": (w.item(), 0.0)}

    def strategy(self, seed: int) -> GenerationStrategy:
        r"""A bound of the risk under the density of the contexts so far."""
        return under_uncertain_context(
            OUTCOME,
            {"context": (0.0, 1.0)},
            risk_measure=ConditionalValueAtRisk(0.1),
            num_initial=NUM_INITIAL,
            seed=seed,
        )

    @property
    def beside(self) -> list[str]:
        r"""The context."""
        return ["context"]


SETTINGS: dict[str, Callable[[], Setting]] = {
    "branin-noise": lambda: RepeatedReadings(HeteroscedasticBranin()),
    "hartmann-noise": lambda: RepeatedReadings(HeteroscedasticHartmann()),
    "mccormick-context": lambda: ObservedContext(
        CertifiedProblem("shifted-mccormick", "conditional-value-at-risk")
    ),
}


@dataclass(kw_only=True)
class RiskOfArm(BenchmarkTestFunction):
    r"""Ax's test function, whose noiseless outcome is the risk."""

    setting: Setting

    def evaluate_true(self, params: Mapping[str, Any]) -> Tensor:
        r"""The risk of an arm; 0 for the metrics beside it."""
        values = torch.zeros(len(self.outcome_names), 1, dtype=torch.double)
        values[0] = self.setting.risk(decision(params))
        return values


@dataclass(kw_only=True)
class Observed(Noise):
    r"""Ax's noise, in place of which a trial observes what its setting says."""

    setting: Setting
    seed: int

    def _get_noise_and_sem(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError  # of `add_noise`, which is below

    def add_noise(
        self,
        df: pd.DataFrame,
        trial: BaseTrial | None,
        outcome_names: Sequence[str],
        arm_weights: Mapping[str, float] | None,
    ) -> pd.DataFrame:
        r"""The mean and standard error of each metric."""
        assert trial is not None
        (arm,) = trial.arms
        seen = self.setting.observe(decision(arm.parameters), self.seed, trial.index)
        df["mean"], df["sem"] = zip(*(seen[name] for name in df["metric_name"]), strict=True)
        return df


def benchmark_problem(setting: Setting, seed: int, tracked: bool) -> BenchmarkProblem:
    r"""A problem for Ax's runner.

    Args:
        setting: What is optimised.
        seed: Of the noise and of contexts, which are functions of it and of the trial.
        tracked: Whether the metrics beside the outcome are tracked.
    """
    beside = setting.beside if tracked else []
    config, metrics = get_soo_opt_config(
        outcome_names=[OUTCOME], lower_is_better=False, observe_noise_sd=True
    )
    lower, upper = setting.decisions.tolist()
    parameters = [
        RangeParameter(f"x{column}", ParameterType.FLOAT, *bounds)
        for column, bounds in enumerate(zip(lower, upper, strict=True))
    ]
    return BenchmarkProblem(
        name=type(setting).__name__,
        optimization_config=config,
        opt_config_metrics=metrics,
        num_trials=NUM_TRIALS,
        test_function=RiskOfArm(setting=setting, outcome_names=[OUTCOME, *beside]),
        noise=Observed(setting=setting, seed=seed),
        optimal_value=setting.optimum,
        baseline_value=setting.optimum - 1.0,  # Ax's score is not used
        search_space=SearchSpace(parameters),
        tracking_metrics=[
            BenchmarkMetric(each, lower_is_better=False, observe_noise_sd=False) for each in beside
        ],
    )


def decision(parameters: Mapping[str, Any]) -> Tensor:
    r"""The parameters of an arm, `d`."""
    names = sorted(parameters)
    return torch.tensor([float(parameters[name]) for name in names], dtype=torch.double)
