r"""Translate the first version's states of strategies to today's form.

They named parts by their modules, had a separate method and space for observed contexts, and named
the bound of a known distribution by its acquisition function.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

# The modules in the name of a part of this project, up to its class, function or outer function.
MODULES = re.compile(r"^botorch_risk(?:_bench)?\.(?:[a-z]\w*\.)*(?=\w+(?:$|\.<locals>)|_*[A-Z])")

# A digest of all bits, which differ between processors.
_BITS = re.compile(r"^(\(.*\) torch\.\w+) [0-9a-f]{16}$")


def as_today(description: Any) -> Any:
    r"""A stored name or description in today's form."""
    if isinstance(description, str):
        return _BITS.sub(r"\1", MODULES.sub("botorch_risk.", description))
    if isinstance(description, Mapping):
        today = {key: as_today(part) for key, part in description.items()}
        for former, translate in _FORMER.items():
            if former in (today.get("class"), today.get("function")):
                return translate(today)
        return _with_value_rule(_with_learnt_contexts(today))
    return list(map(as_today, description)) if isinstance(description, list) else description


def fits_as_today(name: str) -> str:
    r"""The name of a part of a method's state."""
    return name.replace("fit f ", "fit outcome 0 ")


def _recipe(risk_measure: Mapping[str, Any], beta: Any) -> dict[str, Any]:
    return {
        **_of_class("RiskRecipe", risk_measure=risk_measure, constraints=[], beta=beta),
        "constraint_beta": 9.0,
        "constraint_upper_beta": 0.0,
        "joint": False,
    }


def _of_class(name: str, **parts: Any) -> dict[str, Any]:
    return {"class": f"botorch_risk.{name}", **parts}


def _function(name: str, **options: Any) -> dict[str, Any]:
    return {"function": f"botorch_risk.{name}", "args": [], **options}


def _value_at_risk(old: Mapping[str, Any]) -> Any:
    if not {"risk_level", "beta"} <= old.keys():  # a recipe of the user's own
        return old
    measure = _of_class("ValueAtRisk", risk_level=old["risk_level"], strict=False)
    return _recipe(measure, old["beta"])


def _mean_variance_search(old: Mapping[str, Any]) -> dict[str, Any]:
    return {"noise_evidence": "spread", **old, "class": "botorch_risk.MeanVarianceSearch"}


def _renamed(old: Mapping[str, Any], former: str, today: str) -> dict[str, Any]:
    return {today if name == former else name: part for name, part in old.items()}


_LARGEST_BOUND, _LEAST_CERTAIN = "botorch_risk.largest_bound", "botorch_risk.least_certain"
_CHOICE = "botorch_risk.DecisionThenValue"
_MODEL = "botorch_risk.standardized_gp"
_WORST = _of_class("WorstCase", over="support")

# By the name of a class or of a function.
_FORMER: dict[str, Callable[[dict[str, Any]], Any]] = {
    "botorch_risk.v_ucb": _value_at_risk,
    "botorch_risk.adversarial_stable_opt": lambda old: (
        _recipe(_WORST, old["beta"]) if "beta" in old else old
    ),
    "botorch_risk.MeanVariance": lambda old: (  # a method, or the measure of risk
        _mean_variance_search(old) if "weights" in old else old
    ),
    "botorch_risk.MeanVarianceSearch": _mean_variance_search,
    "botorch_risk.LacedValue": lambda old: _of_class(  # which chose the decision too
        "DecisionThenValue", decide=_LARGEST_BOUND, value=_of_class("LacingValue", rule=old["rule"])
    ),
    "botorch_risk.DiscreteEnvironment": lambda old: {"categories": [], **old},
    "botorch_risk.FiniteDomain": lambda old: {"categories": [], **old},
    "botorch_risk.RiskRecipe": lambda old: {
        "joint": False,
        **_renamed(old, "optimism", "constraint_upper_beta"),
    },
    "botorch_risk.ParetoSearch": lambda old: _renamed(old, "search", "report"),
    "botorch_risk.EnvironmentRisk": lambda old: {
        "uses_w": True,
        "uses_previous": False,
        "model": _MODEL,
        **old,
    },
    "botorch_risk.SampleDomain": lambda old: {"anywhere": False, **old},
    "botorch_risk.TakeBest": lambda old: {"anywhere": False, **old},
    "botorch_risk.TruncateVariance": lambda old: {"prefilter": None, "anywhere": False, **old},
}


