r"""Contexts that are observed with the outcome, from which their distribution is learnt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import torch
from botorch.exceptions.errors import InputDataError
from torch import Tensor

from botorch_risk.arguments import as_floating, check_bounds, check_flags, first_index
from botorch_risk.environments.environment import IndependentEnvironment
from botorch_risk.environments.kernel_density import KernelDensityEnvironment
from botorch_risk.environments.label_frequencies import LabelFrequencies, check_labels


class Learner(Protocol):
    r"""Maps observed contexts to their distribution."""

    def __call__(
        self, observed: Tensor, *, bounds: Tensor, seeds: int | Sequence[int]
    ) -> IndependentEnvironment:
        r"""The distribution learnt from `batch_shape x t x d_w` contexts within `bounds`."""
        ...


_DENSITY: Learner = partial(KernelDensityEnvironment, n_w=256)


@dataclass(frozen=True, eq=False)
class ObservedContexts:
    r"""A distribution of W that is not known but learnt from the contexts observed so far.

    A strategy or a constraint accepts it as an environment, and learns it again in each round. In a
    loop of your own, `learnt(observed, seeds)` returns the environment of a round.

    Args:
        context_bounds: Lower and upper bounds of contexts, `2 x d_w`.
        learn: Maps contexts to an environment, called as `learn(observed, bounds=, seeds=)`.
            Default: a `KernelDensityEnvironment` of 256 points. `LabelFrequencies()` if columns
            are labels, which have no order.
        may_leave: Whether numbers, but no labels, may be outside the bounds. A kernel density then
            counts them at the bounds (`at_bounds="clip"`); other learners must accept them.

    Raises:
        ValueError: If contexts may leave the bounds and a density does not clip them.

    Example:
        >>> from botorch_risk.examples import unit
        >>> from botorch_risk.risk import ConditionalValueAtRisk
        >>> from botorch_risk.strategies import risk_search
        >>> humidity = ObservedContexts(unit)
        >>> tail = ConditionalValueAtRisk(0.2)
        >>> strategy = risk_search(unit, 0, environment=humidity, risk_measure=tail, num_initial=4)
        >>> X = strategy.ask()  # decisions alone
        >>> rows = torch.cat([X, torch.rand(1, 4, 1)], dim=-1)  # each with the context it met
        >>> strategy.tell(rows, rows.sum(dim=-1, keepdim=True))
        >>> strategy.ask().shape
        torch.Size([1, 1, 1])
    """

    context_bounds: Tensor
    learn: Learner = _DENSITY
    may_leave: bool = False

    def __post_init__(self) -> None:
        check_flags(may_leave=self.may_leave)
        bounds = as_floating(self.context_bounds, "context_bounds").detach().clone()
        check_bounds(bounds, name="context_bounds")
        object.__setattr__(self, "context_bounds", bounds)
        learn: Any = self.learn
        if isinstance(learn, LabelFrequencies):
            learn.codes(bounds)  # raises unless they fit
            if self.may_leave:
                learn = replace(learn, density=_clipped(learn.density))
        elif self.may_leave:
            learn = _clipped(learn)
        object.__setattr__(self, "learn", learn)

    @property
    def codes(self) -> dict[int, list[float]]:
        r"""The codes of each column of labels."""
        learn = self.learn
        return learn.codes(self.context_bounds) if isinstance(learn, LabelFrequencies) else {}

    def check(self, contexts: Tensor) -> None:
        r"""Raise InputDataError unless contexts `... x d_w`, or NaN, can be learnt from."""
        if codes := self.codes:
            check_labels(contexts, codes)
        lower, upper = bounds = self.context_bounds.to(contexts)
        outside = (lower > contexts) | (upper < contexts)
        if outside.any() and not self.may_leave:
            index = first_index(outside)
            raise InputDataError(
                "Expected contexts within `context_bounds`. "
                f"Got {contexts[index].item()} at {index}, outside {bounds[:, index[-1]].tolist()}"
                ". To allow this, pass `ObservedContexts(..., may_leave=True)`, or a strategy the "
                "`density_options` {'at_bounds': 'clip'}."
            )

    def learnt(self, observed: Tensor, seeds: int | Sequence[int]) -> IndependentEnvironment:
        r"""The distribution learnt from `batch_shape x t x d_w` contexts, with one seed each."""
        observed = as_floating(observed, "observed")
        return self.learn(observed, bounds=self.context_bounds.to(observed), seeds=seeds)

    def num_inputs(self, d_x: int) -> int:
        r"""The number of columns of a decision, which has `d_x`, together with its context."""
        return d_x + self.context_bounds.shape[-1]

    def range(self, bounds: Tensor) -> Tensor:
        r"""A box of decisions `2 x d_x` extended by the bounds of the contexts: `2 x d`."""
        bounds = as_floating(bounds, "bounds")
        return torch.cat([bounds, self.context_bounds.to(bounds)], dim=-1)


def _clipped(learn: Any) -> Any:
    r"""A kernel density that counts contexts outside the bounds at them; else `learn` itself."""
    if not (isinstance(learn, partial) and learn.func is KernelDensityEnvironment):
        return learn
    if (at_bounds := learn.keywords.get("at_bounds", "clip")) != "clip":
        raise ValueError(
            "Expected a density with at_bounds='clip' for contexts that may leave their "
            f"bounds. Got {at_bounds=}."
        )
    return partial(learn, at_bounds="clip")
