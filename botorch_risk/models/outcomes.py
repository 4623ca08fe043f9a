r"""Find the outcomes of a model or of a list of models, and their observations."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import UserInputWarning
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_risk.arguments import check_integers, in_short


class ModelOfRisks(Model):
    r"""A model whose outputs are risks of another model's outcomes, such as a `RobustModel`."""

    @abstractmethod
    def risk_of_mean(
        self, X: Tensor, posterior_transform: PosteriorTransform | None = None
    ) -> Tensor:
        r"""The risks of the posterior mean, `batch_shape x m x num_outputs`.

        The decisions, `batch_shape x m x d_x`, are independent. The transform acts as in
        `posterior`.
        """


def refuse_reduced(model: Model) -> None:
    r"""Raise UnsupportedError for a model of risks, and TypeError for anything but a model."""
    if not isinstance(model, Model):
        raise TypeError(f"Expected `model` to be a model of BoTorch. Got {in_short(model)}.")
    parts = model.models if isinstance(model, ModelList) else [model]
    for part in parts:
        if isinstance(part, ModelOfRisks):
            raise UnsupportedError(
                f"Expected a model of outcomes. Got a {type(part).__name__}, whose risks would be "
                "reduced twice."
            )


def check_outcomes(outcomes: Sequence[int], num_outputs: int) -> None:
    r"""Raise ValueError unless the model has these outcomes."""
    for outcome in outcomes:
        check_integers(outcome=outcome)
        if not 0 <= outcome < num_outputs:
            raise ValueError(
                f"Expected an outcome in 0..{num_outputs - 1}, of a model with {num_outputs} "
                f"outcome(s). Got {outcome}."
            )


def locate_outcome(model: Model, outcome: int) -> tuple[Any, int]:
    r"""The model of an outcome that is counted over a whole list, and its index in that model."""
    check_outcomes([outcome], model.num_outputs)
    if not isinstance(model, ModelList):
        return model, outcome
    for part in model.models:
        count: Any = part.num_outputs
        if outcome < count:
            return part, outcome
        outcome -= count
    raise AssertionError("unreachable: the outcomes were counted")


def single_outcome(model: Model, outcome: int) -> Model:
    r"""The model of one outcome alone: a member of a list, or a copy of that part.

    Raises:
        UnsupportedError: If the model cannot be divided.
    """
    part, index = locate_outcome(model, outcome)
    if part.num_outputs == 1:
        return part
    try:
        alone: Model = part.subset_output([index])
    except NotImplementedError as error:
        raise UnsupportedError(
            "Expected a list of models with one outcome each, or a model that can be divided. "
            f"Got {type(part).__name__}."
        ) from error
    return alone


def observed_outcomes(model: Model, outcome: int) -> Tensor | None:
    r"""The observed values of an outcome, `batch_shape x n`, in the user's units.

    For a model of repeats they are the means; the result is `None` if the model has no such data.
    """
    part, index = locate_outcome(model, outcome)
    part = part._modules.get("mean_model", part)
    targets = getattr(part, "train_targets", None)
    if not isinstance(targets, Tensor):
        return None
    # BoTorch keeps several outputs as a batch dimension of the targets, `m x n`.
    targets = targets.unsqueeze(-1) if part.num_outputs == 1 else targets.mT
    transform = part._modules.get("outcome_transform")
    if transform is not None:
        targets, _ = transform.untransform(targets)
    return targets[..., index].detach()


def warn_if_out_of_reach(model: Model, outcome: int, threshold: float, at_most: bool) -> None:
    r"""Warn, with numbers, if no observation meets a threshold.

    `at_most` says that the outcome should be at most the threshold instead of at least.
    """
    observed = observed_outcomes(model, outcome)
    if observed is None or not observed.numel():
        return
    meets = observed <= threshold if at_most else observed >= threshold
    if not bool(meets.any()):
        wanted = "at most" if at_most else "at least"
        warnings.warn(
            f"No observation of outcome {outcome} is {wanted} the threshold {threshold:g}: the "
            f"{observed.shape[-1]} observations lie in [{observed.min():.4g}, "
            f"{observed.max():.4g}]. A threshold that no reading meets tells the search little.",
            UserInputWarning,
            stacklevel=3,
        )


def spread_of(model: Model, outcome: int) -> Tensor:
    r"""The standard deviation of the observed values of an outcome; 1 if it is not known."""
    observed = observed_outcomes(model, outcome)
    if observed is None or observed.shape[-1] < 2:
        return torch.ones((), dtype=torch.double)
    spread = observed.std(dim=-1)
    return spread.where(spread > 0, torch.ones_like(spread))
