r"""The experiments of RAHBO [Makarova2021rahbo]_ that can be run with public data.

The paper's text calls the sigmoid of its synthetic problems the variance of the noise; its
program uses it as the standard deviation. Both are here. Its free-electron-laser data are not
public and its credit-card data a download; the forest is tuned on scikit-learn's bundled data,
where it is flat: standard deviations of .019 to .023 leave little for risk aversion to gain.
"""

from functools import partial
from typing import Any

from botorch_risk.papers import rahbo, rahbo_us
from botorch_risk.test_functions import HeteroscedasticBranin, HeteroscedasticSine
from botorch_risk_bench.baselines import heteroscedastic_gp_ucb
from botorch_risk_bench.experiments.definition import ExperimentDefinition, StrategyFactory
from botorch_risk_bench.problems import ForestTuning

FOREST_RISK_AVERSION = 20.0

METHODS: dict[str, Any] = {"RAHBO": rahbo, "RAHBO-US": rahbo_us, "GP-UCB": heteroscedastic_gp_ucb}
# The paper models the variance itself, with one inferred noise level of the sample variances, and
# keeps the hyperparameters of the initial design (Sec. 4). The floor is ours, for Eq. (16).
AS_IN_THE_PAPER: dict[str, Any] = {
    "variance_link": "identity",
    "refit_every": None,
    "min_noise_variance": 1e-4,
}


def strategies(num_repeats: int, risk_aversion: float) -> dict[str, StrategyFactory]:
    r"""Each method with the defaults of this package, and with the choices of the paper."""
    task = {"num_repeats": num_repeats, "risk_aversion": risk_aversion}
    return {
        label + suffix: partial(method, **task, **choices)
        for suffix, choices in (("", {}), ("-paper", AS_IN_THE_PAPER))
        for label, method in METHODS.items()
    }


def _synthetic(
    name: str,
    problem: Any,
    sigmoid_is: str,
    num_rounds: int,
    noise_scale: float = 1.0,
    risk_aversion: float = 1.0,
) -> ExperimentDefinition:
    title = name.split("-")[0].capitalize()
    weights = {"noise_scale": noise_scale, "risk_aversion": risk_aversion}
    return ExperimentDefinition(
        name=name,
        description=f"{title} with input-dependent noise, sigmoid as {sigmoid_is} (RAHBO, Sec. 4)",
        problem=partial(problem, sigmoid_is=sigmoid_is, **weights),
        strategies=strategies(num_repeats=10, risk_aversion=risk_aversion),
        num_initial=10,
        num_rounds=num_rounds,
        num_repeats=10,
        objective=f"mean - {risk_aversion} x noise variance",
        optimal_value=lambda problem: problem.optimal_mean_variance(risk_aversion)[1],
        settings={**weights, "sigmoid_is": sigmoid_is},
    )


def _forest(name: str, risk_aversion: float) -> ExperimentDefinition:
    return ExperimentDefinition(
        name=name,
        description="Random forest on breast-cancer data, a flat task (RAHBO, Figs. 5b, c)",
        problem=ForestTuning,
        strategies=strategies(num_repeats=5, risk_aversion=risk_aversion),
        num_initial=10,
        num_rounds=50,
        num_repeats=5,
        objective=f"balanced accuracy - {risk_aversion:g} x its variance",
        settings={"risk_aversion": risk_aversion},
    )


# The noise scales and risk aversions of the authors' configurations; (1, 1) goes by the bare name.
CONFIGURATIONS = ((2.0, 1.0), (1.0, 0.5), (2.0, 0.5))


def configuration(name: str, noise_scale: float, risk_aversion: float) -> str:
    r"""The name of a problem's experiment under one of the configurations."""
    return f"{name}-scale-{noise_scale:g}-aversion-{risk_aversion:g}"


EXPERIMENTS = (
    _synthetic("sine", HeteroscedasticSine, "standard_deviation", 60),
    _synthetic("sine-variance", HeteroscedasticSine, "variance", 60),
    _synthetic("branin", HeteroscedasticBranin, "standard_deviation", 150),
    _synthetic("branin-variance", HeteroscedasticBranin, "variance", 150),
    *(
        _synthetic(configuration(name, *each), problem, "standard_deviation", num_rounds, *each)
        for name, problem, num_rounds in (
            ("sine", HeteroscedasticSine, 60),
            ("branin", HeteroscedasticBranin, 150),
        )
        for each in CONFIGURATIONS
    ),
    _forest("forest", FOREST_RISK_AVERSION),
    _forest("forest-100", 100.0),
)
