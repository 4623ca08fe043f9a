r"""Level sets in Ax: `import botorch_risk.ax` registers their acquisition functions by name."""

from botorch_risk.extras import require_extra

require_extra("ax", "botorch_risk[ax]")

from collections.abc import Mapping
from typing import Any

from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.acquisition.acquisition import AcquisitionFunction

from botorch_risk import level_sets
from botorch_risk.arguments import check_finite
from botorch_risk.ax.generation_strategies import under_uncertain_context
from botorch_risk.ax.nodes import after_sobol, constraints_of, generator_spec
from botorch_risk.ax.storage import register_acquisition_functions
from botorch_risk.level_sets import RiskStraddle, Straddle
from botorch_risk.risk import RiskMeasure

__all__ = ["level_set", "risk_level_set"]


def level_set(
    threshold: float,
    *,
    num_initial: int = 5,
    seed: int = 0,
    acquisition: type[AcquisitionFunction] = Straddle,
    acquisition_options: dict[str, Any] | None = None,
) -> GenerationStrategy:
    r"""The straddle heuristic in Ax [Bryan2008straddle]_: find the side of a threshold of each arm.

    Trials of a Sobol sequence come first, then trials whose outcome is uncertain and close to the
    threshold. Whether the metric is maximised or minimised does not matter. Ax requires an
    objective, but these trials do not look for the best arm.

    Args:
        threshold: In units of the objective's metric, whether that is maximised or minimised; for
            an objective of several metrics, such as `"y - z"`, a value of that expression.
        num_initial: The number of trials of the Sobol sequence.
        seed: Seed of the Sobol sequence and of every other draw.
        acquisition: The acquisition function, which takes `threshold`.
        acquisition_options: Further arguments of the acquisition function.

    Example:
        >>> level_set(threshold=0.9).name
        'level_set'
    """
    options = {"threshold": _finite(threshold), **(acquisition_options or {})}
    spec = generator_spec({}, acquisition, options, seed)
    return after_sobol(
        "level_set",
        spec,
        num_initial,
        seed,
        one_objective=True,
        constraints=constraints_of(acquisition),
    )


def risk_level_set(
    metric: str,
    contexts: Mapping[str, tuple[float, float]],
    *,
    threshold: float,
    risk_measure: RiskMeasure | None = None,
    num_initial: int = 5,
    seed: int = 0,
    acquisition_options: dict[str, Any] | None = None,
    model_options: dict[str, Any] | None = None,
) -> GenerationStrategy:
    r"""The level set of a risk in Ax: find the arms that are reliable under observed contexts.

    As `under_uncertain_context`, but trials are placed where the side of the threshold on which the
    risk lies is unclear (`RiskStraddle`). Ax requires an objective, but these trials do not look
    for its best arm. The other arguments are the same.

    Args:
        threshold: The level of the risk, in units of the metric. If the metric is minimised, the
            risk is minus the risk of the negative metric.
        acquisition_options: Further arguments of `RiskStraddle`.

    Example:
        >>> risk_level_set("purity", {"humidity": (0.0, 1.0)}, threshold=0.9).name
        'under_uncertain_context'
    """
    return under_uncertain_context(
        metric,
        contexts,
        risk_measure=risk_measure,
        num_initial=num_initial,
        seed=seed,
        acquisition=RiskStraddle,
        acquisition_options={"threshold": _finite(threshold), **(acquisition_options or {})},
        model_options=model_options,
    )


def _finite(threshold: float) -> float:
    r"""A threshold as a plain number; raises ValueError if it is not finite."""
    check_finite(threshold=threshold)
    return float(threshold)


register_acquisition_functions(level_sets)
