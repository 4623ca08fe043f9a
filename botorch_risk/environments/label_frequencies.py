r"""Learn the frequencies of labels, which have no order, from observed labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError, InputDataError, UnsupportedError
from scipy.special import betaincinv
from torch import Tensor
from torch.distributions import Dirichlet

from botorch_risk.arguments import (
    as_floating,
    check_bounds,
    check_fields,
    check_probability,
    check_rows,
    first_index,
    in_short,
)
from botorch_risk.environments.density import KernelDensity
from botorch_risk.environments.discrete import DiscreteEnvironment
from botorch_risk.environments.kernel_density import KernelDensityEnvironment
from botorch_risk.environments.uniforms import tensor_grid

_DENSITY = partial(KernelDensityEnvironment, n_w=64)


@dataclass(frozen=True, eq=False)
class LabelFrequencies:
    r"""Frequencies of labels with a Dirichlet distribution, updated by the observed labels.

        frequencies | contexts ~ Dirichlet(prior + count),   count[l] = how often label l occurred
        weights[l] = (prior[l] + count[l]) / sum_k (prior[k] + count[k])

    It is passed to `ObservedContexts` as `learn`. The distribution of a round is a
    `DiscreteEnvironment` of all labels, with the posterior mean of their frequencies; nothing is
    random. A label that was not seen yet keeps a positive weight. Labels are coded by the whole
    numbers within the bounds; with several columns of labels, each combination counts as a label.

    The default prior, 1/2 per label, is Jeffreys': it does not depend on the scale on which
    frequencies are written, and its mean is the estimator of [Krichevsky1981universal]_. Each label
    counts as half a context, so ten labels weigh as much as the first five contexts; under the
    uniform prior, 1 per label, as much as the first ten. For three labels of frequencies between
    0.03 and 0.97, its 95 % intervals contain the frequency in 0.951 of data sets of 20 contexts;
    with the uniform prior, in 0.943 (`docs/coverage.md`).

    If other columns of the contexts are numbers, a kernel density learns them as if there were no
    labels. At each of its points, a label's weight is the share of the kernels of its contexts
    there, plus the prior: the product kernel of [Aitchison1976multivariate]_,

        p(w, l) = (1 / t) sum_i K(w, w_i) (1{l = l_i} + prior[l] / t) / (1 + sum_k prior[k] / t)

    Each point is repeated for each label. All labels share the bandwidth: if different labels have
    separate numbers, `bandwidth="leave_one_out"` of the density keeps them separate.

    Args:
        categories: The columns of contexts that are labels, from 0. Default: all.
        prior: The number of contexts that the prior of each label is worth, > 0; or one number for
            each label, `K`, in the order of `labels`. Known frequencies times a large number stay
            fixed.
        density: Learns the other columns: `density(observed, bounds=, seeds=)` returns a
            `KernelDensityEnvironment`. Default: one of 64 points.

    Example:
        >>> lots = LabelFrequencies()
        >>> bounds = torch.tensor([[0.0], [2.0]])  # the lots 0, 1 and 2
        >>> observed = torch.tensor([[0.0], [1.0], [0.0], [0.0], [0.0], [1.0]])
        >>> lots(observed, bounds=bounds).weights
        tensor([0.6000, 0.3333, 0.0667])
        >>> lots.interval(observed, bounds=bounds)[0]  # of lot 0
        tensor([0.2577, 0.8923])
    """

    categories: Sequence[int] | None = None
    prior: float | Tensor = 0.5
    density: Callable[..., Any] = _DENSITY

    def __post_init__(self) -> None:
        check_fields(self)
        if self.categories is not None:
            object.__setattr__(self, "categories", tuple(sorted(self.categories)))
        prior = as_floating(self.prior, "prior")
        if prior.dim() > 1 or not ((prior > 0) & prior.isfinite()).all():
            raise ValueError(
                "Expected `prior` to be finite and > 0, one number or one for each label. "
                f"Got {in_short(prior)}."
            )

    def codes(self, bounds: Tensor) -> dict[int, list[float]]:
        r"""The codes of each column of labels, from the bounds `2 x d_w` of the contexts."""
        bounds = as_floating(bounds, "bounds")
        check_bounds(bounds)
        d_w = bounds.shape[-1]
        columns = range(d_w) if self.categories is None else self.categories
        if not columns or len(set(columns)) < len(columns) or {*columns} - {*range(d_w)}:
            raise BotorchTensorDimensionError(
                f"Expected `categories` among the columns 0 to {d_w - 1} of contexts, each once. "
                f"Got {self.categories}."
            )
        codes = {}
        for column in columns:
            lower, upper = bounds[:, column].tolist()
            if lower % 1 or upper % 1:
                raise ValueError(
                    f"Expected bounds of the labels in column {column} of contexts that are "
                    f"whole numbers, the first and last code. Got {[lower, upper]}."
                )
            codes[column] = [float(code) for code in range(int(lower), int(upper) + 1)]
        return codes

    def labels(self, bounds: Tensor) -> Tensor:
        r"""The labels in the order of their weights, `K x c`, the last column varying fastest."""
        axes = [torch.tensor(codes) for codes in self.codes(bounds).values()]
        return tensor_grid(axes).to(as_floating(bounds, "bounds"))

    def posterior(self, observed: Tensor, *, bounds: Tensor) -> Dirichlet:
        r"""The distribution of the frequencies of `labels`, given contexts.

        Args:
            observed: Contexts, `batch_shape x t x d_w`; t may be 0.
            bounds: The bounds of contexts, `2 x d_w`.

        Raises:
            InputDataError: If a label has an unknown code.
        """
        prior, counted = self._counted(observed, bounds)
        return Dirichlet(prior + counted.sum(dim=-2))

    def interval(self, observed: Tensor, *, bounds: Tensor, coverage: float = 0.95) -> Tensor:
        r"""The equal-tailed interval of each frequency, whose posterior is a beta distribution.

        Args:
            observed: Contexts, `batch_shape x t x d_w`, as in `posterior`.
            bounds: The bounds of the contexts, `2 x d_w`.
            coverage: Probability, in (0, 1).

        Returns:
            The lower and the upper ends, `batch_shape x K x 2`.
        """
        check_probability(coverage=coverage)
        own = self.posterior(observed, bounds=bounds).concentration
        others = own.sum(dim=-1, keepdim=True) - own
        shapes = (each.double().cpu().numpy() for each in (own, others))
        a, b = (each[..., None] for each in shapes)
        ends = betaincinv(a, b, [(1 - coverage) / 2, (1 + coverage) / 2])
        return torch.from_numpy(ends).to(own)

    def __call__(
        self, observed: Tensor, *, bounds: Tensor, seeds: int | Sequence[int] = 0
    ) -> DiscreteEnvironment:
        r"""The distribution of contexts: all labels, with the posterior mean of their frequencies.

        Args:
            observed: Contexts, `batch_shape x t x d_w`, as in `posterior`.
            bounds: The bounds of the contexts, `2 x d_w`.
            seeds: One for each replicate, for the density of columns that are not labels.

        Raises:
            InputDataError: If a label has an unknown code.
            UnsupportedError: If `density` returns anything but a `KernelDensityEnvironment`.
        """
        observed, bounds = as_floating(observed, "observed"), as_floating(bounds, "bounds")
        prior, counted = self._counted(observed, bounds)
        frequencies = Dirichlet(prior + counted.sum(dim=-2)).mean  # batch_shape x K
        labels, codes = self.labels(bounds).to(observed), self.codes(bounds)
        numbers = [column for column in range(bounds.shape[-1]) if column not in codes]
        if not numbers:
            points = labels.expand(*frequencies.shape, -1)
            return DiscreteEnvironment(points, frequencies, tuple(codes))
        density = self.density(observed[..., numbers], bounds=bounds[:, numbers], seeds=seeds)
        if not isinstance(density, KernelDensityEnvironment):
            raise UnsupportedError(
                f"Expected a `KernelDensityEnvironment` of the columns {numbers} of contexts, "
                f"which are not labels. Got {type(density).__name__}."
            )
        shares = _kernel_shares(density) @ counted.double()  # batch_shape x n_w x K
        given = counted.shape[-2] * shares + prior
        masses = density.weights.double().unsqueeze(-1) * given
        masses = masses * (frequencies / masses.sum(dim=-2)).unsqueeze(-2)  # exact in each label
        values = density.points.unsqueeze(-2).expand(*masses.shape, -1)
        joint = torch.cat([values, labels.expand(*masses.shape, -1)], dim=-1)
        places = sorted(range(joint.shape[-1]), key=[*numbers, *codes].__getitem__)
        points = joint[..., places].flatten(-3, -2)
        return DiscreteEnvironment(points, masses.flatten(-2), tuple(codes))

    def _counted(self, observed: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
        r"""The prior of each label, `K`, and whether a context has it, `batch_shape x t x K`."""
        observed, bounds = as_floating(observed, "observed"), as_floating(bounds, "bounds")
        codes, labels = self.codes(bounds), self.labels(bounds).to(observed)
        if observed.dim() < 2 or observed.shape[-1] != bounds.shape[-1]:
            raise BotorchTensorDimensionError(
                f"Expected `observed` to have shape `batch_shape x t x {bounds.shape[-1]}`. "
                f"Got {tuple(observed.shape)}."
            )
        if observed.numel():
            check_rows("observed", observed)
        check_labels(observed, codes)
        prior = as_floating(self.prior, "prior").to(observed)
        if prior.dim() and len(prior) != len(labels):
            raise ValueError(
                f"Expected `prior` to be one number, or one for each of {len(labels)} labels. "
                f"Got {len(prior)}."
            )
        named = observed[..., list(codes)].unsqueeze(-2)
        counted = (named == labels).all(dim=-1).to(observed)
        return prior.expand(len(labels)), counted


def check_labels(contexts: Tensor, codes: Mapping[int, Sequence[float]]) -> None:
    r"""Raise InputDataError unless labels in contexts `... x d_w` have known codes, or are NaN."""
    for column, known in codes.items():
        labels = contexts[..., column]
        unknown = ~torch.isin(labels, labels.new_tensor(known)) & ~labels.isnan()
        if unknown.any():
            index = first_index(unknown)
            raise InputDataError(
                f"Expected the labels in column {column} of contexts to have a code of "
                f"{known[0]:g} to {known[-1]:g}. Got {labels[index]:g} at {index}."
            )


def _kernel_shares(density: KernelDensityEnvironment) -> Tensor:
    r"""The share of each observed value's kernel in the density at each point, `... x n_w x t`."""
    estimate = density.density
    if density.at_bounds == "clip":  # which has no density at the bounds
        estimate = KernelDensity(density.observed, density.bandwidth)
    values = density.points.movedim(-2, 0)
    return estimate.kernel_log_prob(values).double().softmax(dim=-1).movedim(0, -2)
