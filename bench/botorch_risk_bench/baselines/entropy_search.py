r"""BoTorch's entropy searches, function by function, on a finite domain or in the box around it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
from botorch.acquisition.predictive_entropy_search import qPredictiveEntropySearch
from botorch.acquisition.utils import get_optimal_samples
from botorch.exceptions.errors import OptimizationGradientError, UnsupportedError
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_risk.arguments import check_arguments, check_counts, check_fields
from botorch_risk.engine import DomainPosterior
from botorch_risk.gradients import require_gradients
from botorch_risk.strategies.method import View
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.documented import documented
from botorch_risk_bench.baselines.domain_search import Score, take_best

_PART = 2**9  # points of the domain that are valued at once


@documented(
    "noise=1e-4, num_initial=4",
    1,
    batch_size="The number of points of a round, 1.",
    options="Further arguments of `take_best`.",
)
def max_value_entropy_search(
    domain: Tensor, seeds: int | Sequence[int], *, batch_size: int = 1, **options: Any
) -> Strategy:
    r"""BoTorch's max-value entropy search, seed by seed, in the place of entropy search.

    Source: [Wang2017mes]_.
    """
    check_arguments(max_value_entropy_search, locals())
    check_counts(batch_size=batch_size)
    if batch_size > 1:
        raise UnsupportedError(f"Expected a `batch_size` of 1. Got {batch_size}.")
    return take_best(MaxValueEntropy(), domain, seeds, **options)


@dataclass(frozen=True)
class MaxValueEntropy(Score):
    r"""`qMaxValueEntropy` over the domain, of a model of each replicate that is not batched."""

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        scores, domain = [], view.space.domain
        for row, stream in enumerate(view.history.streams("acquisition")):
            model = view.method.model_of(view, row)  # type: ignore[attr-defined]
            with manual_seed(stream % 2**31):
                scores.append(_valued(qMaxValueEntropy(model, domain), domain))
        return torch.stack(scores)


@documented(
    "noise=1e-4, num_initial=4",
    1,
    num_optima="Sampled maximisers that the entropy is over.",
    batch_size="The number of points of a round, 1.",
    options="Further arguments of `take_best`.",
)
def predictive_entropy_search(
    domain: Tensor,
    seeds: int | Sequence[int],
    *,
    num_optima: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""BoTorch's predictive entropy search, seed by seed: what a sample tells of the maximiser.

    The entropy search of [Bogunovic2016truvar]_, Sec. 4, is by code that is not public any more;
    this is its later form [HernandezLobato2014pes]_, of which the paper says the same.
    """
    check_arguments(predictive_entropy_search, locals())
    check_counts(batch_size=batch_size)
    if batch_size > 1:
        raise UnsupportedError(f"Expected a `batch_size` of 1. Got {batch_size}.")
    return take_best(PredictiveEntropy(num_optima), domain, seeds, **options)


@dataclass(frozen=True)
class PredictiveEntropy(Score):
    r"""`qPredictiveEntropySearch` of a model of each replicate that is not batched.

    Args:
        num_optima: Sampled maximisers.
        num_restarts: Starts of each maximisation.
        raw_samples: Raw points of each maximisation.
    """

    num_optima: int = 10
    num_restarts: int = 2
    raw_samples: int = 256

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(num_optima=self.num_optima, num_restarts=self.num_restarts)
        check_counts(raw_samples=self.raw_samples)

    def __call__(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        scores, domain = [], view.space.domain.cpu()
        for row, stream in enumerate(view.history.streams("acquisition")):
            with manual_seed(stream % 2**31):
                scores.append(_valued(self._of(view, row), domain))
        return torch.stack(scores).to(view.space.domain)

    def best_anywhere(self, view: View, posterior: DomainPosterior, noise: Tensor) -> Tensor:
        found = []
        for row, stream in enumerate(view.history.streams("acquisition")):
            with manual_seed(stream % 2**31):
                acqf = self._of(view, row)
                try:
                    best, _ = optimize_acqf(
                        acqf,
                        view.space.bounds.cpu(),
                        q=1,
                        num_restarts=self.num_restarts,
                        raw_samples=self.raw_samples,
                        options={"maxiter": 30, "seed": stream % 2**31},
                        retry_on_optimization_warning=False,
                    )
                except OptimizationGradientError:  # BoTorch's gradient is NaN now and then
                    domain = view.space.domain.cpu()
                    best = domain[_valued(acqf, domain).argmax()].unsqueeze(0)
            found.append(best)
        return torch.stack(found).to(view.space.domain)

    def _of(self, view: View, row: int) -> AcquisitionFunction:
        require_gradients("qPredictiveEntropySearch")
        # BoTorch draws optima on the CPU alone.
        model = view.method.model_of(view, row).cpu()  # type: ignore[attr-defined]
        optima, _ = get_optimal_samples(
            model,
            view.space.bounds.cpu(),
            num_optima=self.num_optima,
            raw_samples=self.raw_samples,
            num_restarts=self.num_restarts,
        )
        return qPredictiveEntropySearch(model, optimal_inputs=optima)


def _valued(acqf: AcquisitionFunction, domain: Tensor) -> Tensor:
    r"""The acquisition at each point of the domain; NaN counts as the least."""
    with torch.no_grad():
        values = torch.cat([acqf(X) for X in domain.unsqueeze(-2).split(_PART)])
    return values.nan_to_num(-torch.inf)
