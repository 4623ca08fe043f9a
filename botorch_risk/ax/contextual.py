r"""Model the risk over contexts that Ax observes with an outcome."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform, Normalize
from botorch.models.transforms.outcome import OutcomeTransform, Standardize
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_risk.arguments import as_floating, as_tensor
from botorch_risk.environments import KernelDensityEnvironment
from botorch_risk.models import Reduction, RobustModel
from botorch_risk.risk import RiskMeasure

MIN_SPREAD = 1e-150  # of outcomes, whose square is still a number


class ObservedDataset(SupervisedDataset):
    r"""Outcomes of arms, with the number of readings behind each or the contexts that they met.

    Args:
        X: `n x d`, the arms.
        Y: `n x 1` means.
        counts: `n x 1` numbers of readings; if given, each arm has one row.
        contexts: `n x d_w`, the contexts that the arms met.
        every_context: `t x d_w`, all contexts so far, including those of failed evaluations.
        options: `Yvar`, squared standard errors of the means, NaN where there is a single reading;
            `feature_names`, `outcome_names` and the like of BoTorch's dataset.

    Example:
        >>> names = {"feature_names": ["x"], "outcome_names": ["y"]}
        >>> column = torch.ones(2, 1)
        >>> data = ObservedDataset(column, column, counts=3 * column, Yvar=column, **names)
        >>> data.clone(mask=torch.tensor([True, False])).counts
        tensor([[3.]])
    """

    def __init__(
        self,
        X: Any,
        Y: Any,
        *,
        counts: Tensor | None = None,
        contexts: Tensor | None = None,
        every_context: Tensor | None = None,
        **options: Any,
    ) -> None:
        super().__init__(X, Y, **options)
        self.counts = as_tensor("counts", counts)
        self.contexts = as_tensor("contexts", contexts)
        self.every_context = as_tensor("every_context", every_context)

    def __eq__(self, other: Any) -> bool:
        return super().__eq__(other) and all(
            _equal(getattr(self, name), getattr(other, name))
            for name in ("counts", "contexts", "every_context")
        )

    __hash__ = None  # type: ignore[assignment]  # as the base class

    def clone(self, deepcopy: bool = False, mask: Tensor | None = None) -> ObservedDataset:
        r"""A copy, perhaps of some rows; the distribution of contexts keeps all observations."""

        def part(values: Tensor | None, rows: Tensor | None) -> Tensor | None:
            if values is None:
                return None
            values = values if rows is None else values[..., rows, :]
            return values.clone() if deepcopy else values

        return type(self)(
            part(self.X, mask),
            part(self.Y, mask),
            Yvar=part(self.Yvar, mask),
            counts=part(self.counts, mask),
            contexts=part(self.contexts, mask),
            every_context=part(self.every_context, None),
            feature_names=self.feature_names,
            outcome_names=self.outcome_names,
        )


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other is None or (
        one is not None and other is not None and torch.equal(one, other)
    )


class ContextualRiskModel(RobustModel):
    r"""The risk of a decision over observed contexts, whose distribution is learnt.

    A Gaussian process of decision and context, reduced by a risk measure over a kernel density of
    the contexts so far. For Ax it is a model of the decision alone.

    Example:
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> X, W = torch.rand(2, 9, 1, dtype=torch.double)
        >>> model = ContextualRiskModel(
        ...     X, (3 * (X + W)).sin(), contexts=W, every_context=W, context_bounds=[(0.0, 1.0)],
        ...     risk_measure=ConditionalValueAtRisk(0.2), n_w=16,
        ... )
        >>> model.posterior(X[:2]).rsample(torch.Size([4])).shape
        torch.Size([4, 2, 1])
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        outcome_transform: OutcomeTransform | None = None,
        input_transform: InputTransform | None = None,
        *,
        contexts: Tensor,
        every_context: Tensor,
        context_bounds: Any,
        risk_measure: RiskMeasure,
        n_w: int = 64,
        seed: int = 0,
        density_options: Mapping[str, Any] | None = None,
    ) -> None:
        r"""Builds the process and the density.

        Args:
            train_X: `n x d_x` decisions.
            train_Y: `n x 1` outcomes.
            train_Yvar: `n x 1` noise variances, if they are known.
            outcome_transform: Applied to the outcome; `Standardize` by default.
            input_transform: `Normalize` of the decisions, as Ax makes it, or None.
            contexts: `n x d_w`, what each decision met.
            every_context: `t x d_w`, all contexts so far.
            context_bounds: The lower and the upper bound of each context, `d_w` pairs.
            risk_measure: Larger is better.
            n_w: Points that represent the density.
            seed: Seed of the points.
            density_options: Further arguments of `KernelDensityEnvironment`.

        Raises:
            InputDataError: If a context is not finite, or outside the bounds where it is not
                clipped.
        """
        bounds = as_floating(context_bounds, "context_bounds").to(train_X).mT
        with warnings.catch_warnings():  # a context outside its bounds is outside the unit cube
            warnings.filterwarnings("ignore", ".*not contained to the unit cube", InputDataWarning)
            process = SingleTaskGP(
                torch.cat([train_X, contexts], dim=-1),
                train_Y,
                train_Yvar,
                outcome_transform=outcome_transform or Standardize(1, min_stdv=MIN_SPREAD),
                input_transform=_of_both(input_transform, train_X.shape[-1], bounds),
            )
        density = KernelDensityEnvironment(
            every_context, bounds, n_w=n_w, seeds=seed, **(density_options or {})
        )
        super().__init__(process, [Reduction(0, density, risk_measure)])

    @classmethod
    def construct_inputs(cls, training_data: SupervisedDataset, **options: Any) -> dict[str, Any]:
        r"""Arguments of the constructor from an `ObservedDataset`."""
        if getattr(training_data, "contexts", None) is None:
            raise ValueError(
                f"Expected contexts with {training_data.outcome_names}. Got a "
                f"{type(training_data).__name__} without contexts."
            )
        data: Any = training_data
        return {
            "train_X": data.X,
            "train_Y": data.Y,
            "train_Yvar": data.Yvar,
            "contexts": data.contexts,
            "every_context": data.every_context,
            **options,
        }


def _of_both(transform: InputTransform | None, d_x: int, bounds: Tensor) -> Normalize:
    r"""The normalisation of decisions, for decisions and contexts."""
    d = d_x + bounds.shape[-1]
    limits = torch.zeros(2, d).to(bounds)
    limits[1] = 1.0
    limits[:, d_x:] = bounds
    indices = list(range(d))
    if transform is not None:
        if not isinstance(transform, Normalize):
            raise ValueError(
                "Expected `Normalize` of the decisions, or no input transform. Got "
                f"{type(transform).__name__}."
            )
        of_x = getattr(transform, "indices", None)
        chosen = list(range(d_x)) if of_x is None else [int(index) for index in of_x]
        limits[:, chosen] = transform.bounds.reshape(2, -1)[:, : len(chosen)].to(limits)
        indices = [*chosen, *range(d_x, d)]
    return Normalize(d, indices=indices, bounds=limits[:, indices])
