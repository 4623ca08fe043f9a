r"""Risk in the Monte-Carlo acquisition functions of BoTorch."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
from botorch.acquisition.objective import GenericMCObjective
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from botorch_risk.acquisition.outcome_constraint import check_constraints
from botorch_risk.arguments import in_short
from botorch_risk.constraints.noise_quantile import NoiseQuantileModel
from botorch_risk.constraints.risk_constraint import (
    NoiseConstraint,
    NoisyChanceConstraint,
    RiskConstraint,
)
from botorch_risk.environments import Environment
from botorch_risk.models.botorch_parts import as_environment, parts_of
from botorch_risk.models.outcomes import (
    check_outcomes,
    locate_outcome,
    single_outcome,
    spread_of,
    warn_if_out_of_reach,
)
from botorch_risk.models.risk_posterior import Reduction
from botorch_risk.models.robust_model import MEMORY_LIMIT, RobustModel
from botorch_risk.risk import RiskMeasure
from botorch_risk.robust.model_list import RobustModelList


class Robust(NamedTuple):
    r"""A model of risks, and the options of an acquisition function on it.

    Attributes:
        model: A model whose posterior is the joint distribution of decisions' risks.
        options: Keyword arguments of the acquisition function: `objective`, if there are
            constraints or several outcomes, and `constraints`, in standard deviations of each
            observed outcome.
    """

    model: Model
    options: dict[str, Any]


def robust(
    model: Model,
    environment: Environment | Sequence[Environment],
    risk_measure: RiskMeasure | Sequence[RiskMeasure],
    constraints: Sequence[RiskConstraint | NoisyChanceConstraint] = (),
    objectives: Sequence[int] | None = None,
    memory_limit: float = MEMORY_LIMIT,
) -> Robust:
    r"""Turn any Monte-Carlo acquisition function of BoTorch into one of a risk.

    The reduction happens in the posterior: the samples that objectives and constraints receive are
    `sample_shape x batch_shape x q x m`, one risk each. A reduction in the objective would come too
    late: BoTorch passes `constraints` the samples of all `q n_w` points, which raises an error or,
    at q = 1, silently gives a wrong value. The user's model is not changed.

    For outcomes without risk, such as a cost of x, put the returned model into BoTorch's
    `ModelList` together with a model of these outcomes.

    Args:
        model: A fitted model of (x, w), or of x for environments that perturb x; or a list of such
            models.
        environment: The environment of a decision: one for all objectives, or one for each.
            BoTorch's `InputPerturbation` and `AppendFeatures` are accepted, if made from a tensor.
        risk_measure: One measure for all objectives, or one for each; larger is better. BoTorch's
            are accepted if their `n_w` is the number of values, all of equal weight.
        constraints: Constraints that have to hold under a risk.
        objectives: The outcomes of the model to maximise. Default: all without a constraint.
        memory_limit: The maximum memory, in GiB, of one joint distribution.

    Returns:
        The model of the risks, with one output for each objective and each constraint, in the order
        of the outcomes; and the options that select them. One objective without constraints needs
        no options.

    Raises:
        UnsupportedError: If a model is not supported; see `RobustModel`.

    Example:
        >>> import torch
        >>> from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        >>> from botorch.models import ModelListGP, SingleTaskGP
        >>> from botorch_risk.examples import environment, inputs, model as profit
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> load = SingleTaskGP(inputs, inputs.sum(dim=-1, keepdim=True))
        >>> model, options = robust(
        ...     ModelListGP(profit, load), environment, ConditionalValueAtRisk(0.2),
        ...     constraints=[RiskConstraint.chance(environment, 1.8, outcome=1, delta=0.1)],
        ... )
        >>> acqf = qLogNoisyExpectedImprovement(model, X_baseline=inputs[:, :1], **options)
        >>> acqf(torch.rand(3, 2, 1, dtype=torch.double)).shape
        torch.Size([3])
    """
    if not isinstance(model, Model):
        raise TypeError(f"Expected `model` to be a model of BoTorch. Got {in_short(model)}.")
    check_constraints(constraints)
    check_outcomes([each.outcome for each in constraints], model.num_outputs)
    if objectives is None:
        taken = {each.outcome for each in constraints}
        objectives = [i for i in range(model.num_outputs) if i not in taken]
    check_outcomes(objectives, model.num_outputs)
    objectives = [int(each) for each in objectives]
    roles = _objective_roles(objectives, environment, risk_measure)
    for each in constraints:
        if not isinstance(each, NoiseConstraint):  # whose threshold is no outcome
            warn_if_out_of_reach(model, each.outcome, each.threshold, each.at_most)
        if isinstance(each, RiskConstraint):
            reduction = Reduction(each.outcome, each.distribution, each.risk_measure, each.at_most)
            roles.append((reduction, each))
        elif not isinstance(each, NoisyChanceConstraint):
            raise UnsupportedError(
                "Expected constraints that samples of outcomes can meet; for a `NoiseConstraint` "
                f"use `ConstrainedUpperConfidenceBound`. Got {each!r}."
            )
        else:
            _check_alone(each, objectives)
            roles.append((None, each))
    models, order = _models_of(model, roles, memory_limit)
    column = {index: place for place, index in enumerate(order)}
    chosen = [column[i] for i in range(len(objectives))]
    options: dict[str, Any] = {}
    if constraints:
        places = enumerate(constraints, start=len(objectives))
        options["constraints"] = [
            _shortfall(column[i], each.limit, spread_of(model, each.outcome)) for i, each in places
        ]
    if len(chosen) == 1 and len(order) > 1:
        options["objective"] = GenericMCObjective(_select(chosen[0]))
    elif len(chosen) > 1 and chosen != list(range(len(order))):
        options["objective"] = IdentityMCMultiOutputObjective(chosen, num_outcomes=len(order))
    return Robust(models[0] if len(models) == 1 else RobustModelList(*models), options)


_Role = tuple[Reduction | None, RiskConstraint | NoisyChanceConstraint | None]


def _objective_roles(
    objectives: Sequence[int],
    environment: Environment | Sequence[Environment],
    risk_measure: RiskMeasure | Sequence[RiskMeasure],
) -> list[_Role]:
    r"""A reduction for each objective; raises ValueError if the numbers do not match."""
    if not objectives or len(set(objectives)) != len(objectives):
        raise ValueError(
            "Expected at least one objective, and each outcome once. Got "
            f"objectives={list(objectives)}; name the objectives if every outcome has "
            "a constraint."
        )
    count = len(objectives)
    several = isinstance(environment, Sequence), isinstance(risk_measure, Sequence)
    environments: Any = environment if several[0] else [as_environment(environment)] * count
    measures: Any = risk_measure if several[1] else [risk_measure] * count
    for name, given in (("environment", environments), ("risk_measure", measures)):
        if len(given) != count:
            raise ValueError(
                f"Expected one `{name}`, or one for each of the {count} objectives. "
                f"Got {in_short(given)}."
            )
    parts = zip(objectives, environments, measures, strict=True)
    return [(Reduction(outcome, *parts_of(*pair)), None) for outcome, *pair in parts]


def _check_alone(constraint: NoisyChanceConstraint, objectives: Sequence[int]) -> None:
    r"""Refuse a constraint whose samples would be drawn twice, independently."""
    if constraint.outcome in objectives:
        raise UnsupportedError(
            "Expected a `NoisyChanceConstraint` on an outcome that is not an objective: the two "
            f"would be sampled independently. Got outcome {constraint.outcome} of "
            f"objectives={list(objectives)}."
        )
    if constraint.noise_beta is not None:
        raise UnsupportedError(
            "Expected a `NoisyChanceConstraint` without `noise_beta`: the samples have a predicted "
            f"noise, and no bound of the noise. Got {constraint.noise_beta=}."
        )


def _models_of(
    model: Model, roles: Sequence[_Role], memory_limit: float
) -> tuple[list[Model], list[int]]:
    r"""One model of risks for each model of outcomes, and the role of each output."""
    groups: dict[int, tuple[Any, list[tuple[int, Reduction]]]] = {}
    noisy: list[tuple[int, NoisyChanceConstraint]] = []
    by_outcome = sorted(range(len(roles)), key=lambda i: _outcome_of(roles[i]))
    for index in by_outcome:
        reduction, constraint = roles[index]
        if reduction is None:
            assert isinstance(constraint, NoisyChanceConstraint)
            noisy.append((index, constraint))
            continue
        part, place = locate_outcome(model, reduction.outcome)
        members = groups.setdefault(id(part), (part, []))[1]
        members.append((index, reduction._replace(outcome=place)))
    models: list[Model] = []
    order: list[int] = []
    for part, members in groups.values():
        models.append(RobustModel(part, [each for _, each in members], memory_limit))
        order += [index for index, _ in members]
    for index, each in noisy:
        alone = single_outcome(model, each.outcome)
        models.append(NoiseQuantileModel(alone, each.delta, each.at_most))
        order.append(index)
    return models, order


def _outcome_of(role: _Role) -> int:
    reduction, constraint = role
    if reduction is not None:
        return reduction.outcome
    assert constraint is not None
    return constraint.outcome


def _shortfall(column: int, limit: float, spread: Tensor) -> Callable[[Tensor], Tensor]:
    r"""A constraint in BoTorch's sense: negative if the risk is above the limit.

    In standard deviations of the observed outcome: BoTorch's `eta`, which smooths the step from
    feasible to infeasible, then has no unit.
    """
    return lambda samples: (limit - samples[..., column]) / spread.to(samples).unsqueeze(-1)


def _select(column: int) -> Callable[[Tensor, Tensor | None], Tensor]:
    def select(samples: Tensor, X: Tensor | None = None) -> Tensor:
        return samples[..., column]

    return select
