r"""Experiments on the policy of a portfolio: one strategy for each risk aversion."""

from functools import partial

from botorch_risk.papers import rahbo
from botorch_risk_bench.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk_bench.problems import PortfolioPolicy

NUM_REPEATS = 5
NEUTRAL = "risk-neutral"
# Half of the relative risk aversion of an investor with power utility: 1, 4 and 16.
RISK_AVERSIONS = (0.5, 2.0, 8.0)
JUDGED_BY = 2.0


def label_of(risk_aversion: float) -> str:
    r"""The label of a strategy."""
    return f"RAHBO {risk_aversion:g}" if risk_aversion else NEUTRAL


def strategies() -> dict[str, StrategyFactory]:
    r"""RAHBO for each risk aversion; without any, first, it is GP-UCB on the same model."""
    return {
        label_of(each): partial(rahbo, num_repeats=NUM_REPEATS, risk_aversion=each)
        for each in (0.0, *RISK_AVERSIONS)
    }


def _definition() -> ExperimentDefinition:
    return ExperimentDefinition(
        name="portfolio-policy",
        description="Momentum portfolio on real prices (2 integers), from risk-neutral to averse",
        problem=partial(PortfolioPolicy, risk_aversion=JUDGED_BY),
        strategies=strategies(),
        num_initial=10,
        num_rounds=40,
        num_repeats=NUM_REPEATS,
        objective=f"annual return - {JUDGED_BY:g} x its variance",
        optimal_value=lambda problem: problem.optimal_mean_variance(JUDGED_BY)[1],
        settings={"risk_aversion": JUDGED_BY},
    )


EXPERIMENTS = (_definition(),)