def _with_learnt_contexts(old: dict[str, Any]) -> dict[str, Any]:
    r"""The arguments of a strategy under observed contexts, whose space and method have changed."""
    method: Any = old.get("method")
    space: Any = old.get("space")
    if not isinstance(method, dict) or method.get("class") != "botorch_risk.ContextualRisk":
        return old
    recipe = {**method.pop("recipe"), "context_bounds": space["context_bounds"]}
    learn, risk_measure = _CONTEXTUAL[recipe["function"].removeprefix("botorch_risk.")](recipe)
    today = _of_class(
        "EnvironmentRisk",
        recipe=_function("_without_contexts", beta=recipe["beta"])
        if risk_measure is None
        else _recipe(risk_measure, recipe["beta"]),
        choose=_of_class("DecisionThenValue", decide=_LARGEST_BOUND),
        reporting="posterior_mean",
        num_outcomes=1,
        uses_w=method.pop("uses_contexts"),
        model=_MODEL,
    )
    contexts = _of_class(
        "ObservedContexts",
        context_bounds=space["context_bounds"],
        learn=learn,
        may_leave=space["may_leave"],
    )
    return {
        **old,
        "method": {**method, **today},
        "space": _of_class(
            "EnvironmentSpace", box=space["box"], environment=contexts, w_is_chosen=False
        ),
    }


def _with_value_rule(arguments: dict[str, Any]) -> dict[str, Any]:
    r"""The arguments of a strategy, with the rule that chose w before there were others.

    If w is not chosen, the rule has no effect and is today's.
    """

    def within(part: Any, rule: str) -> Any:
        if not isinstance(part, dict):
            return part
        found = {key: within(each, rule) for key, each in part.items()}
        return {"value": rule, **found} if found.get("class") == _CHOICE else found

    space = arguments.get("space")
    if not isinstance(space, dict) or "w_is_chosen" not in space:
        return arguments
    rule = _LEAST_CERTAIN if space["w_is_chosen"] else "botorch_risk.largest_reduction"
    return {**arguments, "method": within(arguments.get("method"), rule)}


def _density(old: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    options = {**more, **(old["density_options"] or {})}
    return _function("KernelDensityEnvironment", n_w=old["n_w"], **options)


def _discrepancy(old: Mapping[str, Any], minimax: bool) -> tuple[Any, Any]:
    lower, upper = old["context_bounds"]
    ranges = [high - low for low, high in zip(lower, upper, strict=True)]
    kernel = old["kernel"] or _function("_squared_exponential", ranges=ranges)
    schedule = _function(
        "discrepancy_schedule", kernel=kernel, radius_scale=old["radius_scale"], minimax=minimax
    )
    return _function("_nearest_on_grid", num_points=old["num_points"]), schedule


# From the recipe of a name to how contexts are learnt and to the risk.
_CONTEXTUAL: dict[str, Callable[[Mapping[str, Any]], tuple[Any, Any]]] = {
    "sbo_kde": lambda old: (_density(old), _of_class("Expectation")),
    "risk_kde": lambda old: (_density(old), old["risk_measure"]),
    "drbo_kde": lambda old: (
        _density(old, n_ball=old["n_w"]),
        _function("total_variation_schedule", radius_scale=old["radius_scale"]),
    ),
    "drbo_mmd": lambda old: _discrepancy(old, minimax=False),
    "drbo_mmd_minimax": lambda old: _discrepancy(old, minimax=True),
    "stable_opt": lambda old: (_function("StandardDeviationBox", n_w=old["n_w"]), _WORST),
    "_without_contexts": lambda old: (_function("StandardDeviationBox", n_w=1), None),
}
