r"""Baselines of UHE-BO that distrust the estimate: its lengthscales are made shorter.

All are GP-UCB with the same model and the same constant width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from gpytorch import settings
from gpytorch.constraints import Positive
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from botorch_risk.acquisition.widths import Beta, beta_of_round
from botorch_risk.arguments import check_arguments, check_counts, check_fields
from botorch_risk.fit.estimators import Estimator, MaximumAPosteriori
from botorch_risk.papers.uhe_bo import PAPER_BETA, acquire_gp_ucb
from botorch_risk.strategies.acquire import Acquire
from botorch_risk.strategies.method import Method, State, View, best_observed
from botorch_risk.strategies.space import Box, Space, decision_box
from botorch_risk.strategies.strategy import Strategy
from botorch_risk_bench.baselines.documented import documented


@documented(
    "num_initial=4",
    1,
    regret_exponent="Of the reference regret, which sets g, in [0.5, 1).",
    one_step="Whether g follows from the data, by `ExpandByOneStep`, instead of from t alone.",
    widen="Whether the bound grows with the norm; for the schedule of t alone.",
    options="Further arguments of `gp_ucb`.",
)
def a_gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    regret_exponent: float = 0.9,
    one_step: bool = False,
    widen: bool = False,
    beta: Beta = PAPER_BETA,
    estimator: Estimator | None = None,
    num_initial: int = 10,
    batch_size: int = 1,
    **options: Any,
) -> Strategy:
    r"""A-GP-UCB: the function class grows with every round [Berkenkamp2019agpucb]_.

    Lengthscales are the estimate over g(t), `expansion_factor`. In
    theory the bound on the norm, of which sqrt(beta) is a multiple, grows with them, as
    `g(t)^(d / 2)`; UHE-BO's comparison keeps the width constant, as does the default.
    """
    check_arguments(a_gp_ucb, locals())
    space, estimator = decision_box(bounds), estimator or MaximumAPosteriori()
    dimension = space.num_columns
    expansion_factor(1, dimension, regret_exponent)  # raises
    if one_step and widen:
        raise ValueError(f"Expected `widen` without `one_step`. Got {one_step=}, {widen=}.")
    if widen:
        beta = partial(_widened, beta=beta, dimension=dimension, regret_exponent=regret_exponent)
    if not one_step:
        estimator = ShorterLengthscales(regret_exponent, estimator)
    inner = acquire_gp_ucb(beta, estimator=estimator, **options)
    method = ExpandByOneStep(inner, beta, regret_exponent) if one_step else inner
    return Strategy(space, method, seeds, num_initial=num_initial, batch_size=batch_size)


@dataclass(frozen=True)
class ShorterLengthscales:
    r"""An estimator whose lengthscales shrink as A-GP-UCB prescribes."""

    regret_exponent: float
    estimator: Estimator

    def __call__(
        self, model: SingleTaskGP, seeds: Sequence[int], t: int, observed: Tensor | None = None
    ) -> Model:
        r"""The fitted model with its lengthscales divided."""
        fitted: Any = self.estimator(model, seeds, t, observed)
        dimension = model.train_inputs[0].shape[-1]
        return divide_lengthscales(fitted, expansion_factor(t, dimension, self.regret_exponent))


def _widened(t: int, beta: Beta, dimension: int, regret_exponent: float) -> Any:
    growth = expansion_factor(t, dimension, regret_exponent) ** dimension
    return beta_of_round(beta, t) * growth


@dataclass
class Expanded:
    r"""The models of a round with their shorter lengthscales, and the points that they choose.

    Args:
        models: The fitted models, with lengthscales over `factor`.
        factor: `R`.
        X: The points, `R x q x d`.
    """

    models: list[Any]
    factor: Tensor
    X: Tensor


@dataclass(frozen=True)
class ExpandByOneStep(Method):
    r"""Divides lengthscales until the bound on the regret keeps up with its reference.

        sum_i< 2 sqrt(beta_i) sigma_i(x_i) + 2 sqrt(beta) sigma(x; h) >= (N + 1) ** regret_exponent

    On the left stand the widths of the intervals at the N points chosen so far, when they were
    chosen, which bound the regret, and the width that the next one will have, where the upper bound
    of the model with lengthscales over h is largest: the one-step prediction. h is the first factor
    on the grid `h_before * step ** (0, 1, ..., max_steps)` that satisfies this, or the one that
    comes closest. It never falls, `h >= 1`, and outcomes are in units of their standard deviation
    in each round.

    So [Berkenkamp2019agpucb]_ after the description in Appendix C of [Ha2023uhe]_: a reference
    `t^0.9`, the prediction of one step, a grid, and all of h spent on the lengthscales, which are
    the estimate over h. Neither that description nor a public program states the formula, Eq. (16)
    of the former; the sum of widths, its factor 2 and its unit, the constant 1 of the reference and
    the grid are our choices.

    Args:
        inner: GP-UCB, which fits and maximises.
        beta: Its squared width.
        regret_exponent: Of the reference regret.
        step: The ratio of the grid.
        max_steps: The most steps of the grid in one round.
    """

    inner: Acquire
    beta: Beta
    regret_exponent: float = 0.9
    step: float = 1.25
    max_steps: int = 16

    def __post_init__(self) -> None:
        check_fields(self)
        check_counts(max_steps=self.max_steps)
        if not self.step > 1:
            raise ValueError(f"Expected `step` > 1. Got {self.step}.")

    def start(self, space: Space, num_replicates: int) -> State:
        return {"factor": torch.ones(num_replicates, dtype=torch.double)}

    def believe(self, view: View) -> Expanded:
        r"""The models with their new lengthscales, found by maximising at each factor."""
        parts = zip(self.inner.parts(view), self.inner.believe(view), strict=True)
        found = [self._expanded(part, model) for part, model in parts]
        return Expanded(
            [each.models[0] for each in found],
            torch.cat([each.factor for each in found]),
            torch.cat([each.X for each in found]),
        )

    def propose(self, view: View) -> Tensor:
        if view.belief.X.shape[1] == view.batch_size:
            return view.belief.X
        parts = zip(self.inner.parts(view), view.belief.models, strict=True)
        return torch.cat([self.inner.maximize(part, model) for part, model in parts])

    def record(self, view: View, rows: Tensor) -> Tensor:
        r"""The widths at the rows, `R x q`, by the models that chose them."""
        parts = self.inner.parts(view)
        split = rows.split([len(part.seeds) for part in parts])
        pairs = zip(parts, view.belief.models, split, strict=True)
        return torch.cat([self._width(part, model, X) for part, model, X in pairs])

    def learn(self, view: View) -> State:
        if view.previous is None:
            return view.state
        return {**view.state, "factor": view.previous.factor.cpu().double()}

    def recommend(self, view: View) -> Tensor:
        return best_observed(view)

    def _width(self, view: View, model: Any, X: Tensor) -> Tensor:
        unit = view.space.unit(X)
        # Without debugging, which warns of the initial design, the data of the first model.
        with torch.no_grad(), settings.debug(False):
            deviation = model(unit if model.batch_shape else unit.squeeze(0)).variance.sqrt()
        beta = torch.as_tensor(beta_of_round(self.beta, view.round)).to(deviation)
        return 2.0 * beta.sqrt() * deviation.reshape(X.shape[:-1])

    def _expanded(self, view: View, model: Any) -> Expanded:
        chosen = view.history.rounds > 0
        spent = view.history.recorded[:, chosen].nansum(dim=-1)
        count = view.history.has_outcome[:, chosen].sum(dim=-1) + view.batch_size
        target = count.to(spent) ** self.regret_exponent
        now = factor = view.state["factor"].to(spent)
        model = divide_lengthscales(model, now.view(model.batch_shape))
        X = self.inner.maximize(view, model)
        width = self._width(view, model, X).sum(dim=-1)
        for _ in range(self.max_steps):
            short = spent + width < target
            if not short.any():
                break
            step = torch.where(short, self.step, 1.0)
            now = now * step
            divide_lengthscales(model, step.view(model.batch_shape))
            again = self.inner.maximize(view, model)
            wide = self._width(view, model, again).sum(dim=-1)
            better = short & (wide > width)
            factor, width = torch.where(better, now, factor), torch.where(better, wide, width)
            X = torch.where(better[:, None, None], again, X)
        divide_lengthscales(model, (factor / now).view(model.batch_shape))
        return Expanded([model], factor, X)


@documented(
    "num_initial=4",
    1,
    threshold="The least standard deviation at the next point, kappa.",
    max_halvings="The most halvings in one round.",
    options="Further arguments of `Acquire`.",
)
def wang_de_freitas_gp_ucb(
    bounds: Tensor | Box,
    seeds: int | Sequence[int],
    *,
    threshold: float = 0.1,
    max_halvings: int = 8,
    num_initial: int = 10,
    batch_size: int = 1,
    beta: Beta = PAPER_BETA,
    **options: Any,
) -> Strategy:
    r"""Halves lengthscales until the next point is uncertain enough, after [Wang2014unknown]_.

    In the form of UHE-BO's comparison: in each round, from the estimate on, while the posterior
    standard deviation at the maximiser is below `threshold` in units of the standardised outcome.
    """
    check_arguments(wang_de_freitas_gp_ucb, locals())
    method = HalveLengthscales(acquire_gp_ucb(beta, **options), threshold, max_halvings)
    return Strategy(
        decision_box(bounds), method, seeds, num_initial=num_initial, batch_size=batch_size
    )


@dataclass(frozen=True)
class HalveLengthscales(Method):
    r"""Halves the lengthscales and maximises again while the model is too certain."""

    inner: Acquire
    threshold: float = 0.1
    max_halvings: int = 8

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise ValueError(f"Expected `threshold` >= 0. Got {self.threshold}.")
        check_counts(0, max_halvings=self.max_halvings)

    def believe(self, view: View) -> list[Any]:
        r"""The fitted models, with the lengthscales of the estimate."""
        return self.inner.believe(view)

    def propose(self, view: View) -> Tensor:
        r"""The maximiser at the first lengthscales that leave it uncertain enough."""
        parts = zip(self.inner.parts(view), view.belief, strict=True)
        return torch.cat([self._maximize(part, model) for part, model in parts])

    def recommend(self, view: View) -> Tensor:
        return best_observed(view)

    def _maximize(self, view: View, model: Any) -> Tensor:
        X = self.inner.maximize(view, model)
        for _ in range(self.max_halvings):
            unit = view.space.unit(X)
            with torch.no_grad():
                deviation = model(unit if model.batch_shape else unit.squeeze(0)).variance.sqrt()
            small = deviation.reshape(len(X), -1).amin(dim=-1) < self.threshold
            if not small.any():
                break
            halves = torch.where(small, 2.0, 1.0).view(model.batch_shape)
            again = self.inner.maximize(view, divide_lengthscales(model, halves))
            X = torch.where(small[:, None, None], again, X)
        return X


@torch.no_grad()
def divide_lengthscales(model: SingleTaskGP, factor: float | Tensor) -> SingleTaskGP:
    r"""Divides a fitted model's lengthscales, in place.

    What constraint they had is replaced: they may leave the range in which they were fitted.
    """
    kernel = model.covar_module
    correlation = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    lengthscale = correlation.lengthscale.clone()
    factor = torch.as_tensor(factor).to(lengthscale)
    if not (factor > 0).all():
        raise ValueError(f"Expected `factor` > 0. Got {factor}.")
    correlation.register_constraint("raw_lengthscale", Positive())
    correlation.lengthscale = lengthscale / (factor[..., None, None] if factor.dim() else factor)
    model.train()  # caches of the posterior go
    return model.eval()


def expansion_factor(t: int, d: int, regret_exponent: float = 0.9) -> float:
    r"""The factor that divides the lengthscales in round t, after [Berkenkamp2019agpucb]_.

        g(t) = t ** ((2 regret_exponent - 1) / (2 d))

    With lengthscales divided by g the squared norm of a function grows at most by `g^d`, Lemma 4 of
    [Bull2011rates]_, and the information gain as `g^d`. The bound on the regret, `sqrt(t gain)
    (norm + sqrt(gain))`, then grows as `sqrt(t) g^d`, and g is such that this is the reference
    `t^regret_exponent`, leaving out logarithms. [Berkenkamp2019agpucb]_ matches the two
    by a one-step prediction from the data instead, its Eq. (16), whose solution UHE-BO looks for on
    a grid: see `ExpandByOneStep`. This is the simplest form of the idea, a function of t alone.
    """
    if not (t >= 1 and d >= 1 and 0.5 <= regret_exponent < 1):
        raise ValueError(
            "Expected `t` and `d` of at least 1 and `regret_exponent` in [0.5, 1). "
            f"Got {t=}, {d=}, {regret_exponent=}."
        )
    return t ** ((2 * regret_exponent - 1) / (2 * d))
