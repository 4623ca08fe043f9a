r"""An experiment with two risks at once, whose best hypervolume is known in closed form."""

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

from botorch_risk.risk import ConditionalValueAtRisk
from botorch_risk.robust import HypervolumeImprovement, pareto_search
from botorch_risk_bench.baselines import (
    conditional_value_at_risk_log_nehvi,
    mars_log_nei,
    random_pareto_search,
)
from botorch_risk_bench.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk_bench.problems import EnvironmentalSchaffer

# A few percent of the spread of either outcome, which is 0.5 to 0.6: enough that the models have to
# estimate it, too little to hide a percent of the hypervolume after 50 evaluations.
NOISE_STD = 0.02
# Alike for all that maximise an acquisition function of BoTorch. BoTorch's measure knows W by
# equally likely values: of 29 it takes the 3 smallest, a share of 0.103, closer to the level of 0.1
# than the 4 of 33, as many as the distribution has.
BUDGET: dict[str, Any] = {"num_restarts": 4, "raw_samples": 64, "max_iterations": 50}
NUM_SAMPLES = 64
N_W = 29


def strategies(problem: EnvironmentalSchaffer) -> dict[str, StrategyFactory]:
    r"""Each method, with the distribution of W, the risks and the reference point."""
    reference_point = tuple(problem.ref_point.tolist())
    measure = ConditionalValueAtRisk(problem.risk_level)
    known: Mapping[str, Any] = {"environment": problem.environment}
    of_botorch: Mapping[str, Any] = {
        **known,
        **BUDGET,
        "risk_level": problem.risk_level,
        "reference_point": reference_point,
        "n_w": N_W,
        "num_samples": NUM_SAMPLES,
    }
    return {
        "Pareto-search": partial(
            pareto_search,
            **known,
            **BUDGET,
            risk_measure=(measure, measure),
            acquisition=HypervolumeImprovement(reference_point, NUM_SAMPLES),
        ),
        "qLogNEHVI-CVaR": partial(conditional_value_at_risk_log_nehvi, **of_botorch),
        "MARS-NEI": partial(mars_log_nei, **of_botorch),
        "random": partial(random_pareto_search, **known, risk_measures=(measure, measure)),
    }


def _definition(name: str, problem: Callable[[], Any]) -> ExperimentDefinition:
    example = problem()
    return ExperimentDefinition(
        name=name,
        description="Two squared distances, their conditional values-at-risk at once (2, 1)",
        problem=problem,
        strategies=strategies(example),
        num_initial=10,
        num_rounds=40,
        num_repeats=1,
        objective=f"hypervolume of the conditional values-at-risk at level {example.risk_level:g}",
        optimal_value=attrgetter("max_hv"),
        settings={
            "noise_std": NOISE_STD,
            "acquisition": {**BUDGET, "num_samples": NUM_SAMPLES, "n_w": N_W},
        },
    )


EXPERIMENTS = (_definition("two-risks", partial(EnvironmentalSchaffer, noise_std=NOISE_STD)),)
