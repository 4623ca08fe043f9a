r"""Optimisers of other packages, which see decisions and outcomes and know nothing of W.

The extra `peers` has them. All are given the same initial design. The robust samplers of
OptunaHub are loaded from a repository at run time; where there is no network they cannot take part,
and here they have not.
"""

from __future__ import annotations

import logging

import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.utils.sampling import draw_sobol_samples
from botorch_risk_bench.baselines.ask_tell import MakeOptimizer
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from botorch_risk.strategies import Box


class Uniform:
    r"""Uniformly random decisions.

    Args:
        box: The decisions.
        seed: The seed of the points.
    """

    def __init__(self, box: Box, seed: int) -> None:
        self.box, self.stream = box, torch.Generator().manual_seed(seed)

    def tell(self, X: Tensor, Y: Tensor) -> None: ...

    def ask(self, num_points: int) -> Tensor:
        lower, upper = self.box.bounds
        shape = (num_points, len(lower))
        uniform = torch.rand(shape, generator=self.stream).to(lower)
        return rounded(lower + (upper - lower) * uniform, self.box)


class LogNoisyExpectedImprovement:
    r"""BoTorch's defaults on the decision alone: what W does is noise.

    Args:
        box: The decisions.
        seed: The seed of the samples and of the starts.
    """

    def __init__(self, box: Box, seed: int) -> None:
        self.box, self.seed = box, seed

    def tell(self, X: Tensor, Y: Tensor) -> None:
        d = self.box.bounds.shape[-1]
        self.X, Y = X[:, :d], Y.nanmean(dim=-1, keepdim=True)
        transform = Normalize(d, bounds=self.box.bounds)
        self.model = SingleTaskGP(self.X, Y, input_transform=transform)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(self.model.likelihood, self.model))

    def ask(self, num_points: int) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            acquisition = qLogNoisyExpectedImprovement(
                self.model, self.X, prune_baseline=True, cache_root=False
            )
            X, _ = optimize_acqf(
                acquisition, self.box.bounds, q=num_points, num_restarts=4, raw_samples=64
            )
        return rounded(X, self.box)


class Ax:
    r"""Ax's default for an experiment with data: what its `Client` asks for next.

    Its own first points are left out, as all methods share an initial design.

    Args:
        box: The decisions.
        seed: The seed of the client.
    """

    def __init__(self, box: Box, seed: int) -> None:
        from ax.api.client import Client
        from ax.api.configs import RangeParameterConfig

        logging.getLogger("ax.api.client").setLevel(logging.WARNING)
        self.box = box
        self.names = [f"x{column}" for column in range(box.bounds.shape[-1])]
        self.client = Client(random_seed=seed % 2**31)
        kinds = ["int" if column in box.integers else "float" for column in range(len(self.names))]
        bounds = box.bounds.T.tolist()
        self.client.configure_experiment(
            name="outside",
            parameters=[
                RangeParameterConfig(name=name, bounds=tuple(pair), parameter_type=kind)
                for name, pair, kind in zip(self.names, bounds, kinds, strict=True)
            ],
        )
        self.client.configure_optimization(objective="y")
        self.client.configure_generation_strategy(initialization_budget=0)

    def tell(self, X: Tensor, Y: Tensor) -> None:
        for x, y in zip(as_numbers(X, self.box), Y.nanmean(dim=-1).tolist(), strict=True):
            index = self.client.attach_trial(dict(zip(self.names, x, strict=False)))
            self.client.complete_trial(index, {"y": y})

    def ask(self, num_points: int) -> Tensor:
        trials = self.client.get_next_trials(max_trials=num_points)
        rows = [[trial[name] for name in self.names] for trial in trials.values()]
        return torch.tensor(rows, dtype=torch.double)


class Optuna:
    r"""Optuna's sampler by a Gaussian process, one point at a time.

    Args:
        box: The decisions.
        seed: The seed of the sampler.
    """

    def __init__(self, box: Box, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        # None of its own random points before the first model.
        sampler = optuna.samplers.GPSampler(seed=seed % 2**31, n_startup_trials=0)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        self.box, kinds = box, optuna.distributions
        self.space = {
            f"x{column}": kinds.IntDistribution(*map(round, pair))
            if column in box.integers
            else kinds.FloatDistribution(*pair)
            for column, pair in enumerate(box.bounds.T.tolist())
        }
        self.completed = optuna.trial.create_trial

    def tell(self, X: Tensor, Y: Tensor) -> None:
        for x, y in zip(as_numbers(X, self.box), Y.nanmean(dim=-1).tolist(), strict=True):
            params = dict(zip(self.space, x, strict=False))
            trial = self.completed(params=params, distributions=self.space, value=y)
            self.study.add_trial(trial)

    def ask(self, num_points: int) -> Tensor:
        asked = [self.study.ask(self.space).params for _ in range(num_points)]
        rows = [[params[name] for name in self.space] for params in asked]
        return torch.tensor(rows, dtype=torch.double)


class HetGPy:
    r"""hetGPy's expected improvement by its heteroscedastic process, one point at a time.

    Its own search ends with an error where the criterion of all its starts is not a number. So the
    criterion is evaluated at points of a Sobol sequence, and the best of them is taken.

    Args:
        box: The decisions.
        seed: The seed of the sequence.
    """

    num_candidates = 2048

    def __init__(self, box: Box, seed: int) -> None:
        from hetgpy import hetGP, optim

        self.box, self.seed = box, seed
        self.model, self.criterion = hetGP(), optim.crit_EI

    def tell(self, X: Tensor, Y: Tensor) -> None:
        lower, upper = self.box.bounds
        d, Y = len(lower), Y.nanmean(dim=-1)
        unit, scaled = (X[:, :d] - lower) / (upper - lower), (Y.mean() - Y) / Y.std()  # minimised
        # Its default settings, in a fresh dictionary: it writes into the one that is its default.
        settings = {"returnKi": True, "factr": 1e9, "ignore_MLE_divide_invalid": True, "trace": -1}
        self.model.mle(unit.numpy(), scaled.numpy(), settings=settings)

    def ask(self, num_points: int) -> Tensor:
        lower, upper = self.box.bounds
        unit = draw_sobol_samples(
            torch.stack([torch.zeros_like(lower), torch.ones_like(lower)]),
            n=self.num_candidates,
            q=1,
            seed=self.seed % 2**31,
        ).squeeze(-2)
        values = torch.as_tensor(self.criterion(unit.numpy(), self.model)).flatten()
        best = unit[values.nan_to_num(-torch.inf).argmax()]
        return rounded(lower + (upper - lower) * best, self.box).expand(num_points, -1)


def rounded(X: Tensor, box: Box) -> Tensor:
    r"""Decisions `... x d` with whole numbers where the box has integers."""
    X = X.clone()
    X[..., box.discrete] = X[..., box.discrete].round()
    return X


def as_numbers(X: Tensor, box: Box) -> list[list[float | int]]:
    r"""Decisions as Python numbers, integers where the box has them."""
    return [
        [round(value) if column in box.integers else value for column, value in enumerate(row)]
        for row in X.tolist()
    ]


OTHERS: dict[str, MakeOptimizer] = {
    "qLogNEI": LogNoisyExpectedImprovement,
    "Ax": Ax,
    "Optuna": Optuna,
    "hetGPy": HetGPy,
}
MODULES = {"Ax": "ax", "Optuna": "optuna", "hetGPy": "hetgpy"}
EXTRAS = {  # of a strategy, however it is asked
    f"{asked}{label}": [(module, "botorch-risk-bench[peers]")]
    for label, module in MODULES.items()
    for asked in ("", "expected-", "chosen-")
}
