r"""What strategies share whose points are those of an acquisition function of one's choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_risk.fit.estimators import Estimator, MaximumAPosteriori
from botorch_risk.models.standardized_gp import standardized_gp
from botorch_risk.optim.multistart import optimize_acqf_replicates
from botorch_risk.seeding import derive_seed
from botorch_risk.strategies.replicated import ReplicatedStrategy

AcquisitionFactory = Callable[[Any], AcquisitionFunction]
ModelFactory = Callable[[Tensor, Tensor], SingleTaskGP]


class AcquiringStrategy(ReplicatedStrategy):
    r"""Fits a model of all data in each round and maximises an acquisition function of it.

    Inputs are scaled to the unit cube; repeats count by their mean. Rows without an outcome do not
    count in the fit; in the posterior such a row is the first row of its replicate once more. It
    recommends the evaluated point with the best observed mean, as UHE-BO does.
    """

    def __init__(
        self,
        acquisition: AcquisitionFactory,
        bounds: Tensor,
        seeds: int | Sequence[int],
        *,
        num_initial: int = 10,
        batch_size: int = 1,
        batched: bool = False,
        model: ModelFactory = standardized_gp,
        estimator: Estimator | None = None,
        num_restarts: int = 10,
        raw_samples: int = 256,
    ) -> None:
        r"""Builds the strategy.

        Args:
            acquisition: From a fitted model to the acquisition function of a round, on the unit
                cube: one of ours, or of BoTorch's with q = 1.
            bounds: The lower and the upper bounds of the box, `2 x d`.
            seeds: One seed per replicate.
            num_initial: The number of points of the initial design.
            batch_size: The number `q` of points of each later round; 1 if `acquisition` is one of
                BoTorch's analytic ones, which take no pending points.
            batched: Whether `acquisition` takes a model of all replicates at once and scores each
                by itself: ours do, and BoTorch's analytic ones if what they are given, such as
                `best_f`, is one number a replicate. Otherwise replicates go one after the other,
                each with a model of its own, through `optimize_acqf`.
            model: From inputs `... x n x d` on the unit cube and outcomes `... x n x 1` to a model.
            estimator: Fits the model; the maximum a posteriori if omitted.
            num_restarts: Starts of the acquisition optimiser.
            raw_samples: Raw points of the acquisition optimiser.

        Raises:
            BotorchTensorDimensionError: If `bounds` is not `2 x d`.
            ValueError: If a number is out of its range or a seed repeats.
        """
        super().__init__(bounds, seeds, num_initial, batch_size)
        self.acquisition, self.batched, self.model = acquisition, batched, model
        self.estimator = MaximumAPosteriori() if estimator is None else estimator
        self.num_restarts, self.raw_samples = num_restarts, raw_samples

    def recommend(self) -> Tensor:
        r"""The evaluated point with the best observed mean, `R x d`."""
        X, Y = self._observed()
        best = Y.nanmean(dim=-1).nan_to_num(nan=-torch.inf).argmax(dim=-1)
        return X[torch.arange(len(best), device=best.device), best]

    def _propose(self) -> Tensor:
        return self._acquired(list(range(len(self.seeds))))

    def _acquired(self, replicates: list[int]) -> Tensor:
        r"""The acquisition's points of some replicates, `len(replicates) x q x d`."""
        if not replicates:
            return self.bounds.new_empty(0, self.batch_size, self.bounds.shape[-1])
        lower, upper = self.bounds
        groups = [replicates] if self.batched else [[replicate] for replicate in replicates]
        X = torch.cat([self._maximizer(self._fit(group), group) for group in groups])
        return (lower + (upper - lower) * X).clamp(lower, upper)

    def _fit(self, replicates: list[int]) -> Any:
        r"""A fitted model: of all the given replicates, or of one without a batch dimension."""
        X, Y, observed = self._unit_data(replicates)
        seeds = [self.seeds[replicate] for replicate in replicates]
        if not self.batched:
            return self.estimator(self.model(X[observed], Y[observed]), seeds, self._round)
        if not observed.all():
            row = torch.arange(observed.shape[-1], device=observed.device).expand(observed.shape)
            row = row.where(observed, observed.to(torch.uint8).argmax(dim=-1, keepdim=True))
            X, Y = (t.gather(-2, row.unsqueeze(-1).expand(t.shape)) for t in (X, Y))
        return self.estimator(self.model(X, Y), seeds, self._round, observed)

    def _unit_data(self, replicates: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        r"""Points on the unit cube `R x n x d`, mean outcomes `R x n x 1`, which are there."""
        X, Y = (data[replicates] for data in self._observed())
        Y = Y.nanmean(dim=-1, keepdim=True)
        X = (X - self.bounds[0]) / (self.bounds[1] - self.bounds[0])
        return X, Y, Y.isfinite().squeeze(-1)

    def _acquisition(self, model: Any) -> AcquisitionFunction:
        r"""The acquisition function of this round."""
        return self.acquisition(model)

    def _maximizer(self, model: Any, replicates: list[int]) -> Tensor:
        r"""Where the acquisition function is largest on the unit cube, `R x q x d`."""
        options: dict[str, Any] = {
            "num_restarts": self.num_restarts,
            "raw_samples": self.raw_samples,
        }
        seeds = [derive_seed(self.seeds[r], "acquisition", self._round) for r in replicates]
        unit_cube = torch.stack([torch.zeros_like(self.bounds[0]), torch.ones_like(self.bounds[0])])
        acquisition, q = self._acquisition(model), self.batch_size
        if q > 1 and isinstance(acquisition, AnalyticAcquisitionFunction):
            raise UnsupportedError(
                "Expected an acquisition function that takes pending points, or a `batch_size` of "
                f"1. Got {type(acquisition).__name__}, {q=}."
            )
        if self.batched:
            return optimize_acqf_replicates(acquisition, unit_cube, q=q, seeds=seeds, **options)[0]
        seed = seeds[0] % 2**31
        with manual_seed(seed):
            options["options"] = {"seed": seed}
            X, _ = optimize_acqf(acquisition, unit_cube, q=q, sequential=q > 1, **options)
        return X.unsqueeze(0)
